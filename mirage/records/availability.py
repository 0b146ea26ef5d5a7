"""Reads and checks availability.csv: when nodes were out of service by events, and when they were emptied for maintenance."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mirage.metrics.availability import AVAILABILITY_SCHEMA, EMPTIED, OUT
from mirage.traces.csv_frame import check_rows, read_csv


def read_availability(path: Path, parameter: str) -> pl.DataFrame:
    """The table, columns of `AVAILABILITY_SCHEMA`. Raises WrongUse with the file and the first wrong line.

    parameter: the parameter that named the run, for messages
    """
    table = read_csv(path, AVAILABILITY_SCHEMA, parameter)
    checks = {
        "kind, begin or processors is empty": pl.any_horizontal(pl.col("kind", "begin", "processors").is_null()),
        f"kind may be {OUT!r} or {EMPTIED!r}, not {{kind!r}}": ~pl.col("kind").is_in([OUT, EMPTIED]),
        "end {end} is before begin {begin}": pl.col("end") < pl.col("begin"),
        "processors may be 0 or more, not {processors}": pl.col("processors") < 0,
    }
    check_rows(path, table, checks, parameter)
    return table
