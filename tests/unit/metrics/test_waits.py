"""Waits of which some are censored: restricted mean, horizon, and which metrics are inconclusive."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import frame, restricted_mean

from mirage.metrics import metrics
from mirage.metrics.censored_waits import MOST_CENSORED, censoring_reasons
from mirage.metrics.waits import Waits, common_horizon

_SECONDS = st.lists(st.integers(0, 50).map(float), max_size=30)


def waits(started: list[float], censored: list[float]) -> Waits:
    return Waits(np.array(started, np.float64), np.array(censored, np.float64))


@given(_SECONDS.filter(bool), _SECONDS)
@settings(deadline=None, max_examples=150)
def test_the_restricted_mean_is_the_area_below_scipys_estimate(started: list[float], censored: list[float]) -> None:
    found = waits(started, censored)
    assert found.restricted_mean(found.horizon) == pytest.approx(restricted_mean(started, censored), abs=1e-9)
    assert found.restricted_mean(found.horizon / 2) <= min(found.restricted_mean(found.horizon), found.horizon / 2) + 1e-9


@given(_SECONDS.filter(bool), st.integers(0, 60).map(float))
@settings(deadline=None, max_examples=50)
def test_without_censored_waits_it_is_the_mean(started: list[float], horizon: float) -> None:
    found = waits(started, [])
    assert found.restricted_mean(found.horizon) == pytest.approx(sum(started) / len(started))
    assert found.restricted_mean(horizon) == pytest.approx(sum(min(one, horizon) for one in started) / len(started))


def test_a_cancellation_at_an_unknown_time_is_counted_and_says_nothing() -> None:
    found = waits([0.0, 0.0, 30.0], [math.nan])
    assert (found.share, found.horizon, found.restricted_mean(30.0)) == (0.25, 30.0, 10.0)


def test_the_estimate_is_near_the_mean_wait_that_was_censored_at_random() -> None:
    random = np.random.default_rng(1)
    meant = random.exponential(100.0, 20_000)
    patience = random.exponential(1000.0, 20_000)
    started = meant[meant <= patience]
    found = Waits(started, patience[meant > patience])
    assert found.share > 0.08
    assert started.mean() < 93
    assert found.restricted_mean(found.horizon) == pytest.approx(100.0, rel=0.03)


def test_the_horizon_of_a_comparison_is_known_in_all_schedules() -> None:
    all_started, half_gave_up = waits([40.0] * 10, []), waits([10.0] * 5, [50.0] * 5)
    assert (all_started.known_up_to, half_gave_up.known_up_to) == (math.inf, 50)
    assert common_horizon([all_started, half_gave_up]) == 50
    assert common_horizon([all_started, waits([90.0], [20.0])]) == 90
    assert common_horizon([waits([5.0], [60.0]), half_gave_up]) == 50


# Ten jobs whose users give up after 50 s. Under A all start after 40 s; under B half of them start after 10 s, the others never.
ALL_START = frame(*({"submit": 0, "start": 40, "end": 140} for _ in range(10)))
HALF_GIVE_UP = frame(
    *({"submit": 0, "start": 10, "end": 110} for _ in range(5)), *({"submit": 0, "end": 50, "state": "CANCELLED"} for _ in range(5))
)


def test_a_scheduler_whose_users_give_up_does_not_win() -> None:
    """Whatever the means say: they are inconclusive where so many jobs never started."""
    a, b = (metrics.compute(jobs, 10, 10) for jobs in (ALL_START, HALF_GIVE_UP))
    assert (a["metrics"]["wait_mean"], a["metrics"]["wait_restricted_mean"], a["censored"]["jobs"]) == (40, 40, 0)
    assert (b["metrics"]["wait_mean"], b["metrics"]["wait_restricted_mean"]) == (10, pytest.approx(30))
    assert b["censored"] == {"jobs": 5, "share": 0.5} and b["settings"]["wait_horizon"] == 50
    assert censoring_reasons(a) == {}
    reasons = censoring_reasons(b)
    better_in_b = {
        name
        for name, value in b["metrics"].items()
        if name not in ("makespan", "utilisation", "useful_utilisation", "total_load", "goodput", "utilisation_available")
        and value is not None
        and value < a["metrics"][name]
    }
    assert "wait_mean" in better_in_b and better_in_b <= set(reasons)
    assert set(reasons.values()) == {"5 jobs, 50 %, never started (at most 5 % may): how long they would have waited is not known"}
    assert not {"makespan", "utilisation", "suspended_mean", "wasted_fraction"} & set(reasons)


@pytest.mark.parametrize(("censored", "expected"), [(5, False), (6, True)])
def test_up_to_the_bound_means_count(censored: int, expected: bool) -> None:
    started = ({"submit": 0, "start": 10, "end": 110} for _ in range(95))
    jobs = frame(*started, *({"submit": 0, "end": 50, "state": "CANCELLED"} for _ in range(censored)))
    result = metrics.compute(jobs, 10, 10)
    assert (result["censored"]["share"] > MOST_CENSORED) is expected is bool(censoring_reasons(result))


def test_censored_jobs_are_those_of_the_window_and_no_presets() -> None:
    jobs = frame(
        {"submit": 0, "start": 0, "end": 100},
        {"submit": 50, "start": 60, "end": 100},
        {"submit": 5, "end": 90, "state": "CANCELLED"},
        {"submit": 55, "end": 90, "state": "CANCELLED"},
        {"submit": 0, "end": 90, "state": "CANCELLED", "preset": "queued"},
        {"submit": 60, "state": "LOST"},
    )
    assert metrics.compute(jobs, 4, 4)["censored"] == {"jobs": 2, "share": 0.5}
    cut = metrics.compute(jobs, 4, 4, warmup_cut=50)
    assert cut["censored"] == {"jobs": 1, "share": 0.5}
    # One started after 10 s, the other waited until 35 s.
    assert cut["metrics"]["wait_restricted_mean"] == 10 + 25 / 2


# The steady part.


def test_the_steady_part_is_measured_as_with_cuts() -> None:
    jobs = frame(*({"submit": 10 * n, "start": 10 * n + n % 7, "end": 10 * n + 55, "processors": 1 + n % 3} for n in range(101)))
    result = metrics.compute(jobs, 12, 12)
    steady = result["steady"]
    cut = metrics.compute(jobs, 12, 12, warmup_cut=100, cooldown_cut=155)
    assert (steady["window"], steady["jobs"], steady["reason"]) == ([100, 900], 81, "")
    assert cut["settings"]["window"] == [100, 900]
    assert steady["metrics"] == {name: cut["metrics"][name] for name in steady["metrics"]}
    assert {"wait_mean", "utilisation"} <= set(steady["metrics"])
    assert cut["steady"] == steady


def test_few_jobs_have_no_steady_part() -> None:
    few = metrics.compute(frame(*({"submit": n, "start": n, "end": n + 5} for n in range(20))), 4, 4)["steady"]
    assert (few["jobs"], few["metrics"], few["reason"]) == (16, None, "fewer than 20 jobs were submitted in it")
    nobody = metrics.compute(frame({"submit": 0, "state": "PENDING"}), 4, 4)["steady"]
    assert (nobody["window"], nobody["jobs"], nobody["metrics"]) == (None, 0, None)
