"""Computes offered load and recorded utilisation of a machine over the time of a log."""

from __future__ import annotations

import polars as pl

# Lengths in seconds of the intervals; a log is divided into at most _MOST of them.
_STEPS = (60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 28 * 86400)
_MOST = 100


def load_over_time(jobs: pl.DataFrame, processors: int | None) -> pl.DataFrame:
    """Offered load and utilisation in intervals of equal length, from the first to the last submission.

    `jobs` has the columns submit, wait, run_time, size, service (size x run time), null where unknown.

    Returns the columns begin, end (seconds of the log), offered (service units of the jobs submitted in the interval) and
    utilisation (recorded processor seconds in use; null if no job has a recorded wait), both as shares of the machine's processor
    seconds in the interval. The last interval is up to half an interval longer or shorter, as it ends with the last submission.
    There are no rows if the machine (`processors`) or the service units are not known, or if all jobs were submitted at the same
    instant.
    """
    schema = dict.fromkeys(["begin", "end", "offered", "utilisation"], pl.Float64)
    known = jobs.filter(pl.col("submit").is_not_null() & pl.col("service").is_not_null())
    first, last = jobs.select(pl.col("submit").min(), pl.col("submit").max().alias("last")).row(0)
    if processors is None or known.is_empty() or not last > first:
        return pl.DataFrame(schema=schema)
    span = last - first
    step = next((length for length in _STEPS if span <= _MOST * length), span / _MOST)
    count = max(1, round(span / step))
    edges = [k * step for k in range(count)] + [span]

    def interval(time: pl.Expr) -> pl.Expr:
        inside = (time / step).floor().clip(0, count - 1)
        return pl.when(time >= span).then(pl.lit(float(count))).otherwise(inside).cast(pl.Int64)

    submitted = known.group_by(interval(pl.col("submit") - first).clip(0, count - 1).alias("k")).agg(pl.col("service").sum())
    offered = dict(submitted.iter_rows())
    start = pl.col("submit") + pl.col("wait") - first
    ran = known.filter(pl.col("wait").is_not_null()).select("size", start=start, end=start + pl.col("run_time"))
    starts, ends = (
        ran.group_by(interval(pl.col(at)).alias("k")).agg(pl.col("size").sum(), area=(pl.col("size") * pl.col(at)).sum())
        for at in ("start", "end")
    )
    busy = [_area_before(starts, edges, k) - _area_before(ends, edges, k) for k in range(count + 1)]
    rows = []
    for k in range(count):
        capacity = processors * (edges[k + 1] - edges[k])
        used = (busy[k + 1] - busy[k]) / capacity if ran.height else None
        rows.append((first + edges[k], first + edges[k + 1], offered.get(k, 0.0) / capacity, used))
    return pl.DataFrame(rows, schema=schema, orient="row")


def _area_before(changes: pl.DataFrame, edges: list[float], k: int) -> float:
    """Processor seconds up to edge k of the processors that changed before it.

    `changes` has, for each interval k, the sum of sizes (`size`) and of size x time (`area`) of the changes in it.
    """
    before = changes.filter(pl.col("k") < k).select(pl.col("size", "area").sum())
    size, area = before.row(0)
    return float(size * edges[k] - area)
