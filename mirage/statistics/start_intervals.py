"""When a job starts, from its starts in a few courses of the queue: quantiles, and intervals of prediction.

A start that is yet to come is one more of the same kind as the K starts of the courses, so the share of courses before it has steps
of 1 / (K + 1). Between them the logarithm of the wait is interpolated on the scale of the normal distribution; beyond the first
and the last course it is extrapolated by its standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Times = NDArray[np.float64]

FIFTY, NINETY = (0.25, 0.75), (0.05, 0.95)
"""Quantiles at the bounds of the intervals that hold 50 and 90 % of the starts."""
UNIT = 60.0
"""Seconds below which differences of waits hardly count: log(1 + wait / UNIT) is interpolated."""


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the start that came. jobs: their number; fifty, ninety: shares that held."""

    jobs: int
    fifty: float
    ninety: float


def quantiles(waits: Times, wanted: Sequence[float]) -> Times:
    """Quantiles of the waits of jobs; a row for each job.

    waits: seconds, a row for each job, a column for each course; NaN: the job did not start in it. A quantile that such a course
    decides is infinite, those of a job that started in none are NaN.
    """
    courses = waits.shape[1]
    if courses < 1:
        raise ValueError("no course")
    known = np.isfinite(waits)
    logs = np.sort(np.where(known, np.log1p(np.maximum(waits, 0.0) / UNIT), np.inf), axis=1)
    spread = _deviation(logs)
    places = stats.norm.ppf(np.arange(1, courses + 1) / (courses + 1))
    uncertain = np.sqrt(1 + 1 / courses)  # the mean of so few is not known exactly
    columns = []
    for place in stats.norm.ppf(np.asarray(wanted)):
        after = int(np.searchsorted(places, place))
        if after in (0, courses):
            edge = min(after, courses - 1)
            columns.append(logs[:, edge] + (uncertain * place - places[edge]) * spread)
        else:
            low, high = logs[:, after - 1], logs[:, after]
            part = (place - places[after - 1]) / (places[after] - places[after - 1])
            rise = np.where(np.isfinite(high), high - np.where(np.isfinite(low), low, 0.0), np.inf)
            columns.append(low + part * rise if part > 0 else low)
    result: Times = UNIT * np.expm1(np.maximum(np.stack(columns, axis=1), 0.0))
    result[np.isinf(logs[:, 0])] = np.nan
    return result


def _deviation(logs: Times) -> Times:
    """The standard deviation of the finite values of each row; 0 for fewer than two."""
    known = np.isfinite(logs)
    count = known.sum(axis=1)
    mean = np.where(known, logs, 0.0).sum(axis=1) / np.maximum(count, 1)
    squares = np.where(known, logs - mean[:, None], 0.0) ** 2
    deviation: Times = np.sqrt(squares.sum(axis=1) / np.maximum(count - 1, 1))
    return deviation


def coverage(waits: Times, bounds: Times) -> Coverage:
    """Coverage of intervals. waits: seconds that jobs waited; bounds: of each job the quantiles FIFTY and NINETY, seconds. A wait
    that equals a bound within a second is held."""
    low, high, lowest, highest = bounds.T
    fifty = (waits >= low - 1) & (waits <= high + 1)
    ninety = (waits >= lowest - 1) & (waits <= highest + 1)
    return Coverage(int(waits.size), float(fifty.mean()), float(ninety.mean()))
