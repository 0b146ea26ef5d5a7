"""Simulates first in, first out and EASY backfilling with the instants at which Slurm decides.

Slurm's main scheduler runs at each end of a job and each submission (`schedule` and `job_allocate` of Slurm 22.05). It starts jobs
in the order of the queue, up to the first that does not fit. Its backfill scheduler runs each bf_interval, at instants that a
workload does not determine: a job that may pass the first one starts up to bf_interval after it could. Slurm reserves particular
nodes, the simulation a number of processors: they agree where the first waiting job takes the whole machine.

Import this module inside of functions: loading numba takes a moment. All compiled functions are in this file, because numba's cache
does not notice changes of functions in other files.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from slurm_mirage.base.errors import WrongUse

POLICIES = ("fcfs", "easy")

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]


def schedule_in_slurm(
    submit: NDArray[np.generic],
    processors: NDArray[np.generic],
    runtime: NDArray[np.generic],
    limit: NDArray[np.generic],
    machine: int,
    policy: str,
    *,
    interval: float = 5.0,
    phase: float = 0.0,
) -> Times:
    """The start of each job, in seconds; arrays have an element per job, in order of submission, which is the order of the queue.

    submit, processors, runtime: as in `simulation.schedule`, in seconds
    limit: time limits in seconds, not below the run times
    machine: processors of the machine
    policy: "fcfs" (sched/builtin) or "easy" (configs/easy.yml)
    interval, phase: for "easy", seconds between two runs of the backfill scheduler (bf_interval), and the instant of one of them

    Raises WrongUse for another policy, an interval that is not above 0, and for a job that cannot run.
    """
    if policy not in POLICIES:
        raise WrongUse(f"{policy!r} may be {' or '.join(POLICIES)}", parameter="policy")
    if not interval > 0:
        raise WrongUse(f"interval: {interval} must be above 0 s")
    due, run, limits = (np.ascontiguousarray(times, np.float64) for times in (submit, runtime, limit))
    width = np.ascontiguousarray(processors, np.int64)
    if np.any(np.diff(due) < 0) or np.any(run <= 0) or np.any(limits < run) or np.any((width < 1) | (width > machine)):
        raise WrongUse(f"jobs must be in order of submission, run for more than 0 s within limits, and fit on {machine} processors")
    return _start(due, width, run, limits, machine, policy == "easy", interval, phase)


@njit(cache=True, nogil=True)
def _start(
    submit: Times, width: Numbers, runtime: Times, limit: Times, machine: int, backfill: bool, interval: float, phase: float
) -> Times:
    """The starts. Parameters as in `schedule_in_slurm`; the time grows with the square of the number of jobs."""
    jobs = submit.size
    start, end = np.full(jobs, np.nan), np.full(jobs, np.inf)
    free, submitted, waiting, now = machine, 0, 0, -np.inf
    while submitted < jobs or waiting > 0:
        event = np.min(end)
        if submitted < jobs:
            event = min(event, submit[submitted])
        if backfill and waiting > 0:
            # The next run of the backfill scheduler after `now`, which is finite where a job waits.
            event = min(event, phase + (np.floor((now - phase) / interval + 1e-9) + 1) * interval)
        runs = (event - phase) / interval
        turn = backfill and abs(runs - np.round(runs)) < 1e-9
        now = event
        for job in range(submitted):
            if end[job] <= now:
                free += width[job]
                end[job] = np.inf
        while submitted < jobs and submit[submitted] <= now:
            submitted += 1
            waiting += 1
        shadow, spare, blocked = np.inf, free, False
        for job in range(submitted):
            if not np.isnan(start[job]):
                continue
            if width[job] <= free and (now + limit[job] <= shadow or width[job] <= spare):
                start[job], end[job] = now, now + runtime[job]
                free -= width[job]
                waiting -= 1
                if now + limit[job] > shadow:
                    spare -= width[job]
            elif not turn:
                break
            elif not blocked:
                blocked = True
                shadow, spare = _reservation(start, end, limit, width, free, width[job])
    return start


@njit(cache=True, nogil=True)
def _reservation(start: Times, end: Times, limit: Times, width: Numbers, free: int, wanted: int) -> tuple[float, int]:
    """The instant at which `wanted` processors are free by the limits of the running jobs, and how many more are free then."""
    running = np.flatnonzero(end < np.inf)
    order = running[np.argsort(start[running] + limit[running])]
    instant, expected = np.inf, free
    for k in range(order.size):
        over = start[order[k]] + limit[order[k]]
        if expected >= wanted and over > instant:
            break
        instant = over
        expected += width[order[k]]
    return instant, expected - wanted
