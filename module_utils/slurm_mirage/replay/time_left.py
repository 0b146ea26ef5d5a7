"""Estimates how long a run goes on, as a range of real seconds.

least: a bound that no scheduler can beat. No job ends before it has run, none starts before it is due, and the processors
together do no more work than they can. With the jobs in the order in which they are due, and S(k) the work (processor-seconds)
that is left in job k and all later ones, the run lasts at least until due(k) + S(k) / P for each k, and until all work that is left
is done by P processors.

most: the jobs start in the order in which they are due, each when all work before it is done, at the rate that is measured: the
part of the processors that is busy while jobs wait. Until that has been seen for some time it is taken to be USUAL_PART.

Both follow the queue up and down. What is shown changes less: `most` falls at once by the time that passes, towards the estimate
slowly, and does not grow with it. When the estimate is more than GROWS_BY above it, it is set to ROOM times the estimate, and the
cause is named. So it grows in few steps, not little by little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..clock.clock import Clock
from ..jobs.plan import PlanRow
from .expected_queue import Cycles, Queue, expected_queue

USUAL_PART = 0.75
"""Part of the processors that is busy while jobs wait, before it was measured."""
USUAL_FOR = 0.05
"""Part of the schedule's length for which the measured part counts as much as USUAL_PART."""
SURE_PART = 0.8
"""The part of the measured rate that `most` relies on."""
GROWS_BY, ROOM = 1.03, 1.25
SLACK_PART, SLACK = 0.02, 2.0
"""What is allowed for launches and for the end of the run: a part of the estimate, and real seconds."""
CALM = 0.1
"""`most` approaches a lower estimate within about this part of it."""
CAUSE_FOR = 600.0
"""Real seconds for which the cause of a larger `most` is shown."""


@dataclass(frozen=True)
class ActiveJob:
    """A job in the queue. index: in the plan; ran: real seconds since its start, None while it waits."""

    index: int
    ran: float | None


@dataclass(frozen=True)
class TimeLeft:
    """Real seconds until the end of the run."""

    least: float
    most: float
    cause: str = ""
    """Why `most` is larger than it was some minutes ago; empty if it is not."""


class TimeLeftEstimator:
    """Estimates the rest of one run from what the queue has now."""

    def __init__(self, plan: Sequence[PlanRow], clock: Clock) -> None:
        self._plan, self._clock = plan, clock
        self._due = [clock.virtual_to_real(row.due) for row in plan]
        self._runs = [clock.virtual_to_real(min(row.runtime, 60.0 * row.limit_minutes)) for row in plan]
        self._to_come = sorted(range(len(plan)), key=self._due.__getitem__)
        length = max((due + run for due, run in zip(self._due, self._runs)), default=0.0)
        self._busy_for = USUAL_FOR * length
        self._busy = USUAL_PART * self._busy_for
        self._seen_at: float | None = None
        self._most: float | None = None
        self._backlog = self._rate = 0.0
        self._cause, self._cause_at = "", -math.inf

    def look(
        self, now: float, position: float, jobs: Sequence[ActiveJob], known: Iterable[int], processors: int, nodes: int, busy: int
    ) -> TimeLeft:
        """The rest of the run at the real instant `now`.

        position: real seconds of the schedule that have passed: since the start, without interruptions
        known: indices of the submitted jobs
        processors, nodes: of the machine; busy: processors of jobs that run
        """
        submitted = frozenset(known)
        self._to_come = [index for index in self._to_come if index not in submitted]
        waiting = [job.index for job in jobs if job.ran is None]
        passed = 0.0 if self._seen_at is None else max(0.0, now - self._seen_at)
        self._seen_at = now
        if waiting:
            self._busy += passed * min(1.0, busy / processors)
            self._busy_for += passed
        part = self._busy / self._busy_for if self._busy_for else USUAL_PART
        rate = max(1.0, SURE_PART * part * processors)
        running = [(job.index, max(0.0, self._runs[job.index] - job.ran)) for job in jobs if job.ran is not None]
        work = [self._width(index, processors, nodes) * self._runs[index] for index in (*waiting, *self._to_come)]
        first = sum(self._width(index, processors, nodes) * left for index, left in running)
        least = self._least(position, running, waiting, work, first, processors)
        estimate = max(least, self._in_order(position, running, waiting, work, first / rate if waiting else 0.0, rate))
        most = self._smoothed((1.0 + SLACK_PART) * estimate + SLACK, passed, now, sum(work[: len(waiting)]), rate)
        least = max(0.0, least - SLACK)
        return TimeLeft(least, max(least, most), self._cause if now < self._cause_at + CAUSE_FOR else "")

    def rest(self, position: float, jobs: Sequence[ActiveJob], processors: int, cycles: Cycles) -> Queue:
        """Simulate the jobs that have not ended at the last look (`expected_queue`). Instants are seconds from now on. cycles: the
        scheduler's"""
        active = sorted(jobs, key=lambda job: job.ran is None)
        indices = [*(job.index for job in active), *self._to_come]
        ran = [*(job.ran or 0.0 for job in active), *(0.0 for _ in self._to_come)]
        return expected_queue(
            [*(0.0 for _ in active), *(max(0.0, self._due[index] - position) for index in self._to_come)],
            [max(0.0, self._runs[index] - passed) for index, passed in zip(indices, ran)],
            [
                max(0.0, self._clock.virtual_to_real(60.0 * self._plan[index].limit_minutes) - passed)
                for index, passed in zip(indices, ran)
            ],
            [min(processors, self._plan[index].processors) for index in indices],
            processors,
            cycles,
        )

    def _width(self, index: int, processors: int, nodes: int) -> float:
        """Processors that a job holds."""
        row = self._plan[index]
        return max(row.processors, row.nodes * processors / nodes) if row.nodes and nodes else row.processors

    def _least(
        self,
        position: float,
        running: Sequence[tuple[int, float]],
        waiting: Sequence[int],
        work: Sequence[float],
        first: float,
        processors: int,
    ) -> float:
        # A job that the workload cancels may never start, or end early.
        ends = [left for index, left in running if self._plan[index].cancel_after is None]
        ends += [self._runs[index] for index in waiting if self._plan[index].cancel_after is None]
        rest = 0.0
        for index, of_job in zip(reversed(self._to_come), reversed(work)):
            if self._plan[index].cancel_after is None:
                rest += of_job
                ends.append(self._due[index] - position + max(self._runs[index], rest / processors))
        certain = (of_job for index, of_job in zip(waiting, work) if self._plan[index].cancel_after is None)
        ends.append((rest + sum(certain) + first) / processors)
        return max(0.0, *ends)

    def _in_order(
        self,
        position: float,
        running: Sequence[tuple[int, float]],
        waiting: Sequence[int],
        work: Sequence[float],
        free_at: float,
        rate: float,
    ) -> float:
        last = max((left for _, left in running), default=0.0)
        for place, index in enumerate((*waiting, *self._to_come)):
            if place >= len(waiting):
                free_at = max(free_at, self._due[index] - position)
            last = max(last, free_at + self._runs[index])
            free_at += work[place] / rate
        return last

    def _smoothed(self, estimate: float, passed: float, now: float, backlog: float, rate: float) -> float:
        """What is shown for an estimate of `most`; `backlog`: work of the waiting jobs."""
        before = self._most
        if before is None or estimate > GROWS_BY * before + 1.0:
            self._most = estimate if before is None else ROOM * estimate
            if before is not None:
                self._cause_at = now
                self._cause = (
                    "the queue grows"
                    if backlog > self._backlog
                    else "less of the machine is in use"
                    if rate < self._rate
                    else "jobs end later than planned"
                )
            self._backlog, self._rate = backlog, rate
        elif estimate >= before:
            self._most = before
        else:
            fallen = max(0.0, before - passed)
            if estimate >= fallen:
                self._most = estimate
            else:
                self._most = fallen - (fallen - estimate) * (1.0 - math.exp(-passed / max(1.0, CALM * estimate)))
        assert self._most is not None
        return self._most
