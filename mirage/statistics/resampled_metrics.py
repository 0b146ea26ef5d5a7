"""Metrics of resamples of jobs, from what each job adds to the sums of a metric; docs/comparison-method.md has the method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from mirage.metrics import classes as job_classes
from mirage.metrics.formulas import (
    ALL,
    RAN_LONG,
    SUBSETS,
    Mean,
    MeanByNodes,
    Quantile,
    RatioOfSums,
    Settings,
    by_quantity,
    expression,
)
from mirage.metrics.registry import METRICS
from mirage.statistics import bootstrap
from mirage.statistics.bootstrap import Floats

CLASS_METRICS = ("wait_mean", "bounded_slowdown_mean")
"""Metrics that are compared for each class too: means over all of its jobs."""
_BEYOND = 10  # jobs


@dataclass(frozen=True)
class Sums:
    """Metrics that are a ratio of sums over jobs, by name.

    above: what a job adds to the numerator, and the name of the denominator
    below: what a job adds to each denominator: 1 for a mean
    """

    above: dict[str, tuple[pl.Expr, str]]
    below: dict[str, pl.Expr]


def sums_of(settings: Settings) -> Sums:
    """All such metrics of the registry, in columns of `Population.inside`. W4 needs the machine's number of nodes."""
    above: dict[str, tuple[pl.Expr, str]] = {}
    below = {subset.name: pl.lit(1.0) if subset.condition is None else subset.condition for subset in SUBSETS}
    for name, metric in METRICS.items():
        formula = metric.formula
        if isinstance(formula, Mean):
            above[name] = formula.numerator(settings), formula.jobs.name
        elif isinstance(formula, RatioOfSums):
            above[name], below[name] = (formula.numerator(settings), name), formula.denominator(settings)
        elif isinstance(formula, MeanByNodes) and settings.nodes is not None:
            above[name] = formula.numerator(settings.nodes), RAN_LONG.name
    return Sums(above, below)


def quantiles() -> list[dict[str, Quantile]]:
    """The metrics that are quantiles over all jobs, by name, those of the same quantity together."""
    formulas = {name: metric.formula for name, metric in METRICS.items()}
    return by_quantity({name: one for name, one in formulas.items() if isinstance(one, Quantile) and one.jobs is ALL})


def fewest_jobs(name: str) -> int:
    """Smallest number of jobs for which resampling is valid: for a quantile, ten jobs have to be beyond it. With fewer jobs the
    quantile is close to the largest value, for which resampling fails."""
    formula = METRICS[name].formula
    return math.ceil(round(_BEYOND / (1 - formula.share), 6)) if isinstance(formula, Quantile) else 0


@dataclass(frozen=True)
class Draws:
    """The metrics of resamples of the jobs of some runs.

    above: (jobs, runs, metrics); below: (jobs, runs, denominators); kinds: place of each metric's denominator
    ordered: for each quantity that has quantiles the quantiles' shares, and the quantity's values in each run
    narrow: (jobs, runs, metrics) of the metrics that are compared for classes too; in_cells: the same in the order of cells
    """

    above: Floats
    below: Floats
    kinds: list[int]
    ordered: list[tuple[list[float], list[bootstrap.Ordered]]]
    narrow: Floats
    in_cells: Floats
    cells: Cells

    @classmethod
    def of(
        cls, frames: Sequence[pl.DataFrame], sums: Sums, groups: Sequence[Mapping[str, Quantile]], settings: Settings, cells: Cells
    ) -> Draws:
        """frames: columns of `Population.inside`, the same jobs in the same order for each run; groups: of `quantiles`."""
        below = list(sums.below)
        above = _columns(frames, {name: one for name, (one, _) in sums.above.items()})
        narrow = above[:, :, [list(sums.above).index(name) for name in CLASS_METRICS]]
        return cls(
            above,
            _columns(frames, sums.below),
            [below.index(kind) for _, kind in sums.above.values()],
            [
                ([one.share for one in group.values()], [_ordered(frame, next(iter(group.values())), settings) for frame in frames])
                for group in groups
            ],
            narrow,
            narrow[cells.order].reshape(len(narrow), -1),
            cells,
        )

    def drawn(self, counts: bootstrap.Counts) -> tuple[Floats, Floats, Floats]:
        """All metrics (resamples, runs, metrics), quantiles last; sums over the jobs of each cell (resamples, cells,
        runs, narrow metrics); and jobs in each cell (resamples, cells).
        """
        rows, (jobs, runs, _) = len(counts), self.above.shape
        weights = counts.astype(np.float64)
        above, below = ((weights @ part.reshape(jobs, -1)).reshape(rows, runs, -1) for part in (self.above, self.below))
        quantiles = [np.stack([values.quantiles(counts, shares) for values in of_runs], axis=1) for shares, of_runs in self.ordered]
        weights = np.take(weights, self.cells.order, axis=1)
        bounds = list(zip(self.cells.begins, [*self.cells.begins[1:], jobs], strict=True))
        sums = np.stack([weights[:, one:end] @ self.in_cells[one:end] for one, end in bounds], axis=1)
        return (
            np.concatenate([bootstrap.ratios(above, below[:, :, self.kinds]), *quantiles], axis=2),
            sums.reshape(rows, len(bounds), runs, -1),
            np.stack([weights[:, one:end].sum(axis=1) for one, end in bounds], axis=1),
        )


def _ordered(frame: pl.DataFrame, quantile: Quantile, settings: Settings) -> bootstrap.Ordered:
    return bootstrap.Ordered.of(frame.select(expression(quantile.quantity, settings)).to_series().to_numpy())


def _columns(frames: Sequence[pl.DataFrame], expressions: Mapping[str, pl.Expr]) -> Floats:
    """(jobs, runs, expressions); unknown values add nothing."""
    known = {name: one.cast(pl.Float64).fill_null(0) for name, one in expressions.items()}
    return np.stack([frame.select("id", **known).drop("id").to_numpy() for frame in frames], axis=1)


def together(sums: Floats, sizes: Floats, cells: Sequence[int]) -> Floats:
    """Means over the jobs of several cells: (resamples, runs, narrow metrics)."""
    return bootstrap.ratios(sums[:, cells].sum(axis=1), sizes[:, cells].sum(axis=1)[:, None, None])


@dataclass(frozen=True)
class Cells:
    """The jobs by class of size and run time; classes without jobs are left out.

    order: places of the jobs, cell by cell; begins: where each cell begins in it; keys: each one's (size, run time), numbers of
    rows of size_rows and runtime_rows (name, upper edge)
    """

    order: Any
    begins: list[int]
    keys: list[tuple[int, int]]
    size_rows: list[tuple[str, int]]
    runtime_rows: list[tuple[str, int | None]]


def cells_of(frames: Sequence[pl.DataFrame], processors: int) -> Cells:
    """Classes of the jobs by size at the start and mean run time of all runs, so that a job has the same class in each run."""
    widths = frames[0]["p"].to_numpy()
    sizes = job_classes.sizes(max(processors, int(widths.max())))
    wide = np.searchsorted(list(sizes.values()), widths, side="left")
    runtimes = np.mean([frame["t"].to_numpy() for frame in frames], axis=0)
    edges = [most for most in job_classes.RUNTIMES.values() if most is not None]
    long = np.searchsorted(edges, runtimes, side="left")
    cell = wide * len(job_classes.RUNTIMES) + long
    order = np.argsort(cell, kind="stable")
    distinct, begins = np.unique(cell[order], return_index=True)
    keys = [divmod(one, len(job_classes.RUNTIMES)) for one in distinct.tolist()]
    return Cells(order, begins.tolist(), keys, list(sizes.items()), list(job_classes.RUNTIMES.items()))


def classes_of(cells: Cells) -> list[tuple[dict[str, Any], list[int]]]:
    """Size and run time, all jobs of a size, all of a run time: names and upper edges as in metrics.json's classes, and cells."""
    every = (job_classes.ALL, None)
    classes = []

    def add(size: tuple[str, int | None], runtime: tuple[str, int | None], of_these: list[int]) -> None:
        names = {"size": size[0], "runtime": runtime[0], "size_max": size[1], "runtime_max": runtime[1]}
        classes.append((names, of_these))

    for place, (size, runtime) in enumerate(cells.keys):
        add(cells.size_rows[size], cells.runtime_rows[runtime], [place])
    for size in sorted({size for size, _ in cells.keys}):
        add(cells.size_rows[size], every, [place for place, key in enumerate(cells.keys) if key[0] == size])
    for runtime in sorted({runtime for _, runtime in cells.keys}):
        add(every, cells.runtime_rows[runtime], [place for place, key in enumerate(cells.keys) if key[1] == runtime])
    return classes
