"""Reads from the footer of a Parquet file how much reading its columns takes, before anything of it is unpacked.

The footer is a structure of Thrift's compact protocol (parquet.thrift of apache/parquet-format: FileMetaData), followed by its
length, four bytes, and `PAR1`. Only the numbers that are needed are kept; everything else is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import BinaryIO

from slurm_mirage.base.errors import WrongUse

MARK = b"PAR1"
"""First and last bytes of a Parquet file."""
LARGEST_FOOTER = 64 << 20
"""Bytes of a footer: those of 10 million jobs in groups of 10,000 rows with 30 columns have about 3 MiB."""
MOST_CHUNKS = 1_000_000
"""Columns times groups of rows."""
_TAIL = 8
_DEEPEST = 16  # structures in each other; Parquet's own need 7

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_VARINTS = (_I16, _I32, _I64)
# Numbers of the fields that are read, by structure.
_NUM_ROWS, _ROW_GROUPS, _COLUMNS, _GROUP_ROWS, _FILE_PATH, _META_DATA, _PATH, _UNPACKED = 3, 4, 1, 3, 1, 3, 3, 6


@dataclass(frozen=True)
class Size:
    """rows: number of rows; unpacked: bytes of the columns that are read, unpacked, as the footer has them; largest: of these the
    bytes of the largest group of rows."""

    rows: int
    unpacked: int
    largest: int


class _Wrong(ValueError):
    """The footer is not as it must be."""


def size_of(file: BinaryIO, name: str, columns: Collection[str]) -> Size:
    """The size of these columns of an open Parquet file. Raises WrongUse for a footer that is damaged, encrypted or too large, and
    for columns in other files."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(end - _TAIL, 0))
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] == b"PARE":
        raise WrongUse(f"{name}: is an encrypted Parquet file: decrypt it", parameter="trace")
    if tail[4:] != MARK or length > end - _TAIL - len(MARK):
        raise WrongUse(f"{name}: is a truncated or damaged Parquet file: it has no footer", parameter="trace")
    if length > LARGEST_FOOTER:
        raise WrongUse(f"{name}: the footer of the Parquet file is larger than {LARGEST_FOOTER >> 20} MiB", parameter="trace")
    file.seek(end - _TAIL - length)
    try:
        return _File(file.read(length), frozenset(columns)).size(end)
    except (_Wrong, IndexError, RecursionError) as error:
        why = f" ({error})" if isinstance(error, _Wrong) else ""
        raise WrongUse(f"{name}: the footer of the Parquet file is damaged{why}", parameter="trace") from error


class _File:
    """The fields of a footer that are read."""

    def __init__(self, data: bytes, columns: frozenset[str]) -> None:
        self._reader, self._wanted = _Reader(data), columns
        self._rows = self._in_groups = self._unpacked = self._largest = self._group = self._chunks = 0
        self._path: list[str] = []
        self._bytes = self._packed = 0

    def size(self, length: int) -> Size:
        """length: bytes of the file"""
        self._reader.struct({_NUM_ROWS: self._take_rows, _ROW_GROUPS: self._each(self._take_group)})
        if self._rows < 0 or self._rows != self._in_groups:
            raise _Wrong(f"it has {self._rows} rows, its groups have {self._in_groups}")
        if self._packed > length:
            raise _Wrong(f"its columns have {self._packed} bytes, the file has {length}")
        return Size(self._rows, self._unpacked, self._largest)

    def _each(self, take: Callable[[int], None]) -> Callable[[int], None]:
        return lambda kind: self._reader.each(kind, take)

    def _take_rows(self, kind: int) -> None:
        self._rows = self._reader.number(kind)

    def _take_group(self, kind: int) -> None:
        self._group = 0
        self._reader.struct({_COLUMNS: self._each(self._take_chunk), _GROUP_ROWS: self._take_group_rows}, kind)
        self._largest = max(self._largest, self._group)

    def _take_group_rows(self, kind: int) -> None:
        rows = self._reader.number(kind)
        if rows < 0:
            raise _Wrong(f"a group has {rows} rows")
        self._in_groups += rows

    def _take_chunk(self, kind: int) -> None:
        self._chunks += 1
        if self._chunks > MOST_CHUNKS:
            raise _Wrong(f"more than {MOST_CHUNKS} pieces of columns")
        self._path, self._bytes = [], 0
        self._reader.struct({_FILE_PATH: self._other_file, _META_DATA: self._take_meta_data}, kind)
        if self._path[:1] and self._path[0] in self._wanted:
            self._unpacked += self._bytes
            self._group += self._bytes

    def _other_file(self, kind: int) -> None:
        if self._reader.binary(kind):
            raise _Wrong("its columns are in other files")

    def _take_meta_data(self, kind: int) -> None:
        self._reader.struct(
            {_PATH: self._each(self._take_name), _UNPACKED: self._take_unpacked, _UNPACKED + 1: self._take_packed}, kind
        )

    def _take_name(self, kind: int) -> None:
        self._path.append(self._reader.binary(kind).decode("utf-8", "replace"))

    def _take_unpacked(self, kind: int) -> None:
        self._bytes = self._not_negative(kind)

    def _take_packed(self, kind: int) -> None:
        self._packed += self._not_negative(kind)

    def _not_negative(self, kind: int) -> int:
        number = self._reader.number(kind)
        if number < 0:
            raise _Wrong("a size is negative")
        return number


class _Reader:
    """Reads values of Thrift's compact protocol one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._depth = data, 0, 0

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise _Wrong("a number is too long")

    def number(self, kind: int) -> int:
        """A whole number."""
        if kind not in _VARINTS:
            raise _Wrong("a number has another type")
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self, kind: int) -> bytes:
        """A text."""
        if kind != _BINARY:
            raise _Wrong("a text has another type")
        begin = self._skip_bytes(self._varint())
        return self._data[begin : self._at]

    def _skip_bytes(self, count: int) -> int:
        begin = self._at
        self._at += count
        if self._at > len(self._data):
            raise _Wrong("it ends too early")
        return begin

    def each(self, kind: int, take: Callable[[int], None]) -> None:
        """The members of a list, each read by `take`, which gets its type."""
        if kind not in (_LIST, _SET):
            raise _Wrong("a list has another type")
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        for _ in range(self._possible(count)):
            take(head & 0x0F)

    def _possible(self, count: int) -> int:
        """The number of members, each of which has a byte."""
        if count > len(self._data) - self._at:
            raise _Wrong("a list is longer than the footer")
        return count

    def struct(self, fields: dict[int, Callable[[int], None]], kind: int = _STRUCT) -> None:
        """A structure: the fields with these numbers are read by their functions, which get the type, others are passed over."""
        if kind != _STRUCT:
            raise _Wrong("a structure has another type")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Wrong("too many structures in each other")
        number = 0
        while head := self._byte():
            step = head >> 4
            if step:
                number += step
            else:
                raw = self._varint()
                number = (raw >> 1) ^ -(raw & 1)
            fields.get(number, self._skip)(head & 0x0F)
        self._depth -= 1

    def _skip(self, kind: int, in_list: bool = False) -> None:
        if kind in (_TRUE, _FALSE):
            self._skip_bytes(int(in_list))  # the value of a field is its type
        elif kind == _BYTE:
            self._skip_bytes(1)
        elif kind in _VARINTS:
            self._varint()
        elif kind == _DOUBLE:
            self._skip_bytes(8)
        elif kind == _BINARY:
            self._skip_bytes(self._varint())
        elif kind in (_LIST, _SET):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _Wrong("too many lists in each other")
            self.each(kind, lambda member: self._skip(member, in_list=True))
            self._depth -= 1
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _Wrong("too many maps in each other")
            for _ in range(self._possible(count)):
                self._skip(kinds >> 4, in_list=True)
                self._skip(kinds & 0x0F, in_list=True)
            self._depth -= 1
        elif kind == _STRUCT:
            self.struct({})
        else:
            raise _Wrong(f"there is no type {kind}")
