"""The log of sigsleep: binary records that many processes append to one file.

The layout is described in files/sigsleep/README.md. A writer that met a full disk, or another program's
output, leaves bytes that are not a record: they are reported as damage, with their offset, and reading goes on
at the next record (found by its magic number and proved by its checksum).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TypeVar

from ..base.errors import WrongUse

MAGIC = b"SSLP"
VERSION, MALLEABLE_VERSION = 1, 2
MAX_SUSPENSIONS = 4096  # a larger count is not a record
MAX_SIZES = 4096
COMPLETED, INFERRED, OVERFLOWED, SIZES_OVERFLOWED = 1, 2, 4, 8

HEADER = struct.Struct("<4sHHIIqIIII32sqqqqq")
MALLEABLE_HEADER = struct.Struct("<6I3q")
"""Follows HEADER in the record of a malleable job."""
PERIOD = struct.Struct("<qq")
SIZE = struct.Struct("<qII")
_CRC_OFFSET = 36
_NO_CRC = bytes(4)
_MALLEABLE_FIELDS = ("checks", "expansions", "shrinks", "unanswered", "refused", "work_ns", "waited_ns", "paid_ns")
_HEADER_SIZES = {VERSION: HEADER.size, MALLEABLE_VERSION: HEADER.size + MALLEABLE_HEADER.size}


class Suspension(NamedTuple):
    """When the job was stopped and when it was resumed: virtual nanoseconds since the epoch."""

    suspend_ns: int
    resume_ns: int


class SizeKind(IntEnum):
    """What happened to a malleable job at an instant."""

    STARTED = 0
    EXPANDED = 1
    """Its allocation grew to so many nodes."""
    SHRUNK = 2
    """Its allocation shrank to so many nodes."""
    COST_BEGAN = 3
    """Its work paused from here on, because its data was moved. The nodes are those of the allocation."""
    COST_ENDED = 4


class Size(NamedTuple):
    """An entry of a malleable job's sizes: the instant (virtual nanoseconds since the epoch), the nodes, and what happened."""

    instant_ns: int
    nodes: int
    kind: int
    """A value of SizeKind."""


@dataclass(frozen=True)
class MalleableRecord:
    """What only malleable jobs record. Lengths are virtual nanoseconds.

    sizes: in order of their instants, the first one at the start.
    checks: points at which the job asked the broker. unanswered: those without an answer that could be used; refused: those whose
    action was refused or aborted.
    work_ns: the work done, in time at the submitted size; a completed job has work_ns >= runtime_ns.
    waited_ns: time in which the job waited for answers. paid_ns: time that resizes cost. Neither is in executed_ns.
    sizes_overflowed: there were more sizes than there was room for.
    """

    sizes: tuple[Size, ...]
    checks: int = 0
    expansions: int = 0
    shrinks: int = 0
    unanswered: int = 0
    refused: int = 0
    work_ns: int = 0
    waited_ns: int = 0
    paid_ns: int = 0
    sizes_overflowed: bool = False

    def allocations(self) -> list[tuple[int, int]]:
        """(instant in ns, nodes from then on): the allocation at the start, and after each change."""
        changes = (SizeKind.STARTED, SizeKind.EXPANDED, SizeKind.SHRUNK)
        return [(size.instant_ns, size.nodes) for size in self.sizes if size.kind in changes]


@dataclass(frozen=True)
class Record:
    """What one sigsleep wrote at its end. All times are virtual nanoseconds, instants since the epoch.

    executed_ns leaves out the suspensions; a completed job that keeps its size has executed_ns >= runtime_ns.
    slurm_job_id is the number of the resource manager's job, 0 outside of one; restart is 0 outside Slurm.
    inferred: a suspension came without SIGTSTP, and its start was found from the time left.
    overflowed: there were more suspensions than there was room for; executed_ns leaves out those too.
    malleable: None for a job that keeps its size.
    offset is the record's place in the log, and does not count when records are compared.
    """

    id: int
    cores: int
    priority: str
    submission_ns: int
    start_ns: int
    end_ns: int
    runtime_ns: int
    executed_ns: int
    completed: bool
    suspensions: tuple[Suspension, ...] = ()
    slurm_job_id: int = 0
    restart: int = 0
    inferred: bool = False
    overflowed: bool = False
    malleable: MalleableRecord | None = None
    offset: int = field(default=0, compare=False)

    @property
    def length(self) -> int:
        """Bytes of the record in the log."""
        length = HEADER.size + PERIOD.size * len(self.suspensions)
        if self.malleable:
            length += MALLEABLE_HEADER.size + SIZE.size * len(self.malleable.sizes)
        return length


@dataclass(frozen=True)
class LogDamage:
    """Bytes of a log that are not a record: their offset and number, and the reason."""

    offset: int
    length: int
    reason: str


class HasLength(Protocol):
    """A record of any layout."""

    @property
    def length(self) -> int:
        """Bytes of the record in the log."""
        ...


R = TypeVar("R", bound=HasLength)


def scan(data: bytes) -> Iterator[Record | LogDamage]:
    """Yield every record of a log's bytes, and every stretch between records, in order of their offsets.

    Never raises on any content.
    """
    return scan_with(_record_at, data)


def scan_with(record_at: Callable[[bytes, int], R | str], data: bytes) -> Iterator[R | LogDamage]:
    """As `scan`, for records of another layout that begin with MAGIC.

    record_at: returns the record that begins at an offset of the data, or the reason why none does.
    """
    bad_from: int | None = None
    reason = ""
    position = 0
    while position < len(data):
        part = record_at(data, position)
        if not isinstance(part, str):
            if bad_from is not None:
                yield LogDamage(bad_from, position - bad_from, reason)
                bad_from = None
            yield part
            position += part.length
            continue
        if bad_from is None:
            bad_from, reason = position, part
        next_magic = data.find(MAGIC, position + 1)
        position = next_magic if next_magic >= 0 else len(data)
    if bad_from is not None:
        yield LogDamage(bad_from, len(data) - bad_from, reason)


def read_log(source: str | Path | BinaryIO) -> tuple[list[Record], list[LogDamage]]:
    """Read a log file, or a binary stream to its end: (records, damage), each in order of offsets.

    Raises WrongUse if the file cannot be read.
    """
    return apart(scan(read_bytes(source)))


def read_bytes(source: str | Path | BinaryIO) -> bytes:
    """The content of a log file, or of a binary stream up to its end. Raises WrongUse if the file cannot be read."""
    if not isinstance(source, (str, Path)):
        return source.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise WrongUse(f"sigsleep log {source}: {error.strerror}") from error


def apart(parts: Iterator[R | LogDamage]) -> tuple[list[R], list[LogDamage]]:
    """The records and the damage of a scan, each in order of offsets."""
    records: list[R] = []
    damage: list[LogDamage] = []
    for part in parts:
        if isinstance(part, LogDamage):
            damage.append(part)
        else:
            records.append(part)
    return records, damage


def pack(record: Record) -> bytes:
    """The bytes that sigsleep would write for `record`, for tests and for tools that make logs.

    Raises ValueError if a field does not fit the layout.
    """
    priority = record.priority.encode()
    if not 1 <= len(priority) <= 31 or 0 in priority:
        raise ValueError("priority may be 1 to 31 bytes without NUL")
    if len(record.suspensions) > MAX_SUSPENSIONS:
        raise ValueError(f"a record holds up to {MAX_SUSPENSIONS} suspensions")
    malleable = record.malleable
    if malleable and len(malleable.sizes) > MAX_SIZES:
        raise ValueError(f"a record holds up to {MAX_SIZES} sizes")
    flags = COMPLETED * record.completed | INFERRED * record.inferred | OVERFLOWED * record.overflowed
    if malleable:
        flags |= SIZES_OVERFLOWED * malleable.sizes_overflowed
    try:
        header = HEADER.pack(
            MAGIC,
            MALLEABLE_VERSION if malleable else VERSION,
            HEADER.size + (MALLEABLE_HEADER.size if malleable else 0),
            len(record.suspensions),
            flags,
            record.id,
            record.slurm_job_id,
            record.restart,
            record.cores,
            0,
            priority,
            record.submission_ns,
            record.start_ns,
            record.end_ns,
            record.runtime_ns,
            record.executed_ns,
        )
        if malleable:
            header += MALLEABLE_HEADER.pack(len(malleable.sizes), *(getattr(malleable, name) for name in _MALLEABLE_FIELDS))
        body = header + b"".join(PERIOD.pack(*period) for period in record.suspensions)
        if malleable:
            body += b"".join(SIZE.pack(*size) for size in malleable.sizes)
    except struct.error as error:
        raise ValueError(f"a number does not fit the record: {error}") from error
    return body[:_CRC_OFFSET] + zlib.crc32(body).to_bytes(4, "little") + body[_CRC_OFFSET + 4 :]


def _record_at(data: bytes, offset: int) -> Record | str:
    """The record that begins at `offset`, or the reason why none does."""
    if not data.startswith(MAGIC, offset):
        return "foreign bytes: no magic number"
    if offset + HEADER.size > len(data):
        return f"torn record: {len(data) - offset} bytes of at least {HEADER.size}"
    fields = HEADER.unpack_from(data, offset)
    version, header_size, n_suspensions, flags = fields[1:5]
    if header_size != _HEADER_SIZES.get(version):
        return f"record of version {version} with a header of {header_size} bytes, which is not known here"
    if n_suspensions > MAX_SUSPENSIONS:
        return f"torn record: {n_suspensions} suspensions, at most {MAX_SUSPENSIONS} are possible"
    if offset + header_size > len(data):
        return f"torn record: {len(data) - offset} bytes of at least {header_size}"
    numbers = MALLEABLE_HEADER.unpack_from(data, offset + HEADER.size) if version == MALLEABLE_VERSION else (0,)
    n_sizes = numbers[0]
    if n_sizes > MAX_SIZES:
        return f"torn record: {n_sizes} sizes, at most {MAX_SIZES} are possible"
    first_size = header_size + PERIOD.size * n_suspensions
    size = first_size + SIZE.size * n_sizes
    raw = data[offset : offset + size]
    if len(raw) < size:
        return f"torn record: {len(raw)} bytes of {size}"
    if zlib.crc32(raw[:_CRC_OFFSET] + _NO_CRC + raw[_CRC_OFFSET + 4 :]) != fields[9]:
        return "torn record: the checksum differs"
    malleable = None
    if version == MALLEABLE_VERSION:
        sizes = tuple(Size(*entry) for entry in SIZE.iter_unpack(raw[first_size:]))
        malleable = replace(MalleableRecord(sizes, *numbers[1:]), sizes_overflowed=bool(flags & SIZES_OVERFLOWED))
    return Record(
        id=fields[5],
        slurm_job_id=fields[6],
        restart=fields[7],
        cores=fields[8],
        priority=fields[10].rstrip(b"\0").decode(errors="replace"),
        submission_ns=fields[11],
        start_ns=fields[12],
        end_ns=fields[13],
        runtime_ns=fields[14],
        executed_ns=fields[15],
        completed=bool(flags & COMPLETED),
        inferred=bool(flags & INFERRED),
        overflowed=bool(flags & OVERFLOWED),
        suspensions=tuple(Suspension(*period) for period in PERIOD.iter_unpack(raw[header_size:first_size])),
        malleable=malleable,
        offset=offset,
    )
