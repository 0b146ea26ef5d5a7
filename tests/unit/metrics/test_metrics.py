"""Metrics against a schedule worked out on paper, the decisions of docs/metrics.md, and the mistakes of other tools."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from schedules import frame, stops

from mirage.metrics import metrics
from mirage.traces import trace
from slurm_mirage.base.errors import WrongUse

# The worked example of metrics.py.
SIX = frame(
    {"submit": 0, "start": 0, "end": 10, "processors": 2},
    {"submit": 0, "start": 0, "end": 20, "processors": 2},
    {"submit": 5, "start": 10, "end": 30, "processors": 2},
    {"submit": 10, "start": 30, "end": 50, "processors": 4, "suspended": 4},
    {"submit": 12, "start": 50, "end": 51},
    {"submit": 20, "start": 20, "end": 30},
)
SIX_STOPS = stops((4, 40.0, 44.0))
WITHOUT_FILLERS = dict.fromkeys(("filler_load", "filler_useful", "filler_lost", "filler_overhead", "filler_preemptions"), 0)
ON_PAPER = {
    "wait_mean": 63 / 6,
    "wait_median": 2.5,
    "wait_p90": 29,
    "wait_p95": 33.5,
    "wait_p99": 37.1,
    "wait_max": 38,
    "wait_restricted_mean": 63 / 6,
    "response_mean": 144 / 6,
    "slowdown_mean": 45.75 / 6,
    "bounded_slowdown_mean": 10.65 / 6,
    "pp_bounded_slowdown_mean": 8.9 / 6,
    "weighted_slowdown": 319 / 175,
    "weighted_slowdown_processors": (2 + 2 + 2.5 + 10 + 39 + 1) / 12,
    "utilisation": 175 / (4 * 51),
    "goodput": 175 / (4 * 51),
    "useful_utilisation": 175 / (4 * 51),
    "resizes_mean": 0,
    **WITHOUT_FILLERS,
    "total_load": 175 / (4 * 51),
    "wasted_fraction": 0,
    "loss_of_capacity": (1 * 10 + 1 * 4) / (4 * 51),
    "absent_fraction": 0,
    "maintenance_idle": 0,
    "utilisation_available": 175 / (4 * 51),
    "loss_of_capacity_available": (1 * 10 + 1 * 4) / (4 * 51),
    "makespan": 51,
    "W": 63 / 6,
    "W1": 1.5 / 5,
    "W2": (5 / 10 + 20 / 10) / 5,
    "W3": (0.25 * 5 / 51 + 1.25 * 4 / 51) / 5,
    "W4": (0.25 * 3 / 4 + 1.25 * 1 / 4) / 5,
    "immediate_fraction": 3 / 6,
    "suspensions_mean": 1 / 6,
    "suspended_mean": 4 / 6,
    "suspended_fraction": 1 / 6,
}


def measure(jobs: pl.DataFrame, **options: Any) -> dict[str, Any]:
    """The metrics of a schedule on four nodes of one processor."""
    return worked(metrics.compute(jobs, 4, 4, **options))


def worked(result: dict[str, Any]) -> dict[str, Any]:
    """Those metrics that are worked out on paper. schedules.py computes all a second time."""
    return {name: result["metrics"][name] for name in ON_PAPER}


@pytest.mark.parametrize("nodes", [20, 999_999_999])
def test_impossible_sizes_need_no_memory(nodes: int) -> None:
    jobs = frame({"submit": 0, "start": 0, "end": 9, "processors": 1 << 53}, {"submit": 0, "start": 9, "end": 18, "processors": 4})
    assert metrics.compute(jobs, max(80, nodes), nodes)["metrics"]["W3"] is not None


def test_six_jobs_on_paper() -> None:
    result = metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS)
    assert worked(result) == pytest.approx(ON_PAPER, rel=1e-12)
    assert list(result["metrics"]) == list(metrics.METRICS)
    assert result["null_reasons"] == {}
    assert result["jobs"] == {
        "submitted": 6, "completed": 6, "failed": 0, "cancelled": 0, "timeout": 0, "lost": 0, "other": 0,
    }  # fmt: skip
    assert result["excluded"] == {"run time up to 1 s: not in W1 to W4": 1}
    assert result["settings"] == {
        "tau": 10.0, "w2_reading": "magnitude", "processors": 4, "nodes": 4, "warmup_cut": 0.0,
        "cooldown_cut": 0.0, "window": [0.0, 51.0], "percentiles": "linear", "immediate_below": 1.0, "wait_horizon": 38.0,
        "job_nodes": "packed",
    }  # fmt: skip
    assert result["distribution"]["nodes"] == [0, 1, 3, 4]
    assert result["distribution"]["share"] == pytest.approx([4 / 51, 1 / 51, 10 / 51, 36 / 51])


def test_classes_of_six_jobs_on_paper() -> None:
    small = {
        "size_max": 1, "jobs": 2, "area_share": 11 / 175, "wait_mean": 19, "wait_median": 19,
        "bounded_slowdown_mean": 4.9 / 2, "response_mean": 49 / 2, "immediate_fraction": 1 / 2,
    }  # fmt: skip
    large = {
        "size_max": 4, "jobs": 4, "area_share": 164 / 175, "wait_mean": 25 / 4, "wait_median": 2.5,
        "bounded_slowdown_mean": 5.75 / 4, "response_mean": 95 / 4, "immediate_fraction": 2 / 4,
    }  # fmt: skip
    both = {
        "size_max": None, "jobs": 6, "area_share": 1, "wait_mean": 63 / 6, "wait_median": 2.5,
        "bounded_slowdown_mean": 10.65 / 6, "response_mean": 144 / 6, "immediate_fraction": 3 / 6,
    }  # fmt: skip
    expected = [
        (size, runtime, {**figures, "runtime_max": None if runtime == "all" else 60})
        for size, runtime, figures in (
            ("1", "up to 1 min", small),
            ("2-4", "up to 1 min", large),
            ("1", "all", small),
            ("2-4", "all", large),
            ("all", "up to 1 min", both),
            ("all", "all", both),
        )
    ]
    rows = metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS)["classes"]
    assert [(row.pop("size"), row.pop("runtime")) for row in rows] == [row[:2] for row in expected]
    for row, (size, runtime, figures) in zip(rows, expected, strict=True):
        assert row == pytest.approx(figures), (size, runtime)


CUT_ON_PAPER = {
    "wait_mean": 63 / 4,
    "wait_median": 12.5,
    "wait_p90": 32.6,
    "wait_p95": 35.3,
    "wait_p99": 37.46,
    "wait_max": 38,
    "wait_restricted_mean": 63 / 4,
    "response_mean": 114 / 4,
    "slowdown_mean": 43.75 / 4,
    "bounded_slowdown_mean": 8.65 / 4,
    "pp_bounded_slowdown_mean": 6.9 / 4,
    "weighted_slowdown": 259 / 115,
    "weighted_slowdown_processors": (2.5 + 10 + 39 + 1) / 8,
    "utilisation": 134 / (4 * 40),
    "goodput": 134 / (4 * 40),
    "useful_utilisation": 134 / (4 * 40),
    "resizes_mean": 0,
    **WITHOUT_FILLERS,
    "total_load": 134 / (4 * 40),
    "wasted_fraction": 0,
    "loss_of_capacity": 14 / (4 * 40),
    "absent_fraction": 0,
    "maintenance_idle": 0,
    "utilisation_available": 134 / (4 * 40),
    "loss_of_capacity_available": 14 / (4 * 40),
    "makespan": 40,
    "W": 63 / 4,
    "W1": 1.5 / 3,
    "W2": 2.5 / 3,
    "W3": 0.15 / 3,
    "W4": (0.25 * 3 / 4 + 1.25 * 1 / 4) / 3,
    "immediate_fraction": 1 / 4,
    "suspensions_mean": 1 / 4,
    "suspended_mean": 4 / 4,
    "suspended_fraction": 1 / 4,
}


@pytest.mark.parametrize(("warmup", "cooldown"), [(5, 6), ("5", "6.0"), ("9.803921568627450%", "11.764705882352942%")])
def test_six_jobs_with_cuts_on_paper(warmup: float | str, cooldown: float | str) -> None:
    result = metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS, warmup_cut=warmup, cooldown_cut=cooldown)
    assert worked(result) == pytest.approx(CUT_ON_PAPER, rel=1e-12)
    assert result["excluded"] == {
        "submitted in the warm-up: not in metrics over jobs": 2, "run time up to 1 s: not in W1 to W4": 1,
    }  # fmt: skip
    assert result["distribution"]["nodes"] == [0, 3, 4]
    assert result["distribution"]["share"] == pytest.approx([4 / 40, 10 / 40, 26 / 40])
    assert result["settings"]["warmup_cut"] == pytest.approx(5)
    assert result["settings"]["cooldown_cut"] == pytest.approx(6)
    assert result["settings"]["window"] == pytest.approx([5, 45])
    assert result["jobs"]["submitted"] == 6
    assert result["classes"][-1]["jobs"] == 4


def test_the_window_has_both_its_ends() -> None:
    jobs = frame(*({"submit": at, "start": at, "end": at + 10} for at in (0, 5, 15, 20)))
    result = metrics.compute(jobs, 4, 4, warmup_cut=5, cooldown_cut=15)
    assert result["classes"][-1]["jobs"] == 2
    assert result["excluded"] == {
        "submitted in the warm-up: not in metrics over jobs": 1, "submitted in the cool-down: not in metrics over jobs": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("warmup", "cooldown", "message"),
    [
        (25.5, 25.5, "warmup_cut, cooldown_cut: 25.5 s and 25.5 s leave nothing of the schedule's 51 s"),
        (60, 0, "warmup_cut, cooldown_cut: 60 s and 0 s leave nothing of the schedule's 51 s"),
        ("50%", "50%", "warmup_cut, cooldown_cut: 25.5 s and 25.5 s leave nothing of the schedule's 51 s"),
        (30, 0, "warmup_cut, cooldown_cut: 30 s and 0 s leave no submitted job of the schedule's 51 s"),
        (-1, 0, "warmup_cut: -1 may be seconds from 0 on, or a percentage"),
        (0, math.nan, "cooldown_cut: nan may be"),
        ("100%", 0, "warmup_cut: '100%' may be"),
        (0, "5 min", "cooldown_cut: '5 min' may be"),
        (0, "inf", "cooldown_cut: 'inf' may be"),
    ],
)
def test_cuts_that_cannot_be(warmup: float | str, cooldown: float | str, message: str) -> None:
    with pytest.raises(WrongUse, match=f"^{message}"):
        metrics.compute(SIX, 4, 4, warmup_cut=warmup, cooldown_cut=cooldown)


def test_cuts_need_the_instants_of_suspensions_for_utilisation_too() -> None:
    result = metrics.compute(SIX, 4, 4, warmup_cut=5)
    assert set(result["null_reasons"]) == {
        "utilisation", "goodput", "useful_utilisation", "wasted_fraction", "W3", "loss_of_capacity", "suspensions_mean",
        "distribution", "total_load", "utilisation_available", "loss_of_capacity_available",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("runtime", "name", "longest"),
    [
        (0, "up to 1 min", 60),
        (60, "up to 1 min", 60),
        (60.5, "1 to 10 min", 600),
        (600, "1 to 10 min", 600),
        (3600, "10 min to 1 h", 3600),
        (21600, "1 to 6 h", 21600),
        (86400, "6 h to 1 d", 86400),
        (86401, "over 1 d", None),
    ],
)
def test_classes_of_run_time(runtime: float, name: str, longest: float | None) -> None:
    rows = metrics.compute(frame({"submit": 0, "start": 0, "end": runtime}), 4)["classes"]
    assert [(row["runtime"], row["runtime_max"]) for row in rows] == [
        (name, longest),
        ("all", None),
        (name, longest),
        ("all", None),
    ]


@pytest.mark.parametrize(
    ("processors", "name", "most"),
    [(1, "1", 1), (2, "2-4", 4), (4, "2-4", 4), (5, "5-16", 16), (16, "5-16", 16), (17, "17-64", 64), (3000, "1025-4096", 4096)],
)
def test_classes_of_size(processors: int, name: str, most: int) -> None:
    # Wider than the machine, as logs have them.
    rows = metrics.compute(frame({"submit": 0, "start": 0, "end": 9, "processors": processors}), 1)["classes"]
    assert [(row["size"], row["size_max"]) for row in rows] == [(name, most), (name, most), ("all", None), ("all", None)]


def test_the_order_of_the_jobs_does_not_matter() -> None:
    assert measure(SIX.reverse(), suspensions=SIX_STOPS) == pytest.approx(ON_PAPER, rel=1e-12)


def test_w2_as_logarithm() -> None:
    expected = (5 / math.log(20) + 20 / math.log(16)) / 5
    result = metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS, w2_reading="log")
    assert result["metrics"]["W2"] == pytest.approx(expected)
    assert result["settings"]["w2_reading"] == "log"


@pytest.mark.parametrize(("runtime", "order"), [(2, 1), (9.9, 1), (10, 10), (999, 100), (1000, 1000), (1e6, 1e6)])
def test_w2_takes_the_order_of_the_run_time_exactly(runtime: float, order: float) -> None:
    jobs = frame({"submit": 0, "start": 70, "end": 70 + runtime})
    assert measure(jobs)["W2"] == pytest.approx(70 / order, rel=1e-12)


def test_recorded_nodes_are_used() -> None:
    jobs = frame({"submit": 0, "start": 8, "end": 12, "nodes": 3}, {"submit": 0, "start": 0, "end": 8, "nodes": 1})
    result = metrics.compute(jobs, 16, 4)
    # Job 1 waits twice its run time; fewer than 4 - 3 + 1 = 2 nodes are busy for 8 of 12 s.
    assert result["metrics"]["W3"] == pytest.approx(2 * 8 / 12 / 2)
    assert result["metrics"]["W4"] == pytest.approx(2 * 2 / 4 / 2)
    assert result["settings"]["job_nodes"] == "recorded"


# Decisions: who is counted, and in what.


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"submit": 3, "end": 20, "state": "CANCELLED"}, "cancelled before start"),
        ({"submit": 3, "state": "CANCELLED"}, "cancelled before start"),
        ({"submit": 3, "state": "PENDING"}, "no start"),
        ({"submit": 3, "state": "LOST"}, "lost"),
        ({"submit": 3, "start": 4, "state": "RUNNING"}, "no end"),
        ({"submit": 3, "start": 1, "end": 9}, "negative wait"),
        ({"submit": 3, "start": 5, "end": 4}, "end before start"),
        ({"submit": 3, "start": 5, "end": 9, "processors": None}, "no processors"),
        ({"submit": 3, "start": 5, "end": 9, "processors": 0}, "no processors"),
        ({"submit": 3, "start": 5, "end": 9, "suspended": 5}, "suspended for longer than it ran"),
        ({"start": 5, "end": 9}, "no submission time"),
    ],
)
def test_a_job_that_cannot_be_measured_is_counted_and_changes_nothing(odd: dict[str, Any], reason: str) -> None:
    jobs = pl.concat([SIX, frame({"id": 99, **odd})])
    result = metrics.compute(jobs, 4, 4, suspensions=SIX_STOPS)
    assert result["excluded"][reason] == 1
    expected = dict(ON_PAPER)
    if odd.get("state") == "CANCELLED" and "end" in odd:
        # Of seven jobs three waited 0 s and one 5 s; this one gave up after 17 s; the other two waited 20 s and 38 s.
        expected["wait_restricted_mean"] = 4 / 7 * 5 + 3 / 7 * 15 + 3 / 7 / 2 * 18
        # It asked for one processor until 20, and none was idle before.
        assert result["metrics"]["loss_of_capacity"] == pytest.approx(expected["loss_of_capacity"])
    if odd.get("state") == "PENDING":
        # It still waits at 51, the end of the record, and asks for one of the processors that are idle from 40 to 44 and at 50.
        expected["wait_restricted_mean"] = 4 / 7 * 5 + 3 / 7 * 15 + 2 / 7 * 18 + 1 / 7 * 10
        expected["loss_of_capacity"] += (4 + 1) / (4 * 51)
        expected["loss_of_capacity_available"] = expected["loss_of_capacity"]
    assert worked(result) == pytest.approx(expected, rel=1e-12)


def test_a_job_cancelled_in_the_queue_waited_for_capacity() -> None:
    jobs = frame(
        {"submit": 0, "start": 0, "end": 10, "processors": 3},
        {"submit": 2, "end": 6, "processors": 4, "state": "CANCELLED"},
    )
    assert measure(jobs)["loss_of_capacity"] == pytest.approx(1 * 4 / (4 * 10))


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "COMPLETED"])
def test_a_job_that_ran_counts_however_it_ended(state: str) -> None:
    jobs = SIX.with_columns(state=pl.lit(state))
    assert measure(jobs, suspensions=SIX_STOPS) == pytest.approx(ON_PAPER, rel=1e-12)


def test_counts_of_states() -> None:
    states = [
        "COMPLETED", "COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED", "TIMEOUT", "LOST", "PENDING", None,
    ]  # fmt: skip
    jobs = frame(*({"submit": 0, "start": 0, "end": 1, "state": state} for state in states))
    assert metrics.compute(jobs, 4, 4)["jobs"] == {
        "submitted": 9, "completed": 2, "failed": 2, "cancelled": 1, "timeout": 1, "lost": 1, "other": 2,
    }  # fmt: skip


def test_a_run_time_of_zero_is_in_waits_but_not_in_slowdowns() -> None:
    jobs = frame({"submit": 0, "start": 6, "end": 6}, {"submit": 0, "start": 0, "end": 20})
    result = metrics.compute(jobs, 4, 4)
    assert result["metrics"]["wait_mean"] == 3
    assert result["metrics"]["slowdown_mean"] == 1
    assert result["metrics"]["bounded_slowdown_mean"] == 1
    assert result["excluded"] == {
        "run time of 0: not in the slowdowns": 1, "run time up to 1 s: not in W1 to W4": 1,
    }  # fmt: skip


def test_suspended_time_is_response_but_not_run_time() -> None:
    jobs = frame({"submit": 0, "start": 10, "end": 50, "suspended": 20, "processors": 2})
    values = measure(jobs)
    assert values["response_mean"] == 50
    assert values["slowdown_mean"] == 50 / 20
    assert values["utilisation"] == 2 * 20 / (4 * 50)
    assert values["suspended_fraction"] == 1


def test_a_job_that_was_suspended_all_along_has_no_run_time() -> None:
    start, suspended = 7 * 35.604, 7.5 * 35.604
    # In floats the difference of start and end is not the time suspended.
    jobs = frame({"submit": 0, "start": start, "end": start + suspended, "suspended": suspended})
    result = metrics.compute(jobs, 4, 4)
    assert result["excluded"] == {
        "run time of 0: not in the slowdowns": 1, "run time up to 1 s: not in W1 to W4": 1,
    }  # fmt: skip
    assert result["metrics"]["slowdown_mean"] is None


def test_without_the_instants_of_suspensions_some_metrics_are_null() -> None:
    result = metrics.compute(SIX, 4, 4)
    of_levels = ("W3", "loss_of_capacity", "loss_of_capacity_available")
    expected = {**ON_PAPER, **dict.fromkeys(of_levels), "suspensions_mean": None}
    assert worked(result) == pytest.approx(expected)
    assert set(result["null_reasons"]) == {*of_levels, "suspensions_mean", "distribution"}
    half_known = metrics.compute(SIX, 4, 4, suspensions=stops((4, None, 44.0)))
    assert half_known["metrics"]["suspensions_mean"] == pytest.approx(1 / 6)
    assert set(half_known["null_reasons"]) == {*of_levels, "distribution"}


def test_nothing_to_measure_gives_nulls_with_reasons() -> None:
    for jobs in (frame(), frame({"submit": 0, "state": "PENDING"})):
        result = metrics.compute(jobs, 4, 4)
        assert set(result["metrics"].values()) == {None}
        assert set(result["null_reasons"]) == {*metrics.METRICS, "distribution"}
        assert (result["classes"], result["settings"]["window"]) == ([], None)


def test_a_schedule_without_length() -> None:
    result = metrics.compute(frame({"submit": 5, "start": 5, "end": 5}), 4, 4)
    assert result["metrics"]["makespan"] == 0
    assert result["metrics"]["wait_mean"] == 0
    nulls = {name for name, value in result["metrics"].items() if value is None}
    assert {*nulls, "distribution"} == set(result["null_reasons"])
    assert nulls >= {"utilisation", "loss_of_capacity", "slowdown_mean", "W1", "W3"}


def test_unknown_nodes_leave_out_w3_and_w4_only() -> None:
    result = metrics.compute(SIX, 4, None, suspensions=SIX_STOPS)
    assert set(result["null_reasons"]) == {"W3", "W4", "distribution"}
    assert worked(result) == pytest.approx({**ON_PAPER, "W3": None, "W4": None})


@pytest.mark.parametrize(
    "wrong", [{"processors": 0}, {"nodes": 5}, {"nodes": 0}, {"tau": 0.0}, {"tau": math.nan}, {"w2_reading": "ln"}]
)
def test_settings_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=f"(?i)^{next(iter(wrong))}: "):
        metrics.compute(SIX, **{"processors": 4, "nodes": 4, **wrong})


def test_presets_keep_processors_busy_and_are_no_jobs_of_the_selection() -> None:
    before = frame(
        {"id": 7, "submit": 0, "start": 0, "end": 51, "processors": 1, "preset": "running"},
        {"id": 8, "submit": 0, "start": 50, "end": 51, "processors": 1, "preset": "queued"},
    )
    result = metrics.compute(pl.concat([before, SIX]), 4, 4, suspensions=SIX_STOPS)
    over_time = ("utilisation", "goodput", "useful_utilisation", "total_load", "loss_of_capacity", "W3")
    over_time += ("utilisation_available", "loss_of_capacity_available")
    assert {name: value for name, value in worked(result).items() if name not in over_time} == pytest.approx(
        {name: value for name, value in ON_PAPER.items() if name not in over_time}
    )
    assert result["metrics"]["utilisation"] == pytest.approx((175 + 51 + 1) / (4 * 51))
    assert result["excluded"]["preset: not in metrics over jobs"] == 2
    assert result["classes"][-1]["jobs"] == 6
    alone = metrics.compute(before, 4, 4)
    assert set(alone["metrics"].values()) == {None}
    assert set(alone["null_reasons"]) == {*metrics.METRICS, "distribution"}


# Mistakes found in other tools.


def test_all_statistics_are_of_the_same_jobs() -> None:
    """Not a deviation of all jobs beside the mean of some: whatever is left out is left out of all of them."""
    odd = frame(
        {"id": 7, "submit": 900, "start": 300, "end": 990},
        {"id": 8, "submit": 0, "start": 600, "processors": 4},
        {"id": 9, "submit": 0, "start": 700, "end": 701, "processors": None},
    )
    result = metrics.compute(pl.concat([SIX, odd]), 4, 4, suspensions=SIX_STOPS)
    assert worked(result) == pytest.approx(ON_PAPER, rel=1e-12)
    assert result["classes"] == metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS)["classes"]
    assert result["distribution"] == metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS)["distribution"]
    assert sum(result["excluded"][reason] for reason in ("negative wait", "no end", "no processors")) == 3


def test_the_mean_is_not_the_last_job_over_n() -> None:
    jobs = frame({"submit": 0, "start": 90, "end": 91}, {"submit": 0, "start": 0, "end": 1})
    assert measure(jobs)["wait_mean"] == 45


def test_short_waits_are_not_dropped_from_the_mean() -> None:
    jobs = frame({"submit": 0, "start": 179, "end": 180}, {"submit": 0, "start": 181, "end": 182})
    assert measure(jobs)["wait_mean"] == 180


def test_jobs_with_a_slowdown_of_exactly_one_are_kept() -> None:
    jobs = frame({"submit": 0, "start": 0, "end": 20}, {"submit": 0, "start": 40, "end": 60})
    assert measure(jobs)["slowdown_mean"] == 2
    assert measure(jobs)["bounded_slowdown_mean"] == 2


@pytest.mark.parametrize(("below", "share"), [(1.0, 1 / 3), (20.0, 1 / 3), (20.001, 2 / 3), (60.0, 2 / 3)])
def test_a_job_started_at_once_that_waited_less_than_the_threshold(below: float, share: float) -> None:
    jobs = frame(*({"submit": 0, "start": wait, "end": 100} for wait in (0.5, 20, 60)))
    found = metrics.compute(jobs, 4, 4, immediate_below=below)
    assert found["metrics"]["immediate_fraction"] == pytest.approx(share)
    assert found["settings"]["immediate_below"] == below
    assert found["classes"][-1]["immediate_fraction"] == pytest.approx(share)
    assert f"less than {below:g} s" in {name: meaning for name, _, _, meaning in metrics.table(found)}["immediate_fraction"]


def test_negative_waits_are_not_clamped_to_zero() -> None:
    jobs = frame({"submit": 9, "start": 5, "end": 20}, {"submit": 0, "start": 10, "end": 20})
    result = metrics.compute(jobs, 4, 4)
    assert result["metrics"]["wait_mean"] == 10
    assert result["metrics"]["immediate_fraction"] == 0
    assert result["excluded"]["negative wait"] == 1


@pytest.mark.parametrize("nodes", [1, 7, 166, 1000])
def test_the_number_of_nodes_is_not_built_in(nodes: int) -> None:
    jobs = frame({"submit": 0, "start": 10, "end": 20, "nodes": 1, "processors": 1})
    assert metrics.compute(jobs, nodes, nodes)["metrics"]["utilisation"] == pytest.approx(10 / (nodes * 20))


def test_the_makespan_begins_with_the_first_submission() -> None:
    assert measure(frame({"submit": 5, "start": 100, "end": 130}))["makespan"] == 125


def test_the_first_job_of_a_log_is_not_taken_for_a_heading(tmp_path: Path) -> None:
    path = tmp_path / "bare.swf"
    path.write_text("1 0 5 10 1 -1 -1 1 20 -1 1 1 1 -1 -1 -1 -1 -1\n2 1 6 10 1 -1 -1 1 20 -1 1 1 1 -1 -1 -1 -1 -1\n")
    values = measure(metrics.frame_from_swf(trace.read_trace(path).frame))
    assert values["wait_mean"] == 5.5


def test_the_table_of_a_file_without_a_metric_leaves_it_out() -> None:
    result = metrics.compute(SIX, 4, 4, suspensions=SIX_STOPS)
    del result["metrics"]["W4"]
    assert [row[0] for row in metrics.table(result)] == [name for name in metrics.METRICS if name != "W4"]


def test_table_for_the_terminal() -> None:
    rows = metrics.table(metrics.compute(SIX, 4, None, suspensions=SIX_STOPS))
    assert [row[0] for row in rows] == list(metrics.METRICS)
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["makespan"] == (51, "s", "first submission to last end, less the cuts")
    assert by_name["W3"] == (None, "", "the machine's number of nodes is not known")
