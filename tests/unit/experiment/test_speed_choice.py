"""The choice of a speed: the queue and the schedule against slow reference programs, each limit from both sides."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from real_logs import KTH, real_log

from mirage.experiment import speed_choice
from mirage.experiment.speed_choice import FASTEST, Cost, Demand, bounds, choose, delays, easy, predicted
from mirage.traces.trace import read_trace
from mirage.verdict.thresholds import Thresholds
from mirage.workloads.selection import Selection
from mirage.workloads.workload import prepare
from slurm_mirage.base.errors import WrongUse

COST = Cost(hold_p50=0.03, hold_p99=0.05, start=0.04, submit=0.006, launch=0.02)
PROCESSORS = 16
Row = tuple[float, float, int]

seconds = st.floats(0.0, 0.2)
costs = st.builds(Cost, seconds, seconds, seconds, seconds, seconds, st.none() | st.floats(0.0, 0.01))
jobs = st.lists(st.tuples(st.floats(0, 5000), st.integers(1, 20_000), st.integers(1, PROCESSORS)), min_size=1, max_size=30).map(
    lambda rows: [(sum(gap for gap, _, _ in rows[: number + 1]), *row[1:]) for number, row in enumerate(rows)]
)


def demand_of(rows: list[Row]) -> Demand:
    dues, runtimes, widths = zip(*rows, strict=True)
    return Demand.of(dues, runtimes, runtimes, widths, PROCESSORS)


def regular(count: int = 100, gap: float = 600.0, runtime: float = 1000.0) -> Demand:
    """Jobs of one processor that never wait, on a machine that is large enough."""
    return Demand.of([gap * k for k in range(count)], [runtime] * count, [runtime] * count, [1] * count, 10**6)


def limit(choice: speed_choice.Choice, name: str) -> float:
    return next(limit.speed for limit in choice.limits if limit.name == name)


# ---- the schedule ----


def test_a_job_passes_others_where_it_delays_nobody() -> None:
    """On 4 processors job 1 takes 3 until 10 (its limit: 12), and job 2 wants 2. At 12 there will be 2 more than that, so job 3 may
    have the last one although its limit lies beyond."""
    dues, runtimes, limits, widths = [0, 1, 2, 3], [10, 5, 9, 8], [12, 5, 20, 9], [3, 2, 1, 1]
    assert easy(dues, runtimes, limits, widths, 4) == ([0, 10, 2, 10], 2)
    # With job 2 as wide as the machine nothing is to spare, and only what ends in time may pass it.
    assert easy(dues, runtimes, limits, [3, 4, 1, 1], 4) == ([0, 11, 16, 3], 2)


def test_shorter_limits_than_run_times_are_no_trouble() -> None:
    assert easy([0, 0], [10, 10], [1, 1], [1, 1], 1) == ([0, 10], 1)


@settings(deadline=None)
@given(jobs)
def test_no_job_starts_early_and_none_is_left_out(rows: list[Row]) -> None:
    dues, runtimes, widths = zip(*rows, strict=True)
    starts, most_waiting = easy(dues, runtimes, [2 * runtime for runtime in runtimes], widths, PROCESSORS)
    assert all(start >= due for start, due in zip(starts, dues, strict=True))
    executions = [(s, s + r, w) for s, r, w in zip(starts, runtimes, widths, strict=True)]
    for now, _, _ in executions:
        assert sum(width for start, end, width in executions if start <= now < end) <= PROCESSORS
    waiting = [sum(due <= now < start for due, start in zip(dues, starts, strict=True)) for now in dues]
    assert most_waiting == max(waiting)


@settings(deadline=None)
@given(jobs)
def test_jobs_behind_it_do_not_delay_the_first_that_has_to_wait(rows: list[Row]) -> None:
    """With limits that are met exactly. Those further back in the queue may well be delayed: EASY promises them nothing."""
    dues, runtimes, widths = (list(column) for column in zip(*rows, strict=True))
    starts, _ = easy(dues, runtimes, runtimes, widths, PROCESSORS)
    first = next((job for job, start in enumerate(starts) if start > dues[job]), len(rows) - 1)
    until = slice(first + 1)
    alone, _ = easy(dues[until], runtimes[until], runtimes[until], widths[until], PROCESSORS)
    assert starts[until] == alone


def test_most_waiting() -> None:
    count = 300
    starts, most_waiting = easy([0.0] * count, [1.0] * count, [60.0] * count, [1] * count, 1)
    assert starts == [float(k) for k in range(count)]
    assert most_waiting == count - 1
    assert easy([0.0] * count, [1.0] * count, [60.0] * count, [1] * count, count) == ([0.0] * count, 0)


def test_a_job_that_never_runs_waits_like_others_and_holds_nothing() -> None:
    starts, most_waiting = easy([0, 1, 2], [10, 0, 5], [10, 5, 5], [1, 1, 1], 1)
    assert starts == pytest.approx([0, 10, 10], abs=0.01)
    assert most_waiting == 2


def test_kths_wait_is_what_other_simulators_say() -> None:
    """Mean EASY wait of this stretch: 1,507 s; 1,635 s with the one decision that authors leave open (docs/simulation.md)."""
    window = prepare(read_trace(real_log(KTH)), Selection(jobs=500, offset=19150), classes=[(100, 1)], slack=10).jobs
    columns = window.select("submit_virtual", "runtime_virtual", pl.col("limit_minutes") * 60, "processors")
    demand = Demand.of(*(column.to_list() for column in columns), 100)
    assert demand.mean_wait == pytest.approx(1506.77)


# ---- the queue ----


@settings(deadline=None)
@given(jobs, costs, st.floats(1, 1000))
def test_delays_are_those_of_a_queue_with_one_server(rows: list[Row], cost: Cost, speed: float) -> None:
    demand = demand_of(rows)
    found = delays(demand, cost, speed)["delay"]
    free = -math.inf
    for (time, is_launch, at_once), delay in zip(demand.events.iter_rows(), found, strict=True):
        begins = max(free, time / speed)
        assert delay == pytest.approx(begins - time / speed - cost.submit * at_once, abs=1e-6)
        free = begins + (cost.launch if is_launch else cost.submit)


def test_figures_worked_out_by_hand() -> None:
    """Two jobs at once, at speed 100: submissions wait 0 and 6 ms, launches 6 ms (for the other's submission) and 26 ms."""
    demand = Demand.of([0, 0], [100, 100], [100, 100], [1, 1], 2)
    assert delays(demand, COST, 100)["delay"].to_list() == pytest.approx([0, 0.006, 0.006, 0.026])
    figures = predicted(demand, replace(COST, backfill=0.001), 100)
    assert figures == pytest.approx(
        {
            "resolution": 100 * 0.04,
            "mean submit lag": 100 * (0.003 + 0.006),
            "submit lag p99": 100 * (0.99 * 0.006 + 0.006),
            "start latency p50": 100 * (0.016 + 0.04) + 1,
            "run-time stretch p50": 100 * (0.016 + 0.03),
            "run-time stretch of short jobs": 100 * (0.016 + 0.03),
            "run-time stretch p99": 100 * (0.006 + 0.99 * 0.02 + 0.05) + 1,
            "longest backfill cycle": 0,
        }
    )


def test_bounds_are_the_verdicts() -> None:
    """Run times of 1000 s, mean wait 500 s: the second of two jobs on one processor waits for 1000 s."""
    demand = Demand.of([0, 0], [1000, 1000], [1000, 1000], [1, 1], 1)
    assert bounds(demand, Thresholds(), 100) == {
        "resolution": 25,
        "mean submit lag": 25,
        "submit lag p99": pytest.approx(0.05 * 990),
        "start latency p50": 25,
        "run-time stretch p50": 10,
        "run-time stretch of short jobs": 51,
        "run-time stretch p99": 254,
        "longest backfill cycle": 25,
    }
    assert bounds(demand, Thresholds(backfill_cycle_share=0.1), 100)["longest backfill cycle"] == 50


def test_a_workload_that_no_speed_resolves_has_what_slurm_itself_may_cause() -> None:
    found = bounds(regular(), Thresholds(), 50)
    assert (found["mean submit lag"], found["start latency p50"], found["longest backfill cycle"]) == (2, 4, 30)
    assert "resolution" not in found


def test_short_jobs_are_those_of_the_shortest_class_that_is_judged() -> None:
    runtimes = [30.0] * 19 + [300.0] * 20 + [1000.0] * 61
    demand = Demand.of([0.0] * 100, runtimes, runtimes, [1] * 100, 1)
    assert (demand.median_runtime, demand.short_runtime) == (1000, 300)
    assert demand_of([(0, 7, 1), (0, 9, 1)]).short_runtime == 8, "of few jobs it is the median of all"


# ---- the choice ----


def test_each_bound_has_its_limit_and_the_smallest_binds() -> None:
    """Run times of 1000 s, no waits, jobs far apart: no queue, so each limit is bound / cost."""
    choice = choose(regular(), COST, Thresholds())
    assert limit(choice, "submit lag p99") > 20_000, "it takes less than a run resolves, until submissions queue up"
    assert limit(choice, "start latency p50") == pytest.approx(3 / 0.04, rel=0.002)
    assert limit(choice, "run-time stretch p50") == pytest.approx(10 / 0.03, rel=0.002)
    assert limit(choice, "run-time stretch of short jobs") == pytest.approx(51 / 0.03, rel=0.002)
    assert limit(choice, "run-time stretch p99") == pytest.approx(250 / (0.05 - 0.04), rel=0.1)
    assert choice.binding.name == "start latency p50"
    assert choice.speed == 37
    why = "0.5 of 74.9, which start latency p50 allows (at most 4 s of the cluster's; 0.040 s real a job)"
    assert choice.lines() == [
        "largest speed that each bound allows: mean submit lag 23700, submit lag p99 23400, start latency p50 74.9, "
        "run-time stretch p50 333, run-time stretch of short jobs 1700, run-time stretch p99 23100",
        f"SPEED=37 is picked: {why}",
    ]


def test_a_run_has_to_resolve_its_waits() -> None:
    """Of two jobs at a time the second waits for 1000 s: 500 s in the mean, of which 25 s are 0.04 s at 625 times."""
    dues = [5000.0 * (k // 2) for k in range(100)]
    demand = Demand.of(dues, [1000.0] * 100, [1000.0] * 100, [1] * 100, 1)
    choice = choose(demand, replace(COST, hold_p50=0.0), Thresholds())
    assert limit(choice, "resolution") == pytest.approx(625, rel=0.002)


def test_the_densest_stretch_binds_where_jobs_come_at_once() -> None:
    """Of 200 jobs each hour has 20 at once; what one costs would allow a clock as fast as it may be."""
    dues = [3600.0 * (k // 20) for k in range(200)]
    demand = Demand.of(dues, [50_000.0] * 200, [50_000.0] * 200, [1] * 200, 200)
    thresholds = Thresholds(start_latency_seconds=1e6, stretch_p50_share=1.0, stretch_class_share=1.0)
    choice = choose(demand, COST, thresholds)
    assert choice.binding.name == "submit lag p99"
    assert "densest stretch, 40 submissions and starts within 0 s" in choice.binding.why
    assert choice.speed < FASTEST


def test_a_backfill_cycle_counts_where_it_was_seen() -> None:
    demand = Demand.of([0.0] * 101, [10_000.0] * 101, [10_000.0] * 101, [1] * 101, 1)
    assert [limit.name for limit in choose(demand, COST, Thresholds()).limits][-1] == "run-time stretch p99"
    choice = choose(demand, replace(COST, backfill=0.01), Thresholds(backfill_cycle_share=0.0001))
    assert choice.binding.name == "longest backfill cycle"
    assert limit(choice, "longest backfill cycle") == pytest.approx(0.0001 * demand.mean_wait / (100 * 0.01 * 5), rel=0.002)
    assert "1.000 s real with 100 waiting, times 5" in choice.reason()
    assert choice.speed == 9.9, "its factor of five is safety enough"


def test_nothing_is_faster_than_slurms_timeouts_allow() -> None:
    choice = choose(regular(), Cost(0, 0, 0, 0, 0), Thresholds())
    assert choice.speed == FASTEST
    assert "timeouts" in choice.reason()


def test_a_host_that_is_too_slow_for_real_time_is_told_so() -> None:
    choice = choose(regular(runtime=1.0), replace(COST, hold_p50=3.0), Thresholds())
    assert choice.speed == 1
    assert "hardly be valid" in choice.reason()


@settings(max_examples=50, deadline=None)
@given(jobs, costs, costs)
def test_a_slower_host_never_gets_a_larger_speed(rows: list[Row], cost: Cost, more: Cost) -> None:
    slower = Cost(
        cost.hold_p50 + more.hold_p50,
        cost.hold_p99 + more.hold_p99,
        cost.start + more.start,
        cost.submit + more.submit,
        cost.launch + more.launch,
        None if cost.backfill is None else cost.backfill + (more.backfill or 0),
    )
    demand = demand_of(rows)
    assert choose(demand, slower, Thresholds()).speed <= choose(demand, cost, Thresholds()).speed


@settings(max_examples=50, deadline=None)
@given(jobs, costs)
@example([(0.0, 1, 1)], Cost(0, 0.03125, 0.125, 0, 0, None))
def test_the_bounds_hold_at_the_speed_that_is_picked(rows: list[Row], cost: Cost) -> None:
    demand = demand_of(rows)
    choice = choose(demand, cost, Thresholds())
    assert 1 <= choice.speed <= FASTEST
    if choice.speed > 1:
        figures, allowed = predicted(demand, cost, choice.speed), bounds(demand, Thresholds(), choice.speed)
        assert all(figures[name] <= allowed[name] for name in (limit.name for limit in choice.limits))
        assert choice.speed <= choice.binding.safe <= choice.binding.speed


@settings(deadline=None)
@given(st.floats(0.01, 1e6))
def test_two_digits_are_kept(value: float) -> None:
    cut = speed_choice.rounded_down(value)
    assert cut <= value * (1 + 1e-9)
    assert value / cut <= 1.1 + 1e-9
    assert float(f"{cut:.1e}") == pytest.approx(cut, rel=1e-12)


def test_of_a_round_number_nothing_is_cut() -> None:
    assert [speed_choice.rounded_down(value) for value in (700.0, 70.0, 7.3, 0.7 * 1000, 999.0, 1.0)] == [700, 70, 7.3, 700, 990, 1]


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_impossible_costs_are_refused(wrong: float) -> None:
    with pytest.raises(WrongUse, match="calibration: launch may be seconds from 0 on"):
        replace(COST, launch=wrong)


def test_no_jobs_are_refused() -> None:
    with pytest.raises(WrongUse, match="jobs"):
        Demand.of([], [], [], [], 1)


def test_calibration_json_has_the_limits() -> None:
    told = choose(regular(), COST, Thresholds()).as_json()
    assert told["speed"] == 37
    assert [entry["name"] for entry in told["limits"]][:2] == ["mean submit lag", "submit lag p99"]
    assert set(told["limits"][0]) == {"name", "bound", "speed", "why"}


def test_the_order_of_equal_instants_is_kept() -> None:
    """Submissions come before the launches of the same instant."""
    events = Demand.of([0, 0, 5], [1, 1, 1], [1, 1, 1], [1, 1, 1], 2).events
    assert events.select("time", "is_launch").rows() == [(0, False)] * 2 + [(0, True)] * 2 + [(5, False), (5, True)]
