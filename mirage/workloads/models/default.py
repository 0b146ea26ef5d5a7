"""The workload of a run without a TRACE. Seeded; the same seed gives the same jobs on every platform.

That holds because only `random.Random.random` (the Mersenne Twister, the same everywhere) and exact or
correctly rounded arithmetic are used: no logarithm, exponential or power, whose last bits differ between C
libraries. The models of registry.py use numpy and are reproducible only with its locked version.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random

import polars as pl

from mirage.traces import swf
from mirage.workloads.models.thesis import OTHERS, ROUND_MINUTES, SIZES
from slurm_mirage.base.errors import WrongUse

# The other sizes are the machine divided by these numbers.
_OTHER_PARTS = (8, 6, 5, 4, 3, 2)

# Run times in seconds at equal steps of probability, linear between.
_SHORT_RUNS = (4, 6, 8, 10, 13, 16, 20, 25, 32, 44, 60)

_LOAD = 0.8
_SHORT_JOBS, _SHORT_SPAN = 200, 120
_USERS = 20


def default_workload(processors: int, seed: int) -> pl.DataFrame:
    """The workload of a run without a TRACE: some 200 jobs over 2 minutes, which end within about 3.5 minutes.

    Sizes as in the thesis's Table 4.1, except that the tenth of other sizes are parts of this machine (a 16th to a
    half), so that some jobs have to wait; run times from a few seconds to a minute, submissions uniform
    over two minutes. A machine on which 200 such jobs would take longer than that gets shorter ones, and if
    need be fewer.
    """
    _check_processors(processors)
    rng = Random(seed)
    others = sorted({-(-processors // part) for part in _OTHER_PARTS})
    sizes = [_size(rng, processors, others) for _ in range(_SHORT_JOBS)]
    runs = [_between(rng, _SHORT_RUNS) for _ in range(_SHORT_JOBS)]
    capacity = processors * _SHORT_SPAN * _LOAD
    area = sum(size * run for size, run in zip(sizes, runs, strict=True))
    runs = [max(_SHORT_RUNS[0], int(run * min(1.0, capacity / area))) for run in runs]
    used = accumulate(size * run for size, run in zip(sizes, runs, strict=True))
    fit = max(1, sum(1 for area in used if area <= capacity))
    return _frame(rng, sizes[:fit], runs[:fit], _SHORT_SPAN)


def _check_processors(processors: int) -> None:
    if processors < 1:
        raise WrongUse(f"{processors} processors in all, may be 1 or more", parameter="cpus")


def _size(rng: Random, processors: int, others: Sequence[int]) -> int:
    """A job's processors: one of the table's sizes that fit, or one of the others, all equally likely."""
    sizes = [size for size in SIZES if size <= processors]
    bounds = list(accumulate([*(SIZES[size] for size in sizes), OTHERS if others else 0]))
    choice = bisect_right(bounds, rng.random() * bounds[-1])
    return sizes[choice] if choice < len(sizes) else others[int(rng.random() * len(others))]


def _between(rng: Random, steps: Sequence[int]) -> int:
    """A value of the distribution whose quantiles at equal steps are given."""
    place = rng.random() * (len(steps) - 1)
    low = int(place)
    return int(steps[low] + (place - low) * (steps[low + 1] - steps[low]))


def _requested(rng: Random, run: int) -> int:
    """Requested time in seconds: one to five times the run time, rounded up to a round value."""
    minutes = run * (1 + 4 * rng.random()) / 60
    return 60 * ROUND_MINUTES[min(bisect_left(ROUND_MINUTES, minutes), len(ROUND_MINUTES) - 1)]


def _frame(rng: Random, sizes: Sequence[int], runs: Sequence[int], span: int) -> pl.DataFrame:
    """The SWF frame of the jobs, submitted at times drawn uniformly over `span` seconds, from 0 on."""
    drawn = sorted(int(rng.random() * span) for _ in sizes)
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
