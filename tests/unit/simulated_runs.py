"""Folders like those of finished runs, with the schedule of a simulated scheduler: for tests of what is made of a run's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mirage.metrics import metrics
from mirage.metrics.jobs_frame import JOBS_SCHEMA
from mirage.simulation import simulation
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
    bounds = {"submit_lag_p99": 10.0, "backfill_cycle_max": 30.0}
    validity = {"valid": not invalid, "reasons": list(invalid), "submit_lag_p99": 1.5, "backfill_cycle_max": 0.5, "bounds": bounds}
    validity |= {
        "stretch_classes": [{"size": "2-4", "runtime": "all", "jobs": 30, "p1": -0.02, "p50": 0.01, "p99": 0.3, "judged": "median"}]
    }
    measured["validity"] = validity | {"broken": {"lost": 0}, "limits_extended": 0}
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
