"""Reads the CSV files of a run into data frames; an error names the file and the line."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from slurm_mirage.base.errors import WrongUse


def read_csv(path: Path, schema: Mapping[str, pl.DataType], knob: str, optional: tuple[str, ...] = ()) -> pl.DataFrame:
    """The file as a data frame with the columns of `schema`; empty fields are null. Columns named in `optional` may be missing
    and are null then. `knob` is the knob that named the file; messages begin with it.

    Raises WrongUse with the line number for a missing column or a value of another type.
    """
    check_lines(path, knob)
    try:
        text = pl.read_csv(path, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise WrongUse(f"{knob}: {path}: is not a CSV file ({str(error).splitlines()[0]})") from error
    text = text.with_columns(pl.lit(None, pl.String).alias(column) for column in optional if column not in text.columns)
    missing = [column for column in schema if column not in text.columns]
    if missing:
        raise WrongUse(f"{knob}: {path} line 1: lacks the columns {', '.join(missing)}")
    text = text.select(*schema)
    frame = text.select(_cast(column, kind) for column, kind in schema.items())
    for column, kind in schema.items():
        bad = frame[column].is_null() & text[column].is_not_null()
        if bad.any():
            row = bad.arg_true()[0]
            expected = "true or false" if kind == pl.Boolean else "a number"
            raise WrongUse(f"{knob}: {path} line {row + 2}: {column} {text[column][row]!r} is not {expected}")
    return frame


def check_lines(path: Path, knob: str) -> None:
    """Raises WrongUse for the first line whose number of fields differs from the heading's, and for a file that cannot be read.

    polars accepts a short line and fills the missing fields with nulls.
    """
    try:
        with path.open(newline="", errors="surrogateescape") as stream:
            lines = csv.reader(stream)
            columns = len(next(lines, []))
            for fields in lines:
                if len(fields) != columns:
                    raise WrongUse(f"{knob}: {path} line {lines.line_num}: has {len(fields)} fields, the heading has {columns}")
    except csv.Error as error:
        raise WrongUse(f"{knob}: {path} line {lines.line_num}: {error}") from error
    except OSError as error:
        raise WrongUse(f"{knob}: {path}: cannot be read ({error.strerror})") from error


def _cast(column: str, kind: pl.DataType) -> pl.Expr:
    if kind == pl.Boolean:
        return pl.col(column).replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    return pl.col(column).cast(kind, strict=False)
