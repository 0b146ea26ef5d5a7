"""Compares the waits of an emulated schedule with those that a log recorded for the same jobs; docs/results.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from mirage.metrics.jobs_frame import JOBS_SCHEMA, frame_from_swf
from mirage.traces.trace import Trace
from mirage.workloads import not_played
from slurm_mirage.base.errors import WrongUse

RECORDED_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    **dict.fromkeys(["submit", "start", "end"], pl.Float64()),
    "processors": pl.Int64(),
    "selected": pl.Boolean(),
}
"""Columns of recorded.csv: a row a job of the log that was in the real machine, waiting or running, in the time of the selected
ones; trace seconds, null where unknown."""

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


def recorded_of(trace: Trace, workload: pl.DataFrame) -> pl.DataFrame:
    """The log's record of the jobs of a workload (its `id`, `submit`; and `preset`, whose jobs are not compared) and of the other
    jobs that were in the machine at the same time: columns of RECORDED_SCHEMA.

    Raises WrongUse if the log has no wait of any of them.
    """
    log = frame_from_swf(trace.frame).select("id", "submit", "start", "end", "processors")
    log = log.unique("id", keep="first", maintain_order=True)
    wanted = workload.filter(pl.col("preset").fill_null("") == "") if "preset" in workload.columns else workload
    marked = log.join(wanted.select("id", selected=pl.lit(True)), on="id", how="left", maintain_order="left")
    marked = marked.with_columns(pl.col("selected").fill_null(False))
    selected = marked.filter("selected")
    if selected.drop_nulls(["submit", "start"]).is_empty():
        raise WrongUse("the log does not record how long these jobs waited", parameter="trace")
    begin, end = selected.select(pl.col("submit").min(), end=pl.max_horizontal(pl.col("end").max(), pl.col("submit").max())).row(0)
    is_present = pl.col("selected") | ((pl.col("submit") <= end) & (pl.coalesce("end", "submit") >= begin))
    return marked.filter(is_present).select(pl.col(name).cast(kind) for name, kind in RECORDED_SCHEMA.items())


def schedule_of(recorded: pl.DataFrame) -> pl.DataFrame:
    """The log's record of the selected jobs, as a jobs frame."""
    known = recorded.filter("selected").with_columns(state=pl.when(pl.col("end").is_not_null()).then(pl.lit("COMPLETED")))
    return known.select(
        (pl.col(name) if name in known.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in JOBS_SCHEMA.items()
    )


def paired(jobs: pl.DataFrame, recorded: pl.DataFrame) -> pl.DataFrame:
    """Columns id, log, emulation (waits in seconds), difference (emulation - log) of the jobs of which both are known.

    jobs: columns of jobs.csv. Negative waits, errors of a log, are left out.
    """
    log = recorded.filter("selected").select("id", log=pl.col("start") - pl.col("submit"))
    own = jobs.select("id", emulation=pl.col("start") - pl.col("submit"))
    both = own.join(log, on="id", maintain_order="left").drop_nulls()
    both = both.filter((pl.col("log") >= 0) & (pl.col("emulation") >= 0))
    return both.with_columns(difference=pl.col("emulation") - pl.col("log"))


def agreement(pairs: pl.DataFrame, recorded: pl.DataFrame, asked: Mapping[str, not_played.Count]) -> dict[str, Any]:
    """How far the waits agree: jobs, log_mean, emulation_mean, log_median, emulation_median, difference_mean, difference_median,
    within_minute, shorter, longer (shares of the jobs; shorter and longer by more than a minute), rank_correlation (Spearman;
    None if a side is constant), whole_minutes (the log's waits are nearly all of them), classes (a count for each of CLASSES);
    and of the real machine: others_at_begin, others_processors_at_begin (jobs beside the selection that ran when its first job
    was submitted), others_share (of the processor time used from the first submission to the last); and inconclusive (why the
    difference does not measure the error of the emulation; "" if it does).

    asked: requests of the jobs that were not emulated (metrics.json's `not_played`)
    """
    difference = pl.col("difference")
    row = pairs.select(
        log_mean=pl.col("log").mean(),
        emulation_mean=pl.col("emulation").mean(),
        log_median=pl.col("log").median(),
        emulation_median=pl.col("emulation").median(),
        difference_mean=difference.mean(),
        difference_median=difference.median(),
        within_minute=(difference.abs() <= 60).mean(),
        shorter=(difference < -60).mean(),
        longer=(difference > 60).mean(),
        whole_minutes=(pl.col("log") % 60 == 0).mean() > 0.95,
        rank_correlation=pl.corr("log", "emulation", method="spearman"),
    ).row(0, named=True)
    correlation = row["rank_correlation"]
    known = correlation is not None and correlation == correlation
    return {
        "jobs": pairs.height,
        **row,
        "rank_correlation": correlation if known else None,
        "classes": _classes(pairs["difference"]),
        **_others(recorded),
        "inconclusive": not_played.inconclusive(asked),
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
    ran = recorded.drop_nulls()
    others = ran.filter(~pl.col("selected"))
    at_begin = others.filter((pl.col("start") <= begin) & (pl.col("end") > begin))
    inside = (pl.min_horizontal("end", pl.lit(last)) - pl.max_horizontal("start", pl.lit(begin))).clip(0) * pl.col("processors")
    used, by_others = (float(frame.select(inside.sum()).item() or 0.0) for frame in (ran, others))
    return {
        "others_at_begin": at_begin.height,
        "others_processors_at_begin": int(at_begin["processors"].sum()),
        "others_share": by_others / used if used else None,
    }
