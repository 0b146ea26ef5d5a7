"""The records of a run, joined: what the verdict, the metrics and the pages are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import polars as pl

from mirage.metrics.jobs_frame import ALLOCATIONS_SCHEMA, EXECUTIONS_SCHEMA
from mirage.records import cluster_events, disagreements
from mirage.records.aspects import OfRun
from mirage.records.run_records import FOREIGN_SCHEMA, Schema
from mirage.records.time_map import TimeMap
from slurm_mirage.replay.launch_cost import REAL_TIME, LaunchCost
from slurm_mirage.rm.evidence import Names
from slurm_mirage.rm.managers import DEFAULT
from slurm_mirage.rm.registry import IMPLEMENTATIONS

Of = TypeVar("Of", bound=OfRun)
SUSPENSIONS_SCHEMA: Schema = {"job": pl.Int64, "suspend": pl.Float64, "resume": pl.Float64}
PLACEMENTS_SCHEMA: Schema = {
    "job": pl.Int64,
    "start": pl.Float64,
    "end": pl.Float64,
    "hosts": pl.String,
    "processors": pl.Int64,
}
"""Executions of jobs, and parts of them before changes of size; instants of those before the last one are the manager's whole
seconds. `hosts` is a list of nodes, the end is when the processors were free again, null if it is not known."""


@dataclass(frozen=True)
class Tables:
    """Tables of a run beside that of its jobs. Times are trace seconds, null is unknown."""

    suspensions: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=SUSPENSIONS_SCHEMA))
    """Columns of `SUSPENSIONS_SCHEMA`: suspensions of all executions."""
    executions: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=EXECUTIONS_SCHEMA))
    """Columns of `EXECUTIONS_SCHEMA`: executions before the last one, whose work was lost."""
    allocations: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=ALLOCATIONS_SCHEMA))
    """Columns of `ALLOCATIONS_SCHEMA`: changes of size of the jobs' last executions."""
    placements: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=PLACEMENTS_SCHEMA))
    """Columns of `PLACEMENTS_SCHEMA`: which nodes the executions of jobs had."""
    disagreements: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=disagreements.SCHEMA))
    """Disagreements of the records: id (null: not about a job), kind, seconds (null: not about a time). docs/records.md lists the
    kinds."""
    foreign: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=FOREIGN_SCHEMA))
    """Jobs that were in the cluster during the run, and that the replay did not submit: slurm_id, name, user."""


@dataclass(frozen=True)
class ReplayAccount:
    """What the replay did beside submitting each job once at its instant. Times are trace seconds."""

    retries: int = 0
    """Number of refused submissions that were repeated."""
    resubmitted: int = 0
    """Number of jobs submitted again because the resource manager had lost them."""
    interrupted: float = 0.0
    """Total time for which the replay was down; later submissions were postponed by it."""
    halted: float = 0.0
    """Total time for which no job could start: from the last answer of a controller that died, and the halts."""
    unsubmitted: int = 0
    """Jobs of the plan that were never submitted."""
    halts: Sequence[Mapping[str, Any]] = ()
    """Times in which a controller that had not ended, or the replay, did nothing: what, since (real instant), seconds (real)."""
    copies_cancelled: int = 0
    """Second copies of jobs that the replay cancelled, after a restart of the controller."""
    reruns_cancelled: int = 0
    """Second runs of jobs that the replay cancelled, because the controller had forgotten their end when it was restarted."""


@dataclass(frozen=True)
class Launches:
    """What launches of jobs cost. Times are trace seconds."""

    cost: float | None = None
    """Mean of the jobs; None if it was not measured, and nothing was taken off the jobs' programs."""
    error: float | None = None
    """Its standard error, the largest of all jobs'; None if it was not measured."""
    reason: str = ""
    """What of it could not be measured; empty if all was that the jobs need."""
    by_size: LaunchCost = REAL_TIME
    """What launches on few and on many nodes cost, in real seconds."""


@dataclass(frozen=True)
class EventClock:
    """Whether a run was on the event clock (run_clock.py)."""

    is_used: bool = False
    is_possible: bool = False
    """Whether the run was at a constant SPEED on a cluster of Slurm on one host, which can have the event clock."""


@dataclass(frozen=True)
class ManagerFacts:
    """What the record of a run has of its resource manager."""

    frees_at_end: bool = False
    """Whether its record ends a job when its processors are free: `freed` of the evidence is not measured apart then."""
    freed_reason: str = ""
    """Why `freed` of the evidence is not known of any job; empty if it is."""
    limits_told: bool = False
    """Whether `limited` of the evidence is from its log (`wait_causes.with_told_limits`), not from accounts and QOS."""


@dataclass(frozen=True)
class RunRecord:
    """The records of a run. Times are trace seconds, null is unknown."""

    jobs: pl.DataFrame
    """A row per submitted job, in order of submission, with the columns of `JOBS_SCHEMA`. Start, end and time suspended of a job
    that Slurm requeued are those of its last execution; it has no start if it was cancelled in the queue, or not started again."""
    evidence: pl.DataFrame
    """A row per job, in the same order, with id and these columns:

    slurm_id, restarts, cancel_wanted, limit_extended, whole_nodes; user, group, executable, queue as in the workload
    dependent: whether it was submitted with a dependency
    request: what else it asked for beside processors, memory for each, and a partition (`Request.words`)
    array: the id of task 0 of its array, null if it is not a task
    at_once: how many tasks of its array may run at once; null: any number, or no array
    memory: MiB per processor that it was submitted with; null if none
    limited: whether it was submitted under an account or a QOS, which may have limits (see `wait_causes.with_told_limits`)
    recorded: whether sigsleep has a record of the last execution
    allocated: processors; null if it never ran
    run_time: run time of the last execution; for a job that started once end - start - suspended
    launch: real seconds from Slurm's start to sigsleep's, up to 1 virtual second too long (Slurm truncates its start)
    suspended_apart: difference of sigsleep's and Slurm's times suspended, for jobs that were suspended and started once; null if
        only one of them is known
    stretch: time for which Slurm held processors in the last execution beyond the planned run time and suspensions, +- 1 virtual
        second; of jobs killed at their time limit in their first execution beyond the limit, less what the manager itself takes to
        kill them (`Records.over_limit`); null for jobs that did not end in one of these ways
    expected: what a job that may change its size should have taken with the sizes that it had, their costs, and its own waits; null
        for others, and without sigsleep's record
    own_waits: time for which the program of such a job waited for an answer, by its own record; null for others
    limit: time limit
    slurm_submit, slurm_end: submission and last end as Slurm recorded them, truncated to 1 virtual second
    own_end: the last end as sigsleep recorded it
    launch_cost: by how much the run time of its sleep program was reduced to compensate for its launch (launch_cost.py)
    launch_error: standard error of the cost of its launch; null if that was not measured
    clipped: whether its planned run time was shorter than the cost of its launch, so that its program ran for 0 s
    freed: from the end that Slurm recorded until its processors were free again; null if that is not known
    vacated: instant at which jobs beside the workload's had left its nodes for it; null if they were not the last that held them
    """
    time: TimeMap
    tables: Tables = field(default_factory=Tables)
    replay: ReplayAccount = field(default_factory=ReplayAccount)
    launches: Launches = field(default_factory=Launches)
    event_clock: EventClock = field(default_factory=EventClock)
    manager: ManagerFacts = field(default_factory=ManagerFacts)
    names: Names = IMPLEMENTATIONS[DEFAULT].records.names
    """What the resource manager and its daemons are called."""
    events: cluster_events.ClusterEvents = field(default_factory=cluster_events.ClusterEvents)
    """The events of the run; none without EVENTS, FAILURES and MAINTENANCE."""
    aspects: tuple[OfRun, ...] = ()
    """What the aspects have that the run has."""

    def of(self, kind: type[Of]) -> Of | None:
        """What an aspect has of the run, by its class; None for a run without it."""
        return next((of_run for of_run in self.aspects if isinstance(of_run, kind)), None)

    @property
    def changes_sizes(self) -> bool:
        """Whether jobs of the run may change their number of nodes while they run."""
        return any(of_run.changes_sizes for of_run in self.aspects)

    @property
    def beside(self) -> pl.DataFrame | None:
        """Executions of jobs beside the workload's, on nodes that these left idle: start, end. None without such jobs."""
        tables = [table for of_run in self.aspects if (table := of_run.beside()) is not None]
        return pl.concat(tables) if tables else None
