"""The folder of a report: made in one step, and made anew only in the place of another report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from slurm_mirage.base.errors import WrongUse

# In each report's folder: what made it, and the names of its files.
MARK = "report.json"


def check(folder: Path) -> None:
    """Raise WrongUse if a report cannot be written to `folder`: its own folder must be there, and in its place nothing, an
    empty folder, or a report with nothing added to it."""
    parent = folder.resolve().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise WrongUse(f"{folder} cannot be made; it may be a folder in one that is there and can be written to", parameter="out")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise WrongUse(f"{folder} is a file; it may be a folder that is not there yet, or holds a report", parameter="out")
    others = sorted({path.name for path in folder.iterdir()} - set(_files_of(folder)))
    if others:
        told = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise WrongUse(
            f"{folder} holds something else than a report ({told}); it may be a folder that is not there yet", parameter="out"
        )


def write(folder: Path, kind: str, files: Mapping[str, str | bytes]) -> None:
    """Make `folder` with these files, by name, and the mark; a report that is there is replaced. `check` has allowed it."""
    folder = folder.resolve()
    new, old = (folder.with_name(f".{state}-{folder.name}.{os.getpid()}") for state in ("new", "old"))
    new.mkdir()
    try:
        mark = json.dumps({"made_by": "Slurm Mirage", "kind": kind, "files": sorted(files)}, indent=1)
        for name, content in {**files, MARK: mark + "\n"}.items():
            (new / name).write_bytes(content.encode() if isinstance(content, str) else content)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        for rest in (new, old):
            shutil.rmtree(rest, ignore_errors=True)


def _files_of(folder: Path) -> list[str]:
    """The files of the report in a folder; none if it holds no report of ours."""
    try:
        mark = json.loads((folder / MARK).read_text())
        return [MARK, *mark["files"]] if mark["made_by"] == "Slurm Mirage" else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
