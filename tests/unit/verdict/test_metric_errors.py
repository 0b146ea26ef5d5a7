"""The errors of a run's metrics: which delays of its records are taken, and what metrics.json has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_folders import ORIGIN, MadeFolder
from simulated_runs import jobs_of

from mirage.metrics import metrics
from mirage.metrics.measured_jobs import Population
from mirage.metrics.registry import METRICS
from mirage.records.run_folder import RunFolder
from mirage.statistics import sampling_error
from mirage.verdict import dispatch_gaps, metric_errors, run_results
from slurm_mirage.rm.slurm.records import backfills, batch_delay

PROCESSORS, NODES = 8, 4


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-3)


def queue_of(folder: Path, *, jobs: int = 30, launch: float = 0.03, lag: float = 0.01) -> MadeFolder:
    """A run at SPEED=100: all jobs take half of the machine, two at a time, in order."""
    folder.mkdir(exist_ok=True)
    made = MadeFolder(folder, speed=100.0)
    free = [0.0, 0.0]
    for number in range(jobs):
        made.job(due=40.0 * number, runtime=100.0, processors=4, lag=lag)
        start = max(min(free), made.accepted(number + 1) + 0.1)
        made.played(number + 1, start=start, launch=launch)
        free[free.index(min(free))] = start + 100 + 2 * launch * 100
    return made


def members(folder: Path) -> dict[str, Any]:
    return run_results.results(RunFolder(folder), PROCESSORS, NODES, 10.0, {}).metrics


def test_the_delays_are_those_of_the_records(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path, speed=100.0)
    made.played(made.job(due=0.0, runtime=50.0, lag=0.1), start=12.0)
    cancelled = made.job(due=20.0, cancel_after=60.0, runtime=500.0)
    made.slurm(cancelled, start=80.0, end=80.0, state="CANCELLED", ran=False)
    killed = made.job(due=30.0, runtime=500.0)
    made.record(killed, 43.0, 90.0, completed=False)
    made.slurm(killed, start=40.0, end=95.0, state="CANCELLED")
    late = made.job(due=200.0, runtime=900.0, limit_minutes=10)
    made.slurm(late, start=210.0, end=210.0 + 600 + 60 + 40, state="TIMEOUT")
    run = made.collect()
    population = Population.of(run.jobs, PROCESSORS, NODES, 0.0, 0.0)
    frame = metric_errors.delayed_jobs(run, run.jobs, population, pl.DataFrame(schema=dispatch_gaps.SCHEMA))
    completed, waited, stopped, at_its_limit = frame.rows(named=True)
    assert completed["lag"] == near(10.0) and completed["due"] == near(ORIGIN)
    # Held for the launch before and after its 50 s: 3 s each.
    assert completed["wanted"] == 50 and completed["end"] - completed["start"] == pytest.approx(56, abs=1.5)
    assert (completed["allocated"], completed["limit"], completed["counted"]) == (4, 3600, True)
    assert waited["start"] is None and waited["leave"] == pytest.approx(ORIGIN + 80, abs=1) and not waited["counted"]
    assert stopped["wanted"] is None and stopped["counted"]
    assert at_its_limit["wanted"] == pytest.approx(660, abs=1.5), "a minute is Slurm's own"


def test_longer_launches_have_a_larger_budget(tmp_path: Path) -> None:
    slow, quick = (members(queue_of(tmp_path / name, launch=launch).write()) for name, launch in (("slow", 0.1), ("quick", 0.02)))
    assert slow["errors"]["wait_mean"]["emulation"] > 2 * quick["errors"]["wait_mean"]["emulation"] > 0
    # Two jobs at a time, 20 s and 4 s of launch: what they add to the mean wait is known.
    for found, launch in ((slow, 20.0), (quick, 4.0)):
        mean_added = sum(launch * (number // 2) for number in range(30)) / 30
        assert found["errors"]["wait_mean"]["emulation"] >= mean_added


def test_every_metric_has_its_errors_or_a_reason(tmp_path: Path) -> None:
    found = members(queue_of(tmp_path).write())
    assert list(found["errors"]) == list(found["metrics"])
    for name, errors in found["errors"].items():
        assert {"emulation", "jobs"} <= set(errors) <= {"emulation", "jobs", "replicas"}
        assert (None in errors.values()) == (name in found["error_reasons"]), name
    assert found["errors"]["wait_mean"]["jobs"] > 0
    assert found["error_reasons"]["utilisation"] == f"jobs: {sampling_error.NOT_OVER_JOBS}"


def test_classes_of_jobs_have_their_own_errors(tmp_path: Path) -> None:
    """One job at a time, of 10 s and of 1,000 s in turn: a launch that is 2 s too long is much in the slowdown of the first."""
    made = MadeFolder(tmp_path, speed=100.0)
    free = 0.0
    for number in range(40):
        runtime = 1000.0 if number % 2 else 10.0
        made.job(due=500.0 * number, runtime=runtime, processors=8)
        start = max(free, made.accepted(number + 1) + 0.1)
        made.played(number + 1, start=start, launch=0.02)
        free = start + runtime + 2 * 2.0
    found = members(made.write())
    whole = found["errors"]
    rows = {(row["size"], row["runtime"]): row["errors"] for row in found["classes"]}
    for name in ("wait_mean", "bounded_slowdown_mean"):
        assert rows["all", "all"][name]["emulation"] == pytest.approx(whole[name]["emulation"], rel=1e-3)
    short, long = (rows["all", runtime]["bounded_slowdown_mean"]["emulation"] for runtime in ("up to 1 min", "10 min to 1 h"))
    assert short > 1.5 * whole["bounded_slowdown_mean"]["emulation"] > 5 * long > 0
    assert rows["5-16", "up to 1 min"] == rows["all", "up to 1 min"]


def test_metrics_of_the_same_waits_have_errors_of_the_same_share(tmp_path: Path) -> None:
    """Also where a job never started, so that the restricted mean is not the mean."""
    made = queue_of(tmp_path)
    gone = made.job(due=1200.0, cancel_after=60.0, runtime=500.0, processors=4)
    made.slurm(gone, start=1260.0, end=1260.0, state="CANCELLED", ran=False)
    found = members(made.write())
    values, errors = found["metrics"], found["errors"]
    assert found["censored"]["jobs"] == 1 and values["wait_restricted_mean"] != values["wait_mean"]
    for name, other in (("W3", "W1"), ("wait_restricted_mean", "wait_mean")):
        shares = [errors[one]["emulation"] / values[one] for one in (name, other)]
        assert shares[0] == pytest.approx(shares[1], rel=1e-3) and shares[0] > 0
        assert errors[name]["jobs"] is None


@pytest.mark.parametrize("known", [0, 26, 27])
def test_without_measured_completions_the_budget_is_not_known(tmp_path: Path, known: int) -> None:
    """Of 30 jobs; a tenth may be unknown."""
    made = queue_of(tmp_path)
    made.freed = dict(list(made.freed.items())[:known])
    found = members(made.write())
    widths = {errors["emulation"] for errors in found["errors"].values()}
    assert (widths == {None}) == (known < 27)
    words = f"emulation: when the processors of jobs were free again is known of {known / 30:.0%} of the jobs that ran only"
    assert (found["error_reasons"].get("wait_mean") == words) == (known < 27)
    assert found["validity"]["freed_known"] == pytest.approx(known / 30, abs=1e-6)
    assert all((row["errors"]["wait_mean"]["emulation"] is None) == (known < 27) for row in found["classes"])


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    folder = queue_of(tmp_path).write()
    first, again = (run_results.results(RunFolder(folder), PROCESSORS, NODES, 10.0, {}).files for _ in range(2))
    assert first["metrics.json"] == again["metrics.json"]


def test_a_run_without_a_measured_job_has_no_errors(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.slurm(made.job(due=0.0, cancel_after=30.0), start=30.0, end=30.0, state="CANCELLED", ran=False)
    found = members(made.write())
    assert {part for errors in found["errors"].values() for part in errors.values()} == {None}
    assert found["error_reasons"]["wait_mean"] == found["null_reasons"]["wait_mean"]


@pytest.mark.parametrize(("jobs", "reason"), [(9, sampling_error.TOO_FEW), (sampling_error.MOST_JOBS + 1, sampling_error.TOO_MANY)])
def test_too_few_or_too_many_jobs_have_no_interval(jobs: int, reason: str) -> None:
    frame = pl.concat([jobs_of(jobs=min(jobs, 500), nodes=8, cpus=4)] * -(-jobs // 500)).head(jobs)
    found = metric_errors.of_schedule(frame, metrics.compute(frame, 32, 8))
    assert found["errors"]["wait_mean"] == {"emulation": None, "jobs": None}
    assert reason in found["error_reasons"]["wait_mean"]


@pytest.mark.parametrize(("name", "fewest"), [("wait_median", 20), ("wait_p90", 100), ("wait_p95", 200), ("wait_p99", 1000)])
def test_a_quantile_needs_ten_jobs_beyond_it(name: str, fewest: int) -> None:
    waits = np.random.default_rng(1).exponential(600, fewest)
    submit = 60.0 * np.arange(fewest)
    frame = pl.concat([jobs_of(jobs=20, nodes=8, cpus=4)] * (fewest // 20)).with_columns(
        id=np.arange(fewest) + 1, submit=submit, start=submit + waits, end=submit + waits + 100
    )
    enough, short = (metric_errors.of_schedule(some, metrics.compute(some, 32, 8)) for some in (frame, frame.head(fewest - 1)))
    assert enough["errors"][name]["jobs"] > 0
    assert short["errors"][name]["jobs"] is None and f"jobs: fewer than {fewest:,} jobs" in short["error_reasons"][name]


def test_an_interval_does_not_leave_the_values_of_its_metric() -> None:
    """Thirty jobs at once: a few blocks of a queue that only grows."""
    submit, waits = np.arange(30.0), 100.0 * np.arange(30)
    frame = pl.concat([jobs_of(jobs=15, nodes=8, cpus=4)] * 2).with_columns(
        id=np.arange(30) + 1, submit=submit, start=submit + waits, end=submit + waits + 100
    )
    computed = metrics.compute(frame, 32, 8)
    found = metric_errors.of_schedule(frame, computed)
    for name, errors in found["errors"].items():
        value, width = computed["metrics"][name], errors["jobs"]
        assert width is None or value - width >= 0, name
        assert width is None or not METRICS[name].is_share or value + width <= 1, name
    assert "too few independent blocks of jobs" in found["error_reasons"]["immediate_fraction"]


def test_equal_waits_tell_nothing_of_other_jobs() -> None:
    submit = 600.0 * np.arange(50)
    frame = jobs_of(jobs=50, nodes=8, cpus=4).with_columns(submit=submit, start=submit, end=submit + 100)
    found = metric_errors.of_schedule(frame, metrics.compute(frame, 32, 8))
    for name in ("wait_mean", "immediate_fraction"):
        assert found["errors"][name]["jobs"] is None
        assert sampling_error.ALL_EQUAL in found["error_reasons"][name]


@pytest.mark.parametrize("jobs", [200, 5000])
def test_the_interval_over_independent_jobs_is_that_of_their_mean(jobs: int) -> None:
    frame = jobs_of(jobs=jobs, nodes=8, cpus=4)
    runtime = np.random.default_rng(1).exponential(600, jobs)
    submit = 3600.0 * np.arange(jobs)
    frame = frame.with_columns(submit=submit, start=submit + 10, end=submit + 10 + runtime)
    found = metric_errors.of_schedule(frame, metrics.compute(frame, 32, 8))
    assert found["errors"]["response_mean"]["jobs"] == pytest.approx(1.96 * runtime.std() / jobs**0.5, rel=0.25)


@pytest.mark.parametrize(
    ("configuration", "seconds"),
    [("SchedulerParameters     = batch_sched_delay=0,bf_continue\n", 1), ("SchedulerParameters=bf_continue\n", 4), ("", 4)],
)
def test_the_delay_of_batch_jobs_is_read_from_slurms_configuration(configuration: str, seconds: float) -> None:
    assert batch_delay(configuration) == seconds


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [("SchedulerType           = sched/builtin\n", False), ("SchedulerType=sched/backfill\n", True), ("", True)],
)
def test_the_scheduler_is_read_from_slurms_configuration(configuration: str, expected: bool) -> None:
    assert backfills(configuration) is expected
