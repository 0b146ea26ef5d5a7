"""Reads the records of a run into data frames: the replay's journal, the resource manager's records, and sigsleep's.

Instants are virtual nanoseconds since the epoch, lengths virtual nanoseconds, null is unknown. Prefixes of columns name the source:
s_ the manager's completion log, c_ the details that it gave of a job after its end, r_ sigsleep. Jobs are identified by `id`
(number in the trace) and `slurm_id` (the manager's id).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from polars import col

from mirage.records.file_names import SIGSLEEP_FILE
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.strict_json import INSTANT
from slurm_mirage.jobs import arrays, sigsleep_log
from slurm_mirage.replay.journal import replay_lines
from slurm_mirage.replay.launch_cost import LaunchCost
from slurm_mirage.rm.api import NOT_ENDED, RESIZING, JobDetails, Records

NS = 1_000_000_000
_QUARTER_HOUR = 900

Schema = dict[str, Any]


@dataclass(frozen=True)
class Journal:
    """The events of the replay. Real times are seconds since the epoch."""

    real_zero: float
    """Start of the replay in real time."""
    virtual_zero: float
    """Start of the replay in virtual time."""
    submissions: pl.DataFrame
    """A row per submitted job, for its last submission: index, slurm_id, and the real instants due, began (first attempt)
    and accepted (end of the successful attempt)."""
    plain: list[int]
    """Indices of the jobs whose requests the manager refused, so that they were submitted without."""
    cancelled: list[int]
    """Indices of the jobs that the replay cancelled."""
    retries: int
    """Number of refused submissions that were repeated."""
    resubmitted: int
    """Number of jobs submitted again because the manager had lost them."""
    interrupted: float
    """Real seconds for which the replay was down; later submissions were postponed by it."""
    halted: float
    """Real seconds for which no job could start: the controller had died, or did not answer."""
    halted_by_events: float
    """The part of it after events of the run that ended the controller."""
    events_began: dict[int, dict[str, Any]]
    """The last beginning of each event of the run, by number."""
    events_done: dict[int, dict[str, Any]]
    """The outcome of each event of the run, by number."""
    halts: list[dict[str, Any]]
    """The times in which a controller that had not ended, or the replay, did nothing: what (halts.CONTROLLER or halts.REPLAY),
    since (real instant), seconds (real)."""
    copies: set[int]
    """Numbers of second copies of jobs, which the replay cancelled."""
    stale: list[int]
    """Indices of jobs of which the replay cancelled a second run, because a killed controller had forgotten their end."""
    launch_cost: LaunchCost
    """Costs by which the run times of the jobs' sleep programs were reduced to compensate for their launches."""
    completion_offset: int
    """Bytes of the manager's completion log at the start of the replay."""
    last_sign: float
    """Real instant of the last event."""


def read_text(path: Path) -> str:
    """The text of a file of a run. Raises WrongUse if it cannot be read."""
    return read_bytes(path).decode("utf-8", "replace")


def read_bytes(path: Path) -> bytes:
    """The content of a file of a run. Raises WrongUse if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise WrongUse(f"{path}: cannot be read ({error.strerror})", parameter="run") from error


def read_journal(path: Path) -> Journal:
    """Reads journal.jsonl of the replay. Raises WrongUse if it does not begin with the start of a replay, or is damaged."""
    data = read_bytes(path)
    try:
        history, whole = replay_lines(data, str(path))
    except WrongUse as error:
        raise WrongUse(error.message, parameter="run") from error
    if history.start is None:
        raise WrongUse(f"{path}: is empty, the replay has not begun", parameter="run")
    events = [json.loads(line) for line in data[:whole].split(b"\n")[:-1]]
    tries = [event for event in events if event["event"] in ("submitted", "resubmitted")]
    schema = {"index": pl.Int64, "slurm_id": pl.Int64, **dict.fromkeys(("due", "began", "real"), pl.Float64)}
    return Journal(
        real_zero=float(history.start["real"]),
        virtual_zero=float(history.start["virtual"]),
        submissions=_table(tries, schema).unique("index", keep="last", maintain_order=True).rename({"real": "accepted"}),
        plain=sorted({event["index"] for event in tries if event.get("plain")}),
        cancelled=sorted(history.cancelled),
        retries=history.retries,
        resubmitted=history.resubmitted,
        interrupted=history.shift,
        halted=history.halted + (0.0 if history.halted_since is None else history.last_sign - history.halted_since),
        halted_by_events=history.halted_by_events,
        events_began=history.events_began,
        events_done=history.events_done,
        halts=history.halts,
        copies=history.copies,
        stale=sorted(history.stale),
        launch_cost=LaunchCost.of_record(history.start["launch_cost"]),
        completion_offset=int(history.start["completion_offset"]),
        last_sign=history.last_sign,
    )


def _table(rows: list[dict[str, Any]], schema: Schema) -> pl.DataFrame:
    return pl.DataFrame([[row.get(name) for name in schema] for row in rows], schema=schema, orient="row")


# ---- the resource manager's records ----


def _offset_from_utc(lines: pl.DataFrame, submitted: pl.DataFrame) -> int:
    """Nanoseconds by which the instants of the completion log, of which `lines` are those of the run's jobs, are ahead of UTC.

    The completion log has local time without a zone, but the journal has the submissions, too: the median difference, in whole
    quarters of an hour, is the zone's offset. A change to summer time during a run is not taken into account.

    On a fast clock a slow submission takes quarters of an hour, so only the fastest tenth of the submissions is used. Submissions
    without a duration were found after an interruption, and their instant is unknown: they are used only if there are no others.
    """
    both = lines.join(submitted.select("id", "slurm_id", "v_began", "v_accepted"), on=["id", "slurm_id"], maintain_order="left")
    took = col("v_accepted") - col("v_began")
    first = both.unique(["id", "slurm_id"], keep="first", maintain_order=True).sort(took == 0, took, maintain_order=True)
    ahead = first.head(max(1, first.height // 10)).select((col("s_submit") - col("v_accepted")).median()).item()
    return round((ahead or 0) / NS / _QUARTER_HOUR) * _QUARTER_HOUR * NS


def _with_submissions(lines: pl.DataFrame, submitted: pl.DataFrame) -> pl.DataFrame:
    """Fills in the journal's instant of submission, in whole seconds, if the completion log has none (Slurm before 17.11).

    It is in UTC, as are the instants of those daemons: the farm starts them with this zone.
    """
    known = submitted.select("id", "slurm_id", "v_accepted").unique(["id", "slurm_id"], keep="first", maintain_order=True)
    lines = lines.join(known, on=["id", "slurm_id"], how="left", maintain_order="left")
    accepted, untold = col("v_accepted") // NS * NS, col("s_submit").is_null()
    instants = [pl.when(untold).then(accepted).otherwise(name).alias(name) for name in ("s_submit", "s_eligible")]
    return lines.with_columns(instants).drop("v_accepted")


_COMPLETED: Schema = {
    "name": pl.String,
    "slurm_id": pl.Int64,
    "s_state": pl.String,
    "s_final": pl.Boolean,
    "s_partition": pl.String,
    "s_ran": pl.Boolean,
    "s_nodes": pl.Int64,
    "s_allocated": pl.Int64,
    "s_submit": pl.Int64,
    "s_eligible": pl.Int64,
    "s_start": pl.Int64,
    "s_end": pl.Int64,
    "user": pl.String,
    "hosts": pl.String,
    "exit_code": pl.Int64,
    "is_of_run": pl.Boolean,
}
_LARGEST = 1 << 62
_INSTANTS = ("s_submit", "s_eligible", "s_start", "s_end")


def read_completions(path: Path, records: Records, offset: int = 0) -> pl.DataFrame:
    """The lines of the completion log, in the file's order. Instants are in the local time of the manager.

    Columns: those of `completions`, and name, user, hosts (names of the nodes), exit_code, and is_of_run: whether the line was
    written after the first `offset` bytes, those of before the run. A log that is shorter was truncated. Impossible instants are
    null (submit_untold: that of submission), and lines with a number that no manager writes are left out.
    """
    data = read_text(path).encode()
    at = 0 if not 0 < offset <= len(data) else data.find(b"\n", offset - 1) + 1
    rows: list[tuple[Any, ...]] = [
        (
            *(job.name, job.job_id, job.state, job.ended_for_good, job.partition, job.ran, job.nodes, job.processors),
            *(job.submit, job.eligible, job.start, job.end, job.user, job.hosts, job.exit_code, is_of_run),
        )
        for part, is_of_run in ((data[:at], False), (data[at:], True))
        for job in records.completions(part.decode(errors="replace"))
    ]
    sound = [row for row in rows if all(abs(value) < _LARGEST for value in row if isinstance(value, int))]
    frame = pl.DataFrame(sound, schema=_COMPLETED, orient="row")
    known = (pl.when(col(name).is_between(0, INSTANT.most)).then(col(name) * NS).alias(name) for name in _INSTANTS)
    return frame.with_columns(*known, submit_untold=~col("s_submit").is_between(0, INSTANT.most).fill_null(True))


def completions(log: pl.DataFrame, submitted: pl.DataFrame, since: int) -> tuple[pl.DataFrame, int]:
    """The lines of the completion log (`read_completions`) about jobs in `submitted` (name, id, slurm_id, v_began, v_accepted), and
    by how many ns the log's instants are ahead of UTC.

    All runs of an instance write to the same file: jobs submitted before `since` (virtual ns) belong to an earlier run of the same
    name and are dropped.

    There is a line per execution, as a requeue also writes one (state PENDING, or NODE_FAIL). A name may have lines of several ids.
    Columns: id, slurm_id, s_state, s_final (the manager never runs the job again), s_partition, s_ran (false: cancelled while it
    waited; its start is null), s_nodes, s_allocated, s_submit, s_eligible, s_start, s_end, hosts; and submit_untold, start_untold,
    end_untold: whether the line should have that instant, and has none that can be.
    """
    lines = log.join(submitted.select("name", "id"), on="name", maintain_order="left").drop(
        "name", "user", "exit_code", "is_of_run"
    )
    lines = lines.with_columns(
        submit_untold=col("submit_untold") | (col("s_submit").is_null() & col("s_submit").is_not_null().any()),
        start_untold=col("s_ran") & col("s_start").is_null(),
        end_untold=col("s_ran") & col("s_end").is_null(),
    )
    lines = _with_submissions(lines, submitted)
    ahead = _offset_from_utc(lines, submitted)
    lines = lines.with_columns(col(_INSTANTS) - ahead).filter(col("s_submit") >= since)
    return lines.with_columns(s_start=pl.when("s_ran").then("s_start")), ahead


FOREIGN_SCHEMA: Schema = {"slurm_id": pl.Int64, "name": pl.String, "user": pl.String}


def foreign_jobs(
    log: pl.DataFrame, ahead: int, waiting: Iterable[Mapping[str, Any]], own: Collection[str], until: int
) -> pl.DataFrame:
    """Jobs of other names than `own` that were in the cluster during the run: slurm_id, name, user.

    They ended during the run, or after it if they were submitted before its end `until` (virtual ns), by the completion log
    (`read_completions`), whose instants are `ahead` ns of UTC; or they were in the queue when the records were collected: `waiting`
    (queue.json) has job_id, name, user and submit, in virtual seconds, of each.
    """
    ended = log.filter("is_of_run").with_columns(known=pl.coalesce("s_submit", "s_start", "s_end") - ahead)
    rows = [(job["job_id"], job["name"], job["user"], job["submit"]) for job in waiting]
    queued = pl.DataFrame(rows, schema={**FOREIGN_SCHEMA, "known": pl.Int64}, orient="row").with_columns(col("known") * NS)
    table = pl.concat([ended.select(*FOREIGN_SCHEMA, "known"), queued])
    foreign = table.filter(~col("name").is_in(list(own)) & (col("known").fill_null(until) <= until))
    return foreign.select(list(FOREIGN_SCHEMA)).unique("slurm_id", keep="first", maintain_order=True)


def split_aftermath(lines: pl.DataFrame, stale: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The lines of `completions` that count, and those of jobs that had ended for good before.

    A controller that was killed may come back with a state of some seconds before, and then run, or cancel, jobs that had ended:
    these runs do not belong to the schedule. `stale` has the ids of jobs of which the replay cancelled such a run: its cancellation
    counts as one even if the job's own end has no line, because the controller was killed before it could write it.
    """
    ended = col("s_final").cast(pl.Int64)
    again = (col("id").is_in(stale.implode()) & (col("s_state") == "CANCELLED")).cast(pl.Int64)
    before = (ended.cum_sum() - ended).over("id", "slurm_id") + again
    return lines.filter(before == 0), lines.filter(before > 0)


def slurm_executions(lines: pl.DataFrame) -> pl.DataFrame:
    """The lines of `completions`, a row per execution, in their order: the lines of a job that changed its size (state RESIZING,
    but for the last one) are one. Additional columns: restart, the number of executions before; s_sizes, the nodes of each line;
    s_resized, the instants of the changes between them.

    Slurm prints the instant of the last change as the start of every line of such a job, so its start is not known from them.
    A cancellation in the queue is a row too: s_ran is false. is_lost says whether the job was put back in the queue, or went on to
    another row, after it ran.
    """
    goes_on = (col("s_state") == RESIZING).cast(pl.Int64)
    numbered = lines.with_columns(restart=(1 - goes_on).cum_sum().over(_JOB) - (1 - goes_on))
    rows = numbered.group_by(*_JOB, "restart", maintain_order=True).agg(
        col("s_submit", "s_eligible").first(),
        pl.when(pl.len() == 1).then(col("s_start").first()).alias("s_start"),
        col("s_nodes", "s_allocated").first(),
        col(_OF_LAST).last(),
        col("s_ran", *_UNTOLD).any(),
        s_sizes=col("s_nodes"),
        s_resized=col("s_end").head(pl.len() - 1),
    )
    is_last = col("restart") == col("restart").max().over(_JOB)
    put_back = col("s_state").is_in([state for state in NOT_ENDED if state != RESIZING])
    return rows.with_columns(is_lost=col("s_ran") & (~is_last | put_back))


def last_executions(executions: pl.DataFrame) -> pl.DataFrame:
    """A row per job: values of its last row in `slurm_executions`, but the first submission and eligibility.

    A job that was put back in the queue, and did not start again, has no start and no end.
    """
    state, partition, *rest = [*_OF_LAST, "s_nodes", "s_allocated", "s_sizes", "s_resized"]
    waits = col("is_lost").last()
    return executions.group_by(_JOB, maintain_order=True).agg(
        col("s_submit", "s_eligible").first(),
        col(state, partition).last(),
        *(pl.when(~waits).then(col(name).last()).alias(name) for name in ("s_ran", "s_start", *rest)),
        col(_UNTOLD).any(),
        s_lines=pl.len().cast(pl.Int64),
    )


_JOB = ["id", "slurm_id"]
_UNTOLD = ["submit_untold", "start_untold", "end_untold"]
_OF_LAST = ["s_state", "s_partition", "s_end"]

_DETAILS: Schema = {
    "name": pl.String,
    "slurm_id": pl.Int64,
    "c_state": pl.String,
    "c_eligible": pl.Int64,
    "c_start": pl.Int64,
    "c_end": pl.Int64,
    "c_suspended": pl.Int64,
}


def last_details(details: Iterable[JobDetails], submitted: pl.DataFrame) -> pl.DataFrame:
    """The last details of each job in `submitted` (name, id): id, slurm_id, c_state, c_eligible, c_start, c_end, c_suspended.

    End and suspension are null for jobs that had not ended.
    """
    rows = [(job.name, job.job_id, job.state, job.eligible, job.start, job.end, job.suspended) for job in details]
    frame = pl.DataFrame(rows, schema=_DETAILS, orient="row")
    frame = frame.unique(["name", "slurm_id"], keep="last", maintain_order=True)
    ended = ~col("c_state").is_in(NOT_ENDED)
    return frame.join(submitted.select("name", "id"), on="name").select(
        "id",
        "slurm_id",
        "c_state",
        col("c_eligible", "c_start") * NS,
        c_end=pl.when(ended).then(col("c_end") * NS),
        c_suspended=pl.when(ended).then(col("c_suspended") * NS),
    )


# ---- sigsleep's record ----

_RECORD: Schema = {
    "id": pl.Int64,
    "slurm_id": pl.Int64,
    "restart": pl.Int64,
    "r_start": pl.Int64,
    "r_end": pl.Int64,
    "r_executed": pl.Int64,
    "r_pauses": pl.Int64,
    "r_priority": pl.String,
    "completed": pl.Boolean,
    "unsure": pl.Boolean,
    "r_waited": pl.Int64,
    "r_paid": pl.Int64,
}
_SIZE: Schema = {"id": pl.Int64, "slurm_id": pl.Int64, "restart": pl.Int64, "v_from": pl.Int64, "nodes": pl.Int64}
_PAUSE: Schema = {"id": pl.Int64, "slurm_id": pl.Int64, "v_suspend": pl.Int64, "v_resume": pl.Int64}


@dataclass(frozen=True)
class SigsleepRecords:
    """What sigsleep recorded.

    records: a row per record, in order of starts
    pauses: a row per suspension: id, slurm_id, v_suspend, v_resume, null if unknown
    sizes: a row per change of size: id, slurm_id, restart, v_from, nodes from then on
    damage: descriptions of the damaged parts of the files
    """

    records: pl.DataFrame
    pauses: pl.DataFrame
    sizes: pl.DataFrame
    damage: list[str]


def read_sigsleep(folder: Path) -> SigsleepRecords:
    """Reads the jobs' own records; there are none without the file."""
    path = folder / SIGSLEEP_FILE
    records, parts = sigsleep_log.read_log(path) if path.exists() else ([], [])
    damage = [f"{path.name} at byte {part.offset}: {part.reason}" for part in parts]
    rows = [
        (
            *(r.id, r.slurm_job_id, r.restart, r.start_ns, r.end_ns, r.executed_ns),
            *(len(r.suspensions), r.priority, r.completed, r.inferred or r.overflowed),
            *((r.malleable.waited_ns, r.malleable.paid_ns) if r.malleable else (0, 0)),
        )
        for r in records
    ]
    pauses = [(r.id, r.slurm_job_id, *pause) for r in records for pause in r.suspensions]
    sizes = [(r.id, r.slurm_job_id, r.restart, *change) for r in records if r.malleable for change in r.malleable.allocations()[1:]]
    known = (pl.when(col(name) > 0).then(name) for name in ("v_suspend", "v_resume"))
    return SigsleepRecords(
        pl.DataFrame(rows, schema=_RECORD, orient="row").sort("r_start", "id", "restart"),
        pl.DataFrame(pauses, schema=_PAUSE, orient="row").with_columns(known),
        pl.DataFrame(sizes, schema=_SIZE, orient="row"),
        damage,
    )


def with_task_ids(recorded: SigsleepRecords, submitted: pl.DataFrame) -> SigsleepRecords:
    """The records with the ids of tasks of job arrays (`jobs.arrays`), of which sigsleep knows the array's number only.

    submitted: id, slurm_id
    """
    tasks = submitted.select("id", task_id="slurm_id").filter(col("task_id") >= arrays.STEP)
    own = pl.when(col("task_id") // arrays.STEP == col("slurm_id")).then("task_id").otherwise("slurm_id")

    def named(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(tasks, on="id", how="left", maintain_order="left").with_columns(slurm_id=own).drop("task_id")

    return replace(recorded, records=named(recorded.records), pauses=named(recorded.pauses), sizes=named(recorded.sizes))


def recorded_executions(records: pl.DataFrame) -> pl.DataFrame:
    """A row per job: its last execution, and the time suspended in it.

    The time suspended is 0 without a suspension, although sigsleep's times differ by microseconds between its readings of the
    clock. Records after a completed one are left out, see `split_aftermath`.
    """
    stopped = col("r_end") - col("r_start") - col("r_executed") - col("r_waited") - col("r_paid")
    done = col("completed").cast(pl.Int64)
    return (
        records.filter((done.cum_sum() - done).over("id", "slurm_id") == 0)
        .with_columns(r_stopped=pl.when((col("r_pauses") > 0) | col("unsure")).then(stopped).otherwise(0))
        .group_by("id", "slurm_id", maintain_order=True)
        .agg(
            col("restart", "r_start", "r_end", "r_executed", "r_stopped", "r_pauses", "r_waited").last(),
            col("r_priority", "completed").last(),
            col("unsure").any(),
        )
    )


# ---- both ----


def in_second(instant: str, printed: str) -> pl.Expr:
    """sigsleep's instant if it lies in the second that Slurm printed; else the middle of that second, which is right on average."""
    is_within = col(instant).is_between(col(printed), col(printed) + NS)
    return pl.when(is_within).then(instant).otherwise(col(printed) + NS // 2)
