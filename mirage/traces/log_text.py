"""Reading a log's file as text, plain or gzip, without trusting it: what is no text is refused early.

The file is read, and unpacked, in pieces that are checked one by one. So a file of 2 GB without a line break, or a
small gzip file that unpacks to no end, costs a few MiB and not the machine's memory.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from slurm_mirage.base.errors import WrongUse

LONGEST_LINE = 1 << 20
"""Bytes. Lines of SWF have some 100; in sacct's the command line of a job is the longest part."""

LARGEST_TEXT = 4 << 30
"""Bytes, unpacked: some 60 million jobs in SWF, of which tables and metrics would not fit into 32 GiB."""

_PIECE = LONGEST_LINE  # no longer than a line may be, so that a piece holds no line that is too long by itself
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r\f\v")


@dataclass(frozen=True)
class LogText:
    """data: the text, unpacked, without byte order mark; sha256: of the file as it is, packed or not."""

    data: bytes
    sha256: str


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Hashed:
    """A binary file to be read only, of which all that is read is hashed, by another thread."""

    def __init__(self, file: BinaryIO, pool: ThreadPoolExecutor) -> None:
        self._file, self._pool = file, pool
        self.sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._pool.submit(self.sum.update, data)
        return data


def load(path: Path | str) -> LogText:
    """The file's text; gzip is known by its content, not by its name.

    Raises WrongUse, with the line where there is one, if the file cannot be read, is no text or empty, has a line
    longer than `LONGEST_LINE` or more text than `LARGEST_TEXT`.
    """
    try:
        with Path(path).open("rb") as file, ThreadPoolExecutor(1) as pool:
            raw = _Hashed(file, pool)
            packed = file.peek(2).startswith(b"\x1f\x8b")
            # GzipFile asks a file for nothing but read, and for its name if it was not given one.
            source = gzip.GzipFile("", "rb", fileobj=cast(BinaryIO, raw)) if packed else raw
            data = b"".join(_checked(source, str(path)))
    except OSError as error:
        raise WrongUse(f"{path}: cannot be read ({error.strerror})", parameter="trace") from error
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data or data.isspace():
        raise WrongUse(f"{path}: is empty", parameter="trace")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return LogText(data, raw.sum.hexdigest())


def _checked(source: _Source, name: str) -> Iterator[bytes]:
    """The source's pieces, each after it was looked at."""
    size = lines = 0
    begun = 0  # bytes so far of the line that the next piece goes on with
    while piece := _next(source, name, lines + 1):
        ends = piece.count(b"\n")
        if np.count_nonzero(np.frombuffer(piece, np.uint8) < 32) != ends:
            _refuse_control(piece, name, lines + 1)
        first = piece.find(b"\n") if ends else len(piece)
        if begun + first > LONGEST_LINE:
            raise WrongUse(
                f"{name} line {lines + 1}: is longer than {LONGEST_LINE} bytes, which no line of a log is", parameter="trace"
            )
        begun = len(piece) - piece.rfind(b"\n") - 1 if ends else begun + len(piece)
        size, lines = size + len(piece), lines + ends
        if size > LARGEST_TEXT:
            raise WrongUse(
                f"{name} line {lines + 1}: a log of more than {LARGEST_TEXT >> 30} GiB is too large to be read here",
                parameter="trace",
            )
        yield piece


def _next(source: _Source, name: str, line: int) -> bytes:
    try:
        return source.read(_PIECE)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise WrongUse(
            f"{name}: is a damaged or truncated gzip file ({error}), in or after line {line}", parameter="trace"
        ) from error


def _refuse_control(piece: bytes, name: str, line: int) -> None:
    """WrongUse if there is a control character that is no blank; the piece begins in this line."""
    rest = piece.translate(None, _CONTROL)
    if len(rest) == len(piece):
        return
    at = next(position for position, byte in enumerate(piece) if byte in _CONTROL)
    where = f"{name} line {line + piece.count(10, 0, at)}"
    told = f"is not a text file (it has the byte 0x{piece[at]:02x}); it may be SWF or sacct -P output, plain or gzip"
    raise WrongUse(f"{where}: {told}", parameter="trace")
