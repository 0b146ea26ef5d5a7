"""Inference on the difference of a metric between two configurations: intervals, p values, equivalence, and Holm's correction.

Two sources of chance are added up: the jobs (draws of a block bootstrap) and the replicas of each configuration.
docs/comparison-method.md has the method and what simulations say of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import stdtrit

from mirage.statistics.bootstrap import LEVEL, Floats, Interval

EQUIVALENCE_LEVEL = 0.90
"""Level of the interval that has to lie within the margin: two one-sided tests at 5 % each (Schuirmann 1987)."""
_MOST_UNKNOWN = 0.05  # share of the draws that may have no value
_LARGEST_LOG = 700.0  # exp of more is no finite number
_ROUNDING = 1e-9  # relative
_LEAST_TAIL = 1e-12  # no smaller p value is told


@dataclass(frozen=True)
class Part:
    """A part of the chance of an estimate: its standard error, and the degrees of freedom with which that is known."""

    error: float
    freedom: float

    def half_width(self, tail: float) -> float:
        """Half of the width of an interval that leaves out so much at each end, by Student's t."""
        return -float(stdtrit(self.freedom, tail)) * self.error if self.error else 0.0


@dataclass(frozen=True)
class Estimate:
    """An estimated difference and its chance.

    value: the second configuration less the first: of the means, or of their logarithms (`is_log`)
    parts: independent parts of its chance, of which one has an error above 0
    bias: how much the emulation may have added to the difference or taken from it, from 0 on
    base: mean of the first configuration
    """

    value: float
    parts: tuple[Part, ...]
    bias: float
    base: float
    is_log: bool = False

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Interval of the value. What the emulation may have added widens it at both ends."""
        half = self._half_width((1 - level) / 2) + self.bias
        return self.value - half, self.value + half

    def percent(self, level: float = LEVEL) -> Interval:
        """The interval in per cent of the first mean; no metric falls by more than all of it. None if that is 0."""
        low, high = self.interval(level)
        if self.is_log:
            return _percent_of_log(low), _percent_of_log(high)
        return (max(-100.0, 100 * low / self.base), 100 * high / self.base) if self.base else None

    @property
    def p(self) -> float:
        """Two-sided p value of no difference: at most 1 - level exactly if the interval of that level excludes zero."""
        beyond = abs(self.value) - self.bias
        if beyond <= 0:
            return 1.0

        def too_wide(log_tail: float) -> float:
            return self._half_width(math.exp(log_tail)) - beyond

        least = math.log(_LEAST_TAIL)
        return 2 * (_LEAST_TAIL if too_wide(least) <= 0 else math.exp(brentq(too_wide, least, math.log(0.5))))

    def _half_width(self, tail: float) -> float:
        """The half widths of all parts, each by its own degrees of freedom, are added in squares (Howe 1974)."""
        return math.hypot(*(part.half_width(tail) for part in self.parts))


def _percent_of_log(value: float) -> float:
    return 100 * math.expm1(min(value, _LARGEST_LOG))


def of_replicas(values: Sequence[Floats]) -> Part | None:
    """Chance of the difference between the means of two configurations, by their replicas. None without two of each.

    The degrees of freedom are the harmonic mean of those of Welch, once, and of the smaller number less 1 (Hsu 1938), twice. Those
    of Welch alone claim too much in the far tail that a correction for many metrics needs.
    """
    if min(map(len, values)) < 2:
        return None
    variances = [_variance(some, 1) / len(some) for some in values]
    total = sum(variances)
    if total == 0:
        return Part(0.0, 1.0)
    welch = sum((one / total) ** 2 / (len(some) - 1) for one, some in zip(variances, values, strict=True))
    hsu = 1 / (min(map(len, values)) - 1)
    return Part(math.sqrt(total), 3 / (welch + 2 * hsu))


def of_jobs(draws: Floats, blocks: float) -> Part | None:
    """Chance of a difference over resamples of the jobs in so many blocks.

    The variance of few blocks is too small by (blocks - 1) / blocks. None where more than a twentieth of the draws is unknown
    (NaN), or there is a single block.
    """
    known = draws[~np.isnan(draws)]
    if len(known) < (1 - _MOST_UNKNOWN) * len(draws) or not blocks > 1:
        return None
    return Part(math.sqrt(_variance(known, 0) * blocks / (blocks - 1)), blocks - 1)


def _variance(values: Floats, less: int) -> float:
    """Variance with so many degrees of freedom less than values; 0 where only rounding varies."""
    variance = float(np.var(values, ddof=less))
    return variance if variance > (_ROUNDING * float(np.abs(values).max())) ** 2 else 0.0


@dataclass(frozen=True)
class Chance:
    """What is known of a metric of two configurations.

    values: of the replicas of each
    drawn: means of the replicas in each resample of jobs, or None if the jobs are not resampled
    blocks: number of blocks of jobs
    errors: by how much the emulation may have changed the mean of each, from 0 on
    """

    values: Sequence[Floats]
    drawn: Sequence[Floats] | None
    blocks: float
    errors: tuple[float, float] = (0.0, 0.0)

    @property
    def is_replicated(self) -> bool:
        """Whether each configuration has two replicas or more."""
        return all(len(some) > 1 for some in self.values)

    def difference(self) -> Estimate | None:
        """The difference of the means. None where no chance is known."""
        base, mean = (float(some.mean()) for some in self.values)
        draws = None if self.drawn is None else self.drawn[1] - self.drawn[0]
        parts = self._parts(self.values, draws)
        return None if parts is None else Estimate(mean - base, parts, sum(self.errors), base)

    def relative(self) -> Estimate | None:
        """The ratio of the means, on the logarithm, which is symmetric in the two configurations; where a mean is or may be 0 the
        difference.
        """
        base, mean = (float(some.mean()) for some in self.values)
        of_base, of_mean = self.errors
        if min(base - of_base, mean - of_mean) <= 0 or any((some <= 0).any() for some in self.drawn or []):
            return self.difference()
        draws = None if self.drawn is None else np.log(self.drawn[1]) - np.log(self.drawn[0])
        parts = self._parts([self.values[0] / base, self.values[1] / mean], draws)
        # The emulation may have changed the ratio by more at one end; the farther one holds for both.
        ends = [
            math.log1p(up) - math.log1p(-down) for up, down in ((of_mean / mean, of_base / base), (of_base / base, of_mean / mean))
        ]
        return None if parts is None else Estimate(math.log(mean / base), parts, max(ends), base, is_log=True)

    def _parts(self, values: Sequence[Floats], draws: Floats | None) -> tuple[Part, ...] | None:
        """Chance by replicas, and by jobs if these are resampled. None if nothing is known of it, or nothing varies."""
        by_jobs = None if draws is None else of_jobs(draws, self.blocks)
        if draws is not None and by_jobs is None:
            return None
        parts = tuple(part for part in (of_replicas(values), by_jobs) if part is not None)
        return parts if any(part.error > 0 for part in parts) else None


def holm(p_values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """P values corrected for their number (weighted procedure of Holm 1979): among all hypotheses that are true, the chance that
    the corrected p value of any is below 5 % is at most 5 %, however the metrics depend on each other.

    weights: share of the 5 % that each hypothesis begins with, any scale, above 0
    """
    corrected, largest, left = [1.0] * len(p_values), 0.0, math.fsum(weights)
    for place in sorted(range(len(p_values)), key=lambda k: p_values[k] / weights[k]):
        largest = max(largest, min(1.0, p_values[place] * left / weights[place]))
        corrected[place] = largest
        left -= weights[place]
    return corrected
