"""feitelson96: in the style of Feitelson's model of 1996, whose table of sizes is not public. See docs/models.md.

Feitelson, "Packing schemes for gang scheduling", and Feitelson and Rudolph, "Toward convergence in job
schedulers for parallel supercomputers", both JSSPP 1996.
"""

from __future__ import annotations

import numpy as np
from scipy.special import zeta

from mirage.workloads.models.draft import Draft, Floats, Model, Wholes, pick

SIZE_EXPONENT = 1.5
# How many times more popular a power of two is than its neighbours. With 2, 73 to 84 % of jobs have a power of
# two on machines of 20 to 57,472 processors, as in the logs of KTH, Curie and Theta.
POWER_OF_TWO_BOOST = 2.0
REPEAT_EXPONENT = 2.5
MEAN_GAP = 10.0
# The model's unit of time is not fixed by its source: ours is a minute.
SHORT_MEAN, LONG_MEAN = 60.0, 7 * 60.0


def shares(processors: int, boost: float = POWER_OF_TWO_BOOST) -> Floats:
    """The shares of jobs of 1, 2, ... processors."""
    size = np.arange(1, processors + 1)
    weights: Floats = size.astype(np.float64) ** -SIZE_EXPONENT * np.where(size & (size - 1), 1.0, boost)
    relative: Floats = weights / weights.sum()
    return relative


def run_times(rng: np.random.Generator, sizes: Wholes, processors: int) -> Wholes:
    """Run times in whole seconds, rounded up: hyperexponential, with the short stage at probability 0.95 - 0.2 n/N."""
    short = rng.random(len(sizes)) < 0.95 - 0.2 * sizes / processors
    return np.ceil(np.where(short, SHORT_MEAN, LONG_MEAN) * rng.standard_exponential(len(sizes))).clip(1).astype(np.int64)


def draw(rng: np.random.Generator, jobs: int, processors: int) -> Draft:
    """Series of repeated jobs: the same size, run time and user, each submitted when the one before would end without waiting.

    The first jobs are a Poisson process with a rate at which all jobs arrive every 10 s on average.
    """
    length = np.minimum(rng.zipf(REPEAT_EXPONENT, jobs), jobs)
    ends = np.cumsum(length)
    count = int(np.searchsorted(ends, jobs)) + 1
    series = np.repeat(np.arange(count), length[:count])[:jobs]
    sizes = 1 + pick(rng, shares(processors), count)
    runs = run_times(rng, sizes, processors)
    gap = MEAN_GAP * float(zeta(REPEAT_EXPONENT - 1) / zeta(REPEAT_EXPONENT))
    first = np.cumsum(rng.standard_exponential(count) * gap)
    nth = np.arange(jobs) - (ends[:count] - length[:count])[series]
    repeats = np.where(nth > 0, np.arange(jobs) - 1, -1)
    return Draft(first[series] + nth * runs[series], sizes[series], runs[series], repeats=repeats)


MODEL = Model(
    draw,
    computer="a parallel supercomputer, as a model",
    parameters=f"sizes n^-{SIZE_EXPONENT}, powers of two x {POWER_OF_TWO_BOOST:g}; hyperexponential run times of means"
    f" {SHORT_MEAN:g} and {LONG_MEAN:g} s; repetitions r^-{REPEAT_EXPONENT}; Poisson arrivals, mean {MEAN_GAP:g} s",
    unix_start=820_454_400,  # 1996-01-01
)
