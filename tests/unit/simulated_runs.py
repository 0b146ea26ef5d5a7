"""Folders like those of finished runs, with the schedule of a simulated scheduler: for tests of what is made of a run's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mirage.metrics import metrics
from mirage.metrics.jobs_frame import JOBS_SCHEMA
from mirage.records import agreement, wait_causes
from mirage.records.run_folder import RunFolder
from mirage.simulation import simulation
from mirage.statistics.sums_over_jobs import CLASS_METRICS
from mirage.workloads import models


def jobs_of(
    jobs: int, nodes: int, cpus: int, policy: str = "easy", seed: int = 1, load: float = 0.9, model: str = "lublin"
) -> pl.DataFrame:
    """A jobs frame (jobs.csv) of so many generated jobs."""
    frame = models.generate(model, jobs, seed, nodes * cpus, load=load)
    width = frame["requested_processors"].to_numpy().clip(1, nodes * cpus)
    width = np.where(width < 1, frame["allocated_processors"].to_numpy().clip(1, nodes * cpus), width)
    submit, run = frame["submit"].to_numpy().astype(np.float64), frame["run_time"].to_numpy().clip(1).astype(np.float64)
    asked = np.maximum(run, frame["requested_time"].to_numpy())
    start = simulation.schedule(submit, width, run, asked, nodes * cpus, policy)
    known = pl.DataFrame(
        {
            "id": np.arange(1, len(run) + 1),
            "submit": submit,
            "eligible": submit,
            "start": start,
            "end": start + run,
            "suspended": np.zeros(len(run)),
            "processors": width,
            "nodes": np.ceil(width / cpus).astype(np.int64),
            "requested": asked,
            "runtime": run,
            "state": ["COMPLETED"] * len(run),
            "submit_lag": np.zeros(len(run)),
        }
    )
    return known.select(
        (pl.col(name) if name in known.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in JOBS_SCHEMA.items()
    )


def verdict(word: str = "valid", *reasons: str, **figures: Any) -> dict[str, Any]:
    """The member "validity" of metrics.json, with all that is always there. figures: others, or in place of those"""
    named = {name: {} for name in ("inconclusive_metrics", "uncertain_metrics", "bounds", "thresholds")}
    listed = {"reasons": list(reasons), "inconclusive": list(reasons) if word == "inconclusive" else [], "stretch_classes": []}
    return {"verdict": word, "valid": word == "valid", "resolution": {"record": 1.0, "floor": 0.5}, **named, **listed, **figures}


def in_run(measured: dict[str, Any], validity: dict[str, Any] | None = None) -> dict[str, Any]:
    """metrics.json of a run whose emulation added nothing and in which nobody waited. measured: of `metrics.compute`"""
    errors = {name: {"emulation": 0.0, "other_jobs": None} for name in measured["metrics"]}
    classes = [{**row, "errors": {name: {"emulation": 0.0} for name in CLASS_METRICS}} for row in measured["classes"]]
    spans, nobody = pl.DataFrame(schema=wait_causes.WAITS_SCHEMA), pl.DataFrame(schema=JOBS_SCHEMA)
    users = pl.DataFrame(schema={"id": pl.Int64, "user": pl.Int64})
    causes = wait_causes.summary(spans, nobody, users, 1, has_reasons=False)
    of_run = {"errors": errors, "error_reasons": {}, "classes": classes, "not_played": {}, "wait_causes": causes}
    return measured | of_run | {"validity": verdict() if validity is None else validity}


def nearness(folder: Path, jobs: pl.DataFrame, measured: dict[str, Any]) -> dict[str, Any] | None:
    """The member "nearness" of metrics.json, from the recorded.csv and the workload.csv in the folder."""
    run = RunFolder(folder)
    assert run.recorded is not None
    return agreement.nearness_of(jobs, run.recorded, run.workload, measured)


def write(
    folder: Path,
    jobs: pl.DataFrame,
    nodes: int,
    cpus: int,
    *,
    suspensions: pl.DataFrame | None = None,
    allocations: pl.DataFrame | None = None,
    invalid: tuple[str, ...] = (),
    trace: dict[str, Any] | None = None,
    **inputs: str,
) -> dict[str, Any]:
    """A run's folder with these jobs; metrics.json as the result."""
    folder.mkdir(parents=True, exist_ok=True)
    known = (
        pl.DataFrame(schema={"job": pl.Int64, "suspend": pl.Float64, "resume": pl.Float64}) if suspensions is None else suspensions
    )
    measured = metrics.compute(jobs, nodes * cpus, nodes, suspensions=known, allocations=allocations)
    figures: dict[str, Any] = {"submit_lag_p99": 1.5, "backfill_cycle_max": 0.5, "broken": {"lost": 0}, "limits_extended": 0}
    figures["bounds"] = {"submit_lag_p99": 10.0, "start_latency_p99": 30.0}
    figures["stretch_classes"] = [
        {"size": "2-4", "runtime": "all", "jobs": 30, "p1": -0.02, "p50": 0.01, "p99": 0.3, "judged": "median"}
    ]
    measured = in_run(measured, verdict("invalid" if invalid else "valid", *invalid, **figures))
    if (folder / "recorded.csv").exists():
        measured["nearness"] = nearness(folder, jobs, measured)
    chosen = {"NODES": str(nodes), "CPUS": str(cpus), "SHRINK": "100", "CONFIG": "backfill", "CLASSES": "", "SEED": "1", **inputs}
    source = trace or {"path": None, "generated": "lublin", "sha256": "0" * 64}
    experiment = {
        "run": folder.name,
        "inputs": chosen,
        "knobs": chosen,
        "trace": source,
        "clock": {"asked": "500", "speed": 500.0, "virtual": True, "began": {"real": 1000.0, "virtual": 5000.0}},
        "slurm": {"version": "22.05.8"},
        "host": {"cores": 2},
    }
    jobs.write_csv(folder / "jobs.csv")
    known.write_csv(folder / "suspensions.csv")
    if allocations is not None:
        allocations.write_csv(folder / "allocations.csv")
    # Ten looks, an hour of Slurm's time apart.
    looks = [(1000.0 + 7.2 * k, 5000.0 + 3600 * k, 100_000 * k, k, 3, 0.5) for k in range(10)]
    names = ["real", "virtual", "bf_last_cycle_us", "bf_queue_length", "server_threads", "cpu_busy"]
    samples = pl.DataFrame(looks, schema=names, orient="row")
    samples.drop("cpu_busy").write_csv(folder / "sdiag.csv")
    samples.select("real", "virtual", "cpu_busy").write_csv(folder / "samples.csv")
    (folder / "metrics.json").write_text(json.dumps(measured))
    (folder / "experiment.json").write_text(json.dumps(experiment))
    (folder / "slurm.conf").write_text(f"NodeName=n[1-{nodes}] NodeAddr=127.0.0.1 Port=[17001-17002] CPUs={cpus}\n")
    word = "invalid" if invalid else "ok"
    (folder / "status.json").write_text(
        json.dumps({"ending": word, "message": f"{word}: {len(jobs)} jobs", "code": int(bool(invalid))})
    )
    return measured
