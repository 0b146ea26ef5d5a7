"""Writes the folder of a report atomically; an existing folder is replaced only if it holds a report."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from mirage.text import output_file
from mirage.text.input_file import read_input
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import exchange, write_atomically

# File in each report's folder that names the program that made it, and its files.
MARK = "report.json"


def check(folder: Path) -> None:
    """Raises WrongUse if a report cannot be written to `folder`.

    The parent folder must exist and be writable. `folder` must not exist, be empty, or hold a report without additional files.
    """
    parent = folder.resolve().parent
    if not parent.is_dir() or not output_file.may_write_in(parent):
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
    if (writer := output_file.writer()) is not None:
        writer.report(folder, kind, {name: output_file.as_bytes(content) for name, content in files.items()})
        return
    folder = folder.resolve()
    new = folder.with_name(f".new-{folder.name}.{os.getpid()}")
    new.mkdir()
    try:
        mark = json.dumps({"made_by": "Slurm Mirage", "kind": kind, "files": sorted(files)}, indent=1)
        for name, content in {**files, MARK: mark + "\n"}.items():
            write_atomically(new / name, content)
        if folder.exists():
            _replace(folder, new)
        else:
            new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _replace(folder: Path, new: Path) -> None:
    """Exchange the two folders; where the file system cannot do that, in two steps."""
    try:
        exchange(new, folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise
        old = folder.with_name(f".old-{folder.name}.{os.getpid()}")
        folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old)


def _files_of(folder: Path) -> list[str]:
    """Names of the files of the report in a folder; empty if it has no report of this program."""
    try:
        mark = json.loads(read_input(folder / MARK, "out", 1 << 20))
        return [MARK, *mark["files"]] if mark["made_by"] == "Slurm Mirage" else []
    except (WrongUse, ValueError, KeyError, TypeError):
        return []
