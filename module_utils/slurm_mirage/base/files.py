"""Writing files so that a reader, or a kill -9, never meets half of one."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Replace `path` by `content` in one step; `owner` is (uid, gid), by default the caller's."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
            if owner is not None:
                os.fchown(stream.fileno(), *owner)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def differs(path: Path, content: str | bytes) -> bool:
    """Whether writing `content` to `path` would change anything."""
    data = content.encode() if isinstance(content, str) else content
    try:
        return path.read_bytes() != data
    except FileNotFoundError:
        return True


def read_json(path: Path) -> Any:
    """Content of the JSON file `path`, or None when it is not there."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def write_json(path: Path, value: Any, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Write `value` as JSON, atomically."""
    write_atomically(path, json.dumps(value, indent=1, sort_keys=True) + "\n", mode, owner)


def file_digest(path: Path) -> str:
    """A short digest of a file's content; empty when it is not there."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except FileNotFoundError:
        return ""


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make `folder` and keep others, who ask for it by this function too, out of it meanwhile.

    The folder itself is the lock, so that nothing has to be removed with it; one that was removed meanwhile is made anew.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                yield
                return
        finally:
            os.close(descriptor)
