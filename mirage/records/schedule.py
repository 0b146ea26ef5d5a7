"""Reads a schedule from a log, a run or the jobs' own record; the content of the file decides which it is."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from mirage.metrics.availability import NOT_RECORDED, OF_NO_EVENT
from mirage.metrics.immediate_start import OF_LOGS, OF_RUNS
from mirage.metrics.jobs_frame import (
    JOBS_SCHEMA,
    SUSPENSIONS_SCHEMA,
    allocations_from_log,
    executions_from_log,
    executions_from_sigsleep,
    frame_from_sigsleep,
    frame_from_swf,
    numbered,
    suspensions_from_sigsleep,
)
from mirage.records.allocations import read_allocations
from mirage.records.aspects import read_tables
from mirage.records.availability import read_availability
from mirage.records.executions import read_executions
from mirage.records.file_names import (
    ALLOCATIONS_FILE,
    AVAILABILITY_FILE,
    EXECUTIONS_FILE,
    EXPERIMENT_FILE,
    JOBS_FILE,
    METRICS_FILE,
    RECORDED_FILE,
    SACCT_FILE,
    SCHEDULE_FILE,
    SUSPENSIONS_FILE,
)
from mirage.records.recorded import read_recorded, schedule_of
from mirage.records.run_folder import RunFolder
from mirage.text.input_file import open_input
from mirage.traces import swf
from mirage.traces.csv_frame import check_rows, read_csv
from mirage.traces.trace import NODES_ONLY, Trace, read_trace
from mirage.traces.unread import REASON, Unread
from mirage.workloads.selection import Selection, choose
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.strict_json import Damaged
from slurm_mirage.jobs import sigsleep_log

_FAULTS = {
    "id is empty": pl.col("id").is_null(),
    "job {id} is in an earlier line, too": ~pl.col("id").is_first_distinct(),
    "processors of job {id} may be 1 or more, not {processors}": pl.col("processors") < 1,
    "nodes of job {id} may be 1 or more, not {nodes}": pl.col("nodes") < 1,
    "the end of job {id}, {end}, is before its start, {start}": pl.col("end") < pl.col("start"),
    "suspended, requested or runtime of job {id} is below 0": pl.any_horizontal(pl.col("suspended", "requested", "runtime") < 0),
}
"""Faults that no line of jobs.csv may have."""


@dataclass(frozen=True)
class Schedule:
    """What happened to the jobs, from a log or a run, as `metrics.compute` takes it.

    jobs: columns of `jobs_frame.JOBS_SCHEMA`
    suspensions: job, suspend, resume; None if not known
    allocations: columns of `jobs_frame.ALLOCATIONS_SCHEMA`, changes of size after the start; None if no job changed its size
    executions: columns of `jobs_frame.EXECUTIONS_SCHEMA`, executions before the last one; None if no job had any
    tables: those of aspects, by the names of a run's files
    availability: columns of `availability.AVAILABILITY_SCHEMA`; None if no event took nodes out of service; a text, why it is not
        known, but for jobs.csv
    processors, nodes: of the machine; None if not known
    machine: source of processors and nodes: `Trace.machine_source` of a log, "experiment.json", or "" if they are not known
    format: "swf", "sacct", "batsim", "run" (jobs.csv), "recorded" (recorded.csv) or "sigsleep"
    notes: oddities of the file, counted
    left_out: jobs that the selection left out, by reason
    unread: lines of a log that could not be read
    immediate_below: seconds; a job with a shorter wait started immediately (immediate_start.py)
    """

    jobs: pl.DataFrame
    suspensions: pl.DataFrame | None
    processors: int | None
    nodes: int | None
    machine: str
    format: str
    notes: dict[str, int]
    left_out: dict[str, int] = field(default_factory=dict)
    immediate_below: float = OF_LOGS
    allocations: pl.DataFrame | None = None
    executions: pl.DataFrame | None = None
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    availability: pl.DataFrame | str | None = NOT_RECORDED
    unread: Unread = field(default_factory=Unread)


def of_run(run: RunFolder) -> Schedule:
    """jobs.csv of a run, and the tables beside it, which are read once, as all files of the folder. Raises WrongUse."""
    if "schedule" not in run.__dict__:
        run.__dict__["schedule"] = read_schedule(run.path / JOBS_FILE, run=run)
    schedule: Schedule = run.__dict__["schedule"]
    return schedule


def read_schedule(path: Path | str, selection: Selection | None = None, run: RunFolder | None = None) -> Schedule:
    """Reads the schedule in a log with waits (SWF, sacct, Batsim), a run's jobs.csv and the tables beside it, what the log says of
    its jobs (recorded.csv), or the log of sigsleep; for the last three the machine is in the experiment.json beside the file.

    run: the folder of the file, if the caller has it
    Raises WrongUse for anything else, with the line where there is one, and for a selection that leaves nothing or asks for what is
    not recorded.
    """
    path = Path(path)
    wanted, run = selection or Selection(), run or RunFolder(path.parent)
    start = _start(path)
    if start.startswith(sigsleep_log.MAGIC):
        beside = _Beside.of(run)
        records, damage = sigsleep_log.read_log(path)
        jobs, left_out = _chosen(frame_from_sigsleep(records), wanted)
        notes = {"damaged_places": len(damage)} if damage else {}
        notes |= _notes(jobs)
        pauses, machine = suspensions_from_sigsleep(records), (beside.processors, beside.nodes, beside.source)
        earlier = executions_from_sigsleep(records)
        return Schedule(jobs, pauses, *machine, "sigsleep", notes, left_out, beside.immediate_below, executions=earlier)
    if start.startswith(b"id,"):
        beside = _Beside.of(run)
        machine = (beside.processors, beside.nodes, beside.source)
        if path.name == RECORDED_FILE:
            jobs, left_out = _chosen(schedule_of(read_recorded(path, "trace")), wanted)
            return Schedule(jobs, None, *machine, "recorded", _notes(jobs), left_out, beside.immediate_below)
        suspensions = read_csv(run.path / SUSPENSIONS_FILE, SUSPENSIONS_SCHEMA, "trace") if run.has(SUSPENSIONS_FILE) else None
        every = read_csv(path, JOBS_SCHEMA, "trace")
        check_rows(path, every, _FAULTS, "trace")
        resized = read_allocations(run.path / ALLOCATIONS_FILE, every, "trace") if run.has(ALLOCATIONS_FILE) else None
        again = read_executions(run.path / EXECUTIONS_FILE, every, "trace") if run.has(EXECUTIONS_FILE) else None
        own = read_tables(run, "trace")
        out: pl.DataFrame | str | None = (
            read_availability(run.path / AVAILABILITY_FILE, "trace") if run.has(AVAILABILITY_FILE) else None
        )
        with suppress(Damaged):  # a metrics.json that is damaged says nothing
            if run.has(METRICS_FILE) and run.metrics["null_reasons"].get("absent_fraction") == OF_NO_EVENT:
                out = OF_NO_EVENT
        jobs, left_out = _chosen(every, wanted)
        at_once = beside.immediate_below
        return Schedule(jobs, suspensions, *machine, "run", _notes(jobs), left_out, at_once, resized, again, own, out)
    trace = read_trace(path, for_metrics=wanted == Selection())
    # The whole log need not be sorted.
    frame, left_out = (trace.frame, {}) if wanted == Selection() else choose(trace, wanted)
    at_once = _Beside.of(run).immediate_below if path.name in (SCHEDULE_FILE, SACCT_FILE) else OF_LOGS
    processors, nodes = (None, None) if NODES_ONLY in trace.notes else trace.machine()
    source = "" if processors is None else trace.machine_source()
    left_out.pop(REASON, None)
    frame = numbered(frame)
    return Schedule(
        frame_from_swf(frame), None, processors, nodes, source, trace.format, trace.notes, left_out, at_once,
        allocations=allocations_from_log(frame), executions=executions_from_log(frame), unread=trace.unread,
    )  # fmt: skip


def _notes(jobs: pl.DataFrame) -> dict[str, int]:
    """The oddity of a jobs frame that the notes of a log have too: jobs that started before their submission."""
    count = jobs.filter(pl.col("start") < pl.col("submit")).height
    return {"wait_negative": count} if count else {}


def in_whole_nodes(schedule: Schedule, processors: int, nodes: int | None) -> Schedule:
    """A schedule of a log that records only the nodes of jobs, with their processors: whole nodes of the given machine."""
    if NODES_ONLY not in schedule.notes or not nodes:
        return schedule
    of_job = (pl.col("nodes") * processors / nodes).ceil().cast(pl.Int64)
    return replace(schedule, jobs=schedule.jobs.with_columns(processors=of_job))


def _chosen(jobs: pl.DataFrame, selection: Selection) -> tuple[pl.DataFrame, dict[str, int]]:
    """The selected jobs of a jobs frame, which has no queues, users and dates, and what was left out."""
    if selection == Selection():
        return jobs, {}
    known = jobs.select(
        job_number=pl.int_range(pl.len(), dtype=pl.Int64),
        submit=pl.col("submit").fill_null(-1),
        run_time=pl.col("runtime").fill_null(-1),
    )
    unknown = [pl.lit(-1, kind).alias(column) for column, kind in swf.SCHEMA.items() if column not in known.columns]
    lines, left_out = choose(Trace(known.with_columns(*unknown), {}, {}, "swf", ""), selection)
    return jobs[lines["job_number"]], left_out


@dataclass(frozen=True)
class _Beside:
    """Settings in the experiment.json beside a file: the machine, and the wait below which a job started immediately."""

    processors: int | None = None
    nodes: int | None = None
    immediate_below: float = OF_LOGS
    source: str = ""

    @classmethod
    def of(cls, run: RunFolder) -> _Beside:
        """Read the settings; there are none if the file is not in a run's folder. The machine is NODES and CPUS, or classes of
        nodes."""
        try:
            if not run.has(EXPERIMENT_FILE):
                return cls()
            inputs = run.experiment["inputs"]
            classes = [(one["count"], one["cpus"]) for one in json.loads(inputs.get("CLASSES") or "[]")]
            classes = classes or [(int(inputs["NODES"]), int(inputs["CPUS"]))]
            processors, nodes = sum(count * cpus for count, cpus in classes), sum(count for count, _ in classes)
            return cls(processors, nodes, OF_RUNS, EXPERIMENT_FILE)
        except Damaged as error:
            raise WrongUse(error.message, parameter="trace") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
            words = f"{run.path / EXPERIMENT_FILE}: does not describe a run ({type(error).__name__}: {error})"
            raise WrongUse(words, parameter="trace") from None


def _start(path: Path) -> bytes:
    with open_input(path, "trace") as file:
        return file.read(4) or b""
