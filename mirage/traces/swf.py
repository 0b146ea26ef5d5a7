"""Reads and writes logs in Standard Workload Format 2.2. The reader also accepts common deviations from the format.

The format is that of the Parallel Workloads Archive (Feitelson, Tsafrir, Krakov, "Experience with using the Parallel Workloads
Archive", JPDC 2014): a line per job, 18 numbers separated by white space, -1 for unknown values; `;` begins a comment; lines
`; Label: value` at the top are the header.

The frame that `read_swf` returns and `write_swf` takes has the 18 columns of `SCHEMA`, in the file's order and units (seconds, kB
per processor), with -1 for unknown values.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from mirage.text import output_file
from mirage.traces import log_text, swf_parts
from mirage.traces.swf_header import EPOCH, header_text, read_header, unknown_numbers
from mirage.traces.unread import Unread, refuse_if_half
from slurm_mirage.base.errors import WrongUse

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

# Options of polars.read_csv.
_AS_CSV: dict[str, Any] = {"separator": " ", "has_header": False, "comment_prefix": ";", "quote_char": None}
_PIECE = 1 << 18
_GZIP_LEVEL = 4  # takes a third of the time of level 6, for 7 % more bytes

_Words = TypeVar("_Words", str, list[str])
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BLANKS = bytes.maketrans(b"\t\r\f\v", b"    ")
_NAMED_FAULTS = 5  # number of lines whose faults are named
LARGEST = 2.0**53
"""A float holds every whole number up to this one."""
_NEEDED = ("job_number", "submit", "wait", "run_time", "allocated_processors", "requested_processors", "status")
_OTHERS = [column for column in COLUMNS if column not in _NEEDED]


def read_swf(path: Path | str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """Reads an SWF log, plain or gzip.

    Returns the jobs in the file's order (columns of `SCHEMA`, and `suspended` if `swf_parts.joined` joined lines), the header
    (label to value; several lines of one label are joined by newlines), the number of jobs by oddity (docs/formats.md), and what
    cannot be read: lines that are not jobs in SWF, which are left out, and fields that no job needs, which are -1. Raises WrongUse,
    with the line number, if half of the lines or more are left out: the file is not SWF.
    """
    return parse_swf(log_text.load(path).data, str(path))


def parse_swf(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """Parses the content of a file as `read_swf` does; error messages call the file `name`."""
    # The CSV reader unpacks data that begin with the signature of a compressed format; some of these signatures are text.
    if re.match(rb"\s*[^-+.0-9;\s]", data):
        line, fault = _fault_in_words(data, [0]).popitem()
        raise WrongUse(f"{name} line {line}: {fault}", parameter="trace")
    frame = _strict(data)
    notes: dict[str, int] = {}
    unread = Unread()
    if frame is None:
        frame, notes, unread = _lenient(data, name)
    frame, parts = swf_parts.joined(frame)
    header = read_header(data)
    if parts:
        header.pop("Preemption", None)  # it says that there are such lines
    notes = {
        "missing_header": int(not header),
        "numbers_of_the_header_unknown": unknown_numbers(header),
        "time_sliced": frame.height if header.get("Preemption", "").upper() == "TS" else 0,
        "partial_executions": parts,
        **notes,
        **oddities(frame),
    }
    return frame, header, {reason: count for reason, count in notes.items() if count}, unread


def _strict(text: bytes) -> pl.DataFrame | None:
    """The jobs, if every line is a comment or 18 numbers separated by single blanks, integers where SWF requires them; else None.

    Fast: the CSV reader parses the text directly. This is enough for most logs.
    """
    try:
        frame = pl.read_csv(text, schema=SCHEMA, **_AS_CSV)
    except pl.exceptions.PolarsError:
        return None
    return frame if frame.height and _faults(frame) is None else None


def _lenient(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, int], Unread]:
    """The jobs of any SWF text, the oddities that only the text shows, and the lines left out. Raises WrongUse with the line if it
    is not SWF."""
    text = _tidied(data)
    frame = _strict(text)
    if frame is not None:
        return frame, {}, Unread()
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
    unread = Unread(fields.height)
    fields, unknown = _without_unknown(fields, text)
    faults = _faults(fields.select(COLUMNS))
    if faults is not None:
        unread = Unread(fields.height, int(faults.sum()), _fault_in_words(data, faults.arg_true().head(_NAMED_FAULTS).to_list()))
        refuse_if_half(unread, name)
        fields, unknown = fields.filter(~faults), unknown.filter(~faults)
    places = fields.with_columns(unknown).filter(pl.col("unknown") > 0)["place"].head(_NAMED_FAULTS).to_list()
    field_faults = _in_words(data, places, _unknown_of) if places else {}
    unread = replace(unread, fields=int(unknown.sum()), field_faults=field_faults)
    real = fields.select(COLUMNS)
    whole = [c for c, kind in SCHEMA.items() if kind == _WHOLE]
    notes = {
        "extra_columns": fields.height - fields["extra"].null_count(),
        "fractions_rounded_up": real.filter(pl.any_horizontal(pl.col(c) != pl.col(c).floor() for c in whole)).height,
    }
    return real.with_columns(pl.col(c).ceil().cast(pl.Int64) for c in whole), notes, unread


def _without_unknown(fields: pl.DataFrame, text: bytes) -> tuple[pl.DataFrame, pl.Series]:
    """The fields, with the row's `place`, where fields that are not numbers of SWF, other than those of `_NEEDED`, are -1; and how
    many each row has. Lines with fewer than 18 fields are not changed. text: of `_tidied`"""
    bad = {column: ~(pl.col(column).abs() <= LARGEST).fill_null(False) for column in _OTHERS}
    unknown = fields.select(unknown=pl.sum_horizontal(bad.values())).to_series()
    fields = fields.with_row_index("place")
    if not unknown.sum():
        return fields, unknown
    options = _AS_CSV | {"separator": "\1", "extra_columns": "ignore", "truncate_ragged_lines": True}
    lines = pl.read_csv(text.replace(b"\1", b"?"), schema={"text": pl.String}, encoding="utf8-lossy", **options)
    whole = lines.select(pl.col("text").str.count_matches(" ", literal=True) >= len(COLUMNS) - 1).to_series()
    unknown = pl.select(pl.when(whole).then(unknown).otherwise(0).alias("unknown")).to_series()
    mended = (pl.when(test & whole).then(-1.0).otherwise(column).alias(column) for column, test in bad.items())
    return fields.with_columns(mended), unknown


def _tidied(data: bytes) -> bytes:
    """The text with single blanks between fields, without blanks around lines and without empty lines.

    Works on pieces of the text, so that a piece and its masks stay in the processor's cache.
    """
    pieces = []
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _PIECE) + 1 or data.find(b"\n", start) + 1 or len(data)
        piece = np.frombuffer(data[start:end].translate(_BLANKS), np.uint8)
        # First keep the last blank of each run, or the line break after it; then drop blanks and line breaks after a line break.
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


def _faults(frame: pl.DataFrame) -> pl.Series | None:
    """Whether each row has a field that is missing, not a finite number or too large, or a submission before second 0.

    None if all rows are valid. A submission of -1 is valid: unknown.
    """
    col = pl.col(COLUMNS)
    lowest, highest, total = (frame.lazy().select(of).collect().row(0) for of in (col.min(), col.max(), col.sum()))
    if (
        not any(frame.null_count().row(0))
        and min(lowest) >= -LARGEST
        and max(highest) <= LARGEST
        and all(map(isfinite, total))  # a NaN is in no minimum or maximum, but in the sum
        and lowest[_SUBMIT] >= -1
    ):
        return None
    bad = ~pl.all_horizontal((col.abs() <= LARGEST).fill_null(False)) | (pl.col("submit") < -1)
    return frame.select(bad).to_series()


def _fault_in_words(data: bytes, rows: list[int]) -> dict[int, str]:
    """What is wrong with the lines of these rows (ascending), which are not jobs in SWF, by line number."""
    return _in_words(data, rows, _fault_of)


def _in_words(data: bytes, rows: list[int], words: Callable[[bytes], _Words]) -> dict[int, _Words]:
    """`words` of the lines of these rows (ascending), by line number. Slow: called once."""
    lines = ((n, line) for n, line in enumerate(io.BytesIO(data), 1) if line.lstrip()[:1] not in (b"", b";"))
    wanted = set(rows)
    return {n: words(line) for row, (n, line) in enumerate(islice(lines, rows[-1] + 1)) if row in wanted}


def _fault_of(line: bytes) -> str:
    fields = line.decode("utf-8", "replace").split()
    for position, field in enumerate(fields[:18], 1):
        if COLUMNS[position - 1] in _NEEDED and _is_unknown(field):
            return f"field {position} ({field[:30]!r}) is not a number of SWF"
        if position == _SUBMIT + 1 and float(field) < -1:
            return f"field {position} ({field[:30]!r}) is a negative time; submission times begin at the log's second 0"
    return f"has {len(fields)} fields, a job in SWF has 18"


def _unknown_of(line: bytes) -> list[str]:
    """What is wrong with the fields of a job that are taken as unknown."""
    fields = list(enumerate(line.decode("utf-8", "replace").split()[:18], 1))
    bad = [(n, field) for n, field in fields if COLUMNS[n - 1] in _OTHERS and _is_unknown(field)]
    return [f"field {n} ({field[:30]!r}) is not a number of SWF" for n, field in bad]


def _is_unknown(field: str) -> bool:
    return not _NUMBER.fullmatch(field) or abs(float(field)) > LARGEST


def oddities(frame: pl.DataFrame) -> dict[str, int]:
    """Number of jobs by deviation from the format that occurs in real logs (docs/formats.md)."""
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
    ).row(0, named=True)
    return counts


def swf_content(frame: pl.DataFrame, header: dict[str, str]) -> bytes:
    """The jobs (columns of `SCHEMA`, others are ignored) as SWF 2.2. The same jobs give the same bytes.

    `swf_header.header_text` completes the header. Integers are written without decimals, other numbers with at most three, nulls
    as -1.
    """
    text = io.BytesIO()
    text.write(header_text(frame, header).encode())
    frame.select(_printed(frame[c]) for c in COLUMNS).write_csv(text, separator=" ", include_header=False, quote_style="never")
    return text.getvalue()


def write_swf(frame: pl.DataFrame, header: dict[str, str], path: Path | str) -> None:
    """Writes `swf_content` atomically, compressed by gzip if the name ends in .gz. Raises WrongUse if it cannot be written."""
    path = Path(path)
    data = swf_content(frame, header)
    try:
        output_file.write(path, gzip.compress(data, _GZIP_LEVEL, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise WrongUse(f"{path}: cannot be written ({error.strerror})", parameter="out") from error


def _printed(column: pl.Series) -> pl.Series:
    """The column as integers if all values are whole, which are written fast; else as text."""
    column = column.fill_null(-1)
    if column.dtype.is_integer():
        return column
    value = column.cast(pl.Float64).round(3)
    whole = value == value.floor()
    if whole.all():
        return value.cast(pl.Int64)
    text = pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(value.cast(pl.String))
    return value.to_frame().select(text.alias(value.name)).to_series()
