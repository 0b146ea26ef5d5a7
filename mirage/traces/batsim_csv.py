"""Reads jobs.csv of Batsim, and of evalys, which writes the same columns, and job_statistics.csv of ElastiSim, as an SWF frame."""

from __future__ import annotations

import polars as pl

from mirage.traces import states, swf
from mirage.traces.unread import Unread, refuse_if_half
from slurm_mirage.base.errors import WrongUse

STATES = {
    "COMPLETED_SUCCESSFULLY": "COMPLETED",
    "COMPLETED_FAILED": "FAILED",
    "COMPLETED_WALLTIME_REACHED": "TIMEOUT",
    "COMPLETED_KILLED": "CANCELLED",
    "completed": "COMPLETED",
}
"""Slurm's states by Batsim's and ElastiSim's. Others keep their name: a job with REJECTED never was in the queue."""

_NAMES = {
    "number": ("job_id", "jobID", "ID"),
    "submit": ("submission_time", "Submit Time"),
    "start": ("starting_time", "Start Time"),
    "end": ("finish_time", "End Time"),
    "waited": ("waiting_time", "Wait Time"),
    "executed": ("execution_time", "Makespan"),
    "limit": ("requested_time",),
    "asked": ("requested_number_of_resources", "requested_number_of_processors", "Nodes"),
    "allocated": ("allocated_resources", "allocated_processors"),
    "success": ("success",),
    "final_state": ("final_state", "Status"),
}
"""Names of columns in releases of Batsim and evalys, and in ElastiSim, whose nodes are processors here."""
_NUMBERS = ("submit", "start", "end", "waited", "executed", "limit", "asked")


def is_heading(line: str) -> bool:
    fields = {field.strip('" \r') for field in line.split(",")}
    return bool(fields & set(_NAMES["submit"])) and bool(fields & set(_NAMES["number"]))


def parse_batsim(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """The jobs as an SWF frame with the additional column `state` (states.py), an empty header, the number of jobs by oddity, and
    the lines left out. Error messages call the file `name`.

    A job without a start, or with -1, never started. Raises WrongUse for a heading without the columns that are needed, and if half
    of the lines or more cannot be read.
    """
    try:
        text = pl.read_csv(
            b"\n" + data.lstrip(), skip_lines=1, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy"
        )
    except pl.exceptions.PolarsError as error:
        raise WrongUse(f"{name}: is not CSV ({str(error).splitlines()[0]})", parameter="trace") from error
    columns = {short: next((n for n in names if n in text.columns), None) for short, names in _NAMES.items()}
    missing = [_NAMES[short][0] for short in ("submit", "asked") if columns[short] is None]
    if columns["start"] is None and columns["waited"] is None:
        missing.append("starting_time or waiting_time")
    if columns["end"] is None and columns["executed"] is None:
        missing.append("finish_time or execution_time")
    if missing:
        raise WrongUse(f"{name} line 1: the heading of Batsim's jobs.csv lacks {', '.join(missing)}", parameter="trace")
    rows = text.select((pl.col(column) if column else pl.lit(None, pl.String)).alias(short) for short, column in columns.items())
    numbers = rows.with_columns(pl.col(short).cast(pl.Float64, strict=False) for short in _NUMBERS)
    col, when = pl.col, pl.when
    bad = numbers.select(~((col("submit") >= 0) & col("submit").is_finite()).fill_null(False)).to_series()
    lines = bad.arg_true()
    fault = "has no submission_time from 0 on"
    unread = Unread(rows.height, lines.len(), {row + 2: fault for row in lines.head(5)})
    if not rows.height:
        raise WrongUse(f"{name}: has no jobs, only a heading", parameter="trace")
    refuse_if_half(unread, name)
    jobs = numbers.filter(~bad).with_columns(when(col(short) < swf.LARGEST).then(short) for short in _NUMBERS)
    frame = _as_swf(jobs)
    notes = {"missing_header": 1, **swf.oddities(frame)}
    return frame, {}, {reason: count for reason, count in notes.items() if count}, unread


def _as_swf(jobs: pl.DataFrame) -> pl.DataFrame:
    col, when = pl.col, pl.when
    own = col("final_state").replace(STATES)
    by_success = when(col("success") == "1").then(pl.lit("COMPLETED")).when(col("success") == "0").then(pl.lit("FAILED"))
    start = pl.coalesce(when(col("start") >= 0).then("start"), when(col("waited") >= 0).then(col("submit") + col("waited")))
    end = pl.coalesce(when(col("end") >= 0).then("end"), when(col("executed") >= 0).then(start + col("executed")))
    # `0-3 7`: five resources.
    ranges = col("allocated").str.extract_all(r"[0-9]+(?:-[0-9]+)?")
    low = pl.element().str.extract(r"^([0-9]{1,9})").cast(pl.Int64)
    high = pl.coalesce(pl.element().str.extract(r"-([0-9]{1,9})$").cast(pl.Int64), low)
    columns = {
        "job_number": pl.coalesce(col("number").str.extract(r"([0-9]{1,15})$").cast(pl.Int64), pl.int_range(1, pl.len() + 1)),
        "submit": col("submit"),
        "wait": start - col("submit"),
        "run_time": end - start,
        "allocated_processors": when(start.is_not_null()).then(
            pl.coalesce(_above_0(ranges.list.eval(high - low + 1).list.sum()), _above_0(col("asked")))
        ),
        "requested_processors": _above_0(col("asked")),
        "requested_time": _above_0(col("limit")),
    }
    values = [columns.get(name, pl.lit(-1)).fill_null(-1).cast(kind).alias(name) for name, kind in swf.SCHEMA.items()]
    frame = jobs.select(*values, state=when(start.is_not_null() | (own != "COMPLETED")).then(pl.coalesce(own, by_success)))
    return frame.with_columns(status=col("state").replace_strict(states.SWF_STATUS, default=-1, return_dtype=pl.Int64))


def _above_0(value: pl.Expr) -> pl.Expr:
    return pl.when(value > 0).then(value)
