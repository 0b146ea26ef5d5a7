"""The workload of a run without a TRACE. Seeded; the same seed gives the same jobs on every platform.

That holds because only `random.Random.random` (the Mersenne Twister, the same everywhere) and exact or
correctly rounded arithmetic are used: no logarithm, exponential or power, whose last bits differ between C
libraries. The models of registry.py use numpy and are reproducible only with its locked version.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from math import sqrt
from random import Random

import polars as pl

from mirage.traces import swf
from mirage.workloads.models.thesis import ROUND_MINUTES
from slurm_mirage.base.errors import WrongUse

JOBS = 150

# Sizes of 40 jobs, for a workload of JOBS jobs: the machine divided by this number (0: one processor), and how many jobs have it.
_PARTS = {0: 4, 128: 4, 64: 8, 32: 10, 24: 6, 16: 6, 10: 2}

# Run times in seconds at equal steps of probability, linear between.
_RUNS = (60, 150, 240, 300, 360, 420, 480, 540, 620, 720, 900)

# Seconds for which JOBS jobs keep the whole machine busy; and seconds between two submissions: on average, and at least.
_WORK, _STEP, _GAP = 2400, 4, 2
_USERS = 20


def default_workload(processors: int, seed: int, jobs: int | None = None) -> pl.DataFrame:
    """The workload of a run without a TRACE, as an SWF frame: JOBS jobs that would keep the whole machine busy for 40 minutes.

    They are submitted over the first 10 minutes, one every 4 s, so that a queue forms at once and lasts. Waits are therefore long
    (some 7 minutes on average) against Slurm's timers and launches, and small delays hardly change the mean wait; tests bound both.
    Sizes are parts of the machine, up to a tenth. On a machine of few processors, where the smallest of these jobs have one
    processor and so more than their part, jobs beyond the 40 minutes are left out.

    jobs: this number instead of JOBS; none is left out. Both the work and the size of each job (at most the machine) then follow
        the square root of the number: a quarter of the jobs are twice as wide, and take half as long.

    Raises WrongUse for a machine without processors.
    """
    if processors < 1:
        raise WrongUse(f"{processors} processors in all, may be 1 or more", parameter="cpus")
    rng = Random(seed)
    count = JOBS if jobs is None else jobs
    scale = sqrt(count / JOBS)
    blocks = range(-(-count // sum(_PARTS.values())))
    drawn = list(chain.from_iterable(_block(rng, processors / scale) for _ in blocks))[:count]
    sizes, runs = [min(size, processors) for size, _ in drawn], [run for _, run in drawn]
    if jobs is None:
        areas = accumulate(size * run for size, run in zip(sizes, runs, strict=True))
        fit = max(1, sum(area <= processors * _WORK for area in areas))
        sizes, runs = sizes[:fit], runs[:fit]
    return _frame(rng, sizes, runs)


def _block(rng: Random, processors: float) -> Iterable[tuple[int, int]]:
    """Sizes and run times of 40 jobs. Each block has the same sizes and equally spread run times, in an order drawn at random: all
    seeds, and the first jobs of a workload, offer nearly the same work."""
    sizes = [max(1, int(processors / part)) if part else 1 for part, count in _PARTS.items() for _ in range(count)]
    places = [(place + rng.random()) / len(sizes) for place in range(len(sizes))]
    return zip(_shuffled(rng, sizes), _shuffled(rng, [_run_time(place) for place in places]), strict=True)


def _shuffled(rng: Random, values: Sequence[int]) -> list[int]:
    """The values in random order (Fisher and Yates). Not Random.shuffle, which another release of Python may change."""
    order = list(values)
    for last in range(len(order) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def _run_time(probability: float) -> int:
    """The quantile of the run times, in seconds; probability: from 0 to below 1."""
    place = probability * (len(_RUNS) - 1)
    low = int(place)
    return int(_RUNS[low] + (place - low) * (_RUNS[low + 1] - _RUNS[low]))


def _requested(rng: Random, run: int) -> int:
    """Requested time in seconds: one to five times the run time, rounded up to a round value."""
    minutes = run * (1 + 4 * rng.random()) / 60
    return 60 * ROUND_MINUTES[min(bisect_left(ROUND_MINUTES, minutes), len(ROUND_MINUTES) - 1)]


def _frame(rng: Random, sizes: Sequence[int], runs: Sequence[int]) -> pl.DataFrame:
    """The SWF frame of the jobs, submitted from 0 on."""
    drawn = [int(place * _STEP + rng.random() * (_STEP - _GAP)) for place in range(len(sizes))]
    columns = {
        "job_number": range(1, len(sizes) + 1),
        "submit": [submit - drawn[0] for submit in drawn],
        "run_time": runs,
        "allocated_processors": sizes,
        "requested_processors": sizes,
        "requested_time": [_requested(rng, run) for run in runs],
        "status": [1] * len(sizes),
        "user": [1 + int(rng.random() * _USERS) for _ in sizes],
    }
    unknown = [-1] * len(sizes)
    return pl.DataFrame({name: columns.get(name, unknown) for name in swf.COLUMNS}, schema=swf.SCHEMA, strict=False)
