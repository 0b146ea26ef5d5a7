"""Reads the CSV files of a run into data frames; an error names the file and the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from mirage.text.input_file import open_input
from slurm_mirage.base.errors import WrongUse

LARGEST = 1e15
"""The largest number with a fraction that is accepted; the smallest one is -LARGEST."""
_GIVEN = " is given"


def read_csv(path: Path, schema: Mapping[str, pl.DataType], parameter: str, optional: tuple[str, ...] = ()) -> pl.DataFrame:
    """The file as a data frame with the columns of `schema`; empty fields are null. Columns named in `optional` may be missing
    and are null then. `parameter` is the parameter that
    named the file, for messages.

    Raises WrongUse with the line number for a missing column, and for a value of another type, infinite or beyond LARGEST.
    """
    check_lines(path, parameter)
    try:
        text = pl.read_csv(path, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise WrongUse(f"{path}: is not a CSV file ({str(error).splitlines()[0]})", parameter=parameter) from error
    text = text.with_columns(pl.lit(None, pl.String).alias(column) for column in optional if column not in text.columns)
    missing = [column for column in schema if column not in text.columns]
    if missing:
        raise WrongUse(f"{path} line 1: lacks the columns {', '.join(missing)}", parameter=parameter)
    text = text.select(*schema)
    frame = text.select(_cast(column, kind) for column, kind in schema.items())
    given = text.select(pl.all().is_not_null().name.suffix(_GIVEN))
    # The first row with a fault in each column, or null.
    faults = frame.hstack(given).select(_is_bad(column, kind).arg_true().first().alias(column) for column, kind in schema.items())
    for column, row in faults.row(0, named=True).items():
        if row is not None:
            expected = "true or false" if schema[column] == pl.Boolean else "a number"
            raise WrongUse(f"{path} line {row + 2}: {column} {text[column][row]!r} is not {expected}", parameter=parameter)
    return frame


def check_rows(path: Path, rows: pl.DataFrame, faults: Mapping[str, pl.Expr], parameter: str) -> None:
    """Raises WrongUse for the first row, in the order of the file, that has a fault: message (with columns in braces) and test. The
    first fault of a row that applies is named."""
    number = pl.lit(len(faults), pl.Int64)
    for place, fault in reversed(list(enumerate(faults.values()))):
        number = pl.when(fault).then(pl.lit(place, pl.Int64)).otherwise(number)
    faults_found = rows.select(number).to_series()
    if (wrong := (faults_found < len(faults)).arg_true()).len():
        line = wrong[0]
        message = list(faults)[faults_found[line]].format(**rows.row(line, named=True))
        raise WrongUse(f"{path} line {line + 2}: {message}", parameter=parameter)


def check_lines(path: Path, parameter: str) -> None:
    """Raises WrongUse for the first line whose number of fields differs from the heading's, and for a file that cannot be read.

    polars accepts a short line and fills the missing fields with nulls.
    """
    try:
        with open_input(path, parameter) as file, io.TextIOWrapper(file, errors="surrogateescape", newline="") as stream:
            lines = csv.reader(stream)
            columns = len(next(lines, []))
            for fields in lines:
                if len(fields) != columns:
                    raise WrongUse(
                        f"{path} line {lines.line_num}: has {len(fields)} fields, the heading has {columns}", parameter=parameter
                    )
    except csv.Error as error:
        raise WrongUse(f"{path} line {lines.line_num}: {error}", parameter=parameter) from error


def _is_bad(column: str, kind: pl.DataType) -> pl.Expr:
    """Whether the text of a field is no value of this type, or a number beyond LARGEST.

    The frame has the values, null for such texts, and a column NAME + _GIVEN: whether the field has a text.
    """
    bad = pl.col(column).is_null() & pl.col(column + _GIVEN)
    return bad | ~pl.col(column).is_between(-LARGEST, LARGEST).fill_null(True) if kind.is_float() else bad


def _cast(column: str, kind: pl.DataType) -> pl.Expr:
    if kind == pl.Boolean:
        return pl.col(column).replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    return pl.col(column).cast(kind, strict=False)
