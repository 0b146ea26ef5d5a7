"""Reading a workload log or a schedule of any known format; its content decides which, not its name."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from . import metrics, sacct, sigsleep_log, swf
from .errors import WrongUse


@dataclass(frozen=True)
class Trace:
    """A log as read.

    frame: the jobs, in the file's order, as an SWF frame (`swf.SCHEMA`; sacct may add a column `suspended`)
    header: SWF header, label to value
    notes: the log's oddities, each with the number of jobs that it concerns
    format: "swf" or "sacct"
    sha256: of the file as it is, packed or not
    """

    frame: pl.DataFrame
    header: dict[str, str]
    notes: dict[str, int]
    format: str
    sha256: str

    def machine(self) -> tuple[int, int | None]:
        """Processors and nodes of the machine: MaxProcs and MaxNodes of the header.

        Without MaxProcs it is taken to have as many processors as the widest job, without MaxNodes its nodes
        are unknown (None).
        """
        widest = self.frame.select(pl.max_horizontal("allocated_processors", "requested_processors").max())
        processors = _number(self.header.get("MaxProcs")) or max(1, int(widest.item()))
        return processors, _number(self.header.get("MaxNodes"))


def read_trace(path: Path | str) -> Trace:
    """Reads an SWF log or what `sacct -P` printed, plain or gzip. Raises WrongUse for anything else."""
    data, name = swf.load(path), str(path)
    kind = _kind(data, name)
    parse = {"swf": swf.parse_swf, "sacct": sacct.parse_sacct}[kind]
    frame, header, notes = parse(data, name)
    return Trace(frame, header, notes, kind, hashlib.sha256(Path(path).read_bytes()).hexdigest())


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


def _kind(data: bytes, name: str) -> str:
    """The format, by the first line that is neither blank nor an SWF comment; WrongUse if that is of none."""
    found = re.search(rb"^[ \t\r]*([^;\s].*)$", data, re.MULTILINE)
    if found is None or re.match(rb"[-+.\d]+(\s|$)", found[1]):
        return "swf"
    if {b"JobID", b"JobIDRaw"} & set(found[1].strip().split(b"|")):
        return "sacct"
    line = data.count(b"\n", 0, found.start(1)) + 1
    start = found[1][:30].decode("utf-8", "replace")
    raise WrongUse(f"TRACE: {name} line {line}: {start!r} is neither a job in SWF nor a heading of sacct -P with JobID")


def _number(value: str | None) -> int | None:
    """The number that a header's value begins with (`128 (and 2 for service)`), if it is above 0."""
    found = re.match(r"\d+", value or "")
    return int(found[0]) or None if found else None
