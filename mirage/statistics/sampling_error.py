"""Half widths of 95 % intervals of a single schedule's metrics, by resampling its jobs: for other jobs of the same kind.

The block bootstrap over the jobs in order of submission, and Student's t; docs/comparison-method.md has the method.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from mirage.metrics.formulas import Quantity, Settings, expression
from mirage.metrics.registry import METRICS, WAIT, job_value
from mirage.statistics import bootstrap, inference
from mirage.statistics.resampled_metrics import fewest_jobs, quantiles, sums_of

FEWEST_JOBS = 10
MOST_JOBS = 20_000
"""With more, resampling takes longer than the metrics themselves."""
TOO_FEW = f"fewer than {FEWEST_JOBS} jobs"
TOO_MANY = f"more than {MOST_JOBS:,} jobs: resampling them would take longer than the metrics"
NOT_OVER_JOBS = "the metric is no mean, ratio or quantile over jobs"
NO_DRAWS = "too few resamples of the jobs have a value"
_FROM_ONE = frozenset({"slowdown_mean", "bounded_slowdown_mean"})
ALL_EQUAL = "all resamples of the jobs have the same value"

_RESAMPLES, _SEED = 1000, 1


def half_widths(inside: pl.DataFrame, settings: Settings) -> dict[str, float | str]:
    """For each metric half the width of its interval, or why it has none. The same jobs give the same values.

    inside: columns of `Population.inside`
    """
    if inside.height < FEWEST_JOBS or inside.height > MOST_JOBS:
        return dict.fromkeys(METRICS, TOO_FEW if inside.height < FEWEST_JOBS else TOO_MANY)
    jobs = inside.sort("a", "id")
    sums, groups = sums_of(settings), quantiles()
    above = _columns(jobs, {name: one for name, (one, _) in sums.above.items()})
    below = _columns(jobs, sums.below)
    kinds = [list(sums.below).index(kind) for _, kind in sums.above.values()]
    ordered = [
        ([one.share for one in group.values()], bootstrap.Ordered.of(_column(jobs, next(iter(group.values())).quantity, settings)))
        for group in groups
    ]
    length = bootstrap.block_length([_column(jobs, one, settings) for one in (WAIT, job_value("bounded_slowdown_mean", settings))])
    blocks = bootstrap.Blocks(jobs.height, length, _RESAMPLES, _SEED)
    drawn = []
    for _, counts in blocks.counts():
        weights = counts.astype(np.float64)
        parts = [bootstrap.ratios(weights @ above, (weights @ below)[:, kinds])]
        parts += [values.quantiles(counts, shares) for shares, values in ordered]
        drawn.append(np.concatenate(parts, axis=1))
    draws = np.concatenate(drawn)
    widths: dict[str, float | str] = dict.fromkeys(METRICS, NOT_OVER_JOBS)
    for column, name in enumerate([*sums.above, *(name for group in groups for name in group)]):
        chance = inference.of_jobs(draws[:, column], blocks.number)
        if jobs.height < (fewest := fewest_jobs(name)):
            widths[name] = too_few(fewest)
        elif chance is None or not chance.error:
            widths[name] = NO_DRAWS if chance is None else ALL_EQUAL
        else:
            widths[name] = chance.half_width((1 - bootstrap.LEVEL) / 2)
    return widths


def beyond_range(name: str, value: float, width: float) -> str:
    """Why a half width is not valid: the interval would leave the range of the metric, as happens with few blocks of jobs in a
    transient; "" if it is valid."""
    least, most = (1.0, math.inf) if name in _FROM_ONE else (0.0, 1.0 if METRICS[name].is_share else math.inf)
    if value - width >= least and value + width <= most:
        return ""
    limits = f"{least:g}" if most == math.inf else f"{least:g} to {most:g}"
    return f"too few independent blocks of jobs: ± {width:.2g} would reach beyond {limits}"


def too_few(fewest: int) -> str:
    """The reason why a metric of fewer jobs has no half width."""
    return f"fewer than {fewest:,} jobs"


def _column(jobs: pl.DataFrame, quantity: Quantity, settings: Settings) -> bootstrap.Floats:
    return jobs.select(expression(quantity, settings)).to_series().cast(pl.Float64).to_numpy()


def _columns(jobs: pl.DataFrame, expressions: dict[str, pl.Expr]) -> bootstrap.Floats:
    """(jobs, expressions); unknown values add nothing."""
    return jobs.select(**{name: one.cast(pl.Float64).fill_null(0) for name, one in expressions.items()}).to_numpy()
