"""How late waiting jobs were started: from the instant at which the scheduler's own rules would have started a job to its start.

The rules are those of first come, first served, or of EASY or conservative backfilling (mirage/simulation/dispatch.py). From `gap`
the time by which the scheduler itself may postpone a start is subtracted: its `start_delay`, and for a job that passes another one
the pause between two backfill cycles. No record of a run at a constant speed tells whether the scheduler used its `start_delay` or
the emulation was late: `late` has all of it. On the event clock time stands while anything works, so that only the scheduler's own
timers postpone a start, and `late` is `gap`.

They are known for one queue in order of submission: not with several partitions, priorities, dependencies, enforced limits of
accounts, memory, jobs beside the workload's, or events of the run.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.occupancy.machine import Machine
from mirage.records.record import RunRecord
from mirage.verdict.resolution import Resolution
from mirage.verdict.start_latency import changes_of_size
from slurm_mirage.rm.evidence import Layout, Scheduling

_BACKFILLING, _IN_ORDER = ("easy", "conservative"), ("fcfs",)
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
SCHEMA = {"id": pl.Int64, "gap": pl.Float64, "late": pl.Float64, "waited": pl.Boolean}


def policies(scheduling: Scheduling) -> tuple[str, ...]:
    """The simulated schedulers that stand for the run's scheduler."""
    return _BACKFILLING if scheduling.backfills else _IN_ORDER


def dispatch_gaps(record: RunRecord, layout: Layout, scheduling: Scheduling, interval: float) -> pl.DataFrame:
    """A row per job that started: id; gap, trace seconds by which it started late, beyond the scheduler's own delays, null where
    the rules would not have started it at its start either; late, those that the emulation may have made; waited, whether the job
    could not start at once. No rows where the rules are not known.

    interval: trace seconds between two backfill cycles
    """
    jobs = _jobs(record)
    if not _rules_are_known(record, layout, scheduling) or jobs["start"].count() == 0:
        return pl.DataFrame(schema=SCHEMA)
    from mirage.simulation import dispatch

    whole, resolution = bool(jobs["whole_nodes"].all()), run_time_resolution(record)
    jobs = jobs.with_columns(size="nodes" if whole else "taken")
    machine = len(layout.nodes) if whole else int(Machine(layout).usable.sum())

    def floats(name: str, otherwise: float = float("nan")) -> Floats:
        return jobs[name].cast(pl.Float64).fill_null(otherwise).to_numpy()

    recorded = dispatch.Recorded(
        arrival=floats("arrival"),
        processors=jobs["size"].to_numpy(),
        start=floats("start"),
        end=floats("until"),
        limit=floats("allowed"),
        leave=floats("leave", np.inf),
        machine=machine,
        resolution=resolution,
        changes=_changes(record, jobs, "most_nodes" if whole else "width"),
    )
    lateness = dispatch.dispatch(recorded, policies(scheduling))
    cycle = interval if scheduling.backfills else 0.0
    gap = lateness.beyond(own_delay(record, scheduling), cycle, resolution)
    late = gap if record.event_clock.is_used else lateness.beyond(0.0, cycle, 0.0)
    columns = {"gap": pl.Series(gap).fill_nan(None), "late": pl.Series(late).fill_nan(None)}
    gaps = jobs.select("id", "start", **columns, waited=pl.Series(lateness.waited))
    return gaps.drop_nulls("start").select(SCHEMA.keys())


def own_delay(record: RunRecord, scheduling: Scheduling) -> float:
    """Trace seconds by which the scheduler itself may postpone any start."""
    return scheduling.start_delay * record.time.second


def run_time_resolution(record: RunRecord) -> float:
    """Trace seconds up to which the time is known for which a job held its processors. Its program's own record has nanoseconds,
    and the manager's whole seconds; between the two lie the launch and the end, in which no time passes on the event clock."""
    resolution = Resolution.of(record)
    return 0.0 if record.event_clock.is_used else min(resolution.record, resolution.floor)


def _rules_are_known(record: RunRecord, layout: Layout, scheduling: Scheduling) -> bool:
    known = record.evidence
    limited = col("limited") & layout.enforces_limits
    apart = known.select(col("dependent") | (col("request") != "") | limited | (col("memory").fill_null(0) > 0)).to_series().any()
    return (
        scheduling.by_submission
        and record.beside is None
        and not record.events
        and not apart
        # With one processor a node, a job that takes whole nodes takes no others than one that does not.
        and (known["whole_nodes"].n_unique() <= 1 or all(node.processors == 1 for node in layout.nodes.values()))
        and record.jobs["partition"].drop_nulls().n_unique() <= 1
    )


def _jobs(record: RunRecord) -> pl.DataFrame:
    """The jobs that entered the queue, with arrival, taken (processors), until (when these were free again), allowed (time limit),
    leave (when it was cancelled while it waited)."""
    known = record.evidence.select("id", "allocated", "freed", "limit", "whole_nodes")
    before = record.tables.executions.group_by(id="job").agg(lost_until=col("end").max())
    jobs = record.jobs.join(known, on="id", maintain_order="left").join(before, on="id", how="left", maintain_order="left")
    freed = pl.lit(0.0) if record.manager.frees_at_end else col("freed").fill_null(col("freed").median()).fill_null(0.0)
    return jobs.filter(col("submit").is_not_null() & (col("processors") > 0) & (col("state") != "LOST")).with_columns(
        arrival=pl.max_horizontal(col("submit") + col("submit_lag").fill_null(0.0), "eligible", "lost_until"),
        taken=pl.coalesce("allocated", "processors"),
        until=col("end") + freed,
        allowed=pl.max_horizontal(pl.coalesce("limit", "requested", col("end") - col("start"), pl.lit(1.0)), pl.lit(1.0)),
        leave=pl.when(col("start").is_null()).then("end"),
    )


def _changes(record: RunRecord, jobs: pl.DataFrame, kind: str) -> tuple[Floats, Numbers]:
    """When the number of free processors, or nodes, changed otherwise than by starts and ends, and by how much: jobs that were
    suspended, changed their size, or were put back in the queue. kind: the column of changes of size that is meant"""
    sizes = jobs.select("id", "size")
    pauses = record.tables.suspensions.drop_nulls().join(sizes, left_on="job", right_on="id")
    lost = record.tables.executions.join(sizes, left_on="job", right_on="id")
    resized = changes_of_size(record.tables.allocations, jobs)
    changes = pl.concat(
        [
            pauses.select(time="suspend", free="size"),
            pauses.select(time="resume", free=-col("size")),
            lost.select(time="start", free=-col("size")),
            lost.select(time="end", free="size"),
            resized.select("time", free=-col(kind)),
        ],
        how="vertical_relaxed",
    ).drop_nulls()
    return changes["time"].to_numpy(), changes["free"].cast(pl.Int64).to_numpy()
