"""Standard Workload Format 2.2: reading logs as they are found, writing them as they should be.

The format is that of the Parallel Workloads Archive (Feitelson, Tsafrir, Krakov, "Experience with using the
Parallel Workloads Archive", JPDC 2014): one job a line, 18 numbers separated by white space, -1 for
unknown, `;` begins a comment, `; Label: value` at the top is the header.

The frame that `read_swf` returns and `write_swf` takes has the 18 columns of `SCHEMA`, in the file's order
and units (seconds, kB per processor), with -1 where the file says -1.
"""

from __future__ import annotations

import gzip
import io
import re
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mirage.traces import log_text
from mirage.traces.swf_header import EPOCH, header_text, read_header
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically

_WHOLE, _REAL = pl.Int64(), pl.Float64()

SCHEMA: dict[str, pl.DataType] = {
    "job_number": _WHOLE,
    "submit": _REAL,
    "wait": _REAL,
    "run_time": _REAL,
    "allocated_processors": _WHOLE,
    "average_cpu_time": _REAL,
    "used_memory": _REAL,
    "requested_processors": _WHOLE,
    "requested_time": _REAL,
    "requested_memory": _REAL,
    "status": _WHOLE,
    "user": _WHOLE,
    "group": _WHOLE,
    "executable": _WHOLE,
    "queue": _WHOLE,
    "partition": _WHOLE,
    "preceding_job": _WHOLE,
    "think_time": _REAL,
}
COLUMNS = list(SCHEMA)
_SUBMIT = COLUMNS.index("submit")

# Of polars.read_csv.
_AS_CSV: dict[str, Any] = {"separator": " ", "has_header": False, "comment_prefix": ";", "quote_char": None}
_PIECE = 1 << 18
_PACKED = 4  # gzip's level: a third of the time of level 6, for 7 % more bytes

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BLANKS = bytes.maketrans(b"\t\r\f\v", b"    ")
_LARGEST = 2.0**53  # beyond it a float no longer holds every whole number


def read_swf(path: Path | str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int]]:
    """Reads an SWF log, plain or gzip.

    Returns the jobs in the file's order (columns of `SCHEMA`), the header (label to value; the lines of a
    label that occurs several times, or goes on over several lines, are joined by newlines) and the oddities
    found, each with the number of jobs it concerns (see docs/formats.md). Raises WrongUse, with the line
    number, for what is not SWF.
    """
    return parse_swf(log_text.load(path).data, str(path))


def parse_swf(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int]]:
    """`read_swf` of a file's content; `name` is what errors call the file."""
    # The CSV reader would unpack what begins like one of the packed formats that it knows, some of which are text.
    if re.match(rb"\s*[^-+.0-9;\s]", data):
        raise _told(data, name, 0)
    frame = _strict(data)
    notes: dict[str, int] = {}
    if frame is None:
        frame, notes = _lenient(data, name)
    header = read_header(data)
    notes = {"missing_header": int(not header)} | notes | oddities(frame)
    return frame, header, {reason: count for reason, count in notes.items() if count}


def _strict(text: bytes) -> pl.DataFrame | None:
    """The jobs, if every line is 18 numbers between single blanks, whole where SWF wants them, or a comment; else None.

    That is the fast way: the text goes to a CSV reader as it is, and most logs need no other.
    """
    try:
        frame = pl.read_csv(text, schema=SCHEMA, **_AS_CSV)
    except pl.exceptions.PolarsError:
        return None
    return frame if frame.height and _fault(frame) is None else None


def _lenient(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, int]]:
    """The jobs of any SWF, and the oddities that only the text shows; WrongUse with the line if it is none."""
    text = _tidied(data)
    frame = _strict(text)
    if frame is not None:
        return frame, {}
    try:
        fields = pl.read_csv(
            text,
            schema={**dict.fromkeys(COLUMNS, pl.Float64), "extra": pl.String},
            missing_columns="insert",
            extra_columns="ignore",
            truncate_ragged_lines=True,
            ignore_errors=True,
            encoding="utf8-lossy",
            **_AS_CSV,
        )
    except pl.exceptions.NoDataError:
        fields = pl.DataFrame()
    if fields.height == 0:
        raise WrongUse(f"{name}: has no jobs, only comments", parameter="trace")
    real = fields.select(COLUMNS)
    fault = _fault(real)
    if fault is not None:
        raise _told(data, name, fault)
    whole = [c for c, kind in SCHEMA.items() if kind == _WHOLE]
    notes = {
        "extra_columns": fields.height - fields["extra"].null_count(),
        "fractions_rounded_up": real.filter(pl.any_horizontal(pl.col(c) != pl.col(c).floor() for c in whole)).height,
    }
    return real.with_columns(pl.col(c).ceil().cast(pl.Int64) for c in whole), notes


def _tidied(data: bytes) -> bytes:
    """The text with one blank between fields, none around a line and no empty line.

    Some lines at a time, so that they and the masks of them stay in the processor's cache.
    """
    pieces = []
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _PIECE) + 1 or data.find(b"\n", start) + 1 or len(data)
        piece = np.frombuffer(data[start:end].translate(_BLANKS), np.uint8)
        # Of a run of blanks the last, or a line break after it, stays; then nothing stays that follows a line break.
        space, line_break = piece == 32, piece == 10
        keep = ~space
        keep[:-1] |= ~(space | line_break)[1:]
        keep[-1] = True
        piece = piece[keep]
        line_break = piece == 10
        keep = ~(line_break | (piece == 32))
        keep[1:] |= ~line_break[:-1]
        pieces.append(piece[keep].tobytes().rstrip(b" "))
        start = end
    return b"".join(pieces)


def _fault(frame: pl.DataFrame) -> int | None:
    """The first row with a field that is missing, no number, not finite or too large, or with a submission before second 0.

    None if there is none. -1 is unknown also for a submission.
    """
    col = pl.col(COLUMNS)
    lowest, highest, total = (frame.lazy().select(of).collect().row(0) for of in (col.min(), col.max(), col.sum()))
    if (
        not any(frame.null_count().row(0))
        and min(lowest) >= -_LARGEST
        and max(highest) <= _LARGEST
        and all(map(isfinite, total))  # a NaN is in no minimum or maximum, but in the sum
        and lowest[_SUBMIT] >= -1
    ):
        return None
    bad = ~pl.all_horizontal((col.abs() <= _LARGEST).fill_null(False)) | (pl.col("submit") < -1)
    return frame.select(bad).to_series().arg_max()


def _told(data: bytes, name: str, row: int) -> WrongUse:
    """What is wrong in the line of this row. Slow, but needed at most once."""
    lines = ((n, line) for n, line in enumerate(io.BytesIO(data), 1) if line.lstrip()[:1] not in (b"", b";"))
    number, line = next(islice(lines, row, None))
    where = f"{name} line {number}:"
    fields = line.decode("utf-8", "replace").split()
    for position, field in enumerate(fields[:18], 1):
        if not _NUMBER.fullmatch(field) or abs(float(field)) > _LARGEST:
            return WrongUse(f"{where} field {position} ({field[:30]!r}) is not a number of SWF", parameter="trace")
        if position == _SUBMIT + 1 and float(field) < -1:
            return WrongUse(
                f"{where} field {position} ({field[:30]!r}) is a negative time: no submission is before the log's second 0",
                parameter="trace",
            )
    return WrongUse(f"{where} has {len(fields)} fields, a job in SWF has 18", parameter="trace")


def oddities(frame: pl.DataFrame) -> dict[str, int]:
    """Numbers of jobs that break the format's rules in the ways in which real logs do."""
    col = pl.col
    overrun = (col("requested_time") > 0) & (col("run_time") > col("requested_time"))
    counts: dict[str, int] = frame.select(
        submit_unknown=(col("submit") == -1).sum(),
        submit_negative=((col("submit") < 0) & (col("submit") != -1)).sum(),
        unsorted_submits=(col("submit").diff() < 0).sum(),
        epoch_submits=(col("submit") > EPOCH).sum(),
        repeated_numbers=pl.len() - col("job_number").n_unique(),
        allocated_unknown=((col("allocated_processors") <= 0) & (col("requested_processors") > 0)).sum(),
        processors_unknown=((col("allocated_processors") <= 0) & (col("requested_processors") <= 0)).sum(),
        run_time_unknown=(col("run_time") == -1).sum(),
        run_time_negative=((col("run_time") < 0) & (col("run_time") != -1)).sum(),
        wait_unknown=(col("wait") == -1).sum(),
        wait_negative=((col("wait") < 0) & (col("wait") != -1)).sum(),
        requested_time_unknown=(col("requested_time") <= 0).sum(),
        ran_over_requested_time=overrun.sum(),
        partial_executions=col("status").is_between(2, 4).sum(),
    ).row(0, named=True)
    return counts


def write_swf(frame: pl.DataFrame, header: dict[str, str], path: Path | str) -> None:
    """Writes the jobs (columns of `SCHEMA`, others are ignored) as SWF 2.2, gzip if the name ends in .gz.

    The header is as `swf_header.header_text` completes it. Whole numbers are written as such, others with at most three
    decimals, nulls as -1. The file appears complete or not at all, and the same jobs give the same bytes.
    """
    path = Path(path)
    text = io.BytesIO()
    text.write(header_text(frame, header).encode())
    frame.select(_printed(frame[c]) for c in COLUMNS).write_csv(text, separator=" ", include_header=False, quote_style="never")
    data = text.getvalue()
    try:
        write_atomically(path, gzip.compress(data, _PACKED, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise WrongUse(f"{path}: cannot be written ({error.strerror})", parameter="out") from error


def _printed(column: pl.Series) -> pl.Series:
    """Numbers as integers, if all are whole, so that they are written fast; else as text."""
    column = column.fill_null(-1)
    if column.dtype.is_integer():
        return column
    value = column.cast(pl.Float64).round(3)
    whole = value == value.floor()
    if whole.all():
        return value.cast(pl.Int64)
    text = pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(value.cast(pl.String))
    return value.to_frame().select(text.alias(value.name)).to_series()
