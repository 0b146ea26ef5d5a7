"""The exception for errors that a user can cause. Every entry point prints it as one line and ends with exit code 2."""

from __future__ import annotations


class WrongUse(Exception):
    """A knob, a file or a host cannot be used as requested.

    The message is one line. It names the knob, or the file and line number, and states the permitted values. When it is
    raised, nothing has been changed on any host.
    """
