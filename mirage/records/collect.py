"""Joins sigsleep's log and Slurm's record of a run into a schedule: a row per job, in trace time.

A job has two records. Slurm's has state, eligibility and nodes, start and end in whole seconds, and all that is known about jobs
that never ran or were killed before sigsleep could write. sigsleep's (nanoseconds) has suspensions, and start and end within
Slurm's seconds: an instant printed as S is in [S, S + 1 s). Between Slurm's start of a job and sigsleep's lies the launch, in real
time. On a fast clock that is many virtual seconds, which would count as waiting if sigsleep's start alone were used.

Let v be an instant of virtual time, v0 that of the replay's start, and t0 the trace's first submission:

    trace = t0 + (v - v0) * 100 / SHRINK,        v = v0 + (real - real0) * SPEED

The start of the replay is therefore the first submission. A job's submission is the instant at which it was due: the trace's, for
jobs that keep their own times, or that of the replay's plan, postponed by interruptions of the replay. Slurm accepted it
`submit_lag` later, so that a slow scheduler cannot shorten waits by accepting jobs late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import polars as pl
from polars import col

from mirage.metrics.jobs_frame import ALLOCATIONS_SCHEMA, JOBS_SCHEMA
from mirage.records import aspects, cluster_events, disagreements
from mirage.records.aspects import Sources
from mirage.records.file_names import EVENTS_FILE, JOURNAL_FILE, PLAN_FILE
from mirage.records.record import EventClock, Launches, ManagerFacts, ReplayAccount, RunRecord, Tables
from mirage.records.run_clock import is_event, may_be_event
from mirage.records.run_folder import RunFolder
from mirage.records.run_records import (
    NS,
    Journal,
    Schema,
    completions,
    foreign_jobs,
    in_second,
    last_details,
    last_executions,
    recorded_executions,
    slurm_executions,
    split_aftermath,
    with_task_ids,
)
from mirage.records.run_samples import longest_cycle
from mirage.records.time_map import TimeMap
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs import arrays
from slurm_mirage.jobs.plan import COLUMNS, EXTRA_COLUMNS, PlanRow, cells
from slurm_mirage.replay.launch_cost import LaunchCost
from slurm_mirage.replay.submitter import LAUNCH_SUFFIX, PLACEHOLDER_SUFFIX
from slurm_mirage.rm.api import NOT_ENDED, Freed

_JOB = ["id", "slurm_id"]
_TYPES = {int: pl.Int64, float: pl.Float64, str: pl.String}
_HINTS = get_type_hints(PlanRow)
_PLAN: Schema = {
    "runtime_virtual" if name == "runtime" else name: _TYPES[(get_args(_HINTS.get(name)) or (_HINTS.get(name, str),))[0]]
    for name in COLUMNS
}


def collect(run: RunFolder) -> RunRecord:
    """Joins the records of a run: workload, plan, journal, the resource manager's completion log (Slurm's is jobcomp.log), the
    jobs' own records and, if they exist, what the manager said of jobs after their end, when processors were free again (Slurm's
    is freed.csv), and the records of the aspects.

    The workload has a row per job: id, submit, runtime, requested (trace seconds), and optionally limit_extended, priority, preset,
    user, group, executable, queue. Raises WrongUse if the folder does not hold a started run of this workload.
    """
    settings, journal, manager = run.settings, run.journal, run.manager
    anchor = round(journal.real_zero * NS), round(journal.virtual_zero * NS)
    clock = Clock(*anchor, speed=float(settings["speed"]), shrink=float(settings["shrink_percent"]))
    plan = _plan(run)
    time = TimeMap(clock, origin=float(run.workload.select(col("submit").min()).item()))
    _check_instants(run.path / JOURNAL_FILE, journal, time)
    submitted = _submissions(plan, journal, time)
    since = clock.virtual_ns - NS - round(clock.real_to_virtual(disagreements.LAUNCH_ALLOWANCE) * NS)
    stale = submitted.filter(col("index").is_in(journal.stale))["id"]
    log = run.read_completions()
    own_lines, ahead = completions(log, submitted, since)
    lines, aftermath = split_aftermath(own_lines, stale)
    details = last_details(run.read_details(), submitted)
    details = details.filter(~(col("id").is_in(stale.implode()) & (col("c_state") == "CANCELLED").fill_null(False)))
    recorded = with_task_ids(run.read_sigsleep(), submitted)
    records, pauses, damage = recorded.records, recorded.pauses, recorded.damage
    runs = slurm_executions(lines)
    own = aspects.collect(Sources(run, log, ahead, time, plan, submitted, pauses, clock.virtual_ns - NS))
    freed = run.read_freed()
    held = min(run.scheduling.longest_hold, longest_cycle(run.diagnostics) or 0.0)
    layout = run.layout
    events = cluster_events.read(run.path / EVENTS_FILE, journal, time, layout.nodes if layout else ())
    joined = submitted.join(_freed(freed), on="slurm_id", how="left", maintain_order="left")
    is_known = ~col("id").is_in(cluster_events.disturbed_ends(events, lines, time))
    joined = joined.with_columns(v_freed=pl.when(is_known).then("v_freed"))
    for record in (
        last_executions(runs),
        details,
        recorded_executions(records),
        pauses.group_by(_JOB).agg(r_last_resume=col("v_resume").max()),
    ):
        joined = joined.join(record, on=_JOB, how="left", maintain_order="left")
    joined = _with_launches(_verdicts(_with_submission(_with_start(joined))), journal.launch_cost, clock)
    joined = _with_sizes(joined, recorded.sizes)
    joined = _with(joined, [of_run.surpluses(joined) for of_run in own], "surplus", pl.Int64)
    halted_by_events = clock.real_to_trace(journal.halted_by_events)
    told_late = cluster_events.told_late(events, joined, time, halted_by_events)
    foreign = foreign_jobs(log, ahead, run.read_queue(), _own_names(plan, settings), time.virtual_ns(journal.last_sign))
    evidence = _evidence(joined, time, manager.over_limit(run.configuration, clock.speed))
    jobs = _jobs(joined, time)
    starts = pl.concat([jobs.select("id", "start", "end"), evidence.select("slurm_id")], how="horizontal")
    evidence = _with(evidence, [of_run.vacated(starts) for of_run in own], "vacated", pl.Float64)
    changes = [changed for of_run in own if (changed := of_run.allocations(joined)) is not None]
    events = replace(
        events,
        caused=pl.concat([cluster_events.caused(events, lines, time, halted_by_events), told_late.drop_nulls("cause")]),
        availability=cluster_events.availability(events, lines, time, layout),
        halted=halted_by_events,
    )
    told = [
        disagreements.contradictions(joined, time, manager, held, told_late["job"].to_list(), is_event=is_event(settings)),
        disagreements.strays(submitted, lines, aftermath, records),
        disagreements.of_damage(damage),
    ]
    tables = Tables(
        suspensions=_suspensions(pauses.join(submitted, on=_JOB, how="semi"), time),
        executions=_executions(runs, records, joined, time),
        allocations=pl.concat([pl.DataFrame(schema=ALLOCATIONS_SCHEMA), *changes]),
        placements=_placements(lines, jobs, evidence, time),
        disagreements=pl.concat(told),
        foreign=foreign.filter(~of_run.is_own() for of_run in own) if own else foreign,
    )
    return RunRecord(
        jobs,
        evidence,
        time,
        tables,
        replay=_replay_account(journal, clock, plan.height - submitted.height),
        launches=_launches(journal.launch_cost, joined),
        event_clock=EventClock(is_event(settings), may_be_event(settings, run.experiment)),
        manager=ManagerFacts(manager.frees_at_end, freed.reason),
        names=manager.names,
        events=events,
        aspects=own,
    )


def _replay_account(journal: Journal, clock: Clock, unsubmitted: int) -> ReplayAccount:
    return ReplayAccount(
        retries=journal.retries,
        resubmitted=journal.resubmitted,
        interrupted=clock.real_to_trace(journal.interrupted),
        halted=clock.real_to_trace(journal.halted),
        unsubmitted=unsubmitted,
        halts=journal.halts,
        copies_cancelled=len(journal.copies),
        reruns_cancelled=len(journal.stale),
    )


def _launches(cost: LaunchCost, joined: pl.DataFrame) -> Launches:
    mean = None if cost.narrow is None else joined.select(col("launch_cost").mean()).item()
    return Launches(mean, joined.select(col("launch_error").max()).item(), cost.reason, cost)


def _check_instants(path: Path, journal: Journal, time: TimeMap) -> None:
    """Raises WrongUse if the journal has an instant that the run's clock cannot count in nanoseconds."""
    known = journal.submissions.select("due", "began", "accepted")
    instants = [*known.min().row(0), *known.max().row(0), journal.last_sign]
    if any(not 0 <= time.virtual_ns(instant) < 1 << 63 for instant in instants if instant is not None):
        raise WrongUse(f"{path}: has an instant that the cluster's clock cannot show", parameter="run")


def _with_start(joined: pl.DataFrame) -> pl.DataFrame:
    """Fills in s_start of jobs that changed their size, which the completion log does not have: the start that the manager told
    after the job's end, or the second of sigsleep's."""
    second = col("r_start") // NS * NS
    return joined.with_columns(s_start=pl.when("s_ran").then(pl.coalesce("s_start", "c_start", second)).otherwise("s_start"))


def _own_names(plan: pl.DataFrame, settings: Mapping[str, Any]) -> list[str]:
    """Names of all jobs that the replay may submit."""
    own = plan["name"].to_list()
    return [
        *own,
        *map(arrays.array_name, own),
        *(f"{settings.get('run', '')}{suffix}" for suffix in (PLACEHOLDER_SUFFIX, LAUNCH_SUFFIX)),
    ]


def _plan(run: RunFolder) -> pl.DataFrame:
    """The plan, with additional columns of the workload. Raises WrongUse if their jobs do not match."""
    plan = pl.DataFrame(list(map(cells, run.read_plan())), schema=_PLAN, orient="row")
    workload = run.workload
    known = workload.select(
        "id",
        "runtime",
        "requested",
        *(_optional(workload, name, pl.Int64) for name in ("user", "group", "executable", "queue")),
        _optional(workload, "priority", pl.String),
        _optional(workload, "preset", pl.String).replace("", None),
        _optional(workload, "limit_extended", pl.Boolean).fill_null(False),
    )
    if known["id"].is_duplicated().any() or plan.join(known, on="id", how="anti").height:
        raise WrongUse(f"{run.path / PLAN_FILE}: its jobs may be those of the workload, each once", parameter="run")
    return plan.join(known, on="id", maintain_order="left")


def _optional(frame: pl.DataFrame, name: str, kind: Any) -> pl.Expr:
    return (col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name)


def _submissions(plan: pl.DataFrame, journal: Journal, time: TimeMap) -> pl.DataFrame:
    """The submitted jobs of the plan, with slurm_id, v_due, v_began, v_accepted and cancel_wanted."""
    joined = plan.join(journal.submissions, on="index", suffix="_real", maintain_order="left")
    return joined.with_columns(
        v_due=time.virtual_of_real(col("due_real")),
        v_began=time.virtual_of_real(col("began")),
        v_accepted=time.virtual_of_real(col("accepted")),
        cancel_wanted=col("cancel_after").is_not_null() | col("index").is_in(journal.cancelled),
    )


def _with(frame: pl.DataFrame, tables: Sequence[pl.DataFrame | None], name: str, kind: Any) -> pl.DataFrame:
    """The rows with the column `name` of tables of aspects, which have it by `id`; null where none has it."""
    known = [pl.DataFrame(schema={"id": pl.Int64, name: kind}), *(table for table in tables if table is not None)]
    return frame.join(pl.concat(known), on="id", how="left", maintain_order="left")


def _with_sizes(joined: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """Adds what sigsleep recorded of each job's last execution: r_sizes (nodes at the start, and after each change) and r_changes
    (instants of the changes); null for jobs of one size, and without a record.

    sizes: id, slurm_id, restart, v_from, nodes
    """
    same = ["id", "slurm_id", "restart"]
    lists = sizes.group_by(same, maintain_order=True).agg(r_sizes="nodes", r_changes="v_from")
    frame = joined.join(lists, on=same, how="left", maintain_order="left")
    is_known = col("recorded") & pl.any_horizontal(col(*EXTRA_COLUMNS) != "") if EXTRA_COLUMNS else pl.lit(False)
    nothing = pl.lit([], pl.List(pl.Int64))
    return frame.with_columns(
        r_sizes=pl.when(is_known).then(pl.concat_list("nodes", pl.coalesce("r_sizes", nothing))),
        r_changes=pl.when(is_known).then(pl.coalesce("r_changes", nothing)),
    )


def _freed(freed: Freed) -> pl.DataFrame:
    """When jobs ended and when their processors were free again: slurm_id, v_ended, v_freed."""
    rows = [(job_id, *(round(instant * NS) for instant in instants)) for job_id, instants in freed.instants.items()]
    return pl.DataFrame(rows, schema=dict.fromkeys(("slurm_id", "v_ended", "v_freed"), pl.Int64), orient="row")


def _with_submission(joined: pl.DataFrame) -> pl.DataFrame:
    """Adds v_submit, the instant of acceptance: the end of the second that the manager recorded, but within the time from the first
    attempt to its answer. Lowers v_due to it.

    On a busy host the answer may come long after the manager accepted the job, and even after the job has started. A job that was
    accepted just before an interruption, and found after it, is in the journal with the instant to which the interruption
    postponed it.
    """
    recorded = pl.min_horizontal("v_accepted", col("s_submit") + NS)
    joined = joined.with_columns(v_submit=pl.max_horizontal("v_began", recorded))
    return joined.with_columns(v_due=pl.min_horizontal("v_due", "v_submit"))


def _verdicts(joined: pl.DataFrame) -> pl.DataFrame:
    """Adds state, recorded, restarts, shared (both records are of one execution), v_eligible, v_start, v_end, v_suspended."""
    is_recorded = pl.any_horizontal(col("s_state", "c_state", "r_start").is_not_null())
    by_sigsleep = pl.when("completed").then(pl.lit("COMPLETED")).when("cancel_wanted").then(pl.lit("CANCELLED"))
    # A requeued job that was killed before sigsleep could write again has a record of an earlier execution only.
    of_last_execution = col("s_state").is_null() | (col("s_ran") & (col("r_end") >= col("s_start")))
    frame = joined.with_columns(
        state=pl.when(is_recorded)
        .then(pl.coalesce("s_state", "c_state", by_sigsleep.otherwise(pl.lit("FAILED"))))
        .otherwise(pl.lit("LOST")),
        recorded=(col("r_start").is_not_null() & of_last_execution).fill_null(False),
        restarts=pl.max_horizontal(col("s_lines") - 1, "restart").fill_null(0),
    )
    ended = ~col("state").is_in([*NOT_ENDED, "LOST"])
    frame = frame.with_columns(
        shared=ended & col("recorded") & col("s_state").is_not_null(),
        v_eligible=_not_before_submission(pl.coalesce("s_eligible", "c_eligible")),
    )
    frame = frame.with_columns(
        v_start=pl.when("shared")
        .then(_shared_start())
        .when(col("s_state").is_null())
        .then(pl.coalesce("r_start", _not_before_submission(col("c_start"))))
        .otherwise(_not_before_submission(col("s_start"))),
    ).with_columns(
        v_end=pl.when("shared")
        .then(_shared_end())
        .when(ended & col("recorded"))
        .then("r_end")
        .when(ended)
        .then(_not_before_submission(pl.coalesce("s_end", "c_end"))),
    )
    never_ran = col("v_start").is_null()
    suspended = pl.when("recorded").then("r_stopped").otherwise("c_suspended")
    return frame.with_columns(v_suspended=pl.when(never_ran).then(0).otherwise(suspended))


def _shared_start() -> pl.Expr:
    """Start of an execution that is in both records.

    If Slurm's second ends before the submission (its clock is slightly behind the replay's) and sigsleep's start is after it, the
    start is the submission.
    """
    return _not_before_submission(pl.max_horizontal(in_second("r_start", "s_start"), pl.min_horizontal("r_start", "v_submit")))


def _shared_end() -> pl.Expr:
    """End of an execution that is in both records; not before its start or its last resumption. (Slurm records the suspension as
    the end of a job that is cancelled while it is suspended.)
    """
    resumed = pl.when(col("r_last_resume") <= col("r_end")).then("r_last_resume")
    return pl.max_horizontal(in_second("r_end", "s_end"), "v_start", resumed)


def _not_before_submission(printed: pl.Expr) -> pl.Expr:
    """Slurm's instant, raised to the acceptance if that is less than a second later: truncation must not make a wait negative.

    An earlier instant is kept: the clocks disagree then, which the validity reports.
    """
    submit = col("v_submit")
    return pl.when((printed < submit) & (printed > submit - NS)).then(submit).otherwise(printed)


def _jobs(joined: pl.DataFrame, time: TimeMap) -> pl.DataFrame:
    instants = ("submit", "eligible", "start", "end")

    def instant(name: str) -> pl.Expr:
        # A job whose eligibility lies after its end never became eligible.
        never = (col("v_eligible") > col("v_end")).fill_null(False) if name == "eligible" else pl.lit(False)
        return pl.when(~never).then("v_due" if name == "submit" else f"v_{name}")

    return joined.select(
        "id",
        *(time.trace(instant(name)).alias(name) for name in instants),
        time.length(col("v_suspended")).alias("suspended"),
        "processors",
        pl.when("s_ran").then(pl.coalesce("s_nodes", "nodes")).otherwise("nodes").alias("nodes"),
        "requested",
        "runtime",
        pl.coalesce("priority", "r_priority").alias("priority"),
        pl.coalesce("s_partition", pl.when(col("partition") != "").then("partition")).alias("partition"),
        "state",
        time.length(col("v_submit") - col("v_due")).alias("submit_lag"),
        "preset",
    ).with_columns(col(name).cast(kind) for name, kind in JOBS_SCHEMA.items())


def _suspensions(pauses: pl.DataFrame, time: TimeMap) -> pl.DataFrame:
    instants = (time.trace(col(f"v_{name}")).alias(name) for name in ("suspend", "resume"))
    return pauses.sort("v_suspend", "v_resume", "id").select(col("id").alias("job"), *instants)


def _placements(lines: pl.DataFrame, jobs: pl.DataFrame, evidence: pl.DataFrame, time: TimeMap) -> pl.DataFrame:
    """The table of `PLACEMENTS_SCHEMA`. lines: of the completion log (`run_records.completions`)"""
    about = jobs.select("id", "start", "end").join(evidence.select("id", "freed"), on="id", maintain_order="left")
    is_last = col("id").is_last_distinct()
    ran = lines.join(about, on="id", how="left", maintain_order="left").with_columns(is_last=is_last).filter("s_ran")
    refined = {name: pl.when("is_last").then(pl.max_horizontal(time.trace(col(f"s_{name}")), name)) for name in ("start", "end")}
    return ran.select(
        job="id",
        start=refined["start"].otherwise(time.trace(col("s_start"))),
        end=(refined["end"] + col("freed").fill_null(0.0)).fill_null(time.trace(col("s_end"))),
        hosts="hosts",
        processors=col("s_allocated"),
    )


def _executions(runs: pl.DataFrame, records: pl.DataFrame, joined: pl.DataFrame, time: TimeMap) -> pl.DataFrame:
    """The lost executions of the run's jobs in order of starts, columns of `EXECUTIONS_SCHEMA`. Of one that sigsleep recorded too,
    start and end are sigsleep's, within the seconds that Slurm printed. Slurm does not tell when an execution began that changed
    its size: without sigsleep's record that is taken to be its first change, and of any other unknown start the end.

    runs: result of `slurm_executions`; records: those of `read_sigsleep`
    """
    lost = runs.filter("is_lost").join(joined.select(*_JOB, "v_submit"), on=_JOB, maintain_order="left").with_row_index("number")
    begun, ended = pl.coalesce("s_start", col("s_resized").list.first(), "s_end"), col("s_end")
    same = (col("r_end") >= begun) & (col("r_start") <= col("s_end") + NS)
    both = lost.join(records.select(*_JOB, "r_start", "r_end"), on=_JOB, maintain_order="left").filter(same)
    known = both.unique("number", keep="first").select("number", "r_start", "r_end")
    start, end = (
        pl.coalesce(f"r_{name}", printed_instant).alias(f"r_{name}") for name, printed_instant in (("start", begun), ("end", ended))
    )
    table = lost.join(known, on="number", how="left", maintain_order="left").with_columns(start, end)
    printed = pl.when(col("s_start").is_null()).then("r_start").otherwise(in_second("r_start", "s_start"))
    table = table.with_columns(v_start=_not_before_submission(printed))
    table = table.with_columns(v_end=pl.max_horizontal("v_start", in_second("r_end", "s_end"))).sort("v_start", "id")
    return table.select(col("id").alias("job"), *(time.trace(col(f"v_{name}")).alias(name) for name in ("start", "end")))


def _with_launches(joined: pl.DataFrame, cost: LaunchCost, clock: Clock) -> pl.DataFrame:
    """Adds the cost of each job's launch and its standard error, in trace seconds: launch_cost, launch_error."""
    sizes = joined.select("processors", "nodes").unique()
    known = [(*size, cost.seconds(cost.nodes_of(*size)), cost.error(cost.nodes_of(*size))) for size in sizes.rows()]
    schema: Schema = {**sizes.schema, "launch_cost": pl.Float64, "launch_error": pl.Float64}
    second = clock.real_to_trace(1.0)
    costs = pl.DataFrame(known, schema=schema, orient="row").with_columns(col("launch_cost", "launch_error") * second)
    return joined.join(costs, on=["processors", "nodes"], how="left", nulls_equal=True, maintain_order="left")


def _evidence(joined: pl.DataFrame, time: TimeMap, grace: float) -> pl.DataFrame:
    """grace: virtual seconds beyond its limit after which a job may be killed."""
    held = col("s_end") - col("s_start")
    completed = (col("state") == "COMPLETED") & col("recorded")
    executed = (
        pl.when("shared")
        .then(col("v_end") - col("v_start") - col("v_suspended"))
        .when("recorded")
        .then("r_executed")
        .otherwise(held - col("c_suspended"))
    )
    wanted = col("runtime_virtual") * time.second
    limit = col("limit_minutes") * 60 * time.second
    # The limit of a job that changed its size was raised.
    at_limit = (col("state") == "TIMEOUT") & (col("restarts") == 0) & (col("s_sizes").list.len() == 1).fill_null(True)
    beyond = time.length(held - col("v_suspended").fill_null(0)) - limit
    late = pl.when(beyond > 0).then((beyond - grace * time.second).clip(0)).otherwise(beyond)
    # What a job that may change its size should have taken follows from its sizes.
    by_sizes = time.length(col("r_end") - col("r_start") - col("r_stopped") - col("surplus"))
    needed = pl.coalesce(by_sizes, wanted)
    stretch = pl.when(completed).then(time.length(held - col("r_stopped")) - needed).when(at_limit).then(late)
    launch = pl.when("recorded").then(col("r_start") - col("s_start")) / NS
    apart = pl.when(col("recorded") & (col("restarts") == 0) & (col("r_pauses") > 0)).then(col("r_stopped") - col("c_suspended"))
    return joined.select(
        "id",
        "slurm_id",
        "restarts",
        "recorded",
        "cancel_wanted",
        "limit_extended",
        allocated=pl.when("s_ran").then(pl.coalesce("s_allocated", "processors")).when("recorded").then("processors"),
        run_time=time.length(executed),
        launch=launch / time.clock.speed,
        suspended_apart=time.length(apart).abs(),
        stretch=stretch,
        expected=by_sizes,
        own_waits=pl.when(col("r_sizes").is_not_null()).then(time.length(col("r_waited"))),
        limit=limit,
        slurm_submit=time.trace(col("s_submit")),
        slurm_end=time.trace(col("s_end")),
        own_end=pl.when("recorded").then(time.trace(col("r_end"))),
        launch_cost=pl.min_horizontal(wanted, "launch_cost"),
        launch_error="launch_error",
        clipped=wanted < col("launch_cost"),
        freed=time.length(col("v_freed") - col("v_ended")),
        whole_nodes=col("nodes").is_not_null(),
        dependent=col("dependency") != "",
        request="request",
        array="array",
        at_once="at_once",
        memory="memory",
        limited=(col("account") != "") | (col("qos") != ""),
        user="user",
        group="group",
        executable="executable",
        queue="queue",
    )
