"""What each job of a run adds to its metrics, and the metrics of resamples of jobs; docs/comparison.md has the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from mirage.metrics import classes as job_classes
from mirage.statistics import bootstrap
from mirage.statistics.bootstrap import Floats

QUANTILES = {"wait_median": 0.5, "wait_p90": 0.9, "wait_p95": 0.95, "wait_p99": 0.99}
CLASS_METRICS = ("wait_mean", "bounded_slowdown_mean")
"""Metrics that are told for each class too: means over all of its jobs."""


@dataclass(frozen=True)
class Measures:
    """Metrics that are a ratio of sums over jobs: what each job adds above the line, and what to below it, by name."""

    above: dict[str, tuple[pl.Expr, str]]
    below: dict[str, pl.Expr]


def measures_of(frame: pl.DataFrame, settings: Mapping[str, Any]) -> Measures:
    """As docs/metrics.md defines them. A mean has 1 below the line for each job that counts.

    frame: columns of `Population.inside`. Metrics without a value for these jobs (suspensions that are not recorded) are left out.
    """
    a, s, f, t, p, c = (pl.col(name) for name in "asftpc")
    w, r, nodes = s - a, f - a, settings["nodes"]
    bound = pl.max_horizontal(t, pl.lit(float(settings["tau"])))
    order = job_order(t) if settings["w2_reading"] == "magnitude" else t.log()
    ran, ran_long = t > 0, t > 1
    above = {
        "wait_mean": (w, "all"),
        "response_mean": (r, "all"),
        "slowdown_mean": (pl.when(ran).then(r / t), "ran"),
        "bounded_slowdown_mean": ((r / bound).clip(1), "all"),
        "pp_bounded_slowdown_mean": ((r / (p * bound)).clip(1), "all"),
        "weighted_slowdown": (pl.when(ran).then(p * r), "area"),
        "weighted_slowdown_processors": (pl.when(ran).then(p * r / t), "processors"),
        "W": (w, "all"),
        "W1": (pl.when(ran_long).then(w / t), "ran long"),
        "W2": (pl.when(ran_long).then(w / order), "ran long"),
        "immediate_fraction": (w < settings["immediate_below"], "all"),
    }
    below = {
        "all": pl.lit(1.0),
        "ran": ran,
        "ran long": ran_long,
        "area": pl.when(ran).then(p * t),
        "processors": pl.when(ran).then(p),
        "suspended": pl.col("suspended").is_not_null(),
    }
    if nodes is not None:
        above["W4"] = (pl.when(ran_long).then(w / t * (nodes - c + 1).clip(0, nodes) / nodes), "ran long")
    if frame["suspended"].null_count() < frame.height:
        above["suspended_mean"] = (pl.col("suspended"), "suspended")
        above["suspended_fraction"] = (pl.col("suspended") > 0, "suspended")
    return Measures(above, below)


@dataclass(frozen=True)
class Draws:
    """The metrics of resamples of `frames`' jobs.

    above: (jobs, runs, metrics), below: (jobs, runs, kinds), kinds: for each metric the place of what is below its line; waits: of
    each run; narrow: (jobs, runs, metrics), those that are told for classes too; in_cells: the same in the order of cells
    """

    above: Floats
    below: Floats
    kinds: list[int]
    waits: list[bootstrap.Ordered]
    narrow: Floats
    in_cells: Floats
    cells: Cells

    @classmethod
    def of(cls, frames: Sequence[pl.DataFrame], measures: Sequence[Measures], names: Sequence[str], cells: Cells) -> Draws:
        below = list(measures[0].below)
        above = _columns(frames, [{name: one.above[name][0] for name in names} for one in measures])
        return cls(
            above,
            _columns(frames, [one.below for one in measures]),
            [below.index(measures[0].above[name][1]) for name in names],
            [bootstrap.Ordered.of(frame.select(pl.col("s") - pl.col("a")).to_series().to_numpy()) for frame in frames],
            narrow := above[:, :, [names.index(name) for name in CLASS_METRICS]],
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
        quantiles = np.stack([waits.quantiles(counts, list(QUANTILES.values())) for waits in self.waits], axis=1)
        weights = np.take(weights, self.cells.order, axis=1)
        bounds = list(zip(self.cells.begins, [*self.cells.begins[1:], jobs], strict=True))
        sums = np.stack([weights[:, one:end] @ self.in_cells[one:end] for one, end in bounds], axis=1)
        return (
            np.concatenate([bootstrap.ratios(above, below[:, :, self.kinds]), quantiles], axis=2),
            sums.reshape(rows, len(bounds), runs, -1),
            np.stack([weights[:, one:end].sum(axis=1) for one, end in bounds], axis=1),
        )


def _columns(frames: Sequence[pl.DataFrame], expressions: Sequence[Mapping[str, pl.Expr]]) -> Floats:
    """(jobs, runs, expressions); what is unknown adds nothing."""
    parts = [
        frame.select("id", **{name: one.cast(pl.Float64).fill_null(0) for name, one in some.items()}).drop("id").to_numpy()
        for frame, some in zip(frames, expressions, strict=True)
    ]
    return np.stack(parts, axis=1)


def together(sums: Floats, sizes: Floats, cells: Sequence[int]) -> Floats:
    """Means over the jobs of several cells: (resamples, runs, narrow metrics)."""
    return bootstrap.ratios(sums[:, cells].sum(axis=1), sizes[:, cells].sum(axis=1)[:, None, None])


def job_order(runtime: pl.Expr) -> pl.Expr:
    """10^floor(log10 t) of run times, seconds; by comparison, because log10(1000) comes out below 3."""
    powers = pl.lit(pl.Series([10.0**power for power in range(16)]))
    return powers.gather((powers.search_sorted(runtime, side="right").cast(pl.Int64) - 1).clip(0))


@dataclass(frozen=True)
class Cells:
    """The jobs by classes of size and run time, those without jobs left out.

    order: places of the jobs, cell by cell; begins: where each cell begins in it; keys: each one's (size, run time), numbers of
    rows of size_rows and runtime_rows (name, upper edge)
    """

    order: Any
    begins: list[int]
    keys: list[tuple[int, int]]
    size_rows: list[tuple[str, int]]
    runtime_rows: list[tuple[str, int | None]]


def cells_of(frames: Sequence[pl.DataFrame], processors: int) -> Cells:
    """A job's run time is the mean of all runs, so that it is in the same class in each."""
    widths = frames[0]["p"].to_numpy()
    sizes = job_classes.sizes(max(processors, int(widths.max())))
    wide = np.searchsorted(list(sizes.values()), widths, side="left")
    runtimes = np.mean([frame["t"].to_numpy() for frame in frames], axis=0)
    edges = [most for most in job_classes.RUNTIMES.values() if most is not None]
    long = np.searchsorted(edges, runtimes, side="left")
    cell = wide * len(job_classes.RUNTIMES) + long
    order = np.argsort(cell, kind="stable")
    found, begins = np.unique(cell[order], return_index=True)
    keys = [divmod(one, len(job_classes.RUNTIMES)) for one in found.tolist()]
    return Cells(order, begins.tolist(), keys, list(sizes.items()), list(job_classes.RUNTIMES.items()))


def classes_of(cells: Cells) -> list[tuple[dict[str, Any], list[int]]]:
    """Size and run time, all jobs of a size, all of a run time: names and upper edges as in metrics.json's classes, and cells."""
    every = (job_classes.ALL, None)
    found = []

    def add(size: tuple[str, int | None], runtime: tuple[str, int | None], of_these: list[int]) -> None:
        names = {"size": size[0], "runtime": runtime[0], "size_max": size[1], "runtime_max": runtime[1]}
        found.append((names, of_these))

    for place, (size, runtime) in enumerate(cells.keys):
        add(cells.size_rows[size], cells.runtime_rows[runtime], [place])
    for size in sorted({size for size, _ in cells.keys}):
        add(cells.size_rows[size], every, [place for place, key in enumerate(cells.keys) if key[0] == size])
    for runtime in sorted({runtime for _, runtime in cells.keys}):
        add(every, cells.runtime_rows[runtime], [place for place, key in enumerate(cells.keys) if key[1] == runtime])
    return found
