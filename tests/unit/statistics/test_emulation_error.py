"""The error budget covers the error that known delays cause, and is not much larger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from benchmarks.delayed_schedules import KNOWN, UNKNOWN, Delays, Workload
from benchmarks.late_starts import beyond, cases, summary
from mirage.metrics import metrics
from mirage.metrics.jobs_frame import JOBS_SCHEMA
from mirage.metrics.measured_jobs import Population
from mirage.metrics.registry import METRICS
from mirage.statistics.emulation_error import MeasuredRun, errors, half_widths, values

RESOLUTION = 1.0  # s: of the records, in the cases


def coverage(cases: int, schedulers: Sequence[str], seed: int = 1) -> pl.DataFrame:
    """A row per case and metric: scheduler, metric, error, budget. The measured delays have the resolution of a record in whole
    seconds, and a tenth of the jobs has no time until its processors were free."""
    rows = []
    for case in range(cases):
        random = np.random.default_rng([seed, case])
        scheduler = schedulers[case % len(schedulers)]
        workload = Workload.drawn(random)
        delays = workload.delays(random)
        policies = ("fcfs",) if scheduler == "fcfs" else ("easy", "conservative")
        ideal = workload.run_of(workload.schedule(scheduler, workload.none()), workload.none().freed, policies)
        schedule = workload.schedule(scheduler, delays)
        without, with_delays = values(ideal), values(workload.run_of(schedule, delays.freed, policies))
        end = schedule["end"].to_numpy() + random.uniform(-RESOLUTION, RESOLUTION, schedule.height)
        recorded = schedule.with_columns(end=np.maximum(end, schedule["start"].to_numpy() + 0.01))
        freed = np.where(random.random(schedule.height) < 0.1, np.nan, delays.freed)
        run = workload.run_of(recorded, freed, policies, RESOLUTION)
        for name, budget in half_widths(run).items():
            error = abs(with_delays[name] - without[name])
            rows.append((scheduler, name, error if error > 1e-9 * abs(without[name]) else 0.0, budget))
    return pl.DataFrame(rows, schema=["scheduler", "metric", "error", "budget"], orient="row")


def test_the_budget_covers_the_error_of_each_metric_and_is_not_three_times_as_large() -> None:
    table = summary(coverage(150, KNOWN), ["metric"])
    main = {name for name, metric in METRICS.items() if metric.is_main}
    assert main <= set(table["metric"]) and set(table["cases"]) == {150}
    assert beyond(table).is_empty(), table


def test_replicas_cover_what_other_drawn_run_times_change() -> None:
    """Runs on the event clock draw run times within half a second, and no other time passes in them."""
    covered = []
    for case in range(40):
        random = np.random.default_rng([5, case])
        workload = Workload.drawn(random)
        run_times = [np.maximum(workload.run + random.uniform(-0.5, 0.5, len(workload.run)), 0.01) for _ in range(2)]
        drawn = [replace(workload, run=one) for one in run_times]
        runs = [one.run_of(one.schedule("easy", one.none()), one.none().freed, ("easy",)) for one in drawn]
        found = errors(replace(runs[0], drawn=0.5))
        apart = abs(values(runs[0])["wait_mean"] - values(runs[1])["wait_mean"])
        covered.append(apart <= found.replicas["wait_mean"] + 1e-9)
        assert found.emulation["wait_mean"] == pytest.approx(0, abs=1e-6), "no delay"
        assert set(errors(runs[0]).replicas.values()) == {0.0}, "nothing was drawn"
    assert sum(covered) >= 32, covered


@pytest.mark.parametrize("by", ["pattern", "scheduler"])
def test_the_budget_covers_the_error_of_late_starts_of_a_part_of_the_jobs(late_starts: pl.DataFrame, by: str) -> None:
    """benchmarks/late_starts.py has the same for 500 schedules."""
    table = summary(late_starts, [by])
    assert beyond(table).is_empty(), table


@pytest.fixture(scope="module")
def late_starts() -> pl.DataFrame:
    return cases(48)


def test_under_a_scheduler_that_the_budget_does_not_know_it_covers_nine_errors_of_ten() -> None:
    table = summary(coverage(100, UNKNOWN, seed=2), [])
    assert table["covered"].item() >= 0.9 and table["ratio"].item() < 6, table


# ---- single cases ----


@pytest.fixture
def workload() -> Workload:
    return Workload.drawn(np.random.default_rng(5))


def recorded(workload: Workload, delays: Delays) -> MeasuredRun:
    return workload.run_of(workload.schedule("easy", delays), delays.freed, ("easy", "conservative"))


def test_without_delays_the_budget_is_0(workload: Workload) -> None:
    assert max(half_widths(recorded(workload, workload.none())).values()) < 1e-6


def test_without_delays_the_budget_is_0_where_jobs_run_on_the_processors_of_a_suspended_one(workload: Workload) -> None:
    """One job of the whole machine, suspended each time when another one of that size comes."""
    due = np.array([0.0, *(100.0 + 500.0 * np.arange(20))])
    executed = np.array([10_000.0, *([100.0] * 20)])
    suspended = np.array([2000.0, *([0.0] * 20)])
    jobs = pl.DataFrame(
        {
            **{"due": due, "lag": 0.0, "start": due, "end": due + executed + suspended, "suspended": suspended, "wanted": executed},
            **{"freed": 0.0, "limit": executed, "allocated": 8, "p": 8, "c": 8, "m": 8.0, "counted": True},
            **dict.fromkeys(("eligible", "leave", "late"), pl.Series([None] * 21, dtype=pl.Float64)),
        }
    )
    run = recorded(workload, workload.none())
    settings, window = replace(run.settings, processors=8, nodes=8), replace(run.window, begin=0.0, end=12_000.0)
    assert max(half_widths(replace(run, jobs=jobs, settings=settings, window=window)).values()) < 1e-6


@pytest.mark.parametrize("kind", ["lag", "stretch", "freed"])
def test_each_kind_of_delay_has_a_budget_that_grows_with_it(workload: Workload, kind: str) -> None:
    one, ten = (replace(workload.none(), **{kind: np.full(len(workload.due), seconds)}) for seconds in (1.0, 10.0))
    small, large = (half_widths(recorded(workload, delays))["response_mean"] for delays in (one, ten))
    assert 1 <= small < large


def test_a_start_latency_adds_to_each_wait(workload: Workload) -> None:
    run = recorded(workload, workload.none())
    late = pl.col("start") + 20, pl.col("end") + 20
    jobs = run.jobs.with_columns(*late)
    unknown = jobs.with_columns(late=pl.lit(None, pl.Float64))
    assert half_widths(replace(run, jobs=unknown, own_latency=1.0))["wait_mean"] >= 19
    assert half_widths(replace(run, jobs=jobs.with_columns(late=pl.lit(20.0))))["wait_mean"] >= 20


def test_a_single_late_start_is_a_delay(workload: Workload) -> None:
    late = workload.none().late.copy()
    late[-1] = 500.0
    delays = replace(workload.none(), late=late)
    for scheduler in KNOWN:
        run = workload.run_of(workload.schedule(scheduler, delays), delays.freed, (scheduler,))
        assert half_widths(run)["wait_mean"] >= 499 / len(workload.due), scheduler


def test_the_same_run_has_the_same_budget_whatever_the_order_of_its_rows(workload: Workload) -> None:
    run = recorded(workload, workload.delays(np.random.default_rng(2)))
    assert half_widths(run) == half_widths(run)
    backwards = replace(run, jobs=run.jobs.reverse())
    assert half_widths(backwards) == pytest.approx(half_widths(run), rel=1e-9)


def test_jobs_that_never_started_or_could_not_start_earlier_are_in_the_queue_but_not_in_the_metrics(workload: Workload) -> None:
    run = recorded(workload, workload.delays(np.random.default_rng(2)))
    never = pl.int_range(pl.len()) % 10 == 0
    cancelled = [pl.when(~never).then(name).alias(name) for name in ("start", "end")]
    jobs = run.jobs.with_columns(
        *cancelled, leave=pl.when(never).then(pl.col("due") + 60), eligible=pl.col("due") + 5, counted=~never
    )
    widths = half_widths(replace(run, jobs=jobs))
    assert 0 < widths["wait_mean"] < float("inf")


@pytest.mark.parametrize("cut", ["0", "10%"])
def test_the_metrics_are_those_of_the_registry(workload: Workload, cut: str) -> None:
    run = recorded(workload, workload.delays(np.random.default_rng(2)))
    known = run.jobs.with_row_index("id", 1).with_columns(
        submit="due", processors="p", nodes="c", runtime="wanted", state=pl.lit("COMPLETED")
    )
    frame = known.select(
        (pl.col(name) if name in known.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in JOBS_SCHEMA.items()
    )
    population = Population.of(frame, run.settings.processors, run.settings.nodes, cut, cut)
    assert population.window is not None
    inside = pl.Series(population.inside["id"])
    jobs = known.with_columns(counted=pl.col("id").is_in(inside.implode())).drop(
        "submit", "processors", "nodes", "runtime", "state", "id"
    )
    found = values(replace(run, jobs=jobs, window=population.window))
    computed = metrics.compute(frame, run.settings.processors, run.settings.nodes, warmup_cut=cut, cooldown_cut=cut)["metrics"]
    assert found == pytest.approx({name: computed[name] for name in found}, rel=1e-6)
