"""Metrics by class of jobs, by size at the start and run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from mirage.metrics.formulas import Settings
from mirage.metrics.registry import WAIT, job_value

ALL = "all"
RUNTIMES = {
    "up to 1 min": 60,
    "1 to 10 min": 600,
    "10 min to 1 h": 3600,
    "1 to 6 h": 21_600,
    "6 h to 1 d": 86_400,
    "over 1 d": None,
}
"""Classes of run time: name, and longest run time in seconds; an edge belongs to the shorter class."""

# A value for each size (rows) and run time (columns); the last row is all sizes, the last column all run times.
_Matrix = npt.NDArray[np.float64]

Members = npt.NDArray[np.bool_]


def sizes(widest: int) -> dict[str, int]:
    """The most processors of each class of job sizes, by name: 1, 2-4, 5-16, ... (powers of four), until a class has `widest`."""
    classes, most = {"1": 1}, 1
    while most < widest:
        classes[f"{most + 1}-{4 * most}"] = 4 * most
        most *= 4
    return classes


_MEANS = ("wait_mean", "bounded_slowdown_mean", "response_mean", "immediate_fraction")


def by_class(jobs: pl.DataFrame, settings: Settings) -> list[dict[str, Any]]:
    """A row for each class that has jobs, for all jobs of a size, all of a run time, and all (size or runtime `all`).

    jobs: columns of `Population.inside`. Rows: size, runtime (names), size_max, runtime_max (their upper edges, null for none),
    jobs, area_share (of m*t; null if it is unknown for a job), and the metrics of these jobs. The size is that at the start.
    """
    if jobs.is_empty():
        return []
    classes = sizes(max(settings.processors, jobs.select(pl.col("p").max()).item()))
    rows: list[tuple[str, int | None]] = [*classes.items(), (ALL, None)]
    columns = [*RUNTIMES.items(), (ALL, None)]
    figures = _figures(jobs, list(classes.values()), settings)
    shape = len(classes), len(RUNTIMES)
    medians = _medians(figures, shape)
    count = _sums(figures["cell"], None, shape)
    area = None if figures["area"].has_nulls() else _sums(figures["cell"], figures["area"], shape)
    wait, bounded, response, immediate = (_sums(figures["cell"], figures[name], shape) for name in _MEANS)
    cells = [(i, j) for i in range(shape[0]) for j in range(shape[1])]
    margins = [*((i, shape[1]) for i in range(shape[0])), *((shape[0], j) for j in range(shape[1])), shape]
    return [
        {
            "size": rows[i][0],
            "runtime": columns[j][0],
            "size_max": rows[i][1],
            "runtime_max": columns[j][1],
            "jobs": int(count[i, j]),
            "area_share": float(area[i, j] / area[-1, -1]) if area is not None and area[-1, -1] > 0 else None,
            "wait_mean": float(wait[i, j] / count[i, j]),
            "wait_median": float(medians[i, j]),
            "bounded_slowdown_mean": float(bounded[i, j] / count[i, j]),
            "response_mean": float(response[i, j] / count[i, j]),
            "immediate_fraction": float(immediate[i, j] / count[i, j]),
        }
        for i, j in (*cells, *margins)
        if count[i, j] > 0
    ]


def members(processors: npt.NDArray[np.int64], runtimes: npt.NDArray[np.float64], rows: Sequence[Mapping[str, Any]]) -> Members:
    """(jobs, rows) whether a job of so many processors and so long a run time is in a class. rows: of `by_class`"""
    widest = max((row["size_max"] for row in rows if row["size"] != ALL), default=1)
    edges, longest = list(sizes(widest).values()), [most for most in RUNTIMES.values() if most is not None]
    size, runtime = np.searchsorted(edges, processors, side="left"), np.searchsorted(longest, runtimes, side="left")
    is_member = np.ones((len(processors), len(rows)), np.bool_)
    for place, row in enumerate(rows):
        if row["size"] != ALL:
            is_member[:, place] &= size == edges.index(row["size_max"])
        if row["runtime"] != ALL:
            is_member[:, place] &= runtime == list(RUNTIMES).index(row["runtime"])
    return is_member


def _figures(jobs: pl.DataFrame, widest: list[int], settings: Settings) -> pl.DataFrame:
    """Of each job its classes (size, runtime, cell, counted from 0), its area, its wait, and its values in the means."""
    longest = [most for most in RUNTIMES.values() if most is not None]
    values = jobs.lazy().select(
        size=_place(pl.col("p"), widest),
        runtime=_place(pl.col("t"), longest),
        area=pl.col("m") * pl.col("t"),
        wait=WAIT,
        **{name: job_value(name, settings) for name in _MEANS},
    )
    return values.with_columns(cell=pl.col("size") * len(RUNTIMES) + pl.col("runtime")).collect()


def _place(value: pl.Expr, edges: list[int]) -> pl.Expr:
    """Index of the class: the number of edges below the value. Comparing with all edges is faster than a search."""
    return pl.sum_horizontal((value > edge).cast(pl.UInt8) for edge in edges).cast(pl.UInt8)


def _sums(cell: pl.Series, values: pl.Series | None, shape: tuple[int, int]) -> _Matrix:
    """Sum of the values in each class, or number of jobs; numpy always adds them up in the order of the jobs."""
    weights = None if values is None else values.to_numpy()
    inner = np.bincount(cell.to_numpy(), weights, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    return np.block([[inner, inner.sum(axis=1, keepdims=True)], [inner.sum(axis=0, keepdims=True), inner.sum(keepdims=True)]])


def _medians(figures: pl.DataFrame, shape: tuple[int, int]) -> _Matrix:
    """Median wait of each class; NaN for a class without jobs."""
    medians = np.full((shape[0] + 1, shape[1] + 1), np.nan)
    for cell, median in figures.group_by("cell").agg(pl.col("wait").median()).iter_rows():
        medians[divmod(cell, shape[1])] = median
    for size, median in figures.group_by("size").agg(pl.col("wait").median()).iter_rows():
        medians[size, -1] = median
    for runtime, median in figures.group_by("runtime").agg(pl.col("wait").median()).iter_rows():
        medians[-1, runtime] = median
    medians[-1, -1] = figures["wait"].median()
    return medians
