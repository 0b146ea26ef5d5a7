"""Starts of jobs in a given order, for any scheduler: what the schedule would be if jobs were submitted or ended at other times.

For many jobs numba compiles the function, which takes a second to load.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]
MANY = 20_000
"""Number of jobs from which on compiling saves time: Python takes some 4 us for each."""


def postponements(submit: Times, processors: Numbers, held: Times, start: Times, machine: int) -> Times:
    """For how long each job's start was postponed beyond the instant at which it was submitted, the job before it could start, and
    enough processors were free. Seconds, 0 or more.

    Arrays have an element per job, in order of the starts. held: seconds for which it held its processors.
    """
    result: Times = _function(submit.size)(submit, processors, held, start, machine, True)
    return result


def starts(submit: Times, processors: Numbers, held: Times, postponed: Times, machine: int) -> Times:
    """The inverse of `postponements`: the starts, in this order, each postponed by so much."""
    result: Times = _function(submit.size)(submit, processors, held, postponed, machine, False)
    return result


def _function(jobs: int) -> Callable[..., Times]:
    """`_in_order` for so many jobs."""
    return _compiled() if jobs >= MANY else _in_order


@cache
def _compiled() -> Callable[..., Times]:
    from numba import njit

    compiled: Callable[..., Times] = njit(cache=True, nogil=True)(_in_order)
    return compiled


def _in_order(submit: Times, processors: Numbers, held: Times, given: Times, machine: int, are_starts: bool) -> Times:
    """`postponements` of the given starts, or `starts` of the given postponements."""
    result = np.empty(submit.size)
    ends, free, earliest = [(np.inf, 0)], machine, -np.inf
    for job in range(submit.size):
        earliest = max(earliest, submit[job])
        while ends[0][0] <= earliest:
            free += heapq.heappop(ends)[1]
        while free < processors[job] and ends[0][0] < np.inf:
            end, width = heapq.heappop(ends)
            earliest, free = max(earliest, end), free + width
        start = max(given[job], earliest) if are_starts else earliest + given[job]
        result[job] = start - earliest if are_starts else start
        free -= processors[job]
        heapq.heappush(ends, (start + held[job], processors[job]))
    return result
