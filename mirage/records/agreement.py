"""How near a run comes to what the log records of its jobs; docs/results.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from mirage.records.recorded import schedule_of
from mirage.statistics import nearness
from mirage.workloads import not_played

CLASSES = {
    "over 6 h shorter": -21600.0,
    "1 to 6 h shorter": -3600.0,
    "10 min to 1 h shorter": -600.0,
    "1 to 10 min shorter": -60.0,
    "within 1 min": 60.0,
    "1 to 10 min longer": 600.0,
    "10 min to 1 h longer": 3600.0,
    "1 to 6 h longer": 21600.0,
    "over 6 h longer": None,
}
"""Classes of the difference of a wait, emulated less recorded: name, and upper edge in seconds. An edge is nearer to zero."""

_GPUS = r"(^| )(gpus|gpus_per_task|memory_per_gpu)=|(^| )gres=(\S*,)?gpu:"
"""Words of a request for GPUs."""
_DELAYS = ("begin_virtual", "hold_virtual")
"""Columns of a workload with delays that are taken from the log."""


def traits_of(workload: pl.DataFrame) -> pl.DataFrame:
    """What groups the jobs of a workload, for `nearness.nearness`: their user, the partition that they ask for by name, else by the
    log's number, whether they ask for GPUs, and whether they are held or begin later as in the log; null where the log does not
    say."""
    col = pl.col
    names: dict[str, pl.DataType] = {"user": pl.Int64(), "partition": pl.Int64(), "partition_name": pl.String()}
    names |= {"request": pl.String(), **dict.fromkeys(_DELAYS, pl.Float64())}
    known = workload.select(
        "id",
        *(
            (col(name) if name in workload.columns else pl.lit(None)).cast(kind, strict=False).alias(name)
            for name, kind in names.items()
        ),
    )
    number = pl.when(col("partition") >= 0).then(col("partition").cast(pl.String))
    return known.select(
        "id",
        user=pl.when(col("user") >= 0).then("user"),
        partition=pl.coalesce(pl.when(col("partition_name") != "").then("partition_name"), number),
        has_gpus=col("request").str.contains(_GPUS).fill_null(False),
        is_copied=pl.any_horizontal(col(*_DELAYS).is_not_null()),
    )


def within(jobs: pl.DataFrame, metrics: Mapping[str, Any]) -> pl.DataFrame:
    """The jobs that were submitted in the window of metrics.json."""
    window = metrics["settings"]["window"]
    return jobs if window is None else jobs.filter(pl.col("submit").is_between(*window))


def nearness_of(
    jobs: pl.DataFrame, recorded: pl.DataFrame, workload: pl.DataFrame, metrics: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The member `nearness` of metrics.json: what `nearness.nearness` returns, `inconclusive` (why the differences do not measure
    the error of the emulation; "" if they do) and `played_in_full` (share of the processor time of jobs whose requests are all
    emulated). None if no job has a wait in the run and in the log.

    jobs: columns of jobs.csv; workload: workload.csv; metrics: the other members of metrics.json
    """
    near = nearness.nearness(within(jobs, metrics), schedule_of(recorded), traits_of(workload), metrics["settings"]["processors"])
    asked = metrics["not_played"]
    played = 1.0 - asked.get(not_played.ANY, {"share": 0.0})["share"]
    return None if near is None else {**near, "inconclusive": not_played.inconclusive(asked), "played_in_full": played}


def agreement(pairs: pl.DataFrame, recorded: pl.DataFrame) -> dict[str, Any]:
    """About the waits of a run and of the log: whole_minutes (the log's waits are nearly all of them) and classes (a count for each
    of CLASSES). About the real machine: others_at_begin, others_processors_at_begin (jobs beside the selection that ran when its
    first job was submitted), and others_share (of the processor time used from the first submission to the last).

    pairs: of `nearness.pairs_of`
    """
    return {
        "whole_minutes": bool(pairs.select(((pl.col("record") % 60 == 0).mean() > 0.95).fill_null(False)).item()),
        "classes": _classes(pairs["difference"]),
        **_others(recorded),
    }


def _classes(difference: pl.Series) -> dict[str, int]:
    """An edge belongs to the class that is nearer to zero."""
    counts: dict[str, int] = {}
    before = 0
    for name, edge in CLASSES.items():
        below = difference.len() if edge is None else int(((difference < edge) if edge < 0 else (difference <= edge)).sum())
        counts[name] = below - before
        before = below
    return counts


def _others(recorded: pl.DataFrame) -> dict[str, Any]:
    begin, last = recorded.filter("selected").select(pl.col("submit").min(), last=pl.col("submit").max()).row(0)
    ran = recorded.drop_nulls(["submit", "start", "end", "processors"])
    others = ran.filter(~pl.col("selected"))
    at_begin = others.filter((pl.col("start") <= begin) & (pl.col("end") > begin))
    inside = (pl.min_horizontal("end", pl.lit(last)) - pl.max_horizontal("start", pl.lit(begin))).clip(0) * pl.col("processors")
    used, by_others = (float(frame.select(inside.sum()).item() or 0.0) for frame in (ran, others))
    return {
        "others_at_begin": at_begin.height,
        "others_processors_at_begin": int(at_begin["processors"].sum()),
        "others_share": by_others / used if used else None,
    }
