"""What a log records of the jobs of a run: recorded.csv; docs/results.md."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mirage.metrics.jobs_frame import JOBS_SCHEMA, frame_from_swf
from mirage.traces.csv_frame import read_csv
from mirage.traces.trace import Trace
from slurm_mirage.base.errors import WrongUse

RECORDED_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    **dict.fromkeys(["submit", "eligible", "start", "end"], pl.Float64()),
    "processors": pl.Int64(),
    "selected": pl.Boolean(),
}
"""Columns of recorded.csv: a row a job of the log that was in the real machine, waiting or running, in the time of the selected
ones; trace seconds, null where unknown. eligible: from when on the job could start."""


def recorded_of(trace: Trace, workload: pl.DataFrame) -> pl.DataFrame:
    """The log's record of the jobs of a workload (its `id`, `submit`; and `preset`, whose jobs are not compared) and of the other
    jobs that were in the machine at the same time: columns of RECORDED_SCHEMA.

    Raises WrongUse if the log has no wait of any of them.
    """
    log = frame_from_swf(trace.frame).select("id", "submit", "eligible", "start", "end", "processors")
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


def read_recorded(path: Path, parameter: str) -> pl.DataFrame:
    """recorded.csv. parameter: what names the file in messages. Raises WrongUse."""
    return read_csv(path, RECORDED_SCHEMA, parameter)


def schedule_of(recorded: pl.DataFrame) -> pl.DataFrame:
    """The log's record of the selected jobs, as a jobs frame."""
    known = recorded.filter("selected").with_columns(state=pl.when(pl.col("end").is_not_null()).then(pl.lit("COMPLETED")))
    return known.select(
        (pl.col(name) if name in known.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in JOBS_SCHEMA.items()
    )
