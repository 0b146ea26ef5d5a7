"""lublin, lublin-batch, lublin-interactive: the model of Lublin and Feitelson.

"The workload on parallel supercomputers: modeling the characteristics of rigid jobs", JPDC 63(11), 2003. The
untyped set of parameters is for a machine's whole workload, the others for its batch and interactive jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import gammainc

from mirage.workloads.models.draft import Draft, Floats, Model, Wholes

HALF_HOUR = 1800
BUCKETS = 48
# exp(12) s, 45 h, is the longest run time and the longest gap between two jobs.
LONGEST_LOGARITHM = 12.0
# For other machines than a set's own: uhi - umed.
UHI_ABOVE_UMED = 2.5


@dataclass(frozen=True)
class Parameters:
    """The paper's names. Sizes are logarithms to base 2; gamma distributions have mean a x b."""

    serial: float
    pow2: float
    ulow: float
    umed: float
    uhi: float
    uprob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float
    barr: float
    anum: float
    bnum: float
    arar: float

    def medium_and_high(self, processors: int) -> tuple[float, float, float]:
        """ulow, umed and uhi for this machine. On one too small for the paper's rule they are no larger than uhi."""
        if round(2**self.uhi) == processors:
            return self.ulow, self.umed, self.uhi
        uhi = float(np.log2(processors))
        ulow = min(self.ulow, uhi)
        return ulow, max(ulow, uhi - UHI_ABOVE_UMED), uhi


UNTYPED = Parameters(
    serial=0.244, pow2=0.576, ulow=0.8, umed=4.5, uhi=7, uprob=0.86,
    a1=4.2, b1=0.94, a2=312, b2=0.03, pa=-0.0054, pb=0.78,
    aarr=10.2303, barr=0.4871, anum=8.1737, bnum=3.9631, arar=1.0225,
)  # fmt: skip
BATCH = Parameters(
    serial=0.2927, pow2=0.6686, ulow=1.2, umed=5, uhi=7, uprob=0.875,
    a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
    aarr=6.0415, barr=0.8531, anum=6.1271, bnum=5.2740, arar=1.0519,
)  # fmt: skip
INTERACTIVE = Parameters(
    serial=0.1541, pow2=0.625, ulow=1, umed=3, uhi=5.5, uprob=0.705,
    a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
    aarr=6.5510, barr=0.6621, anum=8.9186, bnum=3.6680, arar=0.9797,
)  # fmt: skip


def sizes(rng: np.random.Generator, count: int, some: Parameters, processors: int) -> Wholes:
    """Processors of jobs; at most those of the machine, which need not be a power of two."""
    ulow, umed, uhi = some.medium_and_high(processors)
    kind, stage, place = rng.random(count), rng.random(count), rng.random(count)
    lower = stage <= some.uprob
    logarithm = np.where(lower, ulow + place * (umed - ulow), umed + place * (uhi - umed))
    logarithm = np.where(kind <= some.serial + some.pow2, np.floor(logarithm + 0.5), logarithm)
    parallel = np.floor(2.0**logarithm + 0.5).clip(1, processors)
    return np.where(kind <= some.serial, 1, parallel).astype(np.int64)


def run_times(rng: np.random.Generator, jobs: Wholes, some: Parameters) -> Wholes:
    """Run times in whole seconds of jobs of these sizes: their logarithms have a hypergamma distribution."""
    first = (some.pa * jobs + some.pb).clip(0, 1)

    def logarithms(which: Wholes) -> Floats:
        short = rng.random(len(which)) <= first[which]
        return np.where(short, rng.gamma(some.a1, some.b1, len(which)), rng.gamma(some.a2, some.b2, len(which)))

    return np.exp(_redrawn(logarithms, len(jobs))).astype(np.int64)


def half_hour_weights(some: Parameters) -> Floats:
    """Relative arrival rate in each half-hour of the day, from midnight; mean 1."""
    hours = np.arange(11, 11 + BUCKETS)
    weights = np.empty(BUCKETS)
    weights[(hours - 1) % BUCKETS] = gammainc(some.anum, (hours + 0.5) / some.bnum) - gammainc(some.anum, (hours - 0.5) / some.bnum)
    relative: Floats = weights / weights.mean()
    return relative


def submissions(rng: np.random.Generator, count: int, some: Parameters) -> Floats:
    """Times of submission in seconds since a midnight.

    In the model a job arrives when the weights of the half-hours since midnight add up to its points, the sum of the gaps
    drawn so far. Inverting the sum of the weights gives all arrivals at once, without stepping through the half-hours.
    """
    gaps = _redrawn(lambda which: rng.gamma(some.aarr * some.arar, some.barr, len(which)), count)
    points = np.cumsum(np.exp(gaps) / HALF_HOUR)
    weights = half_hour_weights(some)
    ends = np.cumsum(weights)
    days = np.floor(points / ends[-1])
    today = points - days * ends[-1]
    bucket = np.searchsorted(ends, today).clip(0, BUCKETS - 1)
    part = (today - (ends - weights)[bucket]) / weights[bucket]
    seconds: Floats = HALF_HOUR * (days * BUCKETS + bucket + part)
    return seconds


def _redrawn(draw: Callable[[Wholes], Floats], count: int) -> Floats:
    """`draw` for all indices, repeated for values above `LONGEST_LOGARITHM` until there are none."""
    values = draw(np.arange(count))
    while len(again := np.flatnonzero(values > LONGEST_LOGARITHM)):
        values[again] = draw(again)
    return values


def _draw(some: Parameters, rng: np.random.Generator, jobs: int, processors: int) -> Draft:
    chosen = sizes(rng, jobs, some, processors)
    return Draft(submissions(rng, jobs, some), chosen, run_times(rng, chosen, some))


def _model(some: Parameters) -> Model:
    return Model(
        partial(_draw, some),
        computer="a parallel supercomputer, as a model",
        parameters=str(some),
        unix_start=1_041_379_200,  # 2003-01-01
    )


MODEL, BATCH_MODEL, INTERACTIVE_MODEL = _model(UNTYPED), _model(BATCH), _model(INTERACTIVE)
