"""Reads the lock file of a run folder: it holds the process id and the start time of the replay, which keeps it locked.

The lock file belongs to the instance's user, who may write anything into it.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from . import user_folders
from .processes import belongs, is_alive, users_of

LOCK = "replay.lock"
_LONGEST = 100  # bytes
_SIGNATURE = re.compile(rb"([1-9][0-9]{0,9}) ([0-9]{1,19})\s*\Z")


def signed_by(descriptor: int) -> tuple[int, int] | None:
    """Return process id and start time of the live process that an open lock file names; None when it names none."""
    match = _SIGNATURE.match(os.pread(descriptor, _LONGEST, 0))
    if match is None:
        return None
    pid, started = int(match[1]), int(match[2])
    return (pid, started) if is_alive(pid, started) else None


def lock_holder(directory: Path, run: str) -> tuple[int, int] | None:
    """Return process id and start time of the replay of `run` in the instance in `directory`; None when no replay runs.

    It is the process that the lock file names if it belongs to the instance, runs as the owner of the runs, and somebody holds the
    kernel's lock on the file. (A caller who is neither root nor that user cannot see whether it belongs to the instance.) Raises
    WrongUse when the file is not a regular one, or a folder of its path is a link.
    """
    try:
        with user_folders.open_folder(directory, f"runs/{run}") as folder:
            descriptor = folder.open(LOCK)
    except FileNotFoundError:
        return None
    try:
        named = signed_by(descriptor)
        if named is None or users_of(named[0]) != {folder.user}:
            return None
        if os.geteuid() in (0, folder.user) and not belongs(named[0], str(directory)):
            return None
        # Last, because this lock keeps a replay that begins at this moment waiting.
        return None if _is_free(descriptor) else named
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    """Whether no process has locked the file exclusively. A lock taken here ends when the descriptor is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
