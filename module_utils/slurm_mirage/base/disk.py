"""Recognises full file systems, and names them in an error message."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LEAST_FREE = 16_384
"""Bytes: with less space, or without a file number, a file system counts as full."""
MUCH = 64 << 20
"""Bytes: with more space, a full file system was not the cause of an error."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def free_bytes(path: Path) -> int:
    """Return the number of bytes that the caller may still write below `path`; 0 without a free file number. Raises OSError."""
    status = os.statvfs(path)
    return 0 if status.f_files and not status.f_favail else status.f_bavail * status.f_frsize


def is_full(path: Path) -> bool:
    """Return whether no space is left below `path`. Raises OSError."""
    return free_bytes(path) < LEAST_FREE


def no_space(path: Path | str) -> str:
    """Return the message for a full folder: `no space left on PATH (N MiB free): free some`."""
    path = Path(path)
    while not path.exists() and path != path.parent:
        path = path.parent
    free = 0
    with suppress(OSError):
        free = free_bytes(path)
    return f"no space left on {path} ({free / 2**20:.3g} MiB free): free some"


def out_of_space(error: BaseException, folders: Iterable[Path]) -> str | None:
    """Return the message for an error that was caused by a full or read-only file system, or None for another error.

    The folder is that of the file in the error, or, without one, the one of `folders` with the least space.
    """
    if not isinstance(error, OSError) or error.errno not in _NO_SPACE:
        return None
    full = Path(os.fsdecode(error.filename)).parent if isinstance(error.filename, (str, bytes)) else None
    if full is None:
        present = [folder for folder in folders if folder.exists()]
        full = min(present, key=free_bytes, default=None)
        if full is None or free_bytes(full) > MUCH:
            return "no space left on a disk (`df` shows which): free some"
    if error.errno == errno.EROFS:
        return f"{full} is read-only: allow it to be written"
    if error.errno == errno.EDQUOT:
        return f"the disk quota of {full} is used up: free some space"
    return no_space(full)
