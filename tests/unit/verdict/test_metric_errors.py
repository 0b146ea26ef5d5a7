"""The errors of a run's metrics: which delays of its records are taken, and what metrics.json has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_folders import ORIGIN, MadeFolder
from simulated_runs import jobs_of

from mirage.metrics import metrics
from mirage.metrics.measured_jobs import Population
from mirage.records.record import EventClock, RunRecord
from mirage.records.run_folder import RunFolder
from mirage.statistics import sampling_error
from mirage.statistics.intervals import Floats
from mirage.statistics.other_jobs import too_few
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


def test_a_drawn_fraction_of_a_run_time_is_wanted_on_the_event_clock(tmp_path: Path) -> None:
    """Half a second at most: what a job ran longer is not. At a constant speed nothing is drawn."""
    made = MadeFolder(tmp_path, speed=1.0)
    for launch in (0.1, 3.0):  # twice this is added to the run time of 50 s
        made.played(made.job(due=0.0, runtime=50.0), start=12.0, launch=launch)
    run = made.collect()
    population = Population.of(run.jobs, PROCESSORS, NODES, 0.0, 0.0)

    def wanted(of: RunRecord) -> list[float]:
        return metric_errors.delayed_jobs(of, of.jobs, population, pl.DataFrame(schema=dispatch_gaps.SCHEMA))["wanted"].to_list()

    executed = [row["f"] - row["s"] for row in population.measured.rows(named=True)]
    assert wanted(run) == [50, 50]
    of_events = replace(run, event_clock=EventClock(is_used=True))
    assert wanted(of_events) == [near(min(max(seconds, 49.5), 50.5)) for seconds in executed]
    assert executed[1] > 51, "more than was drawn"


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
        assert {"emulation", "other_jobs"} <= set(errors) <= {"emulation", "other_jobs", "replicas"}
        assert (None in errors.values()) == (name in found["error_reasons"]), name
    assert found["error_reasons"]["wait_mean"] == f"other_jobs: {too_few(1)}"
    assert found["error_reasons"]["utilisation"] == f"other_jobs: {sampling_error.NOT_SHOWN}"


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
        assert errors[name]["other_jobs"] is None


@pytest.mark.parametrize("known", [0, 26, 27])
def test_without_measured_completions_the_budget_is_not_known(tmp_path: Path, known: int) -> None:
    """Of 30 jobs; a tenth may be unknown."""
    made = queue_of(tmp_path)
    made.freed = dict(list(made.freed.items())[:known])
    found = members(made.write())
    widths = {errors["emulation"] for errors in found["errors"].values()}
    assert (widths == {None}) == (known < 27)
    words = f"emulation: when the processors of jobs were free again is known of {known / 30:.0%} of the jobs that ran only"
    assert (words in found["error_reasons"]["wait_mean"].split("; ")) == (known < 27)
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


def apart(waits: Floats, runtime: Floats) -> pl.DataFrame:
    """Jobs of which each starts before the next one is submitted."""
    frame = pl.concat([jobs_of(jobs=20, nodes=8, cpus=4)] * (len(waits) // 20))
    submit = 20_000.0 * np.arange(len(waits))
    return frame.with_columns(id=np.arange(len(waits)) + 1, submit=submit, start=submit + waits, end=submit + waits + runtime)


def test_jobs_of_one_queue_tell_nothing_of_others() -> None:
    frame = jobs_of(jobs=500, nodes=8, cpus=4)
    found = metric_errors.of_schedule(frame, metrics.compute(frame, 32, 8))
    assert found["errors"]["wait_mean"] == {"emulation": None, "other_jobs": None}
    assert "other_jobs: these jobs only: " in found["error_reasons"]["wait_mean"]


@pytest.mark.parametrize("jobs", [400, 5000])
def test_the_interval_over_independent_jobs_is_that_of_their_mean(jobs: int) -> None:
    """Of the last two thirds, a tenth wider and with Student's t of 9 degrees of freedom."""
    random = np.random.default_rng(1)
    waits, runtime = random.exponential(60, jobs), random.exponential(600, jobs)
    found = metric_errors.of_schedule(frame := apart(waits, runtime), metrics.compute(frame, 32, 8))
    response = (waits + runtime)[jobs // 3 :]
    low, high = found["errors"]["response_mean"]["other_jobs"]
    assert (low + high) / 2 == pytest.approx(response.mean(), rel=1e-3)
    assert (high - low) / 2 == pytest.approx(1.1 * 2.26 * response.std() / len(response) ** 0.5, rel=0.6)


def test_an_interval_does_not_leave_the_values_of_its_metric() -> None:
    """Few of many jobs do not start at once, and their slowdown is near 1."""
    random = np.random.default_rng(2)
    frame = apart(random.choice([0.0, 0.0, 0.0, 90.0], 2000), np.full(2000, 50_000.0))
    found = metric_errors.of_schedule(frame, metrics.compute(frame, 32, 8))["errors"]
    ends = {name: errors["other_jobs"] for name, errors in found.items() if errors["other_jobs"] is not None}
    assert ends["immediate_fraction"][1] <= 1 and ends["bounded_slowdown_mean"][0] >= 1 and ends["wait_mean"][0] >= 0


def test_equal_waits_tell_nothing_of_other_jobs() -> None:
    same = metric_errors.of_schedule(frame := apart(np.full(400, 9.0), np.full(400, 100.0)), metrics.compute(frame, 32, 8))
    nobody = metric_errors.of_schedule(frame := apart(np.zeros(400), np.full(400, 100.0)), metrics.compute(frame, 32, 8))
    assert same["errors"]["wait_mean"]["other_jobs"] is None
    assert sampling_error.NOTHING_VARIES in same["error_reasons"]["wait_mean"]
    assert too_few(0) in nobody["error_reasons"]["wait_mean"]


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
