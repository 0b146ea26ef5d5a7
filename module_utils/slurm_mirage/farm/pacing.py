"""Limits how fast daemons are started, by the host's memory, and measures the rate of starts."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LEAST_EACH = 1.5
"""Least MiB assumed for a starting slurmd: 1.1 before ksmd has merged any page, and a margin for the start."""
ENOUGH = 50  # started daemons from which on their measured mean is used; of fewer, other programs would distort it
GROWTH = 16.0  # MiB by which the available memory has to grow to reset the waiting time


@dataclass(frozen=True)
class Memory:
    """Total and available memory of the host in MiB, from /proc/meminfo (proc(5))."""

    total: float
    available: float

    @property
    def reserve(self) -> float:
        """MiB that starting daemons leave free: for jobs, for the growth of slurmctld and for other programs."""
        return max(1024.0, self.total / 20)


def host_memory(meminfo: Path = Path("/proc/meminfo")) -> Memory:
    """Return the current memory of this host."""
    numbers = dict(re.findall(r"^(MemTotal|MemAvailable): +(\d+) kB", meminfo.read_text(), re.MULTILINE))
    return Memory(int(numbers["MemTotal"]) / 1024, int(numbers["MemAvailable"]) / 1024)


class MemoryPace:
    """Permits a daemon to start only while the host has memory for it and for the daemons that are starting.

    While they start, equal daemons need several times the memory that they need after ksmd has merged their pages. A delayed start
    therefore continues without intervention when ksmd has freed memory. `read` and `clock` return the memory and monotonic seconds.
    """

    def __init__(self, read: Callable[[], Memory] = host_memory, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Forget earlier measurements: the memory per daemon is measured from now on."""
        self._before: float | None = None
        self._started = 0
        self._waiting_since: float | None = None
        self._best = 0.0

    def started(self) -> None:
        """Note that a daemon was started."""
        self._started += 1

    def allows(self, starting: int) -> bool:
        """Return whether one more daemon may be started while `starting` others are starting."""
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
        """Whole seconds for which no daemon could be started and the available memory has not grown; None when not waiting."""
        return None if self._waiting_since is None else int(self._clock() - self._waiting_since)


class Rate:
    """Rate per second at which a number grows, over the last `window` seconds."""

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, number: int, now: float) -> float | None:
        """Note the number at the time `now` (seconds) and return the rate; None when less than a second has been observed."""
        if self._seen and number < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, number))
        while now - self._seen[0][0] > self._window:
            self._seen.popleft()
        then, before = self._seen[0]
        return (number - before) / (now - then) if now - then >= 1.0 else None
