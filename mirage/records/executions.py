"""Reads and checks executions.csv: executions of jobs before their last one, whose work was lost."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mirage.metrics.jobs_frame import EXECUTIONS_SCHEMA
from mirage.traces.csv_frame import check_rows, read_csv


def read_executions(path: Path, jobs: pl.DataFrame, parameter: str) -> pl.DataFrame:
    """The table, columns of `EXECUTIONS_SCHEMA`.

    jobs: all jobs of the run, columns of `JOBS_SCHEMA`; parameter: the parameter that named the run, for messages
    Raises WrongUse with the file and the first wrong line.
    """
    table = read_csv(path, EXECUTIONS_SCHEMA, parameter)
    spans = jobs.group_by(job="id").agg(pl.col("submit").first(), last=pl.coalesce("start", "end").first(), rows=pl.len())
    joined = table.join(spans, on="job", how="left", maintain_order="left")
    checks = {
        "job, start or end is empty": pl.any_horizontal(pl.col("job", "start", "end").is_null()),
        "there is no job {job} in jobs.csv": pl.col("rows").is_null(),
        "end {end} is before start {start}": pl.col("end") < pl.col("start"),
        "start {start} is before the submission of job {job}, {submit}": pl.col("start") < pl.col("submit"),
        "end {end} is after {last}, the start of the last execution of job {job} or its cancellation": pl.col("end")
        > pl.col("last"),
    }
    check_rows(path, joined, checks, parameter)
    return table
