"""The saved state of the controller, which the farm removes where a run has to begin with a clean one."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FOLDER = "state"
FRESH_FOR = "state/fresh_for"
"""File with the name for which the state was removed last."""
KEPT = ("clock", "fresh_for")
"""First parts of the names of files in the folder that are not the controller's."""


def is_fresh_for(directory: Path, name: str) -> bool:
    """Whether the controller's state was removed for `name`, or none has to be (`name` is empty). For the instance's user."""
    if not name:
        return True
    try:
        return (directory / FRESH_FOR).read_text() == name
    except OSError:
        return False


def remove(directory: Path, name: str, records: Iterable[str], saved_in: Path) -> None:
    """Remove the state for `name`, if it was not removed for it before; the controller does not run. Raises OSError.

    records: paths in `saved_in` of its records of ended jobs: with a clean state the numbers of jobs begin again
    saved_in: the folder with the state and the records: `directory`, or one that hosts share
    """
    if is_fresh_for(directory, name):
        return
    for path in (saved_in / FOLDER).iterdir():
        if path.name.startswith(KEPT):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for record in records:
        with suppress(FileNotFoundError):
            (saved_in / record).unlink()
    (directory / FRESH_FOR).write_text(name)
