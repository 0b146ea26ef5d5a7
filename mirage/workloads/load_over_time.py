"""How much of a machine was asked for, and how much of it was busy, over the time of a log."""

from __future__ import annotations

import polars as pl

# Lengths of the stretches over which load is told; at most _MOST of them.
_STEPS = (60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 28 * 86400)
_MOST = 100


def load_over_time(jobs: pl.DataFrame, processors: int) -> pl.DataFrame:
    """Columns begin, end (seconds of the log), offered, utilisation (shares of what the machine has between them).

    jobs: columns submit, wait, run_time, size, service (size x run time), null where unknown. offered: service units of
    the jobs submitted then; utilisation: processors busy by the record, null if no job has one. The stretches are
    equal, but the last is up to half a one longer or shorter, because it ends with the last submission. No rows if
    nothing is known, or all was submitted at once.
    """
    schema = dict.fromkeys(["begin", "end", "offered", "utilisation"], pl.Float64)
    known = jobs.filter(pl.col("submit").is_not_null() & pl.col("service").is_not_null())
    first, last = jobs.select(pl.col("submit").min(), pl.col("submit").max().alias("last")).row(0)
    if known.is_empty() or not last > first:
        return pl.DataFrame(schema=schema)
    span = last - first
    step = next((length for length in _STEPS if span <= _MOST * length), span / _MOST)
    count = max(1, round(span / step))
    edges = [k * step for k in range(count)] + [span]

    def stretch(time: pl.Expr) -> pl.Expr:
        inside = (time / step).floor().clip(0, count - 1)
        return pl.when(time >= span).then(pl.lit(float(count))).otherwise(inside).cast(pl.Int64)

    submitted = known.group_by(stretch(pl.col("submit") - first).clip(0, count - 1).alias("k")).agg(pl.col("service").sum())
    offered = dict(submitted.iter_rows())
    start = pl.col("submit") + pl.col("wait") - first
    ran = known.filter(pl.col("wait").is_not_null()).select("size", start=start, end=start + pl.col("run_time"))
    starts, ends = (
        ran.group_by(stretch(pl.col(at)).alias("k")).agg(pl.col("size").sum(), area=(pl.col("size") * pl.col(at)).sum())
        for at in ("start", "end")
    )
    busy = [_area_before(starts, edges, k) - _area_before(ends, edges, k) for k in range(count + 1)]
    rows = []
    for k in range(count):
        has = processors * (edges[k + 1] - edges[k])
        used = (busy[k + 1] - busy[k]) / has if ran.height else None
        rows.append((first + edges[k], first + edges[k + 1], offered.get(k, 0.0) / has, used))
    return pl.DataFrame(rows, schema=schema, orient="row")


def _area_before(changes: pl.DataFrame, edges: list[float], k: int) -> float:
    """Processor seconds up to edge k, if what changed before it (k, size, area = sum of size x time) had stayed."""
    before = changes.filter(pl.col("k") < k).select(pl.col("size", "area").sum())
    size, area = before.row(0)
    return float(size * edges[k] - area)
