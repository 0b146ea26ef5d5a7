"""The event clock of an instance: virtual time that stops while the cluster computes, and jumps when it waits.

Its clock file is one line, `mirage-clock 1 REAL_NS VIRTUAL_NS event`. The present time is in the page (`clock_page`), which a
program of the instance, the coordinator (files/virtual_clock), keeps. How virtual time has passed is in the history beside it:
pairs of little-endian 64-bit integers, REAL_NS (CLOCK_REALTIME) and VIRTUAL_NS, appended in the order of time. Between two points
virtual time is taken to have passed evenly; before the first one, and after the last one, at the speed of real time. Before the
first point the line of the clock file is the anchor.

All three files belong to the instance's user, so they are read as untrusted input: a bounded number of bytes, without following
links, and a damaged history gives a wrong instant but never an error.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..base import user_folders
from ..base.errors import WrongUse
from . import clock_page

SPEED = "event"
"""The word in the place of the speed, in the clock file and wherever a speed is asked for."""
HISTORY = "state/clock.history"
DRIVER = "state/clock.driver"
"""A replay locks this file's first byte while it runs (`fcntl.lockf`). Without such a lock the clock runs as fast as real time."""
HOLD_BYTE = 1
"""Byte of the driver's file that is locked while the clock has to wait although nothing works; byte 0 is the driver's."""
LATELY = 10.0
"""Real seconds over which the pace is measured."""

_POINT = struct.Struct("<qq")
_MAX_NS = 2**63 - 1
_LINE = re.compile(r"mirage-clock 1 (\d{1,19}) (\d{1,19}) event\n?", re.ASCII)

Point = tuple[int, int]


@dataclass(frozen=True)
class EventClock:
    """The event clock of the instance in `directory`. `real_ns`, `virtual_ns` (nanoseconds since the epoch): its first anchor."""

    directory: Path
    real_ns: int
    virtual_ns: int

    @classmethod
    def parse(cls, content: bytes, directory: Path) -> EventClock | None:
        """Return the clock in the content of the clock file; None when it is not that of an event clock."""
        match = _LINE.fullmatch(content.decode("ascii", "replace"))
        if match is None or not all(int(number) <= _MAX_NS for number in match.groups()):
            return None
        return cls(directory, int(match[1]), int(match[2]))

    def line(self) -> str:
        """Return the text of the clock file."""
        return f"mirage-clock 1 {self.real_ns} {self.virtual_ns} {SPEED}\n"

    def virtual_now(self) -> int:
        """Return the current virtual instant (ns since the epoch). Raises WrongUse without a page."""
        return clock_page.now(self.directory)

    def virtual_at(self, real_ns: int) -> int:
        """Return the virtual instant at a real instant, by the history; both in ns since the epoch."""
        return self._at(real_ns, 0)

    def real_at(self, virtual_ns: int) -> int:
        """Return a real instant at which virtual time was `virtual_ns`, by the history; both in ns since the epoch."""
        return self._at(virtual_ns, 1)

    def reached(self) -> int:
        """Return the latest virtual instant that any of the clock's files shows (ns since the epoch)."""
        latest = self.virtual_ns
        with suppress(OSError, WrongUse):
            latest = max(latest, self.virtual_now())
        with suppress(OSError, WrongUse), _history(self.directory) as points:
            latest = max(latest, points[len(points) - 1][1] if len(points) else 0)
        return min(latest, _MAX_NS)

    def pace(self) -> float:
        """Return how many virtual seconds passed in each real one during the last `LATELY` seconds; 0 when that is not known."""
        now = time.time_ns()
        before = max(now - int(LATELY * 1e9), self.real_ns)
        try:
            return max(0.0, (self.virtual_now() - self.virtual_at(before)) / max(now - before, 1_000_000))
        except (OSError, WrongUse):
            return 0.0

    def _at(self, instant: int, known: int) -> int:
        """The instant on the other clock; `known`: the place of `instant`'s clock in a point, 0 real, 1 virtual."""
        before: Point = (self.real_ns, self.virtual_ns)
        after: Point | None = None
        with suppress(OSError, WrongUse), _history(self.directory) as points:
            later = points.first_after(instant, known)
            after = points[later] if later < len(points) else None
            before = points[later - 1] if later else before
        passed, other = instant - before[known], 1 - known
        if after is None:
            return before[other] + passed
        length, on_other = after[known] - before[known], max(0, after[other] - before[other])
        # Before the first point it is the speed of real time, but not beyond that point.
        return before[other] + (passed * on_other // length if later and length > 0 else min(passed, on_other))


class _Points:
    """The whole points in an open history."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._count = os.fstat(descriptor).st_size // _POINT.size

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Point:
        content = os.pread(self._descriptor, _POINT.size, index * _POINT.size)
        if len(content) < _POINT.size:
            raise WrongUse(f"{HISTORY}: became shorter while it was read")
        real, virtual = _POINT.unpack(content)
        return real, virtual

    def first_after(self, instant: int, known: int) -> int:
        """Index of the first point later than `instant` on one of the clocks (0 real, 1 virtual); their number if there is none."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self[middle][known] <= instant:
                low = middle + 1
            else:
                high = middle
        return low


@contextmanager
def _history(directory: Path) -> Iterator[_Points]:
    """Open the history for the duration of the context. Raises OSError (FileNotFoundError without one) or WrongUse."""
    descriptor = user_folders.open_file(directory, HISTORY)
    try:
        yield _Points(descriptor)
    finally:
        os.close(descriptor)
