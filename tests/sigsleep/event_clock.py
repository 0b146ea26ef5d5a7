"""An event clock whose time passes only when a test says so: it plays the coordinator on a page (files/virtual_clock/page.h)."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .conftest import wait_until

SECOND = 10**9
NEVER = 2**63 - 1
MAGIC = b"mirageP1"
LATCH, ANCHORS, TICKETS, FIRST_SLOT = 16, (32, 64), 96, 4096
SLOTS, OF_A_BLOCK, LOOKS = 65536, 64, 4096
SLOT = np.dtype([("token", "<u8"), ("deadline", "<i8"), ("wake", "<u4"), ("kind", "<u4"), ("nothing", "<u8")])
SIZE = FIRST_SLOT + SLOTS * SLOT.itemsize + SLOTS // OF_A_BLOCK * 4 + LOOKS * 16
GETS_SIGALRM = 3
LOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid


class Slot(NamedTuple):
    index: int
    token: int
    deadline: int
    kind: int
    owner: int  # the process that has the lock on it, 0: none


class EventClock:
    """A clock file with its page and history in a folder; `now` is the virtual time in ns.

    anchor_real_ns is the clock file's real instant.
    """

    def __init__(self, folder: Path, now: int = 1_800_000_000 * SECOND) -> None:
        self.file = folder / "clock"
        self.page_file = folder / "clock.page"
        self.history_file = folder / "clock.history"
        self.now = now
        self.anchor_real_ns = time.time_ns()
        self.file.write_text(f"mirage-clock 1 {self.anchor_real_ns} {now} event\n")
        self.history_file.touch()
        self.page_file.write_bytes(MAGIC)
        os.truncate(self.page_file, SIZE)
        self._descriptor = os.open(self.page_file, os.O_RDWR)
        self.page = mmap.mmap(self._descriptor, SIZE)
        self._write_anchor()

    def close(self) -> None:
        self.page.close()
        os.close(self._descriptor)

    def _write_anchor(self) -> None:
        """Set the time by the anchor that is not valid, and make it the valid one. The clock stands there."""
        (latch,) = struct.unpack_from("<I", self.page, LATCH)
        other = ANCHORS[(latch + 1) % 2]
        struct.pack_into("<4q", self.page, other, time.monotonic_ns(), self.now, 0, self.now)
        struct.pack_into("<I", self.page, LATCH, latch + 1)

    def slots(self) -> list[Slot]:
        """The slots that have an owner."""
        slots = np.frombuffer(self.page[FIRST_SLOT : FIRST_SLOT + SLOTS * SLOT.itemsize], SLOT)
        found = []
        for index in np.flatnonzero(slots["token"]).tolist():
            token, deadline, _, kind, _ = slots[index].tolist()
            found.append(Slot(index, token, deadline, kind, self._holder(index)))
        return found

    def occupy(self, indices: Iterable[int], token: int, deadline: int) -> None:
        """Give slots to other owners, which wait on a futex."""
        content = np.array((token, deadline, 0, 1, 0), SLOT).tobytes()
        for index in indices:
            begin = FIRST_SLOT + index * SLOT.itemsize
            self.page[begin : begin + SLOT.itemsize] = content

    def _holder(self, index: int) -> int:
        asked = struct.pack(LOCK, fcntl.F_WRLCK, os.SEEK_SET, index, 1, 0)
        kind, _, _, _, pid = struct.unpack(LOCK, fcntl.fcntl(self._descriptor, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else pid

    def version(self, index: int) -> int:
        """The version of the block of a slot."""
        (value,) = struct.unpack_from("<I", self.page, FIRST_SLOT + SLOTS * SLOT.itemsize + index // OF_A_BLOCK * 4)
        return int(value)

    def advance(self, seconds: float, alarms: bool = True) -> None:
        """Let virtual time pass at once, then send SIGALRM to those whose deadline is reached."""
        self._note_point()
        self.now += round(seconds * SECOND)
        self._write_anchor()
        if not alarms:
            return
        self._note_point()
        for slot in self.slots():
            if slot.kind == GETS_SIGALRM and slot.deadline <= self.now and slot.owner:
                with suppress(ProcessLookupError):
                    os.kill(slot.owner, signal.SIGALRM)

    def _note_point(self) -> None:
        with self.history_file.open("ab") as history:
            history.write(struct.pack("<qq", time.time_ns(), self.now))

    def await_deadline(self, deadline: int) -> Slot:
        """Wait until a job has registered this deadline."""
        found: list[Slot] = []

        def is_there() -> bool:
            found[:] = [slot for slot in self.slots() if slot.deadline == deadline]
            return bool(found)

        wait_until(is_there, f"deadline {deadline}")
        return found[0]
