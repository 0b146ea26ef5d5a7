"""The model of Tsafrir, Etsion and Feitelson, "Modeling User Runtime Estimates", JSSPP 2005 (LNCS 3834).

Requested times have few distinct values. Twenty of them, the head, are requested by 89 % of the jobs; the longest
allowed value is the most popular. The other values, the tail, are many and rare. The model first generates the
values and the number of jobs of each, then assigns them so that no job requests less than its run time.
docs/models.md says which parts come from the paper (and its published program) and which are our choice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from mirage.workloads.models.draft import Floats, Wholes

MINUTE, HOUR, DAY = 60, 3600, 86400
HEAD = 20
HEAD_SHARE = 0.89

# Share of the jobs, in per cent, of the head's value of popularity rank 2 to 20: a exp(b rank) + c. The first
# has the rest of the head's share.
HEAD_A, HEAD_B, HEAD_C = 14.0491, -0.177531, 0.462513
# Share of the tail's values, from rank 21 on: proportional to this power of the rank.
TAIL_POWER = -2.267
# Number of distinct values by the number of jobs; linear between, and at most the last.
VALUES_BY_JOBS = ((0, 20, 200, 1000, 10000, 70000, 250000), (0, 10, 20, 35, 90, 340, 565))
# Values of the tail, as parts of the longest: (a - 1) x / (a - x) at the ranks x = 1/K ... 1, with a = 1 + p K^q.
TAIL_P, TAIL_Q = 12.1039, -0.6026
# Seconds by which a value of the tail is moved if it exists already.
MOVES = (0, 30, -30, 20, -20, 10, -10)

# Values of the head in all four logs that the paper examined, as far as they are below the longest ...
COMMON = tuple(
    [MINUTE * minutes for minutes in (5, 10, 15, 20, 30)] + [HOUR * hours for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 18)]
)
# ... and the steps whose multiples, from the longest value downwards, complete the head to 20 values.
STEPS = (200 * HOUR, 100 * HOUR, 50 * HOUR, 10 * HOUR, 5 * HOUR, 2 * HOUR, HOUR, 20 * MINUTE, 10 * MINUTE, 5 * MINUTE)
# Popularity ranks of the head's values by their order in time (the longest first, then from the shortest on)
# in the logs SDSC-106, CTC, KTH and Blue Horizon.
MEASURED_RANKS = (
    (3, 1, 4, 17, 13, 7, 8, 18, 2, 6, 16, 10, 5, 15, 14, 19, 11, 12, 9, 20),
    (1, 3, 4, 2, 12, 9, 8, 18, 6, 7, 11, 20, 16, 5, 14, 13, 10, 15, 17, 19),
    (1, 4, 10, 14, 20, 2, 3, 7, 12, 6, 19, 5, 18, 16, 9, 17, 15, 13, 8, 11),
    (1, 6, 5, 3, 7, 2, 18, 19, 4, 11, 20, 9, 10, 14, 13, 16, 15, 17, 8, 12),
)

# Assumed limits of a machine: the first that is not below the longest run time.
LIMITS = tuple([HOUR * hours for hours in (1, 2, 3, 4, 6, 8, 12, 18, 24, 36)] + [DAY * days for days in (2, 3, 4, 5, 7, 10)])


def estimates(rng: np.random.Generator, runs: Floats) -> Floats:
    """Requested time of each job in seconds. runs: run times in seconds, 0 or more."""
    if not len(runs):
        return runs
    values, jobs = histogram(rng, len(runs), longest_allowed(float(runs.max())))
    return deal(rng, runs, np.repeat(values, jobs).astype(np.float64), head_values(int(values.max())))


def longest_allowed(longest_run: float) -> int:
    """Longest value in seconds, which most logs do not record (our choice). Above 10 days: multiples of 5 days."""
    return next((limit for limit in LIMITS if limit >= longest_run), int(-(-longest_run // (5 * DAY))) * 5 * DAY)


def histogram(rng: np.random.Generator, jobs: int, longest: int) -> tuple[Wholes, Wholes]:
    """The values in seconds, and the number of jobs of each: first the head, beginning with the longest value, then the tail."""
    head = head_values(longest)
    tail = tail_values(head, _number_of_values(jobs))
    shares = np.concatenate([head_shares(len(head))[_ranks(rng, len(head))], rng.permutation(tail_shares(len(tail)))])
    return np.concatenate([head, tail]), _whole_parts(shares / shares.sum(), jobs)


def head_values(longest: int) -> Wholes:
    """The longest value, then the others in ascending order; fewer than 20 if fewer round values are below the longest."""
    chosen = {value for value in COMMON if value < longest}
    for step in STEPS:
        for value in range(longest // step * step, 0, -step):
            if value < longest and len(chosen) < HEAD - 1:
                chosen.add(value)
    return np.array([longest, *sorted(chosen)])


def head_shares(count: int) -> Floats:
    """Shares of the ranks 1 to count; their sum is `HEAD_SHARE`."""
    ranks = np.arange(1, HEAD + 1)
    shares = (HEAD_A * np.exp(HEAD_B * ranks) + HEAD_C) / 100
    shares[0] = HEAD_SHARE - shares[1:].sum()
    relative: Floats = shares[:count] * (HEAD_SHARE / shares[:count].sum())
    return relative


def _ranks(rng: np.random.Generator, count: int) -> Wholes:
    """Index of the popularity rank of each of the head's values, by their order in time.

    The longest has rank 1. For each further value, the candidates are the ranks that the four logs have at this or an
    earlier place, each as often as it occurs; of two drawn the more popular one is taken. A rank that has no later
    place in any log is taken immediately.
    """
    latest = {rank: max(log.index(rank) for log in MEASURED_RANKS) for rank in range(1, HEAD + 1)}
    ranks = [1]
    candidates = [log[0] for log in MEASURED_RANKS]
    for place in range(1, HEAD):
        candidates = [rank for rank in [*candidates, *(log[place] for log in MEASURED_RANKS)] if rank not in ranks]
        due = [rank for rank in latest if latest[rank] <= place and rank not in ranks]
        ranks.append(min(due) if due else min(candidates[k] for k in rng.integers(0, len(candidates), 2)))
    # For a shorter head: the order of its ranks.
    return np.argsort(np.argsort(ranks[:count]))


def tail_values(head: Wholes, values: int) -> Wholes:
    """The values that complete the head to `values` distinct ones, in whole minutes; fewer if there are not enough free ones."""
    count, longest = max(0, values - len(head)), int(head[0])
    if not count:
        return np.array([], dtype=np.int64)
    a = 1 + TAIL_P * float(values) ** TAIL_Q
    x = np.arange(1, count + 1) / count
    minutes = np.rint((a - 1) * x / (a - x) * longest / MINUTE).astype(np.int64)
    taken = set(head.tolist())
    tail = []
    for value in (minutes * MINUTE).tolist():
        free = [value + move for move in MOVES if 0 < value + move < longest and value + move not in taken]
        if free:
            taken.add(free[0])
            tail.append(free[0])
    return np.array(tail, dtype=np.int64)


def tail_shares(count: int) -> Floats:
    """Shares of the ranks from 21 on; their sum is 1 - `HEAD_SHARE`."""
    shares = np.arange(HEAD + 1, HEAD + 1 + count, dtype=np.float64) ** TAIL_POWER
    return shares * ((1 - HEAD_SHARE) / shares.sum()) if count else shares


def _number_of_values(jobs: int) -> int:
    return round(float(np.interp(jobs, *VALUES_BY_JOBS)))


def _whole_parts(shares: Floats, jobs: int) -> Wholes:
    """Whole numbers of jobs whose sum is `jobs`, by the method of largest remainders."""
    parts = np.floor(shares * jobs).astype(np.int64)
    lost = np.argsort(parts - shares * jobs, kind="stable")
    parts[lost[: jobs - int(parts.sum())]] += 1
    return parts


def deal(rng: np.random.Generator, runs: Floats, values: Floats, head: Wholes) -> Floats:
    """Assign each run time one of the values, at random, so that none is below its run time.

    From the longest run time on, each draws one of the remaining values that are not below it. Where there are not enough
    such values, some are raised to the next value of the head first.
    """
    order = np.argsort(-runs, kind="stable")
    longest_first = runs[order]
    values = np.sort(values)[::-1]
    head = np.sort(head)
    short = values < longest_first
    values[short] = head[np.searchsorted(head, longest_first[short])]
    values = np.ascontiguousarray(np.sort(values)[::-1])
    # Number of values that are not below each run time.
    enough = len(values) - np.searchsorted(values[::-1], longest_first)
    dealt = np.empty_like(runs)
    dealt[order] = _compiled_shuffle()(values, enough, rng.random(len(runs)))
    return dealt


def _shuffle(values: Floats, enough: Wholes, uniform: Floats) -> Floats:
    """Shuffle the values in place: place k gets one of those of the places k to enough[k] - 1."""
    for k in range(len(values)):
        other = k + int(uniform[k] * (enough[k] - k))
        values[k], values[other] = values[other], values[k]
    return values


@cache
def _compiled_shuffle() -> Callable[[Floats, Wholes, Floats], Floats]:
    from numba import njit  # takes a moment to load

    compiled: Callable[[Floats, Wholes, Floats], Floats] = njit(cache=True)(_shuffle)
    return compiled
