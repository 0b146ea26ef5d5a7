"""Schedules of simple schedulers, without Slurm: first come first served, EASY and conservative backfilling.

Definitions, decisions and what is left out are in docs/simulation.md. Import this where it is used: numba takes a moment to load,
and some seconds to compile at the first call (it keeps the result in __pycache__). All of it is in one file, because numba does not
see that a function of another file has changed.
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
    """When each job starts; NaN for one that was cancelled while it waited.

    Arrays hold a job each, in order of submission, which is the order of the queue. submit: instants; runtime, estimate: how long
    the job runs, and how long the scheduler expects (seconds, or any other unit, the same for all); machine: processors. An
    estimate below the run time is taken as the run time: limits are extended (OVERRUN=extend), nothing is killed. cancel:
    instants at which jobs are taken back, whether they wait or run (infinity: never).

    policy: "fcfs", "easy" (Lifka 1995) or "conservative" (Mu'alem and Feitelson 2001). For conservative backfilling only:
    compress: whether reservations move when a job ends early; depth: how many waiting jobs have reservations at most, others
    have to wait until the scheduler looks at them (None: all).

    Raises WrongUse for another policy, and for a job that cannot be scheduled.
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
    if policy == "conservative":
        deepest = due.size if depth is None else depth
        return _conservative(due, width, run, expected, leave, leavers, machine, compress, max(1, deepest))
    return _in_turn(due, width, run, expected, leave, leavers, machine, policy == "easy")


def _check(submit: Times, width: Numbers, runtime: Times, estimate: Times, leave: Times, machine: int) -> None:
    """WrongUse for the first job that no scheduler could do anything with."""
    if not submit.size == width.size == runtime.size == estimate.size == leave.size:
        raise ValueError("arrays of different lengths")
    conditions = (
        ("runs for no time", ~((runtime > 0) & np.isfinite(runtime))),
        ("has no estimate", ~np.isfinite(estimate)),
        ("has no submission time", ~np.isfinite(submit)),
        ("is submitted before the one before it", np.diff(submit, prepend=-np.inf) < 0),
        (f"needs processors that are not there (from 1 to {machine})", (width < 1) | (width > machine)),
        ("is cancelled before its submission", ~(leave >= submit)),
    )
    for words, wrong in conditions:
        if wrong.any():
            raise WrongUse(f"schedule: job {int(wrong.argmax()) + 1} {words}")


# What is free from now on, if estimates hold, is kept as steps: free[i] processors from times[i] to times[i - 1], the first step
# being the last in time and without end. So what has passed falls off the arrays' end, where most changes are, too. Neighbours
# always differ.


@njit(cache=True, nogil=True)
def _step(times: Times, free: Numbers, steps: int, instant: float) -> tuple[int, int]:
    """The index of the step that begins at this instant, which is made if need be, and the number of steps."""
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
def _join(times: Times, free: Numbers, steps: int, index: int) -> int:
    """Take the beginning of a step away, if nothing changes there; the number of steps."""
    if index + 1 >= steps or free[index] != free[index + 1]:
        return steps
    for i in range(index, steps - 1):
        times[i], free[i] = times[i + 1], free[i + 1]
    return steps - 1


@njit(cache=True, nogil=True)
def _give(times: Times, free: Numbers, steps: int, begin: float, end: float, processors: int) -> int:
    """Give processors back for a time (or take them: below 0); the number of steps."""
    after, steps = _step(times, free, steps, end)
    first, steps = _step(times, free, steps, begin)
    for i in range(after + 1, first + 1):
        free[i] += processors
    return _join(times, free, _join(times, free, steps, first), after)


@njit(cache=True, nogil=True)
def _earliest(times: Times, free: Numbers, steps: int, now: float, width: int, length: float, until: float) -> float:
    """The earliest instant from now on at which `width` processors are free for this length, or become so at `until`.

    `until` is where a job has its reservation already: from there on its own processors are free for it.
    """
    start = now
    for i in range(steps - 1, -1, -1):
        if times[i] >= until or times[i] >= start + length:
            break
        if free[i] < width:
            start = times[i - 1]
    return start


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
) -> Times:
    """First come first served; with `backfill`, EASY."""
    jobs = submit.size
    start = np.full(jobs, np.nan)
    ends = [(np.inf, -1)]
    free = machine
    times, expected, steps = np.empty(2 * jobs + 3), np.empty(2 * jobs + 3, np.int64), 1
    times[0], expected[0] = -np.inf, machine
    # The queue is a ring through `nobody`, which stands before its first and after its last job.
    nobody = jobs
    behind, before = np.full(jobs + 1, nobody), np.full(jobs + 1, nobody)
    submitted = left = 0
    while submitted < jobs or behind[nobody] != nobody:
        now = ends[0][0]
        if submitted < jobs:
            now = min(now, submit[submitted])
        if left < leavers.size:
            now = min(now, leave[leavers[left]])
        while steps > 1 and times[steps - 2] <= now:
            steps -= 1
        while ends[0][0] <= now:
            job = heapq.heappop(ends)[1]
            free += width[job]
            if backfill and start[job] + estimate[job] > now:
                steps = _give(times, expected, steps, now, start[job] + estimate[job], width[job])
        while submitted < jobs and submit[submitted] <= now:
            last = before[nobody]
            behind[last], before[submitted] = submitted, last
            before[nobody] = submitted
            submitted += 1
        while left < leavers.size and leave[leavers[left]] <= now:
            job = leavers[left]
            if np.isnan(start[job]):
                behind[before[job]], before[behind[job]] = behind[job], before[job]
            left += 1
        # Until the first job that has to wait, spare processors are those that are free.
        in_time, spare, waits = np.inf, free, False
        job = behind[nobody]
        while job != nobody and free > 0:
            if width[job] <= free and (now + estimate[job] <= in_time or width[job] <= spare):
                start[job] = now
                free -= width[job]
                if now + estimate[job] > in_time:
                    spare -= width[job]
                heapq.heappush(ends, (min(now + runtime[job], leave[job]), job))
                behind[before[job]], before[behind[job]] = behind[job], before[job]
                if backfill:
                    steps = _give(times, expected, steps, now, now + estimate[job], -width[job])
            elif not backfill:
                break
            elif not waits:
                # The one reservation: of the first in the queue. Only running jobs are in the steps, so they only rise.
                waits = True
                i = steps - 1
                while expected[i] < width[job]:
                    i -= 1
                in_time, spare = times[i], expected[i] - width[job]
            job = behind[job]
    return start


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
) -> Times:
    """Conservative backfilling: every job has a reservation, which only ever moves to an earlier time."""
    jobs = submit.size
    start, planned = np.full(jobs, np.nan), np.full(jobs, np.nan)
    ends = [(np.inf, -1)]
    times, free, steps = np.empty(2 * jobs + 3), np.empty(2 * jobs + 3, np.int64), 1
    times[0], free[0] = -np.inf, machine
    queue, queued = np.empty(jobs, np.int64), 0
    submitted = left = 0
    now, soonest = submit[0] if jobs else 0.0, np.inf
    while submitted < jobs or queued:
        then = min(ends[0][0], soonest)
        if submitted < jobs and queued < depth:
            # One that the scheduler has not looked at may have been submitted long ago.
            then = min(then, max(now, submit[submitted]))
        if left < leavers.size:
            then = min(then, leave[leavers[left]])
        now = then
        while steps > 1 and times[steps - 2] <= now:
            steps -= 1
        gave = False
        while ends[0][0] <= now:
            job = heapq.heappop(ends)[1]
            if planned[job] + estimate[job] > now:
                steps = _give(times, free, steps, now, planned[job] + estimate[job], width[job])
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
                    planned[job] = earlier
        queued = kept
        while submitted < jobs and submit[submitted] <= now and queued < depth:
            job = submitted
            submitted += 1
            if leave[job] > now:
                planned[job] = _earliest(times, free, steps, now, width[job], estimate[job], np.inf)
                steps = _give(times, free, steps, planned[job], planned[job] + estimate[job], -width[job])
                queue[queued] = job
                queued += 1
        soonest, kept = np.inf, 0
        for i in range(queued):
            job = queue[i]
            if planned[job] <= now:
                start[job] = now
                heapq.heappush(ends, (min(now + runtime[job], leave[job]), job))
            else:
                soonest = min(soonest, planned[job])
                queue[kept] = job
                kept += 1
        queued = kept
    return start
