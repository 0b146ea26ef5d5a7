"""A quick simulation of the queue of a run, for the estimate of its length: when it ends, and how many jobs the scheduler's cycles
examine.

Its schedule is not meant for comparisons: jobs are spread over processors, not nodes, and a backfill scheduler starts each waiting
job that fits among the first LOOKED_AT, without reservations. `mirage.simulation` has schedules; loading its compiled functions
takes seconds, too long for an estimate.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

LOOKED_AT = 100
"""Waiting jobs that are looked at when processors become free."""


@dataclass(frozen=True)
class Queue:
    """The queue of a simulated workload. Times are virtual seconds.

    end: when the last job has ended. examined: waiting jobs that all cycles of the scheduler together look at. cycles: their
    number. most_waiting: largest number of waiting jobs. backfills: whether these are backfill cycles, and not those of
    sched/builtin, which only compute when waiting jobs may start.
    """

    end: float
    examined: float = 0.0
    cycles: float = 0.0
    most_waiting: int = 0
    backfills: bool = True


def expected_queue(
    dues: Sequence[float],
    runtimes: Sequence[float],
    widths: Sequence[int],
    processors: int,
    interval: float | None,
    depth: int,
    *,
    backfills: bool = True,
) -> Queue:
    """Simulate the queue of jobs in the order of their submission.

    dues, runtimes: virtual seconds. widths: processors of each job, at most `processors`, those of the machine. interval: seconds
    from one cycle to the next; None for a scheduler without cycles. depth: waiting jobs that a cycle looks at, at most. backfills:
    whether a scheduler with cycles starts jobs in another order than their own.
    """
    waiting: deque[int] = deque()
    ends: list[tuple[float, int]] = []
    free, now, following = processors, min(dues, default=0.0), 0
    last_end, examined, cycles, most = now, 0.0, 0.0, 0
    backfills = backfills and interval is not None
    order = sorted(range(len(dues)), key=dues.__getitem__)
    while following < len(order) or ends or waiting:
        next_due = dues[order[following]] if following < len(order) else float("inf")
        instant = min(next_due, ends[0][0] if ends else float("inf"))
        if waiting and interval is not None:
            cycles += (instant - now) / interval
            examined += (instant - now) / interval * min(len(waiting), depth)
        now = instant
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[1]
        while following < len(order) and dues[order[following]] <= now:
            waiting.append(order[following])
            following += 1
        most = max(most, len(waiting))
        for job in _fitting(waiting, widths, free, backfills):
            free -= widths[job]
            end = now + runtimes[job]
            last_end = max(last_end, end)
            heapq.heappush(ends, (end, widths[job]))
    return Queue(last_end, examined, cycles, most, backfills)


def _fitting(waiting: deque[int], widths: Sequence[int], free: int, backfills: bool) -> list[int]:
    """Remove the jobs that start now from the queue, and return them."""
    started = []
    while waiting and widths[waiting[0]] <= free:
        started.append(waiting.popleft())
        free -= widths[started[-1]]
    if not (backfills and free and waiting):
        return started
    kept = []
    for _ in range(min(LOOKED_AT, len(waiting))):
        job = waiting.popleft()
        if widths[job] <= free:
            started.append(job)
            free -= widths[job]
        else:
            kept.append(job)
    waiting.extendleft(reversed(kept))
    return started
