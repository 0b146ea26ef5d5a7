"""How near one schedule comes to another: properties, and a second implementation of the figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mirage.statistics.nearness import nearness, overall, pairs_of

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
        if told.keys() == {"run", "record", "difference"}:
            return [told]
        return [figure for value in told.values() for figure in figures(value)]
    return [figure for value in told for figure in figures(value)] if isinstance(told, list) else []


@given(jobs_frames())
@settings(max_examples=25)
def test_a_schedule_is_nearest_to_itself(both: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    told = near(both[0], both[0])
    assert all(figure["difference"] == 0 for figure in figures(told))
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


@given(st.lists(st.tuples(WAITS, WAITS), min_size=3, max_size=40))
def test_rank_correlation_is_spearmans(waits: list[tuple[float, float]]) -> None:
    sides = list(zip(*waits, strict=True))
    jobs = len(waits)
    told = overall(pairs_of(*(frame(range(jobs), side, [10] * jobs, [1] * jobs) for side in sides)))["rank_correlation"]
    if min(len(set(side)) for side in sides) < 2:
        assert told is None
    else:
        assert told["value"] == pytest.approx(stats.spearmanr(*sides).statistic, abs=1e-9)


def test_figures_by_hand() -> None:
    # Waits 0, 100, 4000 and 30 against 60, 0, 3700 and 30.
    submits, sizes = [0, 10, 20, 30], [1, 2, 4, 8]
    run, record = frame(submits, [0, 100, 4000, 30], [10] * 4, sizes), frame(submits, [60, 0, 3700, 30], [10] * 4, sizes)
    told = overall(pairs_of(run, record))
    assert {name: one["value"] for name, one in told["differences"].items()} == {
        "mean": 85, "median": 50, "quartile_1": -15, "quartile_3": 150,
        "within_minute": 0.5, "within_tenth": 0.75, "shorter": 0, "longer": 0.5,
    }  # fmt: skip
    assert told["waits"]["wait_median"] == {"run": 65, "record": 45, "difference": 20}
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


def queued(waits: Any, eligible: Any) -> pl.DataFrame:
    """Jobs submitted each minute that wait for so long after they could start."""
    submits = 60.0 * np.arange(len(waits))
    later = np.array([np.nan if one is None else one for one in eligible], np.float64)
    jobs = frame(submits, np.nan_to_num(later) + waits, [100] * len(waits), [1] * len(waits))
    return jobs.with_columns(eligible=pl.Series(submits + later).fill_nan(None))


def test_delays_that_are_copied_are_no_agreement() -> None:
    """Half of the jobs begin later, by hours, as the log has it. In both schedules they then queue, without relation."""
    random = np.random.default_rng(1)
    later = np.where(random.random(400) < 0.5, random.uniform(3600, 86_400, 400), 0.0)
    run, record = (queued(random.exponential(600, 400), later) for _ in range(2))
    told = nearness(run, record, traits(run).with_columns(is_copied=pl.Series(later > 43_200)))
    assert told is not None and abs(told["rank_correlation"]["value"]) < 0.15
    assert told["waits"]["wait_mean"]["record"] < 700
    whole = (record["start"] - record["submit"]).sum()
    assert told["deferred"]["jobs"] == (later > 0).sum()
    assert told["deferred"]["share"] == pytest.approx(later.sum() / whole)
    assert told["deferred"]["copied"] == pytest.approx(later[later > 43_200].sum() / whole)
    without = nearness(run.drop("eligible"), record.drop("eligible"))
    assert without is not None and without["rank_correlation"]["value"] > 0.8
    assert without["deferred"] == {"jobs": 0, "share": 0, "copied": None}


def test_eligibility_that_one_of_both_does_not_tell_is_not_used() -> None:
    run, record = queued([5, 5, 5, 5], [None, 900, 0.5, 900]), queued([50, 50, 50, 50], [900, 900, 0.5, None])
    pairs = pairs_of(run, record)
    assert pairs["run"].to_list() == [5, 5, 5.5, 905]
    assert pairs["record"].to_list() == [950, 50, 50.5, 50]
    assert pairs["deferred"].to_list() == [0, 900, 0, 0]
    assert overall(pairs_of(queued([0, 0], [0, 0]), queued([0, 0], [0, 0])))["deferred"]["share"] == 0
