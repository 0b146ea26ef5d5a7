"""Who replays a run: the lock file of a run folder holds the process id and the start time of the replay."""

from __future__ import annotations

from pathlib import Path

from .processes import is_alive


def lock_holder(path: Path) -> int | None:
    """Process id of the replay that runs in the folder of the lock file `path`, if one does."""
    try:
        words = path.read_text().split()
    except FileNotFoundError:
        return None
    return int(words[0]) if len(words) == 2 and is_alive(int(words[0]), int(words[1])) else None
