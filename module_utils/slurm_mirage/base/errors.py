"""The one error that a user can cause, and that every entry point turns into one line and exit code 2."""

from __future__ import annotations


class WrongUse(Exception):
    """A knob, a file or a host that cannot be used as asked.

    The message is one line: it names the knob or file (and line number) and says what it may be. Nothing has been
    changed on any host when it is raised.
    """
