"""Inference on the difference of a metric between two configurations: intervals, p values, equivalence, and Holm's correction.

Two sources of chance are added up: the replicas of each configuration and, where other jobs are asked about, the jobs (by leaving
out blocks of them). docs/comparison-method.md has the method and its tests by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from mirage.statistics.intervals import LEVEL, Floats, Interval, student

EQUIVALENCE_LEVEL = 0.90
"""Level of the interval that has to lie within the margin: two one-sided tests at 5 % each (Schuirmann 1987)."""
_WIDER = 1.1
"""Factor of the half width by jobs. Sums over cycles of a queue are skewed: more often than not the mean is too low, and its error
with it."""
_LARGEST_LOG = 700.0  # exp of more is no finite number
_ROUNDING = 1e-9  # relative
_LEAST_TAIL = 1e-12  # the smallest p value that is reported
MANY_REPLICAS = 11
"""Replicas of which one, at 95 %, falls into any group of values that a quarter of the runs or more fall into."""
_DRAWS = 5000  # of the weights of replicas
_SEED = 1


@dataclass(frozen=True)
class Part:
    """A part of the chance of an estimate.

    error, freedom: its standard error, and the degrees of freedom of that
    below, above: draws of how far the true value may lie below and above the estimate, in ascending order; empty: none are known
    """

    error: float
    freedom: float
    below: Floats = field(default_factory=lambda: np.empty(0))
    above: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def is_none(self) -> bool:
        """Whether nothing varies."""
        return not self.error > 0 and not any(draws.size and draws[-1] > 0 for draws in (self.below, self.above))

    def half_width(self, tail: float, *, is_above: bool = True) -> float:
        """From the estimate to the end of an interval that leaves out so much there: by Student's t, or as far as the draws if
        these reach farther.
        """
        draws = self.above if is_above else self.below
        half = -student(self.freedom, tail) * self.error if self.error else 0.0
        if not draws.size:
            return half
        rest, whole = math.modf((1 - tail) * (len(draws) - 1))
        low, high = draws[int(whole)], draws[min(int(whole) + 1, len(draws) - 1)]
        return max(half, float(low + rest * (high - low)))


@dataclass(frozen=True)
class Estimate:
    """An estimated difference and its chance.

    value: the second configuration less the first: of the means, or of their logarithms (`is_log`)
    parts: independent parts of its chance, in one of which something varies
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
        below, above = (self._half_width((1 - level) / 2, is_above=is_above) + self.bias for is_above in (False, True))
        return self.value - below, self.value + above

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
            return self._half_width(math.exp(log_tail), is_above=self.value < 0) - beyond

        least, most = math.log(_LEAST_TAIL), math.log(0.5)
        if too_wide(most) > 0:
            return 1.0
        from scipy.optimize import brentq  # see `student`

        return 2 * (_LEAST_TAIL if too_wide(least) <= 0 else math.exp(brentq(too_wide, least, most)))

    def _half_width(self, tail: float, *, is_above: bool) -> float:
        """The half widths of all parts, each by its own degrees of freedom, are added in squares (Howe 1974)."""
        return math.hypot(*(part.half_width(tail, is_above=is_above) for part in self.parts))


def _percent_of_log(value: float) -> float:
    return 100 * math.expm1(min(value, _LARGEST_LOG))


def of_replicas(values: Sequence[Floats]) -> Part | None:
    """Chance of the difference between the means of two configurations, by their replicas. None without two of each.

    The degrees of freedom are the harmonic mean of those of Welch, once, and of the smaller number less 1 (Hsu 1938), twice. Those
    of Welch alone claim too much in the far tail that a correction for many metrics needs.
    """
    if min(map(len, values)) < 2:
        return None
    variances = [_variance(replicas, 1) / len(replicas) for replicas in values]
    total = sum(variances)
    if total == 0:
        return Part(0.0, 1.0)
    welch = sum((one / total) ** 2 / (len(replicas) - 1) for one, replicas in zip(variances, values, strict=True))
    hsu = 1 / (min(map(len, values)) - 1)
    return Part(math.sqrt(total), 3 / (welch + 2 * hsu))


def of_jobs(without: Floats) -> Part | None:
    """Chance of a difference by jobs: the jackknife over blocks of them.

    without: the difference without each block. None where one of these is unknown (NaN).
    """
    blocks = len(without)
    if np.isnan(without).any():
        return None
    return Part(_WIDER * math.sqrt((blocks - 1) * _variance(without, 0)), blocks - 1)


def _variance(values: Floats, less: int) -> float:
    """Variance with so many degrees of freedom less than values; 0 where only rounding varies."""
    variance = float(np.var(values, ddof=less))
    return variance if variance > (_ROUNDING * float(np.abs(values).max())) ** 2 else 0.0


def _means(values: Floats, reach: float, which: int) -> tuple[Floats, Floats]:
    """Draws of the true mean of a configuration: as low, and as high, as its replicas leave it.

    The values have weights that are drawn from a Dirichlet distribution, together with one more value, as low or as high as one
    that no replica had may be (Gaffke 2005). So a group of values into which no replica fell is taken into account.

    reach: two replicas differ by at most so much
    which: 0 or 1, other draws
    """
    weights = _weights(len(values), which)
    ends = min(values.min(), values.max() - reach), max(values.max(), values.min() + reach)
    known = weights[:, 1:] @ values
    return known + weights[:, 0] * ends[0], known + weights[:, 0] * ends[1]


@lru_cache(maxsize=32)
def _weights(number: int, which: int) -> Floats:
    """(draws, number + 1)"""
    return np.random.default_rng([_SEED, number, which]).dirichlet(np.ones(number + 1), _DRAWS)


@lru_cache(maxsize=8)  # the questions about a metric ask for the same
def _beyond(values: Sequence[Sequence[float]], reaches: Sequence[float | None], *, is_log: bool) -> tuple[Floats, Floats]:
    """Draws of how far the difference of the true means may lie below and above that of the means, in ascending order.

    values, reaches: as in Chance
    """
    replicas_of = [np.array(replicas) for replicas in values]
    scale = np.log if is_log else np.asarray
    difference = float(scale(replicas_of[1].mean()) - scale(replicas_of[0].mean()))
    below, above = [], []
    # Both configurations have both sets of draws once, so that the order of the configurations does not matter.
    for which in (0, 1):
        both = zip(replicas_of, reaches, (which, 1 - which), strict=True)
        base, mean = (_means(replicas, reach or 0.0, draws) for replicas, reach, draws in both)
        below.append(difference - (scale(mean[0]) - scale(base[1])))
        above.append(scale(mean[1]) - scale(base[0]) - difference)
    return np.sort(np.concatenate(below)), np.sort(np.concatenate(above))


@dataclass(frozen=True)
class Chance:
    """The data on a metric of two configurations.

    values: of the replicas of each
    without: means of the replicas without each block of the jobs, NaN where the chance by jobs is not known; None for the chance of
        these jobs only
    errors: by how much the emulation may have changed the mean of each, from 0 on
    reaches: by how much two replicas of each may differ, as far as that does not follow from these replicas; None: not known
    """

    values: Sequence[Floats]
    without: Sequence[Floats] | None
    errors: tuple[float, float] = (0.0, 0.0)
    reaches: tuple[float | None, float | None] = (None, None)

    @property
    def is_replicated(self) -> bool:
        """Whether each configuration has two replicas or more."""
        return all(len(replicas) > 1 for replicas in self.values)

    @property
    def tells_equivalence(self) -> bool:
        """Whether equivalence may be claimed: it is known how far replicas differ, or there are many replicas.

        Replicas may fall into groups of values that lie apart. Where all of a few fall into one, their spread does not show the
        others.
        """
        return self.is_replicated and (None not in self.reaches or min(map(len, self.values)) >= MANY_REPLICAS)

    def repeated(self, times: int) -> Chance:
        """The same data with `times` as many replicas, which vary as these do."""
        return replace(self, values=[np.tile(replicas, times) for replicas in self.values])

    def difference(self) -> Estimate | None:
        """The difference of the means. None where no chance is known."""
        base, mean = (float(replicas.mean()) for replicas in self.values)
        without = None if self.without is None else self.without[1] - self.without[0]
        parts = self._parts(self.values, without, is_log=False)
        return None if parts is None else Estimate(mean - base, parts, sum(self.errors), base)

    def relative(self) -> Estimate | None:
        """The ratio of the means, on the logarithm, which is symmetric in the two configurations; where a mean is or may be 0 the
        difference.
        """
        base, mean = (float(replicas.mean()) for replicas in self.values)
        of_base, of_mean = self.errors
        reach = max(one or 0.0 for one in self.reaches)
        lowest = min(base - of_base, mean - of_mean, *(replicas.max() - reach for replicas in self.values))
        if lowest <= 0 or any((replicas <= 0).any() for replicas in self.without or []):
            return self.difference()
        without = None if self.without is None else np.log(self.without[1]) - np.log(self.without[0])
        parts = self._parts([self.values[0] / base, self.values[1] / mean], without, is_log=True)
        # The emulation may have changed the ratio by more at one end; the farther one holds for both.
        ends = [
            math.log1p(up) - math.log1p(-down) for up, down in ((of_mean / mean, of_base / base), (of_base / base, of_mean / mean))
        ]
        return None if parts is None else Estimate(math.log(mean / base), parts, max(ends), base, is_log=True)

    def _parts(self, values: Sequence[Floats], without: Floats | None, *, is_log: bool) -> tuple[Part, ...] | None:
        """Chance by replicas, and by jobs if these are asked about. None if nothing is known of it, or nothing varies."""
        by_jobs = None if without is None else of_jobs(without)
        if without is not None and by_jobs is None:
            return None
        by_replicas = of_replicas(values)
        if by_replicas is not None and self.tells_equivalence:
            replicas = tuple(tuple(one.tolist()) for one in self.values)
            below, above = _beyond(replicas, self.reaches, is_log=is_log)
            by_replicas = replace(by_replicas, below=below, above=above)
        parts = tuple(part for part in (by_replicas, by_jobs) if part is not None)
        return None if all(part.is_none for part in parts) else parts


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
