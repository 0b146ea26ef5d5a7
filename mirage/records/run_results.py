"""Computes jobs.csv, suspensions.csv, schedule.swf and metrics.json from a run's records. The same records give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mirage.metrics import metrics
from mirage.metrics.immediate_start import OF_RUNS
from mirage.records import allocations, collect, run_files, run_samples, validity
from mirage.records.layout import read_layout
from mirage.records.thresholds import Thresholds, read_configuration
from mirage.traces.csv_frame import check_lines
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.rm.slurm.records import has_backfill


@dataclass(frozen=True)
class Results:
    """files: content by name; metrics: content of metrics.json; disagreements: number of them between the two records, by kind."""

    files: dict[str, bytes]
    metrics: dict[str, Any]
    disagreements: dict[str, int]


def results(folder: Path, processors: int, nodes: int, tau: float, thresholds: Mapping[str, Any]) -> Results:
    """Results of the run whose records are in `folder`; nothing is written.

    The metrics are those of the rounded values of jobs.csv and suspensions.csv, so that they can be computed again from these files
    to the last digit. Changes of size are read from allocations.csv, where it exists.
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
    found = metrics.compute(
        jobs,
        processors,
        nodes,
        tau,
        suspensions=run_files.rounded(run.suspensions),
        allocations=allocations.read_allocations(resized, jobs, "run") if resized.exists() else None,
        immediate_below=OF_RUNS,
    )
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
            backfills=has_backfill(configuration),
        ),
        "thresholds": dict(thresholds),
    }
    files = run_files.render(run, processors, nodes)
    files["metrics.json"] = (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()
    kinds = run.disagreements["kind"].value_counts(sort=True, name="count").rows()
    return Results(files, found, dict(kinds))
