"""The study of fillers: a workload worked by hand, its bounds, and intervals over repetitions."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from mirage.simulation import saturation
from mirage_extras.filler.studies.simulation import KEYS, VALUES, Jobs, Point, Study, lomonosov, measure, simulated, summary
from slurm_mirage.extras.filler.words import PLANNED, SLOTS

SMALL = Study(
    ts=(0.05, 0.5), cs=(0.8, 1.0), accuracies=("0.5", "1"), waiting=10,
    machine=saturation.Study(processors=64, days=2, warmup_days=1, repetitions=2),
)  # fmt: skip


def quiet(*_: int) -> None:
    """A report of progress that does nothing."""


@pytest.fixture(scope="module")
def small() -> pl.DataFrame:
    tasks = [functools.partial(lomonosov, SMALL, accuracy, repetition) for accuracy in SMALL.accuracies for repetition in range(2)]
    return measure(SMALL, tasks, 2, quiet)


def test_by_hand() -> None:
    """Two processors, for 2400 s. Job 1 has one for the first 600 s, job 2 both from 1200 to 2400, submitted then: one is idle
    until 600, and both until 1200, 1,800 of 4,800 processor seconds.

    Slots of 600 s with t = 0.1: each of three slots gives 540 s, at c = 0.5 half of that. In variant planned nothing is saved
    before 1200, where job 2 comes unexpectedly: it waits for a save of 40 s.
    """
    jobs = Jobs(
        "log", "keep", 0, 2, np.array([0.0, 1200.0]), np.array([1, 2]), np.array([600.0, 1200.0]), np.array([600.0, 1200.0])
    )
    slots, planned = simulated(jobs, [Point(SLOTS, 600, 0.1, 0.5), Point(PLANNED, 600, 0.1, 0.5)]).rows(named=True)
    assert {name: slots[name] for name in ("idle", "main", "filler", "gain", "net", "bound", "delayed", "wait")} == pytest.approx(
        {"idle": 0.375, "main": 0.625, "filler": 0.375, "gain": 0.16875, "net": 0.16875, "bound": 0.16875, "delayed": 0, "wait": 0}
    )
    assert slots["seed_bound"] == pytest.approx(0.1 * 0.9 * 0.5)
    capacity = 2 * 2440
    gain = 0.5 * ((1200 - 20) + (600 - 20)) / capacity
    assert {name: planned[name] for name in ("main", "gain", "delayed", "delay", "wait")} == pytest.approx(
        {"main": 3000 / capacity, "gain": gain, "delayed": 0.5, "delay": 20, "wait": 20}
    )
    assert planned["net"] == pytest.approx(gain + 3000 / capacity - 0.625)


def test_all_points_of_all_jobs(small: pl.DataFrame) -> None:
    assert small.columns == [*KEYS, "repetition", *VALUES]
    # Two variants, two lengths of slots, two values of t; both speeds with estimates of accuracy 0.5.
    assert small.height == 2 * (2 * 2 * 2 * 2 + 2 * 2 * 2)
    assert small.group_by(KEYS).len()["len"].unique().to_list() == [2]


def test_the_gain_of_slots_of_the_jobs_own_length_is_the_bound(small: pl.DataFrame) -> None:
    """Jobs of the model start and end with minutes. A filler whose work is done leaves its processor within a slot."""
    rows = small.filter(pl.col("variant") == SLOTS, pl.col("slot") == 60)
    assert (rows["gain"] <= rows["bound"] * 1.0001).all() and (rows["gain"] >= 0.999 * rows["bound"]).all()
    assert (rows["lost"] == 0).all() and (rows["net"] - rows["gain"]).abs().max() < 1e-9  # type: ignore[operator]


def test_longer_slots_lose_work(small: pl.DataFrame) -> None:
    rows = small.filter(pl.col("variant") == SLOTS, pl.col("slot") == 600)
    assert (rows["lost"] > 0).all() and (rows["gain"] < rows["bound"]).all()


def test_planned_fillers_lose_no_work_and_delay_jobs(small: pl.DataFrame) -> None:
    rows = small.filter(pl.col("variant") == PLANNED)
    assert (rows["lost"] == 0).all() and (rows["delay"] > 0).all()
    assert (small.filter(pl.col("variant") == SLOTS)["delay"] == 0).all()
    # With exact estimates fewer starts are unexpected.
    delayed = {
        accuracy: rows.filter(pl.col("accuracy") == accuracy, pl.col("c") == 1)["delayed"].mean() for accuracy in ("0.5", "1")
    }
    assert delayed["1"] < delayed["0.5"]  # type: ignore[operator]


def test_means_with_intervals(small: pl.DataFrame) -> None:
    found = summary(small)
    row = found.row(0, named=True)
    same = small.join(found.head(1).select(KEYS), on=list(KEYS), how="semi")
    one, two = same["gain"].to_list()
    assert row["gain"] == pytest.approx((one + two) / 2) and row["repetitions"] == 2
    # Student's t with one degree of freedom.
    assert row["half_gain"] == pytest.approx(12.7062 * abs(one - two) / 2, rel=1e-4)
    assert summary(small.filter(pl.col("repetition") == 0))["half_gain"].null_count() == found.height


def test_a_point_is_written_as_words() -> None:
    assert Point(SLOTS, 600, 0.02, 0.8).words().text() == "work=36000 save=8 restore=4 interval=0 slot=600 speed=0.8"
    assert replace(Point(SLOTS, 60, 0.1, 1)).words().save == pytest.approx(4)
