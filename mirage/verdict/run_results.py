"""Computes a run's tables (jobs.csv and those beside it), schedule.swf and metrics.json from its records.

The same records give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mirage.metrics import metrics
from mirage.metrics.censored_waits import censoring_reasons
from mirage.metrics.immediate_start import OF_RUNS
from mirage.metrics.measured_jobs import Cut, Population
from mirage.records import allocations, collect, run_files, run_samples
from mirage.traces.csv_frame import check_lines
from mirage.verdict import dispatch_gaps, filler_figures, metric_errors, validity
from mirage.verdict.thresholds import Thresholds
from mirage.workloads import not_played
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.base.run_files import PROGRESS, RESULT
from slurm_mirage.base.strict_json import without_null
from slurm_mirage.rm.evidence import Layout
from slurm_mirage.rm.registry import records_of


@dataclass(frozen=True)
class Results:
    """files: content by name; metrics: content of metrics.json; disagreements: number of them between the two records, by kind."""

    files: dict[str, bytes]
    metrics: dict[str, Any]
    disagreements: dict[str, int]


def results(
    folder: Path, processors: int, nodes: int, tau: float, thresholds: Mapping[str, Any], cuts: tuple[Cut, Cut] = ("0", "0")
) -> Results:
    """Results of the run whose records are in `folder`; nothing is written.

    cuts: what is cut off the schedule's beginning and end before it is measured. Cuts that leave nothing to measure do not fail the
    run: the whole schedule is measured, and the run is inconclusive.

    The metrics are those of the rounded values of jobs.csv and the tables beside it, so that they can be computed again from these
    files to the last digit.
    Raises WrongUse for records that are not those of a run.
    """
    manager = records_of(folder)
    configuration = manager.configuration(folder)
    scheduling, bounds = manager.scheduling(configuration), Thresholds.in_force(thresholds, configuration, manager)
    check_lines(folder / "workload.csv", "run")
    try:
        workload = pl.read_csv(folder / "workload.csv", infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise WrongUse(f"{folder}/workload.csv: cannot be read ({error})", parameter="run") from error
    run = collect.collect(folder, workload)
    jobs = run_files.rounded(run.jobs)
    changes: dict[str, Any] = {
        "suspensions": run_files.rounded(run.suspensions),
        "executions": run_files.rounded(run.executions),
        "allocations": _allocations(run, folder / allocations.NAME, jobs),
    }
    filled = None if run.fillers is None else run_files.rounded(run.fillers.executions)
    whole: dict[str, Any] = {"immediate_below": OF_RUNS, "fillers": filled, **changes}
    settings: dict[str, Any] = {"warmup_cut": cuts[0], "cooldown_cut": cuts[1], **whole}
    uncut = ""
    try:
        found = metrics.compute(jobs, processors, nodes, tau, **settings)
    except WrongUse as error:
        if not error.parameter.endswith("_cut"):
            raise
        uncut, cuts = f"{error.message}; the whole schedule is measured", ("0", "0")
        found = metrics.compute(jobs, processors, nodes, tau, **whole)
    if run.malleable:
        found["resizes"] = run.broker
    if "not_played" in workload.columns:  # not in a folder of an earlier release
        found["not_played"] = not_played.counts(workload)
    described, interval = manager.layout(folder), bounds.backfill_cycle_seconds * run.time.second
    # Equal nodes, if the run has no configuration that describes `nodes` nodes.
    layout = described if described and len(described.nodes) == nodes else Layout.of_equal(processors, nodes)
    gaps = dispatch_gaps.dispatch_gaps(run, layout, scheduling, interval)
    found["validity"] = {
        **validity.judge(
            run,
            run_samples.read_figures(folder / "samples.csv"),
            run_samples.read_diagnostics(folder),
            without_null(read_json(folder / "result.json", RESULT) or read_json(folder / "progress.json", PROGRESS) or {}),
            layout,
            bounds,
            clock_offsets=run_samples.read_offsets(folder),
            complaints=run_samples.read_complaints(folder),
            immediate_below=OF_RUNS,
            gaps=gaps,
            backfills=scheduling.has_cycles,
        ),
        "thresholds": dict(thresholds),
    }
    found["validity"]["inconclusive_metrics"] |= censoring_reasons(found)
    if uncut:
        validity.add_unsure(found["validity"], uncut)
    population = Population.of(jobs, processors, nodes, *cuts, **changes)
    if run.fillers is not None:
        found["fillers"] = filler_figures.summary(run.fillers, found, population, changes["suspensions"], run.time)
    found |= metric_errors.errors(run, jobs, population, found, gaps, scheduling, backfill_interval=interval)
    validity.judge_errors(found, bounds, run)
    files = run_files.render(run, processors, nodes)
    files["metrics.json"] = (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()
    kinds = run.disagreements["kind"].value_counts(sort=True, name="count").rows()
    return Results(files, found, dict(kinds))


def _allocations(run: collect.Collected, path: Path, jobs: pl.DataFrame) -> pl.DataFrame | None:
    """Changes of size: those of malleable jobs; of a run without any those in allocations.csv, where it exists."""
    if run.malleable:
        return run_files.rounded(run.allocations)
    return allocations.read_allocations(path, jobs, "run") if path.exists() else None
