"""Atomic writes, JSON files, digests and folder locks. A reader never sees a partly written file, even after a kill -9."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Replace `path` with `content` atomically. `owner` is (uid, gid); the default is the caller's. Raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
            if owner is not None:
                os.fchown(stream.fileno(), *owner)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # write(2) names no file
        raise


def differs(path: Path, content: str | bytes) -> bool:
    """Return whether `path` is missing or its content is not `content`."""
    data = content.encode() if isinstance(content, str) else content
    try:
        return path.read_bytes() != data
    except FileNotFoundError:
        return True


def read_json(path: Path) -> Any:
    """Return the parsed content of the JSON file `path`, or None when the file does not exist."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def undamaged_json(path: Path) -> Any:
    """Return the parsed content of the JSON file `path`, or None when the file does not exist or is not JSON."""
    try:
        return read_json(path)
    except ValueError:
        return None


def write_json(path: Path, value: Any, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Write `value` to `path` as JSON, atomically. `owner` is (uid, gid); the default is the caller's."""
    write_atomically(path, json.dumps(value, indent=1, sort_keys=True) + "\n", mode, owner)


def file_digest(path: Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a file's content; empty when the file does not exist."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except FileNotFoundError:
        return ""


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Create `folder` and hold an exclusive flock(2) on it for the duration of the context.

    The folder itself is locked, so there is no lock file to remove. When another process removed the folder before this one got the
    lock, the folder is created again.
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
