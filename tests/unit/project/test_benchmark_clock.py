"""The benchmark of the clock: noise and error calculated by hand, and runs that are in results/ already."""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks import clock
from benchmarks.clock import PARTS, Run, Selection, select
from benchmarks.clock_error import BLOCKS, deviations, exceeding, paired_noise, trend
from benchmarks.figures import Skipped
from mirage.experiment.endings import Ending
from mirage.knobs.resolve import resolve
from slurm_mirage.base.files import write_json

SHORT, LONG = PARTS


# ---- noise ----


def test_deviations_worked_out_by_hand() -> None:
    """Means 100 and 110. Spread: squares 2 + 2 + 8 in 3 degrees of freedom, so s = 2; t = 3.182 for 3."""
    slow, fast = [99.0, 101.0], [108.0, 112.0, 109.0, 111.0]
    found = deviations({500: fast, 50: slow})
    assert [(one.speed, one.mean) for one in found] == [(500, 110)]
    assert found[0].percent == pytest.approx(10)
    spread = ((1 + 1 + 4 + 4 + 1 + 1) / 4) ** 0.5
    assert found[0].noise == pytest.approx(2.776 * spread * (1 / 2 + 1 / 4) ** 0.5, rel=1e-3)


def test_without_replicas_their_noise_is_unknown() -> None:
    [one] = deviations({500: [11.0], 100: [10.0]})
    assert (one.percent, one.noise) == (pytest.approx(10), None)


def test_of_nothing_there_is_no_percentage() -> None:
    [one] = deviations({500: [1.0, 2.0], 100: [0.0, 0.0]})
    assert (one.percent, one.noise) == (None, None)


def test_noise_covers_the_difference_of_equal_speeds_as_often_as_it_says() -> None:
    """Five speeds without any error, two replicas each: 95 % of the deviations lie within the noise."""
    chance = random.Random(1)
    within = []
    for _ in range(400):
        values = {speed: [chance.gauss(1000, 50) for _ in range(2)] for speed in (50, 100, 200, 500, 1000)}
        within += [exceeding(one.percent, one.noise or 0) == 0 for one in deviations(values)]
    assert 0.93 <= statistics.fmean(within) <= 0.97


def test_noise_of_pairs_is_that_of_the_blocks_means() -> None:
    """Blocks of two: 1 and 3, then 2 and 4, ...: means 2, 3, 2, 3, ...; a first job that fills no block is left out."""
    differences = [1e6, *[1.0, 3.0, 2.0, 4.0] * (BLOCKS // 2)]
    means = [2.0, 3.0] * (BLOCKS // 2)
    assert paired_noise(differences) == pytest.approx(2.262 * statistics.stdev(means) / BLOCKS**0.5, rel=1e-3)
    assert paired_noise([1.0] * (2 * BLOCKS - 1)) is None


def test_a_floor_under_every_wait_is_no_noise() -> None:
    assert paired_noise([29.0] * 200) == 0


@pytest.mark.parametrize(("percent", "noise", "error"), [(5.0, 2.0, 3.0), (-5.0, 2.0, -3.0), (1.0, 2.0, 0.0), (None, 2.0, None)])
def test_the_error_is_what_exceeds_the_noise(percent: float | None, noise: float, error: float | None) -> None:
    assert exceeding(percent, noise) == error


def test_a_trend_of_no_error_is_found_as_seldom_as_its_p_says_and_its_interval_covers_the_true_slope() -> None:
    """Nine runs at three speeds with a slope of 2 per 100 and a deviation of 5: 95 % of the intervals cover it."""
    chance = random.Random(1)
    speeds = [20.0, 100.0, 500.0] * 3
    covered, found = [], []
    for _ in range(400):
        noise = [chance.gauss(300, 5) for _ in speeds]
        one, none = trend(speeds, [value + speed / 50 for speed, value in zip(speeds, noise, strict=True)]), trend(speeds, noise)
        assert one is not None
        assert none is not None
        covered.append(one["low"] <= 2 <= one["high"])
        found.append(none["p"] < 0.05)
    assert 0.93 <= statistics.fmean(covered) <= 0.97
    assert 0.03 <= statistics.fmean(found) <= 0.07
    assert trend([20, 20, 20], [1, 2, 3]) is None


# ---- what is played ----


def test_fast_runs_come_first_and_first_replicas_before_second_ones() -> None:
    names = [run.folder.name.removeprefix("bench-clock-") for run in Selection().runs()]
    first = [f"short-{speed}-1" for speed in (1000, 500, 200, 100, 50)] + ["long-500-1", "long-100-1"]
    assert names == first + [f"short-{speed}-2" for speed in (1000, 500, 200, 100, 50)]


def test_parts_can_be_selected() -> None:
    chosen = select(["long", "--speeds=100,500", "--replicas=2", "--trace=x.swf"], "y.swf")
    assert [(run.part, run.speed, run.replica) for run in chosen.runs()] == [
        (LONG, 500, 1), (LONG, 100, 1), (LONG, 500, 2), (LONG, 100, 2),
    ]  # fmt: skip
    assert (chosen.trace.name, chosen.plays) == ("x.swf", True)
    assert select([], "y.swf").trace.name == "y.swf"
    assert not select(["report"], "y.swf").plays


@pytest.mark.parametrize("words", [["both"], ["--speed=1"], ["--speeds=0"], ["--replicas=0"], ["--speeds=fast"]])
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError):
        select(words)


def test_runs_are_given_knobs_that_are_ones(tmp_path: Path) -> None:
    for run in Selection().runs():
        values = resolve(run.knobs(tmp_path / "log.swf"))
        assert (values.output.run, values.clock.speed, values.workload.jobs) == (run.folder.name, run.speed, run.part.jobs)


def test_a_log_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match=r"needs KTH's log: .*nosuch\.swf is not there; TRACE=PATH"):
        clock.measure(Selection(trace=tmp_path / "nosuch.swf"))


# ---- what was measured ----


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(clock, "RUNS", tmp_path)
    return tmp_path


def finished(run: Run, floor: float, *, valid: bool = True, jobs: int = 40) -> None:
    """A run whose jobs of 100 s wait for 100 s on average, and `floor` s more."""
    run.folder.mkdir()
    chance = random.Random(run.replica)
    waits = [50.0 + 100 * chance.random() + floor for _ in range(jobs)]
    rows: dict[str, list[Any]] = {
        "id": [*range(jobs)],
        "submit": [10.0 * k for k in range(jobs)],
        "start": [10.0 * k + wait for k, wait in enumerate(waits)],
        "end": [10.0 * k + wait + 100 for k, wait in enumerate(waits)],
        "suspended": [0.0] * jobs,
    }
    pl.DataFrame(rows).write_csv(run.folder / "jobs.csv")
    wait = statistics.fmean(waits)
    metrics = {"wait_mean": wait, "bounded_slowdown_mean": wait / 100 + 1, "utilisation": 0.5}
    validity: dict[str, Any] = {
        **dict.fromkeys(clock.FIGURES, 0.5),
        "valid": valid,
        "verdict": "valid" if valid else "invalid",
        "reasons": [] if valid else ["too fast"],
    }
    write_json(run.folder / "metrics.json", {"metrics": metrics, "validity": validity})
    write_json(run.folder / "progress.json", {"elapsed": 120.0})
    Ending("ok" if valid else "invalid", "done").store(run.folder)


def test_metrics_of_jobs_are_those_of_the_run(results: Path) -> None:
    run = Run(SHORT, 50, 1)
    finished(run, 0)
    jobs = clock.per_job([run])
    figures = clock.taken(run)
    assert figures is not None
    for name in ("wait_mean", "bounded_slowdown_mean"):
        assert jobs[name].mean() == pytest.approx(figures[name])
    assert jobs["id"].to_list() == [*range(40)]


def test_a_floor_is_told_from_noise(results: Path) -> None:
    """Two replicas that differ, and a floor of 90 s at one speed: more than the replicas' noise lets through."""
    for replica in (1, 2):
        finished(Run(SHORT, 50, replica), 0)
        finished(Run(SHORT, 1000, replica), 90)
    figures = clock.measure(Selection(kinds=("short",), plays=False))
    waits = next(row for row in figures["short"] if row["metric"] == "wait_mean" and row["speed"] == 1000)
    assert waits["deviation"] == pytest.approx(90, rel=0.1)
    assert waits["noise_by_jobs"] == pytest.approx(0, abs=1e-6)
    assert 0 < waits["error"] == pytest.approx(waits["deviation"] - waits["noise_by_replicas"])
    text = clock.report(figures)
    assert "| mean wait             | 1000  |" in text
    assert "| 50    | 1       | 2.00     |" in text


def test_the_long_parts_speeds_are_held_to_their_bound(results: Path) -> None:
    finished(Run(LONG, 100, 1), 0)
    finished(Run(LONG, 500, 1), 1)
    figures = clock.measure(Selection(kinds=("long",), plays=False))
    found = {check.figure: (check.measured, check.holds) for check in clock.checks(figures)}
    assert found["long, mean wait: SPEED=500 from the slowest, %"] == (pytest.approx(1, abs=0.1), True)
    assert found["long, runs that are not valid"] == (0, True)


def test_an_invalid_run_counts_and_says_why(results: Path) -> None:
    finished(Run(LONG, 100, 1), 0)
    finished(Run(LONG, 500, 1), 3, valid=False)
    figures = clock.measure(Selection(kinds=("long",), plays=False))
    assert [check.figure for check in clock.checks(figures) if not check.holds] == ["long, runs that are not valid"]
    assert "SPEED=500, replica 1: too fast" in clock.report(figures)
    assert "left out of the deviations and trends, because they are not valid: SPEED=500, replica 1" in clock.report(figures)
    assert figures["long"] == [], "the only fast run is not valid"
    assert len(figures["runs"]) == 2


def test_runs_that_did_not_end_are_left_out(results: Path) -> None:
    finished(Run(SHORT, 50, 1), 0)
    Ending("failed", "interrupted").store(Run(SHORT, 50, 1).folder)
    assert clock.measure(Selection(plays=False)) == {"trace": clock.TRACE.name, "runs": [], "short": [], "long": []}
    assert clock.report({"trace": "", "runs": []}) == "there are no finished runs"
