"""Metrics over jobs, from what each job adds to the sums of a metric: over all of them, over parts, and over classes of jobs."""

from __future__ import annotations

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
from mirage.statistics.intervals import Floats, ratios
from mirage.statistics.other_jobs import BLOCKS, CYCLES, blocks, cycles, first_third

CLASS_METRICS = ("wait_mean", "bounded_slowdown_mean")
"""Metrics that are compared for each class too: means over all of its jobs."""
FOR_OTHER_JOBS = tuple(name for name, metric in METRICS.items() if metric.for_other_jobs)


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


def values(jobs: pl.DataFrame, settings: Settings) -> dict[str, float]:
    """The means, ratios of sums and quantiles over the jobs, by name; NaN where no job has a value. jobs: of `Population.inside`"""
    sums = sums_of(settings)
    above = columns(jobs, {name: one for name, (one, _) in sums.above.items()}).sum(axis=0)
    below = dict(zip(sums.below, columns(jobs, sums.below).sum(axis=0).tolist(), strict=True))
    means = ratios(above, np.array([below[kind] for _, kind in sums.above.values()]))
    found = dict(zip(sums.above, means.tolist(), strict=True))
    for group in quantiles():
        column = jobs.select(expression(next(iter(group.values())).quantity, settings)).to_series().to_numpy()
        found |= zip(group, np.quantile(column, [one.share for one in group.values()]).tolist(), strict=True)
    return found


@dataclass(frozen=True)
class ForOthers:
    """What is known of the metrics FOR_OTHER_JOBS.

    cycles: independent cycles of the queue for each
    rest, without: over the jobs after the first third, and over these without each block (blocks, metrics); NaN where a part has no
        job with a value, and where a metric has too few cycles
    """

    cycles: Floats
    rest: Floats
    without: Floats

    @classmethod
    def of(cls, jobs: pl.DataFrame, settings: Settings) -> ForOthers:
        """jobs: of `Population.inside`, in order of submission"""
        sums, metrics = sums_of(settings), len(FOR_OTHER_JOBS)
        above = {name: sums.above[name][0] for name in FOR_OTHER_JOBS}
        below = {f"below {name}": sums.below[sums.above[name][1]] for name in FOR_OTHER_JOBS}
        first = jobs[first_third(jobs.height)]
        number = cycles(first["a"].to_numpy(), first["s"].to_numpy(), columns(first, above))
        if number.max() < CYCLES:
            return cls(number, np.full(metrics, np.nan), np.full((BLOCKS, metrics), np.nan))
        found = np.array([columns(jobs[block], above | below).sum(axis=0) for block in blocks(jobs.height)])
        parts = np.concatenate([found.sum(axis=0, keepdims=True), found.sum(axis=0) - found])
        means = np.where(number >= CYCLES, ratios(parts[:, :metrics], parts[:, metrics:]), np.nan)
        return cls(number, means[0], means[1:])


def columns(jobs: pl.DataFrame, expressions: Mapping[str, pl.Expr]) -> Floats:
    """(jobs, expressions); unknown values add nothing."""
    known = {name: one.cast(pl.Float64).fill_null(0) for name, one in expressions.items()}
    return jobs.select("id", **known).drop("id").to_numpy()


def class_sums(jobs: Sequence[pl.DataFrame], settings: Settings, cells: Cells) -> Floats:
    """Sums of CLASS_METRICS over the jobs of each cell (cells, runs, metrics). jobs: of each run, the same ones in one order"""
    above = sums_of(settings).above
    narrow = np.stack([columns(frame, {name: above[name][0] for name in CLASS_METRICS}) for frame in jobs], axis=1)
    return np.add.reduceat(narrow[cells.order], cells.begins, axis=0)


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
