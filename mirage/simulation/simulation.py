"""Simulates simple schedulers without Slurm: first come, first served, EASY and conservative backfilling.

docs/simulation.md has definitions, decisions and limits. Import this module inside of functions: loading numba takes a moment, and
the first call compiles for some seconds (cached in __pycache__). All compiled functions are in this file, because numba's cache
does not notice changes of functions in other files.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slurm_mirage.base.errors import WrongUse

POLICIES = ("fcfs", "easy", "conservative")

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]


def schedule(
    submit: NDArray[np.generic],
    processors: NDArray[np.generic],
    runtime: NDArray[np.generic],
    estimate: NDArray[np.generic],
    machine: int,
    policy: str,
    *,
    cancel: NDArray[np.generic] | None = None,
    compress: bool = True,
    depth: int | None = None,
) -> Times:
    """The start of each job; NaN for a job that was cancelled while it waited.

    Arrays have an element per job, in order of submission, which is the order of the queue. All times have the same unit.

    submit: instants of submission
    processors: number of processors
    runtime, estimate: run time, and run time expected by the scheduler. An estimate below the run time is raised to the run time:
        limits are extended (OVERRUN=extend), no job is killed
    machine: processors of the machine
    policy: "fcfs", "easy" (Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995) or "conservative" (Mu'alem and Feitelson,
        "Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling", TPDS 2001)
    cancel: instants at which waiting or running jobs are cancelled; infinity: never
    compress: for conservative backfilling, whether reservations move when a job ends early
    depth: for conservative backfilling, the largest number of waiting jobs with reservations; None: no limit

    Raises WrongUse for another policy, and for a job that cannot be scheduled.
    """
    return delayed(submit, processors, runtime, estimate, machine, policy, 0.0, cancel=cancel, compress=compress, depth=depth)[0]


def delayed(
    submit: NDArray[np.generic],
    processors: NDArray[np.generic],
    runtime: NDArray[np.generic],
    estimate: NDArray[np.generic],
    machine: int,
    policy: str,
    grace: float,
    *,
    cancel: NDArray[np.generic] | None = None,
    compress: bool = True,
    depth: int | None = None,
) -> tuple[Times, Times]:
    """The start of each job, as `schedule`, and the instant from which it holds its processors, if idle processors are filled.

    Each processor that is idle is taken by a guest, a job beside these, from the end of the job before it on. A job that takes
    processors of guests holds its processors at once, but starts only when `grace` has passed since these were asked to save. They
    are asked as long before its start as that, if the start was in the plan by then: that of a reservation; under "fcfs" none is.
    The scheduler does not know of delays before they happen. Then "conservative" makes all reservations again, in the order of the
    queue.

    Parameters as in `schedule`. A job that is cancelled while it is delayed ends when it starts. Raises WrongUse as `schedule`, and
    ValueError for delays of reservations that may not move (compress).
    """
    if policy not in POLICIES:
        raise WrongUse(f"{policy!r} may be {', '.join(POLICIES[:-1])} or {POLICIES[-1]}", parameter="policy")
    due, run, expected = (np.ascontiguousarray(times, np.float64) for times in (submit, runtime, estimate))
    width = np.ascontiguousarray(processors, np.int64)
    never = np.full(due.size, np.inf)
    leave = never if cancel is None else np.ascontiguousarray(cancel, np.float64)
    _check(due, width, run, expected, leave, machine)
    expected = np.maximum(run, expected)
    leavers = np.argsort(leave, kind="stable")[: np.count_nonzero(leave < np.inf)]
    if grace and not compress:
        raise ValueError("delays move reservations")
    result: tuple[Times, Times]
    if policy == "conservative":
        deepest = due.size if depth is None else depth
        result = _conservative(due, width, run, expected, leave, leavers, machine, compress, max(1, deepest), grace)
    else:
        result = _in_turn(due, width, run, expected, leave, leavers, machine, policy == "easy", grace)
    return result


def _check(submit: Times, width: Numbers, runtime: Times, estimate: Times, leave: Times, machine: int) -> None:
    """Raises WrongUse for the first job that cannot be scheduled."""
    if not submit.size == width.size == runtime.size == estimate.size == leave.size:
        raise ValueError("arrays of different lengths")
    conditions = (
        ("has no run time", ~((runtime > 0) & np.isfinite(runtime))),
        ("has no estimate", ~np.isfinite(estimate)),
        ("has no submission time", ~np.isfinite(submit)),
        ("is submitted before the one before it", np.diff(submit, prepend=-np.inf) < 0),
        (f"needs a number of processors that is not from 1 to {machine}", (width < 1) | (width > machine)),
        ("is cancelled before its submission", ~(leave >= submit)),
    )
    for reason, wrong in conditions:
        if wrong.any():
            raise WrongUse(f"schedule: job {int(wrong.argmax()) + 1} {reason}")


# The profile of free processors, as far as estimates hold, is a list of steps in descending order of time: free[i] processors from
# times[i] to times[i - 1]; step 0 has no end. Steps that have passed are dropped at the end of the arrays, where most changes are,
# too. Adjacent steps have different numbers of processors.


@njit(cache=True, nogil=True)
def _step(times: Times, free: Numbers, steps: int, instant: float) -> tuple[int, int]:
    """The index of the step that begins at `instant`, which is inserted if necessary, and the new number of steps."""
    low, high = 0, steps - 1
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= instant:
            high = middle
        else:
            low = middle + 1
    if times[low] == instant:
        return low, steps
    for i in range(steps, low, -1):
        times[i], free[i] = times[i - 1], free[i - 1]
    times[low] = instant
    return low, steps + 1


@njit(cache=True, nogil=True)
def _drop_passed(times: Times, steps: int, now: float) -> int:
    """The number of steps without those that ended at `now` or before."""
    while steps > 1 and times[steps - 2] <= now:
        steps -= 1
    return steps


@njit(cache=True, nogil=True)
def _join(times: Times, free: Numbers, steps: int, index: int) -> int:
    """Merges step `index` with the one before it in time if both have as many processors; returns the new number of steps."""
    if index + 1 >= steps or free[index] != free[index + 1]:
        return steps
    for i in range(index, steps - 1):
        times[i], free[i] = times[i + 1], free[i + 1]
    return steps - 1


@njit(cache=True, nogil=True)
def _give(times: Times, free: Numbers, steps: int, begin: float, end: float, processors: int) -> int:
    """Adds `processors` (below 0: removes them) from `begin` to `end`; returns the new number of steps."""
    after, steps = _step(times, free, steps, end)
    first, steps = _step(times, free, steps, begin)
    for i in range(after + 1, first + 1):
        free[i] += processors
    return _join(times, free, _join(times, free, steps, first), after)


@njit(cache=True, nogil=True)
def _earliest(times: Times, free: Numbers, steps: int, now: float, width: int, length: float, until: float) -> float:
    """The earliest instant from `now` on from which `width` processors are free for `length`, or until `until`.

    `until` is the start of the job's present reservation: from there on the job's own processors are available to it.
    """
    start = now
    for i in range(steps - 1, -1, -1):
        if times[i] >= until or times[i] >= start + length:
            break
        if free[i] < width:
            start = times[i - 1]
    return start


@njit(cache=True, nogil=True)
def _asked(before: float, planned: float, since: float, grace: float, now: float) -> float:
    """When guests were first asked to save for a job, which up to `now` was planned at `planned`, since the instant `since`.

    before: the same by the plans before that; infinity: not yet
    """
    instant = max(since, planned - grace)
    return min(before, instant) if instant <= now else before


@njit(cache=True, nogil=True)
def _in_turn(
    submit: Times,
    width: Numbers,
    runtime: Times,
    estimate: Times,
    leave: Times,
    leavers: Numbers,
    machine: int,
    backfill: bool,
    grace: float,
) -> tuple[Times, Times]:
    """What `delayed` returns, under first come, first served, or, with `backfill`, EASY. Parameters as there.

    leave: instants of cancellation; leavers: jobs that are cancelled, in order of these instants
    """
    jobs = submit.size
    start, hold = np.full(jobs, np.nan), np.full(jobs, np.nan)
    planned, since, asked = np.full(jobs, np.inf), np.full(jobs, np.inf), np.full(jobs, np.inf)
    ends = [(np.inf, -1)]
    # Processors that have become free at this instant, so that no guest has them yet.
    free = fresh = machine
    times, expected, steps = np.empty(2 * jobs + 3), np.empty(2 * jobs + 3, np.int64), 1
    times[0], expected[0] = -np.inf, machine
    # The queue is a doubly linked ring; `sentinel` is the element before its first and after its last job.
    sentinel = jobs
    behind, before = np.full(jobs + 1, sentinel), np.full(jobs + 1, sentinel)
    submitted = left = 0
    while submitted < jobs or behind[sentinel] != sentinel:
        now = ends[0][0]
        if submitted < jobs:
            now = min(now, submit[submitted])
        if left < leavers.size:
            now = min(now, leave[leavers[left]])
        steps = _drop_passed(times, steps, now)
        if submitted > 0:
            fresh = 0
        while ends[0][0] <= now:
            job = heapq.heappop(ends)[1]
            free += width[job]
            fresh += width[job]
            if backfill and start[job] + estimate[job] > now:
                steps = _give(times, expected, steps, now, start[job] + estimate[job], width[job])
        while submitted < jobs and submit[submitted] <= now:
            last = before[sentinel]
            behind[last], before[submitted] = submitted, last
            before[sentinel] = submitted
            submitted += 1
        while left < leavers.size and leave[leavers[left]] <= now:
            job = leavers[left]
            if np.isnan(start[job]):
                behind[before[job]], before[behind[job]] = behind[job], before[job]
            left += 1
        # Before the first job that has to wait, all free processors are spare.
        in_time, spare, waits = np.inf, free, False
        job = behind[sentinel]
        while job != sentinel and free > 0:
            if width[job] <= free and (now + estimate[job] <= in_time or width[job] <= spare):
                start[job] = hold[job] = now
                if grace > 0 and width[job] > fresh:
                    begun = min(_asked(asked[job], planned[job], since[job], grace, now), now)
                    start[job] = max(now, begun + grace)
                fresh -= min(fresh, width[job])
                free -= width[job]
                if now + estimate[job] > in_time:
                    spare -= width[job]
                heapq.heappush(ends, (max(start[job], min(start[job] + runtime[job], leave[job])), job))
                behind[before[job]], before[behind[job]] = behind[job], before[job]
                if backfill:
                    steps = _give(times, expected, steps, now, start[job] + estimate[job], -width[job])
            elif not backfill:
                break
            elif not waits:
                # The only reservation is that of the first job in the queue. The profile has running jobs only, so it never falls.
                waits = True
                # A start at this instant leaves the step before it, which has passed.
                steps = _drop_passed(times, steps, now)
                i = steps - 1
                while expected[i] < width[job]:
                    i -= 1
                in_time, spare = times[i], expected[i] - width[job]
                if in_time != planned[job]:
                    asked[job] = _asked(asked[job], planned[job], since[job], grace, now)
                    planned[job], since[job] = in_time, now
            job = behind[job]
    return start, hold


@njit(cache=True, nogil=True)
def _conservative(
    submit: Times,
    width: Numbers,
    runtime: Times,
    estimate: Times,
    leave: Times,
    leavers: Numbers,
    machine: int,
    compress: bool,
    depth: int,
    grace: float,
) -> tuple[Times, Times]:
    """What `delayed` returns, under conservative backfilling: every job has a reservation, which moves back only for a delay.

    Parameters as there; leave: instants of cancellation; leavers: jobs that are cancelled, in order of these instants.
    """
    jobs = submit.size
    start, hold, planned = np.full(jobs, np.nan), np.full(jobs, np.nan), np.full(jobs, np.nan)
    since, asked = np.full(jobs, np.inf), np.full(jobs, np.inf)
    # Processors that have become free at this instant, so that no guest has them yet.
    fresh, before = machine, -np.inf
    ends = [(np.inf, -1)]
    times, free, steps = np.empty(2 * jobs + 3), np.empty(2 * jobs + 3, np.int64), 1
    times[0], free[0] = -np.inf, machine
    queue, queued = np.empty(jobs, np.int64), 0
    submitted = left = 0
    now, soonest = submit[0] if jobs else 0.0, np.inf
    while submitted < jobs or queued:
        event = min(ends[0][0], soonest)
        if submitted < jobs and queued < depth:
            # The next job beyond the depth limit may have been submitted long ago.
            event = min(event, max(now, submit[submitted]))
        if left < leavers.size:
            event = min(event, leave[leavers[left]])
        if -np.inf < before < event:
            fresh = 0
        now = before = event
        steps = _drop_passed(times, steps, now)
        gave = False
        while ends[0][0] <= now:
            job = heapq.heappop(ends)[1]
            fresh += width[job]
            if start[job] + estimate[job] > now:
                steps = _give(times, free, steps, now, start[job] + estimate[job], width[job])
                gave = True
        while left < leavers.size and leave[leavers[left]] <= now:
            job = leavers[left]
            if np.isnan(start[job]) and not np.isnan(planned[job]):
                steps = _give(times, free, steps, planned[job], planned[job] + estimate[job], width[job])
                gave = True
            left += 1
        kept = 0
        for i in range(queued):
            job = queue[i]
            if leave[job] <= now:
                continue
            queue[kept] = job
            kept += 1
            if gave and compress:
                earlier = _earliest(times, free, steps, now, width[job], estimate[job], planned[job])
                if earlier < planned[job]:
                    steps = _give(times, free, steps, planned[job], planned[job] + estimate[job], width[job])
                    steps = _give(times, free, steps, earlier, earlier + estimate[job], -width[job])
                    asked[job] = _asked(asked[job], planned[job], since[job], grace, now)
                    planned[job], since[job] = earlier, now
        queued = kept
        while submitted < jobs and submit[submitted] <= now and queued < depth:
            job = submitted
            submitted += 1
            if leave[job] > now:
                planned[job], since[job] = _earliest(times, free, steps, now, width[job], estimate[job], np.inf), now
                steps = _give(times, free, steps, planned[job], planned[job] + estimate[job], -width[job])
                queue[queued] = job
                queued += 1
        soonest, kept, late = np.inf, 0, False
        for i in range(queued):
            job = queue[i]
            if planned[job] <= now:
                start[job] = hold[job] = now
                if grace > 0 and width[job] > fresh:
                    start[job] = max(now, _asked(asked[job], planned[job], since[job], grace, now) + grace)
                fresh -= min(fresh, width[job])
                if start[job] > now:
                    late = True
                    steps = _give(times, free, steps, planned[job] + estimate[job], start[job] + estimate[job], -width[job])
                heapq.heappush(ends, (max(start[job], min(start[job] + runtime[job], leave[job])), job))
            else:
                soonest = min(soonest, planned[job])
                queue[kept] = job
                kept += 1
        queued = kept
        if late:
            for i in range(queued):
                job = queue[i]
                steps = _give(times, free, steps, planned[job], planned[job] + estimate[job], width[job])
            soonest = np.inf
            for i in range(queued):
                job = queue[i]
                earliest_start = _earliest(times, free, steps, now, width[job], estimate[job], np.inf)
                steps = _give(times, free, steps, earliest_start, earliest_start + estimate[job], -width[job])
                if earliest_start != planned[job]:
                    asked[job] = _asked(asked[job], planned[job], since[job], grace, now)
                    planned[job], since[job] = earliest_start, now
                soonest = min(soonest, earliest_start)
    return start, hold
