"""Atomic writes, JSON files, digests and folder locks. A reader never sees a partly written file, even after a kill -9."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from . import strict_json
from .strict_json import ANYTHING, Damaged, Shape

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # rename(2)


@contextmanager
def replacing(path: Path, mode: int = 0o644, owner: tuple[int, int] | None = None, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a file that replaces `path` at the end of the context; nothing is replaced if that ends with an error, which names it.

    owner: (uid, gid); the default is the caller's. durable: whether the content is on disk before the file is replaced; without
    that, which is faster, the file may be empty after a crash of the host
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            os.fchmod(stream.fileno(), mode)
            if owner is not None:
                os.fchown(stream.fileno(), *owner)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):  # write(2) names no file
            error.filename = str(path)
        raise


def write_atomically(
    path: Path, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] | None = None, *, durable: bool = True
) -> None:
    """Replace `path` with `content` atomically, as `replacing` does. Raises OSError."""
    with replacing(path, mode, owner, durable=durable) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two files or folders of one file system atomically. Raises OSError."""
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        raise OSError(number := ctypes.get_errno(), os.strerror(number), str(one))


def differs(path: Path, content: str | bytes) -> bool:
    """Return whether `path` is missing or its content is not `content`."""
    data = content.encode() if isinstance(content, str) else content
    try:
        return path.read_bytes() != data
    except FileNotFoundError:
        return True


def is_as_wanted(path: Path, content: str | bytes, mode: int, owner: tuple[int, int] | None) -> bool:
    """Return whether `path` has this content, this mode and, unless it is None, this owner (uid, gid)."""
    if differs(path, content):
        return False
    status = path.stat()
    return stat.S_IMODE(status.st_mode) == mode and owner in (None, (status.st_uid, status.st_gid))


def owner_of(user: str) -> tuple[int, int] | None:
    """Return (uid, gid) of the account `user`; None when it does not exist, as in check mode before the instance was created."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return None
    return account.pw_uid, account.pw_gid


def read_json(path: Path, shape: Shape = ANYTHING) -> Any:
    """Return the content of the JSON file `path` (`strict_json`), or None when the file does not exist. Raises Damaged."""
    try:
        return strict_json.read(path, shape)
    except FileNotFoundError:
        return None


def undamaged_json(path: Path) -> Any:
    """Return the content of the JSON file `path`, or None when the file does not exist or is damaged."""
    try:
        return read_json(path)
    except Damaged:
        return None


def json_text(value: Any) -> str:
    """Return `value` as the JSON text of a file."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def write_json(path: Path, value: Any, mode: int = 0o644, owner: tuple[int, int] | None = None, *, durable: bool = True) -> None:
    """Write `value` to `path` as JSON, as `write_atomically` does."""
    write_atomically(path, json_text(value), mode, owner, durable=durable)


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
