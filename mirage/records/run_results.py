"""Computes jobs.csv, suspensions.csv, executions.csv, schedule.swf and metrics.json from a run's records. The same records give the same bytes."""

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
from mirage.metrics.measured_jobs import Population
from mirage.records import allocations, collect, metric_errors, run_files, run_samples, validity
from mirage.records.layout import read_layout
from mirage.records.thresholds import Thresholds, read_configuration
from mirage.traces.csv_frame import check_lines
from mirage.workloads import not_played
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.rm.slurm.records import backfills, batch_delay


@dataclass(frozen=True)
class Results:
    """files: content by name; metrics: content of metrics.json; disagreements: number of them between the two records, by kind."""

    files: dict[str, bytes]
    metrics: dict[str, Any]
    disagreements: dict[str, int]


def results(folder: Path, processors: int, nodes: int, tau: float, thresholds: Mapping[str, Any]) -> Results:
    """Results of the run whose records are in `folder`; nothing is written.

    The metrics are those of the rounded values of jobs.csv, suspensions.csv and executions.csv, so that they can be computed again from
    these files to the last digit. Changes of size are read from allocations.csv, where it exists.
    Raises WrongUse for records that are not those of a run.
    """
    configuration = read_configuration(folder)
    bounds = Thresholds.in_force(thresholds, configuration)
    check_lines(folder / "workload.csv", "run")
    try:
        workload = pl.read_csv(folder / "workload.csv", infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise WrongUse(f"{folder}/workload.csv: cannot be read ({error})", parameter="run") from error
    run = collect.collect(folder, workload)
    jobs, resized = run_files.rounded(run.jobs), folder / allocations.NAME
    changes: dict[str, Any] = {
        "suspensions": run_files.rounded(run.suspensions),
        "executions": run_files.rounded(run.executions),
        "allocations": allocations.read_allocations(resized, jobs, "run") if resized.exists() else None,
    }
    found = metrics.compute(jobs, processors, nodes, tau, immediate_below=OF_RUNS, **changes)
    if "not_played" in workload.columns:  # not in a folder of an earlier release
        found["not_played"] = not_played.counts(workload)
    found["validity"] = {
        **validity.judge(
            run,
            run_samples.read_figures(folder / "samples.csv"),
            run_samples.read_diagnostics(folder),
            read_json(folder / "result.json") or read_json(folder / "progress.json") or {},
            read_layout(folder, processors, nodes),
            bounds,
            clock_offsets=run_samples.read_offsets(folder),
            complaints=run_samples.read_complaints(folder),
            immediate_below=OF_RUNS,
            backfills=bool(configuration) and backfills(configuration),
        ),
        "thresholds": dict(thresholds),
    }
    found["validity"]["inconclusive_metrics"] |= censoring_reasons(found)
    found |= metric_errors.errors(
        run,
        jobs,
        Population.of(jobs, processors, nodes, 0.0, 0.0, **changes),
        found,
        backfill_interval=bounds.backfill_cycle_seconds * run.time.second if backfills(configuration) else None,
        own_latency=(batch_delay(configuration) + 1.0) * run.time.second,  # its record has whole seconds
    )
    files = run_files.render(run, processors, nodes)
    files["metrics.json"] = (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()
    kinds = run.disagreements["kind"].value_counts(sort=True, name="count").rows()
    return Results(files, found, dict(kinds))
