"""Lets an event clock wait while a daemon of the farm is down: until it is ready again, for LONGEST real seconds at most.

Without this the clock would jump over the time until a daemon that has ended is started again, because nothing works then.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from ..base import user_folders
from ..base.errors import WrongUse
from ..clock.event_clock import DRIVER, HOLD_BYTE

LONGEST = 20.0
"""Real seconds for which the clock waits: a daemon that does not come back must not stop time for good."""


class ClockHold:
    """The farm's hold on the clock of the instance in `directory`. The lock is one of fcntl(2) and ends with the farm."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None
        self._since: float | None = None

    def update(self, is_wanted: bool) -> None:
        """Hold the clock while `is_wanted`, or let it go. A clock that cannot be held goes on."""
        now = time.monotonic()
        self._since = None if not is_wanted else now if self._since is None else self._since
        holds = self._since is not None and now - self._since < LONGEST
        if holds and self._descriptor is None:
            with suppress(OSError, WrongUse):
                descriptor = user_folders.open_file(self._directory, DRIVER, os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, HOLD_BYTE)
                self._descriptor = descriptor
        elif not holds and self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
