"""Reads the lock file of a run folder, which holds the process id and the start time of the replay."""

from __future__ import annotations

from pathlib import Path

from .processes import is_alive


def lock_holder(path: Path) -> int | None:
    """Return the process id of the replay that holds the lock file `path`; None when no replay runs."""
    try:
        words = path.read_text().split()
    except FileNotFoundError:
        return None
    return int(words[0]) if len(words) == 2 and is_alive(int(words[0]), int(words[1])) else None
