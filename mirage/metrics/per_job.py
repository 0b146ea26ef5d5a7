"""Evaluates the formulas over jobs: means, ratios of sums and order statistics of the measured jobs."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from mirage.metrics.formulas import (
    NO_INSTANTS,
    SUBSETS,
    Formula,
    Maximum,
    Mean,
    Quantile,
    RatioOfSums,
    Settings,
    Values,
    by_quantity,
    expression,
)


def over_jobs(jobs: pl.DataFrame, formulas: Mapping[str, Formula], settings: Settings) -> tuple[Values, dict[str, int]]:
    """The values of those formulas that are over jobs, and how many jobs are left out of some of them, by reason.

    jobs: columns of `Population.inside`, one row at least
    formulas: by the name of the metric
    """
    counts = jobs.lazy().select(
        **{subset.name: pl.len() if subset.condition is None else subset.condition.sum() for subset in SUBSETS}
    )
    number = counts.collect().row(0, named=True)
    values = _order_statistics(jobs, formulas, settings)
    sums = {name: formula for name, formula in formulas.items() if isinstance(formula, (Mean, RatioOfSums)) and name not in values}
    # Not lazily: the streaming engine adds in an order that changes from call to call, and so does the last digit of its sums.
    chosen = {name: formula.value(settings) for name, formula in sums.items()}
    values |= jobs.select(**chosen).row(0, named=True) if chosen else {}
    for name in values:
        formula = formulas[name]
        assert isinstance(formula, (Mean, RatioOfSums, Quantile, Maximum))
        if number[formula.jobs.name] == 0:
            values[name] = formula.jobs.reason
    if jobs["m"].has_nulls():
        values |= {name: NO_INSTANTS for name, formula in sums.items() if "m" in formula.value(settings).meta.root_names()}
    return values, {subset.excluded: jobs.height - number[subset.name] for subset in SUBSETS if subset.excluded}


def _order_statistics(jobs: pl.DataFrame, formulas: Mapping[str, Formula], settings: Settings) -> Values:
    """Quantiles and maxima, and the means of the same quantities: each quantity is sorted once, and added up in ascending order."""
    values: Values = {}
    statistics_of = {name: formula for name, formula in formulas.items() if isinstance(formula, (Quantile, Maximum))}
    for statistics in by_quantity(statistics_of):
        statistic = next(iter(statistics.values()))
        ascending = jobs.select(statistic.jobs.only(expression(statistic.quantity, settings))).to_series().drop_nulls().sort()
        values |= {name: formula.of(ascending) for name, formula in statistics.items()}
        for name, formula in formulas.items():
            if isinstance(formula, Mean) and formula.quantity is statistic.quantity and formula.jobs is statistic.jobs:
                values[name] = ascending.mean()
    return values
