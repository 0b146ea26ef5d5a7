"""Kinds of formulas of metrics: means, ratios of sums and order statistics over jobs, and values of a whole schedule.

A formula over jobs is written in columns of `Population.inside`: a submission, s start of the last execution, f end, t run time of
the last execution, p processors and c nodes at the start, m mean number of processors while the job ran, `suspended` time
suspended. Times are seconds of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl

from mirage.metrics.usage_over_time import MeasuredSchedule, mean_weighted
from mirage.metrics.values import NO_INSTANTS as NO_INSTANTS
from mirage.metrics.values import NO_LONG_JOB as NO_LONG_JOB
from mirage.metrics.values import NO_NODES as NO_NODES
from mirage.metrics.values import Settings as Settings
from mirage.metrics.values import Value as Value
from mirage.metrics.values import Values as Values

Quantity = pl.Expr | Callable[[Settings], pl.Expr]
"""A value of each job, for formulas: an expression, or a function that makes it from the settings."""


def expression(quantity: Quantity, settings: Settings) -> pl.Expr:
    return quantity if isinstance(quantity, pl.Expr) else quantity(settings)


@dataclass(frozen=True, eq=False)
class Jobs:
    """The jobs that a formula is over. Compared by identity.

    condition: None: all of them
    reason: why a metric over these jobs is null if there are none
    excluded: name in member `excluded` of metrics.json of the jobs that are left out; empty: they are not counted there
    is_implied: the quantities of formulas over these jobs are null for all other jobs anyway
    """

    name: str
    condition: pl.Expr | None = None
    reason: str = ""
    excluded: str = ""
    is_implied: bool = False

    def only(self, value: pl.Expr) -> pl.Expr:
        """The value for these jobs, null for others."""
        return value if self.condition is None or self.is_implied else pl.when(self.condition).then(value)


ALL = Jobs("all")
RAN = Jobs("ran", pl.col("t") > 0, "no job has a run time above 0", "run time of 0: not in the slowdowns")
RAN_LONG = Jobs("ran long", pl.col("t") > 1, NO_LONG_JOB, "run time up to 1 s: not in W1 to W4")
SUSPENSION_KNOWN = Jobs("suspended", pl.col("suspended").is_not_null(), "the schedule does not record suspensions", is_implied=True)
SUBSETS = (ALL, RAN, RAN_LONG, SUSPENSION_KNOWN)


@dataclass(frozen=True, eq=False)
class Mean:
    """Mean of a quantity over jobs."""

    quantity: Quantity
    jobs: Jobs = ALL

    def numerator(self, settings: Settings) -> pl.Expr:
        return self.jobs.only(expression(self.quantity, settings))

    def value(self, settings: Settings) -> pl.Expr:
        return self.numerator(settings).mean()


@dataclass(frozen=True, eq=False)
class RatioOfSums:
    """Sum of one quantity over jobs divided by the sum of another: a weighted mean."""

    above: Quantity
    below: Quantity
    jobs: Jobs = ALL

    def numerator(self, settings: Settings) -> pl.Expr:
        return self.jobs.only(expression(self.above, settings))

    def denominator(self, settings: Settings) -> pl.Expr:
        return self.jobs.only(expression(self.below, settings))

    def value(self, settings: Settings) -> pl.Expr:
        return self.numerator(settings).sum() / self.denominator(settings).sum()


@dataclass(frozen=True, eq=False)
class Quantile:
    """Quantile of a quantity over jobs, with linear interpolation between the two nearest jobs. share: from 0 to 1."""

    quantity: Quantity
    share: float
    jobs: Jobs = ALL

    def of(self, ascending: pl.Series) -> Any:
        return ascending.median() if self.share == 0.5 else ascending.quantile(self.share, "linear")


@dataclass(frozen=True, eq=False)
class Maximum:
    """Largest value of a quantity over jobs."""

    quantity: Quantity
    jobs: Jobs = ALL

    def of(self, ascending: pl.Series) -> Any:
        return ascending.max()


@dataclass(frozen=True, eq=False)
class MeanByNodes:
    """Mean over jobs that ran for more than 1 s of w / t times a factor that depends on the job's nodes c only.

    factor: needs the machine's number of nodes
    """

    factor: Callable[[int], pl.Expr]

    def numerator(self, nodes: int) -> pl.Expr:
        wait = pl.col("s") - pl.col("a")
        return RAN_LONG.only(wait / pl.col("t") * self.factor(nodes))


@dataclass(frozen=True, eq=False)
class OfSchedule:
    """A value of the whole schedule: an integral over time, or a count.

    of_waits: whether it depends on waits of jobs
    of_use: the value from processor seconds used in the window, processors of the machine, and the window's length, above 0; None
        if it does not follow from these
    """

    function: Callable[[MeasuredSchedule], Value]
    of_waits: bool = False
    of_use: Callable[[float, int, float], float] | None = None


def mean_by_nodes(schedule: MeasuredSchedule, formula: MeanByNodes) -> Value:
    """Value of a `MeanByNodes` formula."""
    if schedule.long_by_nodes.is_empty():
        return NO_LONG_JOB
    nodes = schedule.settings.nodes
    return NO_NODES if nodes is None else mean_weighted(schedule.long_by_nodes, formula.factor(nodes))


OrderStatistic = TypeVar("OrderStatistic", bound=Quantile | Maximum)


def by_quantity(formulas: Mapping[str, OrderStatistic]) -> list[dict[str, OrderStatistic]]:
    """Order statistics by name, those of the same quantity of the same jobs together: its values are sorted once."""
    groups: dict[tuple[int, str], dict[str, OrderStatistic]] = {}
    for name, formula in formulas.items():
        groups.setdefault((id(formula.quantity), formula.jobs.name), {})[name] = formula
    return list(groups.values())


Formula = Mean | RatioOfSums | Quantile | Maximum | MeanByNodes | OfSchedule
