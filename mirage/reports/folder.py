"""Writes the folder of a report atomically; an existing folder is replaced only if it holds a report."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.input_file import read_input

# File in each report's folder that names the program that made it, and its files.
MARK = "report.json"


def check(folder: Path) -> None:
    """Raises WrongUse if a report cannot be written to `folder`.

    The parent folder must exist and be writable. `folder` must not exist, be empty, or hold a report without additional files.
    """
    parent = folder.resolve().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise WrongUse(f"{folder} cannot be made; it may be a folder in an existing folder that can be written to", parameter="out")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise WrongUse(f"{folder} is a file; it may be a new folder or that of a report", parameter="out")
    others = sorted({path.name for path in folder.iterdir()} - set(_files_of(folder)))
    if others:
        names = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise WrongUse(f"{folder} has files that do not belong to a report ({names}); it may be a new folder", parameter="out")


def write(folder: Path, kind: str, files: Mapping[str, str | bytes]) -> None:
    """Creates `folder` with these files (content by name) and MARK, and replaces an existing report. Call `check` first."""
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
    """Names of the files of the report in a folder; empty if it has no report of this program."""
    try:
        mark = json.loads(read_input(folder / MARK, "out", 1 << 20))
        return [MARK, *mark["files"]] if mark["made_by"] == "Slurm Mirage" else []
    except (WrongUse, ValueError, KeyError, TypeError):
        return []
