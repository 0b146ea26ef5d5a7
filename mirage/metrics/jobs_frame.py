"""Tables of a schedule: jobs, suspensions and changes of size, from logs and from sigsleep's records."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mirage.traces import states
from slurm_mirage.jobs.sigsleep_log import Record

JOBS_SCHEMA: dict[str, pl.DataType] = {
    "id": pl.Int64(),
    **dict.fromkeys(["submit", "eligible", "start", "end", "suspended"], pl.Float64()),
    **dict.fromkeys(["processors", "nodes"], pl.Int64()),
    **dict.fromkeys(["requested", "runtime"], pl.Float64()),
    **dict.fromkeys(["priority", "partition", "state"], pl.String()),
    "submit_lag": pl.Float64(),
    "preset": pl.String(),
}
"""Columns of jobs.csv: one row per job, times in trace seconds, null where unknown. `start`, `end` and `suspended` are those of the
last execution; a job that was cancelled in the queue after a requeue has no start, and its end is the cancellation. `processors`
and `nodes` are the size at the start; `state` is Slurm's job state; `preset`: state at the beginning of the run's selection of a
job that was submitted before it (workloads/presets.py), null for all others."""

SUSPENSIONS_SCHEMA: dict[str, pl.DataType] = {"job": pl.Int64(), "suspend": pl.Float64(), "resume": pl.Float64()}
"""Columns of suspensions.csv: one row per suspension in any execution, times in trace seconds, null where unknown."""

EXECUTIONS_SCHEMA: dict[str, pl.DataType] = {"job": pl.Int64(), "start": pl.Float64(), "end": pl.Float64()}
"""Columns of executions.csv: one row per execution of a job before its last one, whose work was lost, times in trace seconds."""

ALLOCATIONS_SCHEMA: dict[str, pl.DataType] = {
    "job": pl.Int64(),
    "from": pl.Float64(),
    "nodes": pl.Int64(),
    "processors": pl.Int64(),
}
"""Columns of allocations.csv: one row per change of a job's size; `from`: instant of the change in trace seconds; `nodes` and
`processors`: size of the job from then on, nodes null where unknown. The size before the first change is that of jobs.csv."""

WAITS_SCHEMA: dict[str, pl.DataType] = {
    "job": pl.Int64(),
    "from": pl.Float64(),
    "to": pl.Float64(),
    "cause": pl.String(),
    "reason": pl.String(),
}
"""Columns of waits.csv, times in trace seconds. reason: the manager's own word for a limit and the like, or the setting that kept
the backfill scheduler from reaching the job; else empty."""

_SWF_STATES = {0: "FAILED", 1: "COMPLETED", 5: "CANCELLED"}


def frame_from_swf(trace: pl.DataFrame) -> pl.DataFrame:
    """The schedule recorded in a log, as a jobs frame. trace: an SWF frame, with the columns that sacct adds if the log is sacct's.

    A wait of -1 is unknown (and so is the start); other negative waits are kept, for `compute` to report. A job without a run time
    that ended in a state of `states.ENDED_WAITING` never started; its end is when it did. `numbered` makes numbers that differ.
    """
    col, when = pl.col, pl.when
    present = set(trace.columns)
    state = col("status").replace_strict(_SWF_STATES, default=None, return_dtype=pl.String)
    state = pl.coalesce("state", state) if "state" in present else state
    unused = (state.is_in(states.ENDED_WAITING) & (col("run_time") <= 0)).fill_null(False)
    waited = when(col("wait") != -1).then(col("submit") + col("wait"))
    suspended = col("suspended") if "suspended" in trace.columns else pl.lit(None, pl.Float64)
    columns = {
        "id": col("job_number"),
        "submit": when(col("submit") >= 0).then("submit"),
        "start": when(~unused).then(waited),
        "end": when(unused).then(waited).when(col("run_time") >= 0).then(waited + col("run_time") + suspended.fill_null(0)),
        "suspended": suspended,
        **({"eligible": col("eligible")} if "eligible" in present else {}),
        **({"nodes": when(col("nodes") > 0).then("nodes")} if "nodes" in present else {}),
        "processors": when(col("allocated_processors") > 0)
        .then("allocated_processors")
        .when(col("requested_processors") > 0)
        .then("requested_processors"),
        "requested": when(col("requested_time") > 0).then("requested_time"),
        "runtime": when(col("run_time") >= 0).then("run_time"),
        "partition": when(col("partition") >= 0).then("partition"),
        "state": state,
    }
    return trace.select(columns.get(c, pl.lit(None)).cast(kind).alias(c) for c, kind in JOBS_SCHEMA.items())


def numbered(trace: pl.DataFrame) -> pl.DataFrame:
    """The SWF frame with job numbers that differ, if other tables refer to them: a repeated number becomes one above all others."""
    if not {"earlier", "resized"} & set(trace.columns):
        return trace
    number = pl.col("job_number")
    again = ~number.is_first_distinct()
    return trace.with_columns(job_number=pl.when(again).then(number.max() + again.cum_sum().cast(pl.Int64)).otherwise(number))


def executions_from_log(trace: pl.DataFrame) -> pl.DataFrame | None:
    """Executions before the last one (`EXECUTIONS_SCHEMA`) in a `numbered` frame of sacct's; None if no job had any."""
    if "earlier" not in trace.columns:
        return None
    rows = trace.select(job="job_number", lost="earlier").explode("lost").drop_nulls()
    executions = rows.select("job", start=pl.col("lost").struct.field("start"), end=pl.col("lost").struct.field("end"))
    return executions.sort("start", "job") if executions.height else None


def allocations_from_log(trace: pl.DataFrame) -> pl.DataFrame | None:
    """Changes of size (`ALLOCATIONS_SCHEMA`) in a `numbered` frame of sacct's; None if no job changed its size."""
    if "resized" not in trace.columns:
        return None
    rows = trace.select(job="job_number", change="resized").explode("change").drop_nulls()
    fields = {"from": "start", "nodes": "nodes", "processors": "allocated"}
    values = (pl.col("change").struct.field(old).cast(ALLOCATIONS_SCHEMA[new]).alias(new) for new, old in fields.items())
    allocations = rows.select("job", *values).drop_nulls(["from", "processors"])
    return allocations.sort("from", "job") if allocations.height else None


def frame_from_sigsleep(records: Sequence[Record]) -> pl.DataFrame:
    """The schedule in sigsleep's records (`sigsleep_log.read_log`), as a jobs frame, in seconds of its clock.

    Instants count from the first submission. Records of one submission (the job was requeued) make one row, with the start, end and
    time suspended of the last execution (`executions_from_sigsleep` has the others). A job that did not complete is CANCELLED: the
    log cannot tell a cancellation from a time limit, and does not know a cancellation in the queue.
    """
    if not records:
        return pl.DataFrame(schema=JOBS_SCHEMA)
    col, seconds = pl.col, 1e9
    ended = pl.when(col("completed").last()).then(pl.lit("COMPLETED")).otherwise(pl.lit("CANCELLED"))
    submissions = _runs(records).group_by("key", maintain_order=True)
    rows = submissions.agg(
        id=col("id").first(),
        submit=col("submit").first() / seconds,
        start=col("start").last() / seconds,
        end=col("end").last() / seconds,
        suspended=col("suspended").last() / seconds,
        processors=col("cores").last(),
        runtime=col("runtime").last() / seconds,
        priority=col("priority").last(),
        state=ended,
    )
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in JOBS_SCHEMA.items()
    ).sort("submit", "id")


def executions_from_sigsleep(records: Sequence[Record]) -> pl.DataFrame:
    """The executions before the last one of each submission in sigsleep's records, in order of starts, as in executions.csv.

    Seconds of the clock from the first submission, as in `frame_from_sigsleep`.
    """
    if not records:
        return pl.DataFrame(schema=EXECUTIONS_SCHEMA)
    earlier = _runs(records).filter(pl.int_range(pl.len()).over("key") < pl.len().over("key") - 1)
    return earlier.select(job="id", start=pl.col("start") / 1e9, end=pl.col("end") / 1e9).sort("start", "job")


def suspensions_from_sigsleep(records: Sequence[Record]) -> pl.DataFrame:
    """The suspensions in sigsleep's records: job, suspend, resume, as in suspensions.csv; null where unknown.

    Seconds of the clock from the first submission, as in `frame_from_sigsleep`.
    """
    origin = min((record.submission_ns for record in records), default=0)
    rows = [
        (number, *((instant - origin) / 1e9 if instant else None for instant in period))
        for number, record in zip(_numbers(records), records, strict=True)
        for period in record.suspensions
    ]
    return pl.DataFrame(rows, schema=SUSPENSIONS_SCHEMA, orient="row")


def _key(record: Record) -> str:
    """A key that is the same for all records of one submission."""
    return f"{record.id} {record.slurm_job_id} {record.submission_ns}"


def _numbers(records: Sequence[Record]) -> list[int]:
    """The job's number of each record. Where several submissions have one number, as in a log of several runs, the submissions are
    numbered from 1 on instead, in order of their first records: other tables refer to a job by its number."""
    keys = [_key(record) for record in records]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys), 1)}
    if len(places) == len({record.id for record in records}):
        return [record.id for record in records]
    return [places[key] for key in keys]


def _runs(records: Sequence[Record]) -> pl.DataFrame:
    """One row per record, the executions of a submission in their order, in nanoseconds from the first submission. `suspended` is
    from the instants of suspensions, if known."""
    origin = min((record.submission_ns for record in records), default=0)

    def suspended(record: Record) -> int:
        if record.overflowed or any(not (a and b) for a, b in record.suspensions):
            return record.end_ns - record.start_ns - record.executed_ns
        return sum(resume - suspend for suspend, resume in record.suspensions)

    return pl.DataFrame(
        {
            "key": [_key(record) for record in records],
            "restart": [record.restart for record in records],
            "id": _numbers(records),
            "submit": [record.submission_ns - origin for record in records],
            "start": [record.start_ns - origin for record in records],
            "end": [record.end_ns - origin for record in records],
            "suspended": [suspended(record) for record in records],
            "cores": [record.cores for record in records],
            "runtime": [record.runtime_ns for record in records],
            "priority": [record.priority for record in records],
            "completed": [record.completed for record in records],
        }
    ).sort("restart", maintain_order=True)
