"""How fast many daemons may be started: by the host's memory; and how fast they have been."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LEAST_EACH = 1.5
"""MiB that a starting slurmd is thought to take at least: 1.1 before ksmd has merged any page, and something for its start."""
ENOUGH = 50  # daemons after which the mean of what one took says more about them than about other programs
GROWTH = 16.0  # MiB by which the memory has to grow for the wait to count as one for something


@dataclass(frozen=True)
class Memory:
    """Memory of the host in MiB, as /proc/meminfo (proc(5)) has it."""

    total: float
    available: float

    @property
    def reserve(self) -> float:
        """What stays free of daemons that start: for jobs, for the growth of slurmctld, and for all else on the host."""
        return max(1024.0, self.total / 20)


def host_memory(meminfo: Path = Path("/proc/meminfo")) -> Memory:
    """Memory of this host now."""
    numbers = dict(re.findall(r"^(MemTotal|MemAvailable): +(\d+) kB", meminfo.read_text(), re.MULTILINE))
    return Memory(int(numbers["MemTotal"]) / 1024, int(numbers["MemAvailable"]) / 1024)


class MemoryPace:
    """Lets a daemon start only while the host has memory for it and for those that are starting.

    Many equal daemons take several times more memory while they start than after ksmd has merged their pages: a start that is
    held up goes on by itself while ksmd works.
    """

    def __init__(self, read: Callable[[], Memory] = host_memory, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Begin a start of many: what a daemon takes is measured from here on."""
        self._before: float | None = None
        self._started = 0
        self._waiting_since: float | None = None
        self._best = 0.0

    def started(self) -> None:
        """A daemon was started."""
        self._started += 1

    def allows(self, starting: int) -> bool:
        """Whether one more daemon may be started while `starting` others are."""
        memory = self._read()
        if self._before is None:
            self._before = memory.available
        each = max(LEAST_EACH, (self._before - memory.available) / self._started if self._started >= ENOUGH else 0.0)
        if memory.available - memory.reserve >= each * (starting + 1):
            self._waiting_since = None
            return True
        if self._waiting_since is None or memory.available > self._best + GROWTH:
            self._waiting_since, self._best = self._clock(), memory.available
        return False

    @property
    def waiting(self) -> int | None:
        """Whole seconds for which no daemon could be started, nor the available memory has grown; None when it does not wait."""
        return None if self._waiting_since is None else int(self._clock() - self._waiting_since)


class Rate:
    """How many a second: of a number that grows, over the last `window` seconds."""

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, number: int, now: float) -> float | None:
        """The rate, now that there are `number` of them; None when too little was seen."""
        if self._seen and number < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, number))
        while now - self._seen[0][0] > self._window:
            self._seen.popleft()
        then, before = self._seen[0]
        return (number - before) / (now - then) if now - then >= 1.0 else None
