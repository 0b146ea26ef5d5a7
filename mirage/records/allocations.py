"""Reads and checks allocations.csv: changes of jobs' sizes while they ran."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mirage.metrics.jobs_frame import ALLOCATIONS_SCHEMA
from mirage.traces.csv_frame import check_rows, read_csv


def read_allocations(path: Path, jobs: pl.DataFrame, parameter: str) -> pl.DataFrame:
    """The table, columns of `ALLOCATIONS_SCHEMA`.

    jobs: all jobs of the run, columns of `JOBS_SCHEMA`; parameter: the parameter that named the run, for messages
    Raises WrongUse with the file and the first wrong line.
    """
    table = read_csv(path, ALLOCATIONS_SCHEMA, parameter)
    spans = jobs.group_by(job="id").agg(pl.col("start", "end").first(), rows=pl.len())
    joined = table.join(spans, on="job", how="left", maintain_order="left")
    checks = {
        "job, from or processors is empty": pl.any_horizontal(pl.col("job", "from", "processors").is_null()),
        "processors may be 1 or more": pl.col("processors") < 1,
        "nodes may be 1 or more, or empty": pl.col("nodes") < 1,
        "there is no job {job} in jobs.csv": pl.col("rows").is_null(),
        "job {job} did not start": pl.col("start").is_null(),
        "from {from} is before the start of job {job}, {start}": pl.col("from") < pl.col("start"),
        "from {from} is after the end of job {job}, {end}": pl.col("from") > pl.col("end"),
        "job {job} has another line with from {from}": ~pl.struct("job", "from").is_first_distinct(),
    }
    check_rows(path, joined, checks, parameter)
    return table
