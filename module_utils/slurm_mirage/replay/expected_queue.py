"""A quick simulation of the queue of a run, for estimates of its length: when it ends, and how much the scheduler has to test.

Its schedule is not meant for comparisons: jobs are spread over processors, not nodes, and a backfill scheduler starts each waiting
job among the first LOOKED_AT that fits and does not delay the first one, by its time limit. `mirage.simulation` has schedules;
loading its compiled functions takes seconds, too long for an estimate.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

LOOKED_AT = 100
"""Waiting jobs that are looked at when processors become free."""
LARGEST = 1e9


@dataclass(frozen=True)
class Queue:
    """The queue of a simulated workload. Times are virtual seconds.

    end: when the last job has ended. tested: the integral over time of `Cycles.tests`.
    """

    end: float
    tested: float = 0.0


@dataclass(frozen=True)
class Cycles:
    """The scheduler's looks at the queue.

    depth: waiting jobs that a cycle looks at, at most. doubled: number of these that make a test of each take twice as long: it is
    tried at the times of the plan at which those before it begin or end. until: virtual seconds after a change of the queue in
    which there are cycles; later ones can decide nothing new, and are left out
    """

    depth: int = 500
    doubled: float = LARGEST
    until: float = LARGEST

    def tests(self, waiting: int, running: int) -> float:
        """How often a cycle tests whether a waiting job fits, in tests without other waiting jobs.

        Each is tested beside all running jobs, then without those that end first, in steps that grow twofold (_will_run_test of
        Slurm's job_test.c).
        """
        looked_at = min(waiting, self.depth)
        return looked_at * (1.0 + looked_at / self.doubled) * (1.0 + math.log2(1.0 + running))


def expected_queue(
    dues: Sequence[float],
    runtimes: Sequence[float],
    limits: Sequence[float],
    widths: Sequence[int],
    processors: int,
    cycles: Cycles,
    *,
    backfills: bool = True,
) -> Queue:
    """Simulate the queue of jobs in the order of their submission.

    dues, runtimes, limits: virtual seconds. widths: processors of each job, at most `processors`, those of the machine.
    backfills: whether the scheduler starts jobs in another order than their own.
    """
    machine = _Machine(runtimes, limits, widths, processors)
    waiting = machine.waiting
    now, following = min(dues, default=0.0), 0
    end, tested = now, 0.0
    order = sorted(range(len(dues)), key=dues.__getitem__)
    while following < len(order) or machine.ends or waiting:
        next_due = dues[order[following]] if following < len(order) else math.inf
        instant = min(next_due, machine.ends[0][0] if machine.ends else math.inf)
        tested += min(instant - now, cycles.until) * cycles.tests(len(waiting), len(machine.ends))
        now = instant
        while machine.ends and machine.ends[0][0] <= now:
            machine.end()
            end = now
        while following < len(order) and dues[order[following]] <= now:
            waiting.append(order[following])
            following += 1
        while waiting and widths[waiting[0]] <= machine.free:
            machine.start(waiting.popleft(), now)
        if backfills and waiting and machine.free:
            machine.backfill(now)
    return Queue(end, tested)


class _Machine:
    """The processors, the jobs that run, and those that wait, in their order."""

    def __init__(self, runtimes: Sequence[float], limits: Sequence[float], widths: Sequence[int], processors: int) -> None:
        self._runtimes, self._limits, self._widths = runtimes, limits, widths
        self.free = processors
        self.waiting: deque[int] = deque()
        self.ends: list[tuple[float, int, float]] = []
        """A heap of the running jobs by their end, each with the end by its limit."""
        self._planned: list[tuple[float, int]] = []
        """The running jobs in the order in which they have to end, by their limits."""

    def start(self, job: int, now: float) -> None:
        self.free -= self._widths[job]
        planned = self._planned_end(job, now)
        heapq.heappush(self.ends, (now + self._runtimes[job], job, planned))
        bisect.insort(self._planned, (planned, job))

    def end(self) -> None:
        """The next running job ends."""
        _, job, planned = heapq.heappop(self.ends)
        self.free += self._widths[job]
        del self._planned[bisect.bisect_left(self._planned, (planned, job))]

    def backfill(self, now: float) -> None:
        """Start jobs behind the first that fit now, and are over before that one can start, or leave it its processors."""
        begin, spare = self._reservation(self._widths[self.waiting[0]])
        kept = [self.waiting.popleft()]
        for _ in range(min(LOOKED_AT, len(self.waiting))):
            job = self.waiting.popleft()
            is_over = self._planned_end(job, now) <= begin
            if self._widths[job] <= (self.free if is_over else min(self.free, spare)):
                self.start(job, now)
                spare -= 0 if is_over else self._widths[job]
            else:
                kept.append(job)
        self.waiting.extendleft(reversed(kept))

    def _planned_end(self, job: int, start: float) -> float:
        return start + max(self._limits[job], self._runtimes[job])

    def _reservation(self, width: int) -> tuple[float, int]:
        """When so many processors are free at the latest, and how many more are then."""
        free = self.free
        for instant, job in self._planned:
            free += self._widths[job]
            if free >= width:
                return instant, free - width
        return math.inf, 0
