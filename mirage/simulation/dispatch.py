"""Computes how late the jobs of a recorded schedule started, from the decisions of a simulated scheduler at each instant of the
record.

At each event the scheduler is simulated from the recorded state: the jobs that run then, with their time limits, and those that
wait. So a late start does not change the results for later jobs.

Import this module inside of functions: loading numba takes a moment. All compiled functions are in this file, because numba's cache
does not notice changes of functions in other files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mirage.simulation.simulation import POLICIES

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_DEPTH = 100
"""Waiting jobs that have a reservation under conservative backfilling."""
_FCFS, _EASY, _CONSERVATIVE = range(3)
_LATE_AFTER_EVENTS = 0.1
"""Of the jobs that passed another one and started late, the share that started late after every event, from which on the scheduler
itself counts as late."""
_FEWEST_LATE = 2
"""The fewest such jobs for it."""
_ROUNDING = 1e-3
"""Seconds: sums of recorded times differ by less."""


@dataclass(frozen=True)
class Recorded:
    """A recorded schedule; arrays have an element per job, in any order, times are seconds.

    arrival: instants at which jobs entered the queue
    processors: number that each job takes
    start, end: when it had them; NaN for jobs that never started
    limit: time limits
    leave: instants at which jobs were cancelled while they waited; infinity: never
    machine: processors of the machine
    resolution: that of the instants
    changes: instants at which the number of free processors changed otherwise, and by how much
    """

    arrival: Times
    processors: Numbers
    start: Times
    end: Times
    limit: Times
    leave: Times
    machine: int
    resolution: float = 0.0
    changes: tuple[Times, Numbers] | None = None


@dataclass(frozen=True)
class Dispatch:
    """The lateness of starts; arrays have an element per job.

    late: seconds from the instant since which the scheduler would have started the job until its start; NaN where it would not have
        started the job when it did start, and for jobs that never started
    waited: whether the job could not start when it entered the queue
    late_as_first: the same, from the instant since which no job that had come earlier had to wait; 0 where one did at its start
    quiet: seconds from the last instant at which processors became free, or a waiting job left, until its start
    """

    late: Times
    waited: Flags
    late_as_first: Times
    quiet: Times

    def beyond(self, own: float, of_cycle: float, resolution: float) -> Times:
        """The part of `late` that is not the scheduler's own, 0 or more.

        A job that may pass another one can be held back by something that the simulation does not know, such as a reservation of
        certain nodes. Then it starts soon after some event, however late it is. The scheduler counts as late only if some of these
        jobs start late after any event; otherwise such a job is late by the time since the last event at most. One job does not
        show it: Slurm may plan the same jobs otherwise in the next cycle, without an event.
        own: seconds by which the scheduler itself may postpone a start, and of_cycle: further seconds for a job that passes another
        one; resolution: that of the instants
        """

        def more(seconds: Times, own: float) -> Times:
            rest: Times = seconds - own
            return np.where(rest > resolution + 2 * _ROUNDING, rest, np.where(np.isnan(rest), np.nan, 0.0))

        first, whole = more(self.late_as_first, own), more(self.late, own + of_cycle)
        since_event = more(np.minimum(self.late, self.quiet), own + of_cycle)
        passing = self.late > self.late_as_first + _ROUNDING
        late = passing & (whole > 0)
        late_after_events = np.count_nonzero(since_event[late] > 0)
        was_late = late_after_events >= max(_FEWEST_LATE, _LATE_AFTER_EVENTS * np.count_nonzero(late))
        return np.where(passing, np.maximum(first, whole if was_late else since_event), more(self.late, own))


def dispatch(recorded: Recorded, policies: Sequence[str]) -> Dispatch:
    """The lateness of each start, under the one of `policies` (simulation.POLICIES) that would have started most of the jobs when
    they did start; of equal ones the first."""
    results = [_dispatch(recorded, policy) for policy in policies]
    return max(results, key=lambda one: int(np.count_nonzero(~np.isnan(one.late))))


def _dispatch(recorded: Recorded, policy: str) -> Dispatch:
    arrival = np.fmin(recorded.arrival, recorded.start)
    order = np.argsort(arrival, kind="stable")
    # A decision at the instant of a start knows everything that happened within the resolution of the record.
    begun = recorded.start + recorded.resolution + _ROUNDING
    end = np.where(np.isnan(recorded.end) & ~np.isnan(begun), np.inf, recorded.end)
    arrived, start, until, limit, leave = (
        np.ascontiguousarray(one[order], np.float64) for one in (arrival, begun, end, recorded.limit, recorded.leave)
    )
    instants, amounts = (np.empty(0), np.empty(0, np.int64)) if recorded.changes is None else recorded.changes
    by_time = np.argsort(instants, kind="stable")
    width = np.ascontiguousarray(recorded.processors[order], np.int64)
    machine, number = recorded.machine, POLICIES.index(policy)
    instants_since = _since(arrived, start, until, limit, leave, width, machine, number, instants[by_time], amounts[by_time])
    since, as_first = np.empty((2, len(order)))
    since[order], as_first[order] = instants_since
    late, late_as_first = (np.maximum(recorded.start - one, 0.0) for one in (since, as_first))
    unlocks = np.sort(np.concatenate([recorded.end, np.where(np.isfinite(recorded.leave), recorded.leave, np.nan), instants]))
    unlocks = np.concatenate([[-np.inf], unlocks[~np.isnan(unlocks)]])
    quiet = recorded.start - unlocks[np.searchsorted(unlocks, recorded.start + _ROUNDING, "right") - 1]
    return Dispatch(late, since > arrival, late_as_first, quiet)


@njit(cache=True, nogil=True)
def _since(
    arrival: Times,
    start: Times,
    end: Times,
    limit: Times,
    leave: Times,
    width: Numbers,
    machine: int,
    policy: int,
    instants: Times,
    amounts: Numbers,
) -> tuple[Times, Times]:
    """Since when each job could have started, NaN if it could not at its start; and since when no earlier one had to wait then, its
    start if one did.

    Jobs are in order of arrival, changes of the free processors in order of time. policy: its place in POLICIES
    """
    jobs = arrival.size
    since, as_first = np.full(jobs, np.nan), np.full(jobs, np.nan)
    # Of each waiting job the last event at which it could start, the first of the unbroken row of these, the first of them at which
    # no earlier job had to wait.
    last_event, first_seen, first_alone = np.full(jobs, -2), np.full(jobs, np.nan), np.full(jobs, np.inf)
    events = np.unique(np.concatenate((arrival, start, end, leave, instants)))
    events = events[np.isfinite(events)]
    by_start, by_end = np.argsort(start), np.argsort(end)  # NaN comes last
    queue, running = np.empty(jobs, np.int64), np.empty(jobs, np.int64)
    queued = count = started = ended = submitted = changed = 0
    free = machine
    # The profile of free processors under conservative backfilling, in ascending order of time, as far as limits hold.
    times, spare = np.empty(2 * jobs + 4), np.empty(2 * jobs + 4, np.int64)
    for number in range(events.size):
        now = events[number]
        while ended < jobs and end[by_end[ended]] <= now:
            free += width[by_end[ended]] if start[by_end[ended]] < end[by_end[ended]] else 0
            ended += 1
        kept = 0
        for i in range(count):
            running[kept] = running[i]
            kept += end[running[i]] > now
        count = kept
        while changed < instants.size and instants[changed] <= now:
            free += amounts[changed]
            changed += 1
        kept = 0
        for i in range(queued):
            queue[kept] = queue[i]
            kept += not (np.isnan(start[queue[i]]) and leave[queue[i]] <= now)
        queued = kept
        while submitted < jobs and arrival[submitted] <= now:
            queue[queued] = submitted
            queued += 1
            submitted += 1
        left, waits, steps = free, False, 0
        shadow, beyond = np.inf, free
        if policy == _CONSERVATIVE and left > 0 and queued > 0:
            steps = _profile(times, spare, running[:count], start, limit, width, now, free)
        for i in range(queued):
            job = queue[i]
            if left <= 0 or (policy == _CONSERVATIVE and i >= _DEPTH):
                break
            if policy == _CONSERVATIVE:
                place = _earliest(times, spare, steps, width[job], limit[job])
                starts = place == 0 and width[job] <= left
                steps = _take(times, spare, steps, place, limit[job], width[job])
            else:
                starts = width[job] <= left and (now + limit[job] <= shadow or width[job] <= beyond)
            if starts:
                left -= width[job]
                if now + limit[job] > shadow:
                    beyond -= width[job]
                if last_event[job] != number - 1:
                    first_seen[job], first_alone[job] = now, np.inf
                last_event[job] = number
                if waits:
                    first_alone[job] = np.inf
                elif first_alone[job] == np.inf:
                    first_alone[job] = now
                continue
            if policy == _FCFS:
                break
            if policy == _EASY and not waits:
                steps = _profile(times, spare, running[:count], start, limit, width, now, free)
                for k in range(i):
                    steps = _take(times, spare, steps, 0, limit[queue[k]], width[queue[k]])
                k = 0
                while k < steps - 1 and spare[k] < width[job]:
                    k += 1
                shadow, beyond = times[k], spare[k] - width[job]
            waits = True
        any_started = False
        while started < jobs and start[by_start[started]] <= now:
            job = by_start[started]
            started += 1
            any_started = True
            if last_event[job] == number:
                since[job], as_first[job] = first_seen[job], min(first_alone[job], start[job])
            if end[job] > now:
                free -= width[job]
                running[count] = job
                count += 1
        if any_started:
            kept = 0
            for i in range(queued):
                queue[kept] = queue[i]
                kept += not start[queue[i]] <= now
            queued = kept
    return since, as_first


@njit(cache=True, nogil=True)
def _profile(
    times: Times, spare: Numbers, running: Numbers, start: Times, limit: Times, width: Numbers, now: float, free: int
) -> int:
    """Fills in the profile from `now` on: spare[i] processors from times[i] to times[i + 1]; returns the number of steps."""
    expected = np.maximum(start[running] + limit[running], now)
    times[0], spare[0], steps = now, free, 1
    for i in np.argsort(expected):
        if expected[i] > times[steps - 1]:
            times[steps], spare[steps] = expected[i], spare[steps - 1]
            steps += 1
        # What runs beyond its limit may end at any time, but has not.
        spare[steps - 1] += width[running[i]] if steps > 1 else 0
    return steps


@njit(cache=True, nogil=True)
def _earliest(times: Times, spare: Numbers, steps: int, wanted: int, length: float) -> int:
    """The first step from whose beginning on `wanted` processors are free for `length`."""
    first = 0
    for i in range(steps):
        if times[i] >= times[first] + length:
            break
        if spare[i] < wanted:
            first = min(i + 1, steps - 1)
    return first


@njit(cache=True, nogil=True)
def _take(times: Times, spare: Numbers, steps: int, first: int, length: float, wanted: int) -> int:
    """Removes `wanted` processors for `length` from the beginning of step `first` on; returns the new number of steps."""
    until, after = times[first] + length, first
    while after < steps and times[after] < until:
        after += 1
    if after == steps or times[after] > until:
        for i in range(steps, after, -1):
            times[i], spare[i] = times[i - 1], spare[i - 1]
        times[after], spare[after] = until, spare[after - 1]
        steps += 1
    for i in range(first, after):
        spare[i] -= wanted
    return steps
