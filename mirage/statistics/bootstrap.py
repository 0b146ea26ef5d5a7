"""Bootstrap over jobs in circular blocks.

docs/comparison-method.md has the method. Arrays have one column or entry per job, in order of submission.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]
Interval = tuple[float, float] | None

LEVEL = 0.95
_LONGER, _FEWEST_BLOCKS = 3, 5
_AT_ONCE = 8_000_000  # number of counts in memory at a time: products of large matrices are faster


def student(freedom: float, share: float = 0.5 + LEVEL / 2) -> float:
    """Quantile of Student's t. freedom: degrees of freedom, any number above 0; share: the probability below the quantile."""
    from scipy.special import stdtrit  # takes as long to import as all else that a command without intervals imports

    return float(stdtrit(freedom, share))


def automatic_length(series: Floats) -> float:
    """Best length of circular blocks for the mean of `series`, by its autocorrelation: the rule of Politis and White (2004) as
    corrected by Patton, Politis and White (2009). From 1 up to min(3 sqrt(n), n / 3).
    """
    count = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / count
    if count < 10 or variance <= 1e-20 * float(np.abs(series).max()) ** 2:
        return 1.0
    quiet = max(5, math.ceil(math.sqrt(math.log10(count))))  # lags without correlation after which none is assumed
    most = min(math.ceil(math.sqrt(count)) + quiet, count - 1)
    covariance = np.array([variance, *(float(centred[:-lag] @ centred[lag:]) / count for lag in range(1, most + 1))])
    loud = np.flatnonzero(np.abs(covariance) >= 2 * math.sqrt(math.log10(count) / count) * variance)
    loud = np.union1d(loud, [0])
    gaps = np.diff(np.append(loud, most + 1 + quiet))
    last = int(loud[np.argmax(gaps > quiet)])
    window = min(2 * max(last, 1), most)
    lags = np.arange(1, window + 1)
    weights = np.clip(2 * (1 - lags / window), 0, 1)  # the flat-top window
    spectrum = variance + 2 * float(weights @ covariance[lags])
    slope = 2 * float((weights * lags) @ covariance[lags])
    if spectrum <= 0:
        return 1.0
    length = (2 * slope**2 / (4 / 3 * spectrum**2)) ** (1 / 3) * count ** (1 / 3)
    return float(np.clip(length, 1, math.ceil(min(3 * math.sqrt(count), count / 3))))


def block_length(series: Sequence[Floats]) -> int:
    """Length of the blocks for several series of the same jobs: three times the largest automatic length, and at least
    three times n^(1/3), the rate at which lengths have to grow (Künsch 1989), but no more than a fifth of the jobs.

    The automatic length minimises the error of the variance, but the variance is a little too small and intervals are too narrow.
    Longer blocks reduce that; Student's t allows for their small number (docs/comparison-method.md has figures).
    """
    count = len(series[0])
    wanted = max(math.pow(count, 1 / 3), *(automatic_length(one) for one in series))
    return max(1, min(math.ceil(_LONGER * wanted), count // _FEWEST_BLOCKS))


@dataclass(frozen=True)
class Blocks:
    """Resamples of `jobs` jobs by circular blocks of `length` successive ones (Politis and Romano 1992), as many jobs each."""

    jobs: int
    length: int
    resamples: int
    seed: int

    @property
    def number(self) -> float:
        """Number of blocks of a resample; the last one may be shorter."""
        return self.jobs / self.length

    def counts(self) -> Iterator[tuple[slice, Counts]]:
        """Number of times each job is in each resample, (resamples, jobs), some resamples at a time. The same for the same seed."""
        random = np.random.default_rng(self.seed)
        whole, rest = divmod(self.jobs, self.length)
        step = max(1, _AT_ONCE // self.jobs)
        for first in range(0, self.resamples, step):
            rows = min(step, self.resamples - first)
            counts = self._covered(random.integers(self.jobs, size=(rows, whole)), self.length)
            if rest:
                counts += self._covered(random.integers(self.jobs, size=(rows, 1)), rest)
            yield slice(first, first + rows), counts

    def _covered(self, starts: NDArray[np.int64], length: int) -> Counts:
        """Number of blocks beginning at `starts` (resamples, blocks) that contain each job."""
        rows = len(starts)
        places = (starts + np.arange(rows)[:, None] * self.jobs).ravel()
        begun = np.bincount(places, minlength=rows * self.jobs).astype(np.int32).reshape(rows, self.jobs)
        sums = np.zeros((rows, self.jobs + length), np.int32)
        np.cumsum(np.concatenate([begun[:, self.jobs - length + 1 :], begun], axis=1), axis=1, out=sums[:, 1:])
        covered: Counts = sums[:, length:] - sums[:, : self.jobs]
        return covered


def ratios(above: Floats, below: Floats) -> Floats:
    """Element-wise ratio; NaN where the denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = above / below
    return np.where(np.isfinite(ratio), ratio, np.nan)


@dataclass(frozen=True)
class Ordered:
    """Values of the jobs in ascending order; order: their places among the jobs."""

    order: NDArray[np.int64]
    values: Floats

    @classmethod
    def of(cls, values: Floats) -> Ordered:
        order = np.argsort(values, kind="stable")
        return cls(order, values[order])

    def quantiles(self, counts: Counts, shares: Sequence[float]) -> Floats:
        """Quantiles in each resample (resamples, shares), with linear interpolation between two jobs."""
        rows, jobs = counts.shape
        # Each row's ranks are shifted above those of the row before, so that one search does for all rows.
        lift = np.arange(rows) * (jobs + 1)
        ranks = np.cumsum(np.take(counts, self.order, axis=1), axis=1, dtype=np.int64)
        ranks += lift[:, None]
        quantiles = []
        for share in shares:
            place = (jobs - 1) * share
            low = math.floor(place)
            lower, upper = (
                self.values[np.searchsorted(ranks.ravel(), lift + rank, side="right") - np.arange(rows) * jobs]
                for rank in (low, min(low + 1, jobs - 1))
            )
            quantiles.append(lower + (place - low) * (upper - lower))
        return np.stack(quantiles, axis=1)
