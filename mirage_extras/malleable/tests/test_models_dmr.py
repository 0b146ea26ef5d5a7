"""The model dmr against table 4 of the DMR API's study, by simulation."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from malleable_simulation import simulate

from mirage.simulation.simulation import schedule
from mirage.workloads import models
from mirage_extras.malleable.rules import words_of
from slurm_mirage.extras.malleable.words import Malleable

NODES = 64
SEEDS = (1, 2, 3)
# Jobs, and wait and execution in s: fixed, flexible; utilisation in %.
TABLE_4 = {
    50: ((4115.02, 620.26, 98.71), (1359.92, 900.3, 68.67)),
    100: ((9750.34, 586.64, 97.39), (2990.6, 858.16, 71.91)),
    200: ((17466.2, 520.58, 98.38), (6856.8, 825.88, 73.54)),
    400: ((31788.39, 532.14, 98.38), (13861.03, 843.19, 73.54)),
}


def fixed(jobs: pl.DataFrame) -> dict[str, float]:
    submit, sizes, runs = (jobs[name].to_numpy() for name in ("submit", "allocated_processors", "run_time"))
    starts = schedule(submit, sizes, runs, runs, NODES, "easy")
    span = (starts + runs).max() - submit[0]
    return {
        "wait": float((starts - submit).mean()),
        "execution": float(runs.mean()),
        "utilisation": 100 * float((sizes * runs).sum()) / NODES / span,
    }


def flexible(jobs: pl.DataFrame) -> dict[str, float]:
    submit, sizes, runs = (jobs[name].to_list() for name in ("submit", "allocated_processors", "run_time"))
    played = simulate(submit, sizes, runs, [Malleable.parse(words_of("dmr", size, NODES)) for size in sizes], NODES)
    return {"wait": played.wait, "execution": played.execution, "utilisation": played.utilisation}


@pytest.mark.parametrize("count", TABLE_4)
def test_simulated_rows_of_table_4(count: int) -> None:
    workloads = [models.generate("dmr", count, seed, NODES) for seed in SEEDS]
    for play, row in zip((fixed, flexible), TABLE_4[count], strict=True):
        found = [play(jobs) for jobs in workloads]
        means = [float(np.mean([one[name] for one in found])) for name in ("wait", "execution", "utilisation")]
        assert means == [pytest.approx(value, rel=0.14) for value in row]


def test_applications_sizes_and_run_times() -> None:
    jobs = models.generate("dmr", 300, 1, NODES)
    of_each = jobs.group_by("executable").agg(pl.len(), pl.col("allocated_processors").unique(), pl.col("run_time").unique())
    assert of_each.sort("executable").rows() == [(1, 100, [32], [245]), (2, 100, [32], [245]), (3, 100, [16], [1250])]


def test_gaps_are_exponential_with_a_mean_of_10_s() -> None:
    jobs = models.generate("dmr", 100_000, 1, NODES)
    gaps = np.diff(jobs["submit"].to_numpy())
    # Four standard errors; whole seconds, rounded down.
    assert gaps.mean() == pytest.approx(10, abs=4 * 10 / 100_000**0.5)
    assert gaps.std() == pytest.approx(10, rel=0.03)
