"""The log of fillers: records of fixed size that all fillers of a run append to one file.

A filler writes a record when it is ready to work, at each save, and at its end; none when it is killed. The layout is described in
files/sigsleep/README.md. A filler's records, in order of their instants, are a chain: each one begins with the progress at which
the saved one before it ended. A start repeats the record of the last save, which is missing if the filler was killed just then.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

from ...jobs.sigsleep_log import COMPLETED, MAGIC, LogDamage, apart, read_bytes, scan_with

VERSION = 3
FAILED, REPEATED = 16, 32
LAYOUT = struct.Struct("<4sHHIIqIIII64s2q5q3q2I")
_CRC_OFFSET = 36
_NODE_SIZE = 64


class Cause(IntEnum):
    """Why a filler wrote a record."""

    READY = 0
    """The start is paid, work begins. No interval."""
    INTERVAL = 1
    """A periodic save."""
    REQUEST = 2
    """A save that SIGUSR1 asked for. The filler leaves its node."""
    SLOT = 3
    """The save at a slot's end. The filler leaves its node."""
    END = 4
    """The work is done."""
    SIGNAL = 5
    """SIGTERM, SIGINT or SIGHUP ended the filler. What was not saved is lost."""


@dataclass(frozen=True)
class FillerRecord:
    """What a filler wrote. Instants are virtual nanoseconds since the epoch, lengths virtual nanoseconds.

    id: number of the filler. slurm_job_id and restart (Slurm's count of restarts) identify the execution; 0 outside Slurm.
    start: number of this start of the filler, from 1. node: where it ran, "" outside Slurm.
    start_ns, ready_ns: when this execution began and when its restore was over; ready_ns is 0 if it did not come to that.
    from_ns, to_ns: the stretch since the last save (or since it was ready) up to the begin of this save.
    saved_ns: the end of this save. From there on the next stretch begins.
    worked_ns: time of work in the stretch, without saves that failed and stops. 0: nothing to save, and no save.
    before_ns, after_ns: saved progress, in ns of work; equal if nothing was saved.
    work_ns: the filler's whole work; speed: its work per time, in billionths.
    saves: saves of this filler so far, of all its executions.
    failed: the save did not succeed. Its work is still in memory, and in the next stretch.
    repeated: written again by the next start. All its fields are those of the execution that saved.
    completed: the work is done.
    offset: the record's place in the log; it does not count when records are compared.
    """

    id: int
    cause: int
    node: str
    start: int
    start_ns: int
    ready_ns: int
    from_ns: int
    to_ns: int
    saved_ns: int
    worked_ns: int
    before_ns: int
    after_ns: int
    work_ns: int
    speed: int = 10**9
    saves: int = 0
    failed: bool = False
    completed: bool = False
    repeated: bool = False
    cores: int = 1
    slurm_job_id: int = 0
    restart: int = 0
    offset: int = field(default=0, compare=False)

    @property
    def length(self) -> int:
        """Bytes of the record in the log."""
        return LAYOUT.size

    @property
    def is_saved(self) -> bool:
        """Whether the work since the last save was saved, and so counts."""
        return not self.failed and self.cause in (Cause.INTERVAL, Cause.REQUEST, Cause.SLOT, Cause.END)

    @property
    def useful_ns(self) -> int:
        """Time of work that was saved with this record; 0 if it was lost."""
        return self.worked_ns if self.is_saved else 0


def scan_fillers(data: bytes) -> Iterator[FillerRecord | LogDamage]:
    """Yield every record of a log's bytes, and every stretch between records, in order of offsets. Never raises on any content."""
    return scan_with(_record_at, data)


def read_fillers(source: str | Path | BinaryIO) -> tuple[list[FillerRecord], list[LogDamage]]:
    """Read a log of fillers, or a binary stream to its end: (records, damage), each in order of offsets.

    Leaves out repeated records of saves that have one already. Raises WrongUse if the file cannot be read.
    """
    records, damage = apart(scan_fillers(read_bytes(source)))
    known: set[tuple[int, int, int, int]] = set()
    kept = []
    for record in records:
        save = (record.id, record.start, record.cause, record.to_ns)
        if not record.repeated or save not in known:
            kept.append(record)
            known.add(save)
    return kept, damage


def pack_filler(record: FillerRecord) -> bytes:
    """The bytes that sigsleep would write for `record`. Raises ValueError if a field does not fit the layout."""
    node = record.node.encode()
    if len(node) >= _NODE_SIZE or 0 in node:
        raise ValueError(f"a node's name may be up to {_NODE_SIZE - 1} bytes without NUL")
    flags = COMPLETED * record.completed | FAILED * record.failed | REPEATED * record.repeated
    head = (MAGIC, VERSION, LAYOUT.size, record.cause, flags, record.id, record.slurm_job_id, record.restart, record.cores, 0, node)
    instants = (record.start_ns, record.ready_ns, record.from_ns, record.to_ns, record.saved_ns)
    lengths = (record.worked_ns, record.before_ns, record.after_ns)
    try:
        raw = LAYOUT.pack(*head, record.work_ns, record.speed, *instants, *lengths, record.start, record.saves)
    except struct.error as error:
        raise ValueError(f"a number does not fit the record: {error}") from error
    return raw[:_CRC_OFFSET] + zlib.crc32(raw).to_bytes(4, "little") + raw[_CRC_OFFSET + 4 :]


def _record_at(data: bytes, offset: int) -> FillerRecord | str:
    """The record that begins at `offset`, or the reason why none does."""
    if not data.startswith(MAGIC, offset):
        return "foreign bytes: no magic number"
    raw = data[offset : offset + LAYOUT.size]
    version, size = struct.unpack_from("<HH", raw, len(MAGIC)) if len(raw) >= len(MAGIC) + 4 else (VERSION, LAYOUT.size)
    if (version, size) != (VERSION, LAYOUT.size):
        return f"record of version {version} with {size} bytes, which is not a filler's"
    if len(raw) < LAYOUT.size:
        return f"torn record: {len(raw)} bytes of {LAYOUT.size}"
    fields = LAYOUT.unpack(raw)
    if zlib.crc32(raw[:_CRC_OFFSET] + bytes(4) + raw[_CRC_OFFSET + 4 :]) != fields[9]:
        return "torn record: the checksum differs"
    flags = fields[4]
    return FillerRecord(
        cause=fields[3],
        failed=bool(flags & FAILED),
        completed=bool(flags & COMPLETED),
        repeated=bool(flags & REPEATED),
        id=fields[5],
        slurm_job_id=fields[6],
        restart=fields[7],
        cores=fields[8],
        node=fields[10].rstrip(b"\0").decode(errors="replace"),
        work_ns=fields[11],
        speed=fields[12],
        start_ns=fields[13],
        ready_ns=fields[14],
        from_ns=fields[15],
        to_ns=fields[16],
        saved_ns=fields[17],
        worked_ns=fields[18],
        before_ns=fields[19],
        after_ns=fields[20],
        start=fields[21],
        saves=fields[22],
        offset=offset,
    )
