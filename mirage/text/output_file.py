"""Writing of files that a command makes for its user. A command that has given up root's rights has them written by a process that
still has them (mirage/commands/unprivileged.py)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from slurm_mirage.base.files import write_atomically


class Writer(Protocol):
    """Carries out what this process may not do itself. Its methods raise OSError, and `report` WrongUse as well."""

    def make_folder(self, path: Path) -> None:
        """Create a folder and those above it, unless they exist."""

    def write(self, path: Path, content: bytes) -> None:
        """Replace a file atomically."""

    def report(self, path: Path, kind: str, files: Mapping[str, bytes]) -> None:
        """Replace the folder of a report, as `mirage.reports.folder.write` does."""


_writer: Writer | None = None


def writer() -> Writer | None:
    """What writes for this process; None if it does so itself."""
    return _writer


def use(another: Writer) -> None:
    """From now on have everything written by `another`."""
    global _writer
    _writer = another


def may_write_in(folder: Path) -> bool:
    """Whether files can be made in `folder`. What another process may do shows when it is asked."""
    return _writer is not None or os.access(folder, os.W_OK | os.X_OK)


def as_bytes(content: str | bytes) -> bytes:
    """The content of a file; text in UTF-8."""
    return content.encode() if isinstance(content, str) else content


def make_folder(path: Path) -> None:
    """Create the folder `path` and those above it, unless they exist. Raises OSError."""
    if _writer is None:
        path.mkdir(parents=True, exist_ok=True)
    else:
        _writer.make_folder(path)


def write(path: Path, content: str | bytes) -> None:
    """Replace the file `path` with `content` atomically. Raises OSError."""
    if _writer is None:
        write_atomically(path, content)
    else:
        _writer.write(path, as_bytes(content))
