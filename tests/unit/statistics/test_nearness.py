"""How near one schedule comes to another: properties, and a second implementation of the figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mirage.statistics.bootstrap import Blocks
from mirage.statistics.nearness import _correlations, _Ranks, nearness, overall, pairs_of

WAITS = st.integers(0, 5000).map(float) | st.sampled_from([0.0, 60.0, 120.0])


@st.composite
def jobs_frames(draw: st.DrawFn, least: int = 1) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two schedules of the same jobs: other waits, perhaps other run times."""
    count = draw(st.integers(least, 60))
    submits = sorted(draw(st.lists(st.integers(0, 400_000), min_size=count, max_size=count)))
    sizes = draw(st.lists(st.integers(1, 64), min_size=count, max_size=count))
    run_times = [draw(st.lists(st.integers(0, 9000), min_size=count, max_size=count)) for _ in range(2)]
    waits = [draw(st.lists(WAITS, min_size=count, max_size=count)) for _ in range(2)]
    return frame(submits, waits[0], run_times[0], sizes), frame(submits, waits[1], run_times[1], sizes)


def frame(submits: Any, waits: Any, run_times: Any, sizes: Any) -> pl.DataFrame:
    submit, wait, run_time = (np.asarray(one, np.float64) for one in (submits, waits, run_times))
    times = {"submit": submit, "start": submit + wait, "end": submit + wait + run_time}
    return pl.DataFrame({"id": np.arange(1, len(submit) + 1), **times, "processors": np.asarray(sizes, np.int64)})


def traits(jobs: pl.DataFrame) -> pl.DataFrame:
    number = pl.col("id")
    names = pl.when(number % 2 == 0).then(pl.lit("even")).otherwise(pl.lit("odd"))
    return jobs.select("id", user=number % 5, partition=names, has_gpus=number % 3 == 0)


def near(run: pl.DataFrame, record: pl.DataFrame) -> dict[str, Any]:
    told = nearness(run, record, traits(run), 128)
    assert told is not None
    return told


def figures(told: Any) -> list[dict[str, Any]]:
    """All members that have a run beside a record."""
    if isinstance(told, dict):
        if told.keys() == {"run", "record", "difference", "error"}:
            return [told]
        return [figure for value in told.values() for figure in figures(value)]
    return [figure for value in told for figure in figures(value)] if isinstance(told, list) else []


@given(jobs_frames())
@settings(max_examples=25)
def test_a_schedule_is_nearest_to_itself(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    told = near(both[0], both[0])
    assert all(figure["difference"] == 0 and figure["error"] in (0, None) for figure in figures(told))
    assert told["rank_correlation"] is None or told["rank_correlation"]["value"] == 1
    shares = {name: told["differences"][name]["value"] for name in ("within_minute", "within_tenth", "shorter", "longer")}
    assert shares == {"within_minute": 1, "within_tenth": 1, "shorter": 0, "longer": 0}


@given(jobs_frames())
@settings(max_examples=25)
def test_both_ways_are_the_same(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    there, back = near(*both), near(*reversed(both))
    for one, other in zip(figures(there), figures(back), strict=True):
        assert (one["run"], one["record"]) == (other["record"], other["run"])
        assert one["difference"] == -other["difference"]
        assert one["error"] == pytest.approx(other["error"], rel=1e-2) if one["error"] else one["error"] == other["error"]
    assert there["rank_correlation"] == pytest.approx(back["rank_correlation"])
    swapped = {"shorter": "longer", "longer": "shorter"}
    for name in ("within_minute", "within_tenth", "shorter", "longer"):
        assert there["differences"][name]["value"] == back["differences"][swapped.get(name, name)]["value"]
    for name, other_end in (("mean", "mean"), ("median", "median"), ("quartile_1", "quartile_3")):
        assert there["differences"][name]["value"] == pytest.approx(-back["differences"][other_end]["value"])
    assert [row["jobs"] for row in there["classes"]] == [row["jobs"] for row in back["classes"]]


@given(jobs_frames(), st.integers(0, 100_000))
@settings(max_examples=25)
def test_a_shift_of_all_waits_is_the_difference(both: tuple[pl.DataFrame, pl.DataFrame], by: int) -> None:
    record = both[0]
    run = record.with_columns(pl.col("start", "end") + by)
    told = near(run, record)
    assert told["waits"]["wait_mean"]["difference"] == pytest.approx(by, abs=1e-6)
    of_waits = [told["waits"], *told["classes"], *told["partitions"], *told["over_time"]["bins"]]
    for figure in (one for group in of_waits for one in figures(group)):
        assert figure["difference"] == pytest.approx(by, abs=1e-6)
        assert figure["error"] is None or figure["error"] == pytest.approx(0, abs=1e-6)
    for name in ("mean", "median", "quartile_1", "quartile_3"):
        assert told["differences"][name]["value"] == pytest.approx(by, abs=1e-6)
    if told["users"] is not None:
        assert told["users"]["wait"]["difference"] == pytest.approx(by, abs=1e-6)
    assert told["rank_correlation"] is None or told["rank_correlation"]["value"] == 1
    assert told["differences"]["longer"]["value"] == (by > 60)


@given(jobs_frames(least=2))
@settings(max_examples=25)
def test_groups_have_every_job_once(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    run, record = both
    told, waits = near(run, record), (run["start"] - run["submit"]).to_numpy()
    cells = [row for row in told["classes"] if "all" not in (row["size"], row["runtime"])]
    for rows in (cells, told["partitions"], told["over_time"]["bins"]):
        assert sum(row["jobs"] for row in rows) == run.height
        assert sum(row["jobs"] * row["wait_mean"]["run"] for row in rows) == pytest.approx(waits.sum())


@given(jobs_frames(least=2))
def test_users_and_utilisation_by_a_slow_way(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    run, record = both
    told = near(run, record)
    rows = list(zip(run.iter_rows(named=True), record.iter_rows(named=True), strict=True))
    first, last = rows[0][0]["submit"], max(one["submit"] for one, _ in rows)
    if last > first:
        for side, name in enumerate(("run", "record")):
            used = sum(
                pair[0]["processors"] * max(0.0, min(pair[side]["end"], last) - max(pair[side]["start"], first)) for pair in rows
            )
            assert told["utilisation"][name] == pytest.approx(used / (128 * (last - first)), abs=1e-9)
    else:
        assert told["utilisation"] is None
    of_users: dict[int, list[tuple[float, float, float]]] = {}
    for one, other in rows:
        area = one["processors"] * (one["end"] - one["start"] + other["end"] - other["start"]) / 2
        of_users.setdefault(one["id"] % 5, []).append((area, one["start"] - one["submit"], other["start"] - other["submit"]))
    means = []
    for jobs in of_users.values():
        if total := sum(area for area, *_ in jobs):
            means.append([sum(job[0] * job[side] for job in jobs) / total for side in (1, 2)])
    if len(means) < 2:
        assert told["users"] is None
        return
    assert told["users"]["users"] == len(means)
    areas = [sum(area for area, *_ in jobs) for jobs in of_users.values()]
    for side, name in enumerate(("run", "record")):
        weighted = sum(job[0] * job[1 + side] for jobs in of_users.values() for job in jobs)
        assert told["users"]["wait"][name] == pytest.approx(weighted / sum(areas))


@given(st.lists(st.tuples(WAITS, WAITS), min_size=3, max_size=40), st.integers(0, 99))
def test_rho_of_resamples_is_that_of_the_jobs_that_were_drawn(waits: list[tuple[float, float]], seed: int) -> None:
    one, other = (np.array(side) for side in zip(*waits, strict=True))
    counts = np.concatenate([each for _, each in Blocks(len(waits), 2, 5, seed).counts()])
    found = _correlations([_Ranks.of(one), _Ranks.of(other)], counts)
    for rho, drawn in zip(found, counts, strict=True):
        sample = np.repeat(one, drawn), np.repeat(other, drawn)
        if min(len(set(side)) for side in sample) < 2:
            assert np.isnan(rho)
        else:
            assert rho == pytest.approx(stats.spearmanr(*sample).statistic, abs=1e-9)


def test_figures_by_hand() -> None:
    # Waits 0, 100, 4000 and 30 against 60, 0, 3700 and 30.
    submits, sizes = [0, 10, 20, 30], [1, 2, 4, 8]
    run, record = frame(submits, [0, 100, 4000, 30], [10] * 4, sizes), frame(submits, [60, 0, 3700, 30], [10] * 4, sizes)
    told = overall(pairs_of(run, record))
    assert {name: one["value"] for name, one in told["differences"].items()} == {
        "mean": 85, "median": 50, "quartile_1": -15, "quartile_3": 150,
        "within_minute": 0.5, "within_tenth": 0.75, "shorter": 0, "longer": 0.5,
    }  # fmt: skip
    assert told["waits"]["wait_median"] == {"run": 65, "record": 45, "difference": 20, "error": None}
    assert told["rank_correlation"]["value"] == pytest.approx(stats.spearmanr([0, 100, 4000, 30], [60, 0, 3700, 30]).statistic)


def test_what_is_not_compared() -> None:
    run, record = (frame(range(5), waits, [10] * 5, [1] * 5) for waits in ([5, 5, -1, 5, 5], [5, 5, 5, -1, 5]))
    run = run.with_columns(preset=pl.Series([None, "running", None, None, None]))
    record = record.with_columns(start=pl.when(pl.col("id") == 5).then(None).otherwise("start"))
    assert pairs_of(run, record)["id"].to_list() == [1]
    assert nearness(run.tail(4), record) is None
    told = nearness(run, record)
    assert told is not None and told["rank_correlation"] is None
    assert (told["users"], told["gpu_jobs"], told["partitions"], told["utilisation"]) == (None, None, [], None)


@pytest.mark.parametrize(("days", "width"), [(5, 3600.0), (6, 86_400.0), (100, 86_400.0), (101, 604_800.0)])
def test_bins_over_time(days: int, width: float) -> None:
    submits = np.arange(days) * 86_400.0 + 7.0
    told = near(frame(submits, np.arange(days), [10] * days, [1] * days), frame(submits, [0] * days, [10] * days, [1] * days))
    over_time = told["over_time"]
    assert over_time["width"] == width
    assert [row["begin"] for row in over_time["bins"]][:2] == [7.0, 7.0 + max(width, 86_400.0)]


def test_intervals_hold_the_truth() -> None:
    """Of samples of jobs whose waits differ by 100 s on average, nine in ten intervals or more hold this value, and that of rho."""
    random, held, held_rho = np.random.default_rng(1), 0, 0
    samples, jobs = 60, 100
    true_rho = 6 / np.pi * np.arcsin(0.8 / 2)
    for _ in range(samples):
        normal = random.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=jobs)
        waits = 5000 + 500 * normal + [100, 0]
        told = overall(pairs_of(*(frame(np.arange(jobs), waits[:, side], [10] * jobs, [1] * jobs) for side in (0, 1))))
        mean, rho = told["waits"]["wait_mean"], told["rank_correlation"]
        held += abs(mean["difference"] - 100) <= mean["error"]
        held_rho += rho["low"] <= true_rho <= rho["high"]
    assert held >= 0.9 * samples
    assert held_rho >= 0.9 * samples


def test_many_jobs_have_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.statistics.nearness.MOST_JOBS", 50)
    of_60, of_50 = (frame(np.arange(n), np.arange(n) % 7, [10] * n, [1] * n) for n in (60, 50))
    for jobs, is_known in ((of_60, False), (of_50, True)):
        waits = near(jobs, jobs.with_columns(pl.col("start") + pl.col("id")))["waits"]
        assert (waits["wait_mean"]["error"] is not None) == is_known
