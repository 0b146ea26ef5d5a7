"""Reading a schedule, what happened to jobs, from a log, a run or the jobs' own record; its content decides which."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from . import metrics, sigsleep_log
from .errors import WrongUse
from .trace import read_trace


@dataclass(frozen=True)
class Schedule:
    """What happened to the jobs, from a log or a run, as `metrics.compute` takes it.

    jobs: columns of `metrics.JOBS_SCHEMA`
    suspensions: job, suspend, resume; None if not known
    processors, nodes: of the machine; None if not known
    format: "swf", "sacct", "run" (jobs.csv) or "sigsleep"
    notes: oddities of the file, counted
    """

    jobs: pl.DataFrame
    suspensions: pl.DataFrame | None
    processors: int | None
    nodes: int | None
    format: str
    notes: dict[str, int]


def read_schedule(path: Path | str) -> Schedule:
    """Reads the schedule in a log with waits (SWF, sacct), a run's jobs.csv (and the suspensions.csv beside it), or
    the log of sigsleep. Raises WrongUse for anything else, with the line where there is one.
    """
    path = Path(path)
    start = _start(path)
    if start.startswith(sigsleep_log.MAGIC):
        records, damage = sigsleep_log.read_log(path)
        notes = {"damaged_places": len(damage)} if damage else {}
        jobs = metrics.frame_from_sigsleep(records)
        return Schedule(jobs, metrics.suspensions_from_sigsleep(records), None, None, "sigsleep", notes)
    if start.startswith(b"id,"):
        beside = path.with_name("suspensions.csv")
        suspensions = _read_csv(beside, metrics.SUSPENSIONS_SCHEMA) if beside.exists() else None
        return Schedule(_read_csv(path, metrics.JOBS_SCHEMA), suspensions, None, None, "run", {})
    trace = read_trace(path)
    processors, nodes = trace.machine()
    return Schedule(metrics.frame_from_swf(trace.frame), None, processors, nodes, trace.format, trace.notes)


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError as error:
        raise WrongUse(f"TRACE: {path}: cannot be read ({error.strerror})") from error


def _read_csv(path: Path, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """The columns of a run's CSV file, empty fields as null; WrongUse with the line for what is not of the schema."""
    try:
        text = pl.read_csv(path, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise WrongUse(f"TRACE: {path}: is not a CSV file ({str(error).splitlines()[0]})") from error
    missing = [column for column in schema if column not in text.columns]
    if missing:
        raise WrongUse(f"TRACE: {path} line 1: lacks the columns {', '.join(missing)}")
    text = text.select(*schema)
    frame = text.select(pl.col(column).cast(kind, strict=False) for column, kind in schema.items())
    for column in schema:
        bad = frame[column].is_null() & text[column].is_not_null()
        if bad.any():
            row = bad.arg_true()[0]
            raise WrongUse(f"TRACE: {path} line {row + 2}: {column} {text[column][row]!r} is not a number")
    return frame
