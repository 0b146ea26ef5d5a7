"""Schedules of a campaign whose differences are known, for tests of statistics and of comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from simulated_runs import in_run

from mirage.metrics import metrics
from mirage.statistics.comparison import Run
from mirage.statistics.intervals import Floats

NODES = 64
APART = 20_000.0  # s: longer than any wait


def correlated(random: np.random.Generator, count: int, correlation: float) -> Floats:
    """An autoregressive series of mean 0 and variance 1."""
    noise = random.normal(size=count + 100) * math.sqrt(1 - correlation**2)
    series = np.zeros(count + 100)
    for k in range(1, count + 100):
        series[k] = correlation * series[k - 1] + noise[k]
    return series[100:]


def run_of(
    label: str,
    replica: int,
    waits: Floats,
    *,
    runtimes: Floats | None = None,
    like: Run | None = None,
    gap: float = 60.0,
    **change: Any,
) -> Run:
    """A run of jobs that are submitted every `gap` seconds; its metrics are those of `metrics.compute`, or those of another run,
    where only what is computed from the jobs themselves is looked at.
    """
    count = len(waits)
    submit = gap * np.arange(count)
    executed = 100.0 + 977.0 * (np.arange(count) % 13) if runtimes is None else runtimes
    columns: dict[str, Any] = {
        "id": np.arange(count) + 1,
        "submit": submit,
        "start": submit + waits,
        "end": submit + waits + executed,
        "suspended": np.zeros(count),
        "processors": 1 + np.arange(count) % 7,
        "nodes": 1 + np.arange(count) % 7,
        "state": ["COMPLETED"] * count,
    }
    jobs = pl.DataFrame({**dict.fromkeys(metrics.JOBS_SCHEMA), **columns, **change}).select(
        pl.col(name).cast(kind) for name, kind in metrics.JOBS_SCHEMA.items()
    )
    if like is not None:
        return Run(label, replica, f"{label}-{replica}", jobs, like.metrics)
    none = pl.DataFrame(schema=metrics.SUSPENSIONS_SCHEMA)
    found = metrics.compute(jobs, NODES, NODES, suspensions=none)
    return Run(label, replica, f"{label}-{replica}", jobs, in_run(found))


def with_errors(run: Run, *, emulation: float = 0.0, replicas: float | None = None) -> Run:
    """The run, with errors that are these shares of each metric, also of classes of jobs. None: the error is not there."""

    def of(value: float | None) -> dict[str, float]:
        shares = {"emulation": emulation, "replicas": replicas}
        return {kind: share * abs(value or 0.0) for kind, share in shares.items() if share is not None}

    errors = {name: of(value) for name, value in run.metrics["metrics"].items()}
    classes = [
        {**row, "errors": {name: of(row[name]) for name in ("wait_mean", "bounded_slowdown_mean")}}
        for row in run.metrics["classes"]
    ]
    return replace(run, metrics={**run.metrics, "errors": errors, "classes": classes})


def campaign(
    seed: int,
    count: int = 60,
    replicas: int = 2,
    labels: Sequence[str] = ("a", "b"),
    gain: float = 0.2,
    *,
    is_queue: bool = True,
) -> list[Run]:
    """Each configuration after the first waits for less than the first by `gain`, more or less.

    is_queue: jobs wait in one queue; else each starts before the next one is submitted, and is a cycle of its own
    """
    random = np.random.default_rng(seed)
    base = random.lognormal(5, 1.5 if is_queue else 0.5, count)
    return [
        run_of(label, replica, base * (1 - gain * place) * random.uniform(0.9, 1.1, count), gap=60.0 if is_queue else APART)
        for replica in range(1, replicas + 1)
        for place, label in enumerate(labels)
    ]
