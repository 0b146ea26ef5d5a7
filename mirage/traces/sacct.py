"""Converts output of `sacct -P` or `sacct -p`, with any set of columns in any order (sacct(1)), to SWF.

Every field of SWF that sacct's output has is filled. Times become seconds since the first submission. Names of users, groups,
partitions and QOS become numbers in alphabetical order; the header lists the names of partitions and QOS.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mirage.traces import log_text, sacct_requests, swf
from mirage.traces.sacct_table import DURATION, MEMORY, date, read_table
from mirage.traces.unread import Unread

# Slurm's final job states as SWF's status.
_STATUS = {
    "COMPLETED": 1,
    "CANCELLED": 5,
    **dict.fromkeys(["FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED"], 0),
    **dict.fromkeys(["REQUEUED", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"], 0),
}
# States of jobs that have not ended. sacct --truncate prints an end for them too: the end of the requested time.
_LIVE = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD",
    "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "POWER_UP_NODE",
)  # fmt: skip
_STATES = (*_STATUS, *_LIVE, "RESIZING")
_TEXT = ("User", "UID", "Group", "GID", "Partition", "QOS")
_USED = (
    *_TEXT, "JobID", "JobIDRaw", "End", "Elapsed", "ElapsedRaw", "Suspended", "State", "Timelimit", "TimelimitRaw",
    "AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "ReqTRES", "AllocNodes", "NNodes", "ReqNodes", "ReqMem", "SubmitLine",
)  # fmt: skip
# Source columns of the frame's additional columns.
_ADDED = {
    "suspended": ("Suspended",),
    "nodes": ("AllocNodes", "NNodes", "AllocTRES"),
    "held": ("Eligible", "Reason"),
}
_ARRAYS = ("array_job", "array_task", "array_limit")
# sbatch accepts any unambiguous prefix of a long option, and takes the next word as its value. A bare number after -d is ignored:
# it may be an option of the job script.
_DEPENDENCY = r"""(?:^|\s)(?:--dep[a-z]*[=\s]\s*['"]?([A-Za-z0-9][^\s'"]*)|-d\s*['"]?((?:after|singleton|expand)[^\s'"]*))"""
_ARRAY_LIMIT = r"(?:^|\s)(?:--array[=\s]|-a)\s*[0-9][0-9,:-]*%([0-9]{1,9})(?:\s|$)"


def read_sacct(path: Path | str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """Reads `sacct -P` or `-p` text, plain or gzip.

    Required columns: JobID or JobIDRaw, Submit, Start, one of End, Elapsed and ElapsedRaw, and one of AllocCPUS, NCPUS, ReqCPUS,
    AllocTRES and ReqTRES. docs/formats.md lists the optional ones.

    Returns the jobs in the file's order as an SWF frame (`swf.SCHEMA`), an SWF header, the number of jobs by oddity, and the lines
    that are left out because they cannot be read. The frame has these additional columns where sacct's output has their source:

    suspended: seconds; not part of `run_time`, like sacct's Elapsed
    nodes: allocated nodes; -1 if none or unknown
    array_job, array_task: 7 and 3 for JobID 7_3; null for other jobs
    array_limit: the most tasks of the job's array that may run at once; null if not limited
    dependency: the value of sbatch's --dependency; null for other jobs
    held: whether the job was cancelled while it waited and never could start (`sacct_requests.held`)
    not_played: kinds of requests that a replay does not play (`sacct_requests.KINDS`), a list; only if a job has one

    Raises WrongUse, with the line number, if half of the lines or more cannot be read unambiguously.
    """
    return parse_sacct(log_text.load(path).data, str(path))


def parse_sacct(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """Parses the content of a file as `read_sacct` does; error messages call the file `name`."""
    table = read_table(data, name)
    facts = _facts(table.jobs)
    known = facts.filter(pl.col("submit").is_not_null())
    frame = _as_swf(known)
    notes = {
        **table.notes,
        "submission_unknown": facts.height - known.height,
        "pending_arrays": known.filter("several").height,
        "cancelled_before_start": known.filter("unused").height,
        "not_ended": known.filter(~pl.col("over")).height,
        "requeued": known.filter(pl.col("state") == "REQUEUED").height,
        "state_unknown": known.filter(~pl.col("state").is_in(_STATES)).height,
        "suspended": frame.filter(pl.col("suspended") > 0).height,
        **swf.oddities(frame),
    }
    frame = frame.drop(name for name, sources in _ADDED.items() if not set(sources) & set(table.jobs.columns))
    for columns in (_ARRAYS, ("dependency",)):
        if frame[columns[0]].null_count() == frame.height:
            frame = frame.drop(columns)
    if frame["not_played"].list.len().sum() == 0:
        frame = frame.drop("not_played")
    return frame, _header(known), {reason: count for reason, count in notes.items() if count}, table.unread


def _duration(column: str) -> pl.Expr:
    """A column of durations in seconds; null for UNLIMITED, Partition_Limit and an empty field."""
    parts = pl.col(column).str.extract_groups(f"^{DURATION}$")
    days, hours, minutes, seconds = (parts.struct.field(part).cast(pl.Float64) for part in "1234")
    return days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds


def _number(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Float64, strict=False)


def _whole(column: str, pattern: str) -> pl.Expr:
    return pl.col(column).str.extract(pattern).cast(pl.Int64)


def _resource(column: str, kind: str) -> pl.Expr:
    """The amount of one kind (`cpu`) in a column of trackable resources (`cpu=16,mem=4000M,node=2`)."""
    return pl.col(column).str.extract(rf"(?:^|,){kind}=([0-9]{{1,15}})(?:,|$)").cast(pl.Float64)


def _scaled(number: pl.Expr, unit: pl.Expr, units: str) -> pl.Expr:
    """Multiplies a number by its unit, a letter of `units`: each is 1024 times the one before, the first is 1."""
    powers = {letter: 1024.0**power for power, letter in enumerate(units)}
    return number.cast(pl.Float64) * unit.replace_strict(powers, default=1.0, return_dtype=pl.Float64)


def _nodes(column: str) -> pl.Expr:
    text = pl.col(column).str
    return _scaled(text.extract(r"^([0-9.]+)"), text.extract(r"([KMG])$"), " KMG")


def _first_above_0(*values: pl.Expr) -> pl.Expr:
    return pl.coalesce(pl.when(value > 0).then(value) for value in values)


def _memory(nodes: pl.Expr, processors: pl.Expr) -> pl.Expr:
    """Requested memory per processor in kB."""
    parts = pl.col("ReqMem").str.extract_groups(f"^{MEMORY}$")
    number, unit, each = (parts.struct.field(part) for part in "123")
    memory = _scaled(number, pl.when(unit == "").then(pl.lit("M")).otherwise(unit), "KMGTP")
    asked = pl.when(each == "c").then(memory).when(each == "n").then(memory * nodes / processors).otherwise(memory / processors)
    parts = pl.col("ReqTRES").str.extract_groups(r"(?:^|,)mem=([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTP]?)(?:,|$)")
    number, unit = parts.struct.field("1"), parts.struct.field("2")
    of_job = _scaled(number, pl.when(unit == "").then(pl.lit("M")).otherwise(unit), "KMGTP")
    # ReqMem=0 means all memory of a node; ReqTRES has the amount.
    return _first_above_0(asked, of_job / processors)


def _facts(rows: pl.DataFrame) -> pl.DataFrame:
    """The values of each job as numbers, null where unknown.

    Boolean columns: `over`: the job has ended; `unused`: it was cancelled while it waited (sacct prints no start then, or, in
    older versions, the end as the start); `several`: the line stands for all waiting tasks of an array.
    """
    col = pl.col
    there = rows.columns
    rows = rows.with_columns(pl.lit("").alias(c) for c in (*_USED, "Eligible") if c not in there)
    state = col("State").str.extract(r"^([A-Z_]+|\?)")
    # A truncated state (OUT_OF_ME+) is the state with that prefix.
    cut = {word[:9]: word for word in _STATES}
    state = pl.when(col("State").str.ends_with("+")).then(state.replace(cut)).otherwise(state)
    allocated = _first_above_0(_number("AllocCPUS"), _number("NCPUS"), _resource("AllocTRES", "cpu"))
    asked = _first_above_0(_number("ReqCPUS"), _resource("ReqTRES", "cpu"), allocated)
    asked_nodes = _first_above_0(_nodes("ReqNodes"), _resource("ReqTRES", "node"), _nodes("NNodes"))
    array_limit = pl.coalesce(_whole("SubmitLine", _ARRAY_LIMIT), _whole("JobID", r"%([0-9]{1,9})\]$"))
    dependency = pl.coalesce(col("SubmitLine").str.extract(_DEPENDENCY, group) for group in (1, 2))
    # sacct prints whole seconds. A job with a dependency becomes eligible later as well.
    waits = (date("Eligible") > date("Submit") + 1) & dependency.is_null()
    facts = (
        rows.lazy()
        .select(
            *(pl.when(col(c) != "").then(col(c)).alias(c) for c in _TEXT),
            state=state,
            number=pl.coalesce(_number("JobIDRaw"), col("JobID").str.extract(r"^([0-9]+)").cast(pl.Float64)),
            several=col("JobID").str.contains("[", literal=True),
            # The components of a heterogeneous job (7+0) can be referred to by its number too.
            array_job=_whole("JobID", "^([0-9]{1,15})[_+]"),
            array_task=_whole("JobID", "^[0-9]+_([0-9]{1,15})$"),
            array_limit=array_limit,
            dependency=dependency,
            not_played=sacct_requests.not_played(there, array_limit, waits),
            submit=date("Submit"),
            start=date("Start"),
            end=date("End"),
            eligible=date("Eligible"),
            **({"Reason": col("Reason")} if "Reason" in there else {}),
            suspended=_duration("Suspended").fill_null(0),
            elapsed=pl.coalesce(_number("ElapsedRaw"), _duration("Elapsed")),
            limit=pl.coalesce(_number("TimelimitRaw") * 60, _duration("Timelimit")),
            allocated=allocated,
            asked=asked,
            nodes=_first_above_0(_nodes("AllocNodes"), _nodes("NNodes"), _resource("AllocTRES", "node")),
            memory=_memory(asked_nodes, asked),
        )
        .with_columns(
            elapsed=pl.coalesce("elapsed", col("end") - col("start") - col("suspended")),
            status=col("state").replace_strict(_STATUS, default=-1, return_dtype=pl.Int64),
            over=col("state").is_null() | col("state").is_in(_STATUS) | (~col("state").is_in(_LIVE) & col("end").is_not_null()),
        )
    )
    nothing = col("start").is_null() | (col("elapsed").fill_null(0) <= 0)
    unused = (col("status") == 5) & nothing
    return facts.with_columns(unused=unused, held=sacct_requests.held(there, unused, col("eligible"))).collect()


def _as_swf(facts: pl.DataFrame) -> pl.DataFrame:
    """The SWF columns and the additional ones; the wait of a job that never ran is its time in the queue."""
    col, when = pl.col, pl.when
    ran = ~col("unused")
    columns = {
        "job_number": col("number"),
        "submit": col("submit") - col("submit").min(),
        "wait": when(ran).then("start").otherwise("end") - col("submit"),
        "run_time": when(col("over") & ran).then("elapsed"),
        "allocated_processors": when(ran).then("allocated"),
        "requested_processors": col("asked"),
        "requested_time": when(col("limit") > 0).then("limit"),
        "requested_memory": when(col("memory") > 0).then("memory"),
        "status": col("status"),
        "user": pl.coalesce("User", "UID").rank("dense"),
        "group": pl.coalesce("Group", "GID").rank("dense"),
        "queue": col("QOS").rank("dense"),
        "partition": col("Partition").rank("dense"),
    }
    values = [columns.get(name, pl.lit(-1)).fill_null(-1).cast(kind).alias(name) for name, kind in swf.SCHEMA.items()]
    nodes = when(ran & col("start").is_not_null()).then("nodes").fill_null(-1).cast(pl.Int64)
    return facts.select(*values, "suspended", *_ARRAYS, "dependency", "held", "not_played", nodes=nodes)


def _header(facts: pl.DataFrame) -> dict[str, str]:
    """The SWF header: Unix time of the first submission (0: unknown), and the names of queues (QOS) and partitions by number."""
    first = facts.select(pl.col("submit").min()).item()
    header = {"UnixStartTime": f"{first or 0:.0f}", "Conversion": "from sacct; its times, taken as UTC"}
    for label, column in (("Queue", "QOS"), ("Partition", "Partition")):
        names = facts[column].drop_nulls().unique().sort().to_list()
        if names:
            header[label] = "\n".join(f"{number} {name}" for number, name in enumerate(names, 1))
    return header
