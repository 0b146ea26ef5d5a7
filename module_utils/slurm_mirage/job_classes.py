"""Metrics by class of jobs, size x run time: means over heavy tails mislead, and a scheduler treats these classes differently."""

from __future__ import annotations

from typing import Any

import polars as pl

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


def sizes(widest: int) -> dict[str, int]:
    """Classes of size up to the widest job or machine: name, and most processors: 1, 2-4, 5-16, ..., powers of four."""
    classes, most = {"1": 1}, 1
    while most < widest:
        classes[f"{most + 1}-{4 * most}"] = 4 * most
        most *= 4
    return classes


def by_class(jobs: pl.DataFrame, processors: int, tau: float, resolution: float) -> list[dict[str, Any]]:
    """A row for each class that has jobs, for all jobs of a size, all of a run time, and all (size or runtime `all`).

    jobs: columns a, s, f, t, p; processors: of the machine. Rows: size, runtime (names), size_max, runtime_max (their upper
    edges, null for none), jobs, area_share (of p*t), and the metrics of these jobs.
    """
    if jobs.is_empty():
        return []
    classes = sizes(max(processors, jobs.select(pl.col("p").max()).item()))
    w, r, t, p = pl.col("s") - pl.col("a"), pl.col("f") - pl.col("a"), pl.col("t"), pl.col("p")
    figures = (
        jobs.lazy()
        .select(
            size=_place(p, list(classes.values())),
            runtime=_place(t, [most for most in RUNTIMES.values() if most is not None]),
            w=w,
            r=r,
            b=(r / pl.max_horizontal(t, pl.lit(tau))).clip(1),
            x=p * t,
        )
        .collect()
    )
    total = figures.select(pl.col("x").sum()).item()
    measures = {
        "jobs": pl.len(),
        "area_share": pl.col("x").sum() / total if total > 0 else pl.lit(None, pl.Float64),
        "wait_mean": pl.col("w").mean(),
        "wait_median": pl.col("w").median(),
        "bounded_slowdown_mean": pl.col("b").mean(),
        "response_mean": pl.col("r").mean(),
        "immediate_fraction": (pl.col("w") < resolution).mean(),
    }
    size_names, runtime_names = list(classes.items()), list(RUNTIMES.items())
    rows = []
    for by in (["size", "runtime"], ["size"], ["runtime"]):
        for row in figures.group_by(by).agg(**measures).sort(by).iter_rows(named=True):
            size, size_max = size_names[row.pop("size")] if "size" in row else (ALL, None)
            runtime, runtime_max = runtime_names[row.pop("runtime")] if "runtime" in row else (ALL, None)
            rows.append({"size": size, "runtime": runtime, "size_max": size_max, "runtime_max": runtime_max, **row})
    whole = figures.select(**measures).row(0, named=True)
    return [*rows, {"size": ALL, "runtime": ALL, "size_max": None, "runtime_max": None, **whole}]


def _place(value: pl.Expr, edges: list[int]) -> pl.Expr:
    """Index of the class, by the number of edges below the value."""
    return pl.lit(pl.Series(edges, dtype=pl.Float64)).search_sorted(value.cast(pl.Float64), side="left").cast(pl.UInt8)
