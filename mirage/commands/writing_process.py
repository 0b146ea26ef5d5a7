"""A process that keeps root's rights and writes files for one that has given them up (unprivileged.py).

It takes requests from a socket: four bytes with a length, JSON of that length with the action, the path and the sizes of contents,
and the contents. It answers each with a line of JSON: what went wrong, or an empty object. It looks into no content, and writes
only where the command may.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

from mirage.reports import folder
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import replacing

_LENGTH = struct.Struct("=I")
_LONGEST_REQUEST, _LARGEST_REPORT, _PIECE = 1 << 20, 1 << 30, 1 << 20  # bytes


@dataclass(frozen=True)
class Places:
    """What may be written: these paths, and below these folders what has such a name (fnmatch)."""

    paths: tuple[Path, ...]
    named: tuple[tuple[Path, str], ...]

    def check(self, path: Path, *, is_folder: bool) -> None:
        """Raises PermissionError for another path; is_folder: unless it is one of these folders."""
        path = _real(path)
        if is_folder:
            allowed = any(path == _real(folder) for folder, _ in self.named)
        else:
            names = [name for folder, name in self.named if path.parent.is_relative_to(folder.resolve())]
            allowed = path in map(_real, self.paths) or any(fnmatchcase(path.name, name) for name in names)
        if not allowed:
            raise PermissionError(errno.EPERM, "is not among the files that the command writes", str(path))


def _real(path: Path) -> Path:
    return path.parent.resolve() / path.name


def start(places: Places, temporary: Path | None = None) -> socket.socket:
    """Start the process, and return the connection to it. It ends with the caller.

    temporary: a folder that it removes then
    """
    ours, its = socket.socketpair()
    if os.fork():
        its.close()
        return ours
    try:
        os.setsid()  # Ctrl-C ends the command, and with it this process
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        ours.close()
        os.chdir("/")
        with its, its.makefile("rb") as requests:
            while length := requests.read(_LENGTH.size):
                its.sendall(_answer(json.loads(requests.read(_request_length(length))), requests, places) + b"\n")
        if temporary is not None:
            shutil.rmtree(temporary)
    finally:
        os._exit(0)


def _request_length(length: bytes) -> int:
    (count,) = _LENGTH.unpack(length)
    if count > _LONGEST_REQUEST:
        raise ValueError("the request is too long")
    return int(count)


def _answer(request: dict[str, Any], requests: BinaryIO, places: Places) -> bytes:
    """Carry out a request, and return what went wrong, if anything, as JSON. Without all of its content it raises EOFError."""
    sizes = {str(name): int(size) for name, size in request["sizes"].items()}
    if min(sizes.values(), default=0) < 0:
        raise ValueError("a size is negative")
    left = [sum(sizes.values())]

    def pieces(size: int) -> Iterator[bytes]:
        while size:
            piece = requests.read(min(size, _PIECE))
            if not piece:
                raise EOFError
            left[0] -= len(piece)
            size -= len(piece)
            yield piece

    failure: dict[str, Any] = {}
    try:
        path, action = Path(request["path"]), request["action"]
        places.check(path, is_folder=action == "make_folder")
        match action:
            case "make_folder":
                path.mkdir(parents=True, exist_ok=True)
            case "write":
                with replacing(path) as stream:
                    for piece in pieces(left[0]):
                        stream.write(piece)
            case "report":
                if left[0] > _LARGEST_REPORT or any(name != Path(name).name for name in sizes):
                    raise ValueError("is no report")
                folder.check(path)
                folder.write(path, str(request["kind"]), {name: b"".join(pieces(size)) for name, size in sizes.items()})
            case _:
                raise ValueError("is no action")
    except WrongUse as error:
        failure = {"wrong": error.message, "parameter": error.parameter}
    except OSError as error:
        failure = {"errno": error.errno, "words": error.strerror, "path": str(error.filename or request["path"])}
    for _ in pieces(left[0]):
        pass
    return json.dumps(failure).encode()


class Client:
    """Has files written by the other process."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rwb")

    def make_folder(self, path: Path) -> None:
        self._ask("make_folder", path, {})

    def write(self, path: Path, content: bytes) -> None:
        self._ask("write", path, {"": content})

    def report(self, path: Path, kind: str, files: Mapping[str, bytes]) -> None:
        self._ask("report", path, files, kind=kind)

    def _ask(self, action: str, path: Path, contents: Mapping[str, bytes], **more: str) -> None:
        sizes = {name: len(content) for name, content in contents.items()}
        request = json.dumps({"action": action, "path": str(path.absolute()), "sizes": sizes, **more}).encode()
        for part in (_LENGTH.pack(len(request)), request, *contents.values()):
            self._stream.write(part)
        self._stream.flush()
        answer = json.loads(self._stream.readline() or '{"errno": 5, "words": "the writing process has ended", "path": ""}')
        if "wrong" in answer:
            raise WrongUse(answer["wrong"], parameter=answer["parameter"])
        if answer:
            raise OSError(answer["errno"], answer["words"], answer["path"] or str(path))
