"""Computes a run's tables (jobs.csv and those beside it), schedule.swf and metrics.json from its records.

The same records give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from mirage.metrics import availability, metrics
from mirage.metrics.censored_waits import censoring_reasons
from mirage.metrics.gpu_use import gpu_use
from mirage.metrics.immediate_start import OF_RUNS
from mirage.metrics.measured_jobs import Cut, Population
from mirage.records import agreement, run_files, start_estimates, wait_causes
from mirage.records.allocations import read_allocations
from mirage.records.aspects import tables
from mirage.records.collect import collect
from mirage.records.file_names import (
    ALLOCATIONS_FILE,
    ESTIMATES_FILE,
    METRICS_FILE,
    PROMISES_FILE,
    REASONS_FILE,
    WAITS_FILE,
)
from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from mirage.records.run_samples import lacking_nodes
from mirage.verdict import aspects, dispatch_gaps, events, metric_errors, validity
from mirage.verdict.thresholds import Thresholds
from mirage.workloads import not_played
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.evidence import Layout


@dataclass(frozen=True)
class Results:
    """files: content by name; metrics: content of metrics.json; disagreements: number of them between the two records, by kind."""

    files: dict[str, bytes]
    metrics: dict[str, Any]
    disagreements: dict[str, int]


def results(
    run: RunFolder, processors: int, nodes: int, tau: float, thresholds: Mapping[str, Any], cuts: tuple[Cut, Cut] = ("0", "0")
) -> Results:
    """Results of the run whose records are in the folder; nothing is written.

    cuts: what is cut off the schedule's beginning and end before it is measured. Cuts that leave nothing to measure do not fail the
    run: the whole schedule is measured, and the run is inconclusive.

    The metrics are those of the rounded values of jobs.csv and the tables beside it, so that they can be computed again from these
    files to the last digit.
    Raises WrongUse for records that are not those of a run.
    """
    bounds = Thresholds.in_force(thresholds, run.scheduling)
    workload, record = run.workload, collect(run)
    jobs = run_files.rounded(record.jobs)
    changes: dict[str, Any] = {
        "suspensions": run_files.rounded(record.tables.suspensions),
        "executions": run_files.rounded(record.tables.executions),
        "allocations": _allocations(run, record, jobs),
    }
    own = {name: run_files.rounded(table) for name, table in tables(record.aspects, record.tables.allocations).items()}
    layout = run.machine(processors, nodes)
    absent = _absent(run, record, layout, bounds)
    whole: dict[str, Any] = {"immediate_below": OF_RUNS, "tables": own, "availability": absent, **changes}
    settings: dict[str, Any] = {"warmup_cut": cuts[0], "cooldown_cut": cuts[1], **whole}
    uncut = ""
    try:
        member = metrics.compute(jobs, processors, nodes, tau, **settings)
    except WrongUse as error:
        if not error.parameter.endswith("_cut"):
            raise
        uncut, cuts = f"{error.message}; the whole schedule is measured", ("0", "0")
        member = metrics.compute(jobs, processors, nodes, tau, **whole)
    if "not_played" in workload.columns:  # not in that of a calibration
        plain = set(run.journal.plain)
        refused = {row.id for row in run.read_plan() if row.index in plain} if plain else set()
        member["not_played"] = not_played.counts(not_played.with_refused(workload, refused))
    interval = bounds.backfill_cycle_seconds * record.time.second
    reasons = wait_causes.read_reasons(run.path / REASONS_FILE, record.time, run.manager, record.evidence.select("id", "slurm_id"))
    spans = run_files.rounded(wait_causes.waits(record, run.read_plan(), jobs, reasons, layout, run.scheduling, interval))
    began = pl.concat(
        [jobs.select(job="id", start="start"), record.tables.executions.select("job", "start")], how="vertical_relaxed"
    )
    promised = start_estimates.estimates(run.path / PROMISES_FILE, record.time, record.evidence.select("id", "slurm_id"), began)
    if not promised.is_empty():
        member["start_estimates"] = start_estimates.summary(promised)
    users = record.evidence.select("id", "user")
    member["wait_causes"] = wait_causes.summary(spans, jobs, users, processors, has_reasons=not reasons.is_empty())
    gaps = dispatch_gaps.dispatch_gaps(record, layout, run.scheduling, interval)
    judged = validity.judge(run, wait_causes.with_told_limits(record, reasons), layout, bounds, immediate_below=OF_RUNS, gaps=gaps)
    member["validity"] = {**judged, "thresholds": dict(thresholds)}
    member["validity"]["inconclusive_metrics"] |= censoring_reasons(member)
    if uncut:
        validity.add_unsure(member["validity"], uncut)
    population = Population.of(jobs, processors, nodes, *cuts, **changes)
    member |= aspects.members(record, member, population, changes["suspensions"])
    if layout.gpus:
        asked = {row.id: Request.parse(row.request) for row in run.read_plan()}
        member["gpus"] = gpu_use(population, asked, layout.gpus)
    if record.events:
        member["events"] = events.summary(record, judged["messages"])
    member |= metric_errors.errors(record, jobs, population, member, gaps, run.scheduling, backfill_interval=interval)
    validity.judge_errors(member, bounds, record)
    if run.recorded is not None:
        member["nearness"] = agreement.nearness_of(jobs, run.recorded, workload, member)
    files = {**run_files.render(record, processors, nodes), WAITS_FILE: run_files.csv_of(spans)}
    if not promised.is_empty():
        files[ESTIMATES_FILE] = run_files.csv_of(run_files.rounded(promised))
    files[METRICS_FILE] = (json.dumps(member, indent=1, allow_nan=False) + "\n").encode()
    kinds = record.tables.disagreements["kind"].value_counts(sort=True, name="count").rows()
    return Results(files, member, dict(kinds))


def _absent(run: RunFolder, record: RunRecord, layout: Layout, bounds: Thresholds) -> pl.DataFrame | str | None:
    """When nodes were out of service by events of the run; None if never; a text where others were, as by hand."""
    planned = events.planned_absence(record, run.samples, len(layout.nodes))
    lacking, _ = lacking_nodes(run.samples, len(layout.nodes), planned)
    if lacking is not None and lacking > bounds.nodes_lacking_share:
        return availability.OF_NO_EVENT
    return None if record.events.availability.is_empty() else run_files.rounded(record.events.availability)


def _allocations(run: RunFolder, record: RunRecord, jobs: pl.DataFrame) -> pl.DataFrame | None:
    """Changes of size: those of the run's jobs; of a run without such jobs those in allocations.csv, where it exists."""
    if record.changes_sizes:
        return run_files.rounded(record.tables.allocations)
    return read_allocations(run.path / ALLOCATIONS_FILE, jobs, "run") if run.has(ALLOCATIONS_FILE) else None
