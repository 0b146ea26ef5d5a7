"""Contents of a run's jobs.csv, the tables beside it, and schedule.swf. The same run gives the same bytes."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs
from polars import col

from mirage.records.aspects import tables
from mirage.records.file_names import (
    AVAILABILITY_FILE,
    EXECUTIONS_FILE,
    JOBS_FILE,
    SCHEDULE_FILE,
    SUSPENSIONS_FILE,
)
from mirage.records.record import RunRecord
from mirage.records.run_clock import EVENT
from mirage.traces import swf

_STATUS = {"COMPLETED": 1, "FAILED": 0, "TIMEOUT": 0, "NODE_FAIL": 0, "CANCELLED": 5}


def render(record: RunRecord, processors: int, nodes: int) -> dict[str, bytes]:
    """The files' content, by name; `processors` and `nodes` of the machine go into the header of schedule.swf. executions.csv is
    there if a job had more than one execution, availability.csv if events took nodes out of service, and the tables of
    the aspects that the run has."""
    files: dict[str, bytes] = {
        JOBS_FILE: csv_of(record.jobs),
        SUSPENSIONS_FILE: csv_of(record.tables.suspensions),
        SCHEDULE_FILE: _schedule(record, processors, nodes),
    }
    if not record.tables.executions.is_empty():
        files[EXECUTIONS_FILE] = csv_of(record.tables.executions)
    if not record.events.availability.is_empty():
        files[AVAILABILITY_FILE] = csv_of(record.events.availability)
    own = tables(record.aspects, record.tables.allocations)
    return files | {name: csv_of(table) for name, table in own.items()}


def rounded(frame: pl.DataFrame) -> pl.DataFrame:
    """Times rounded to microseconds, as they are written: smaller digits are errors of the conversion of instants."""
    return frame.with_columns(cs.float().round(6))


def csv_of(frame: pl.DataFrame) -> bytes:
    """A table as it is written."""
    return rounded(frame).write_csv().encode()


def to_swf(record: RunRecord) -> pl.DataFrame:
    """The schedule as an SWF frame (`swf.SCHEMA`), sorted by submission. Sizes are those at the start: SWF has no other.

    Wait and run time are -1 for jobs that never started, or not again after a requeue. Both are those of the last execution of a
    job that was requeued; the run time is execution without suspensions. Status: 1 completed, 0 failed (also by time limit
    or node), 5 cancelled, -1 anything else (not ended, lost). A partition's number is the place of its name
    among all, from 1.
    """
    jobs = record.jobs.join(record.evidence, on="id", maintain_order="left")
    started = col("start").is_not_null()
    columns = {
        "job_number": col("id"),
        "submit": col("submit"),
        "wait": col("start") - col("submit"),
        "run_time": pl.when(started).then("run_time"),
        "allocated_processors": col("allocated"),
        "requested_processors": col("processors"),
        "requested_time": col("requested"),
        "status": col("state").replace_strict(_STATUS, default=None, return_dtype=pl.Int64),
        "partition": col("partition").rank("dense"),
        **{name: col(name) for name in ("user", "group", "executable", "queue")},
    }
    return jobs.sort("submit", maintain_order=True).select(
        columns.get(name, pl.lit(None)).cast(kind).fill_null(-1).alias(name) for name, kind in swf.SCHEMA.items()
    )


def _about_presets(record: RunRecord) -> str:
    """A line of the header about presets, whose waits are not those of the log, if there are any."""
    count = record.jobs["preset"].count()
    line = f"\nThe first {count} jobs are preset: they ran or waited before the selection began, at their submission."
    return line if count else ""


def _about_executions(record: RunRecord) -> str:
    """A line of the header about lost executions, if there are any. SWF's partial executions are parts of a job that goes on."""
    count = record.tables.executions.height
    line = f"\n{count} executions of jobs that were requeued are left out: their work was lost ({EXECUTIONS_FILE} has them)."
    return line if count else ""


def _schedule(record: RunRecord, processors: int, nodes: int) -> bytes:
    clock, told = record.time.clock, record.names
    speed = EVENT if record.event_clock.is_used else f"{clock.speed:g}"
    names = record.jobs["partition"].drop_nulls().unique().sort().to_list()
    header = {
        "Computer": f"emulated cluster under {told.manager}",
        "Conversion": "Slurm Mirage",
        "MaxNodes": str(nodes),
        "MaxProcs": str(processors),
        "Partitions": str(len(names)),
        "Partition": "\n".join(f"{number} {name}" for number, name in enumerate(names, 1)),
        "Note": (
            "A replay of a workload, not a log of use. Submissions are the instants at which jobs were due.\n"
            f"Starts and ends are in the seconds that {told.manager} recorded ({told.record}), where in them is from the jobs'\n"
            "own records (sigsleep's). Times are the trace's own seconds:\n"
            f"SPEED={speed} and SHRINK={clock.shrink:g} are undone."
            f"{_about_presets(record)}{_about_executions(record)}"
        ),
    }
    return swf.swf_content(to_swf(record), header)
