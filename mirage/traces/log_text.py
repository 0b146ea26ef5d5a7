"""Reads a log file as text, plain or gzip, and refuses a file that is not text.

The file is read and unpacked in pieces, and each piece is checked. A file of 2 GB without a line break, or a small gzip file that
unpacks to a very large one, is therefore refused after a few MiB, before it fills the memory.
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

from mirage.text.input_file import open_input
from mirage.traces import other_formats
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.farm.pacing import host_memory

LONGEST_LINE = 1 << 20
"""Bytes, except for JSON, which may be a single line. Lines of SWF have about 100; the longest part of a line of sacct is the job's
command line."""

LARGEST_TEXT = 4 << 30
"""Bytes, unpacked: about 60 million jobs in SWF, whose tables and metrics need more than 32 GiB of memory."""

MEMORY_PER_BYTE = 6
"""Bytes of memory for each byte of a large log's text, until its metrics are computed (measured: 4.8 for SWF, 5.7 for sacct)."""

_PIECE = LONGEST_LINE  # not longer, so that no line within a single piece can be too long
_BEFORE = codecs.BOM_UTF8 + b" \t\r\n"
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r\f\v")


@dataclass(frozen=True)
class LogText:
    """The content of a log file.

    data: the unpacked text without byte order mark
    sha256: checksum of the file itself, packed or not
    """

    data: bytes
    sha256: str


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Hashed:
    """A readable binary file; a second thread computes the SHA-256 of everything read from it."""

    def __init__(self, file: BinaryIO, pool: ThreadPoolExecutor) -> None:
        self._file, self._pool = file, pool
        self.sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size) or b""  # None: a file of the kernel that has nothing to read now
        self._pool.submit(self.sum.update, data)
        return data


def load(path: Path | str) -> LogText:
    """Reads a file, plain or gzip; gzip is recognised by the content, not by the name.

    Raises WrongUse, with the line number where possible, if the file cannot be read, is not text, is empty, has a line
    longer than `LONGEST_LINE` or more text than `LARGEST_TEXT`.
    """
    with open_input(path, "trace") as file, ThreadPoolExecutor(1) as pool:
        raw = _Hashed(file, pool)
        packed = file.peek(2).startswith(b"\x1f\x8b")
        # GzipFile calls only the file's read, and asks for its name unless a name is given.
        source = gzip.GzipFile("", "rb", fileobj=cast(BinaryIO, raw)) if packed else raw
        data = b"".join(_checked(source, str(path), most_text(host_memory().available)))
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data or data.isspace():
        raise WrongUse(f"{path}: is empty", parameter="trace")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return LogText(data, raw.sum.hexdigest())


def most_text(available: float) -> int:
    """The most bytes of text that are read on a host with so many MiB of available memory."""
    return min(LARGEST_TEXT, int(available * 2**20 / MEMORY_PER_BYTE))


def _checked(source: _Source, name: str, most: int) -> Iterator[bytes]:
    """Yields the source's pieces, each after its check for control characters, long lines and total size (`most` bytes)."""
    size = lines = 0
    is_json = None
    begun = 0  # bytes read so far of the line that continues in the next piece
    while piece := _next(source, name, lines + 1):
        if is_json is None and (words := other_formats.of_bytes(piece)):
            raise WrongUse(f"{name}: {words}", parameter="trace")
        ends = piece.count(b"\n")
        if np.count_nonzero(np.frombuffer(piece, np.uint8) < 32) != ends:
            _refuse_control(piece, name, lines + 1)
        is_json = piece.lstrip(_BEFORE).startswith((b"{", b"[")) if is_json is None else is_json
        first = piece.find(b"\n") if ends else len(piece)
        if begun + first > LONGEST_LINE and not is_json:
            raise WrongUse(
                f"{name} line {lines + 1}: is longer than {LONGEST_LINE} bytes, the most that a line may have", parameter="trace"
            )
        begun = len(piece) - piece.rfind(b"\n") - 1 if ends else begun + len(piece)
        size, lines = size + len(piece), lines + ends
        if size > most:
            raise _too_large(f"{name} line {lines + 1}", most)
        yield piece


def _too_large(where: str, most: int) -> WrongUse:
    why = f"more than {most >> 20} MiB"
    if most < LARGEST_TEXT:
        why += f"; reading it needs {MEMORY_PER_BYTE} times as much memory, and this machine has not more"
    return WrongUse(f"{where}: the log is too large, {why}", parameter="trace")


def _next(source: _Source, name: str, line: int) -> bytes:
    try:
        return source.read(_PIECE)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise WrongUse(
            f"{name}: is a damaged or truncated gzip file ({error}), in or after line {line}", parameter="trace"
        ) from error


def _refuse_control(piece: bytes, name: str, line: int) -> None:
    """Raises WrongUse if the piece, which begins in line `line`, has a control character other than white space."""
    rest = piece.translate(None, _CONTROL)
    if len(rest) == len(piece):
        return
    at = next(position for position, byte in enumerate(piece) if byte in _CONTROL)
    raise WrongUse(
        f"{name} line {line + piece.count(10, 0, at)}: is not a text file (it has the byte 0x{piece[at]:02x}); "
        "it may be SWF or sacct -P output, plain or gzip",
        parameter="trace",
    )
