"""Computes jobs.csv, suspensions.csv, executions.csv, schedule.swf and metrics.json from a run's records. The same records give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mirage.metrics import metrics
from mirage.metrics.immediate_start import immediate_below
from mirage.metrics.measured_jobs import Population
from mirage.records import allocations, collect, metric_errors, run_files, validity
from mirage.traces.csv_frame import check_lines
from mirage.workloads import not_played
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.rm.slurm.records import backfills


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
    configuration = validity.read_configuration(folder)
    bounds = validity.Thresholds.in_force(thresholds, configuration)
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
    at_once = immediate_below(run.time.clock.speed, run.time.clock.shrink)
    found = metrics.compute(jobs, processors, nodes, tau, immediate_below=at_once, **changes)
    if "not_played" in workload.columns:  # not in a folder of an earlier release
        found["not_played"] = not_played.counts(workload)
    found["validity"] = {
        **validity.judge(
            run,
            validity.read_figures(folder / "samples.csv"),
            validity.read_diagnostics(folder),
            read_json(folder / "result.json") or read_json(folder / "progress.json") or {},
            processors,
            nodes,
            bounds,
            clock_offsets=validity.read_offsets(folder),
            complaints=validity.read_complaints(folder),
        ),
        "thresholds": dict(thresholds),
    }
    latency = found["validity"]["start_latency_p50"] or 0.0
    found |= metric_errors.errors(
        run,
        jobs,
        Population.of(jobs, processors, nodes, 0.0, 0.0, **changes),
        found,
        backfills=backfills(configuration),
        start_latency=max(0.0, latency - bounds.start_latency_seconds * run.time.second),
    )
    files = run_files.render(run, processors, nodes)
    files["metrics.json"] = (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()
    kinds = run.disagreements["kind"].value_counts(sort=True, name="count").rows()
    return Results(files, found, dict(kinds))
