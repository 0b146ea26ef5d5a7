"""A third of a full grid of 27 against all of it, on parts of a real log, with simulated backfilling in place of Slurm.

The three settings are like bf_max_job_test (waiting jobs with reservations), bf_resolution (limits are rounded up to it) and
bf_interval (jobs are looked at each so many seconds).
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from real_logs import KTH, real_log

from mirage.simulation import simulation
from mirage.traces.trace import read_trace
from mirage.tuning.sampler import next_points
from mirage.tuning.surrogate import Axis, Point
from mirage.tuning.told import Told

DEPTHS, RESOLUTIONS, INTERVALS = (1, 10, 500), (60, 3600, 14_400), (30, 600, 3600)
BASE = (2, 0, 0)
JOBS, PROCESSORS = 500, 100
GRID = list(itertools.product(range(3), repeat=3))


def grid_of(log: Path, offset: int, goal: str) -> dict[Point, float]:
    """The mean or the 95th percentile of the waits at each point."""
    jobs = read_trace(log).frame.filter(pl.col("run_time") > 0).slice(offset, JOBS)
    submit, run = (jobs[name].to_numpy().astype(float) for name in ("submit", "run_time"))
    width = jobs["allocated_processors"].to_numpy().clip(1, PROCESSORS)
    asked = np.maximum(jobs["requested_time"].to_numpy().astype(float), run)
    found = {}
    for point in GRID:
        depth, resolution, interval = (values[k] for values, k in zip((DEPTHS, RESOLUTIONS, INTERVALS), point, strict=True))
        seen, limit = (np.ceil(times / step) * step for times, step in ((submit, interval), (asked, resolution)))
        start = simulation.schedule(seen, width, run, limit, PROCESSORS, "conservative", depth=depth)
        waits = start - submit
        found[point] = float(waits.mean() if goal == "mean" else np.quantile(waits, 0.95))
    return found


@pytest.mark.parametrize("goal", ["mean", "p95"])
@pytest.mark.parametrize("offset", [2000, 9000, 15_000, 19_151])
def test_a_third_of_the_runs_finds_what_all_find(offset: int, goal: str) -> None:
    figures = grid_of(real_log(KTH), offset, goal)
    told: list[Told] = []
    while len(told) < 9:
        told += [Told(point, figures[point]) for point in next_points([Axis(3)] * 3, told, 1, 1, BASE)]
    low, high = min(figures.values()), max(figures.values())
    assert min(one.figure or np.inf for one in told) <= low + 0.05 * (high - low)
