"""Jobs that change their size while they run: schedules worked out on paper, and random ones against the second implementation."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import Job, allocations, as_frames, executions, frame, slowly, stops
from test_metrics_twice import MACHINES, agree, cuts, schedules

from mirage.metrics import metrics
from mirage.metrics.formulas import NO_INSTANTS
from mirage.metrics.measured_jobs import Population
from slurm_mirage.base.errors import WrongUse

# On 4 nodes of 2 processors. Job 1 keeps its size, job 2 waits until it has ended.
#   job 1: 0 to 10, 2 processors on 1 node; job 2: submitted at 0, 10 to 30, 4 processors on 2 nodes.
TWO = frame(
    {"submit": 0, "start": 0, "end": 10, "processors": 2, "nodes": 1},
    {"submit": 0, "start": 10, "end": 30, "processors": 4, "nodes": 2},
)


def changes(*rows: tuple[int, float, int | None, int]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=metrics.ALLOCATIONS_SCHEMA, orient="row")


def measured(jobs: pl.DataFrame, rows: pl.DataFrame | None, **options: Any) -> dict[str, Any]:
    return metrics.compute(jobs, 8, 4, allocations=rows, **options)


def test_a_job_that_grows() -> None:
    """Job 2 has 4 processors for 5 s, 8 for 15 s: area 140, m = 7."""
    result = measured(TWO, changes((2, 15.0, 4, 8)))
    values = result["metrics"]
    assert values["utilisation"] == pytest.approx((20 + 140) / (8 * 30))
    assert values["weighted_slowdown"] == pytest.approx((2 * 10 + 7 * 30) / 160)
    assert values["weighted_slowdown_processors"] == pytest.approx((2 * 1 + 7 * 1.5) / 9)
    assert values["pp_bounded_slowdown_mean"] == 1
    # It waits for 4 processors while 6 are idle.
    assert values["loss_of_capacity"] == pytest.approx(4 * 10 / (8 * 30))
    assert result["distribution"]["nodes"] == [1, 2, 4]
    assert result["distribution"]["share"] == pytest.approx([10 / 30, 5 / 30, 15 / 30])
    # c = 2 at the start: fewer than 3 nodes are busy half of the time.
    assert values["W3"] == pytest.approx((0.5 * 0.5) / 2)
    assert values["W4"] == pytest.approx((0.5 * 3 / 4) / 2)
    assert [(row["size"], row["area_share"]) for row in result["classes"] if row["runtime"] == "all"] == [
        ("2-4", 1), ("all", 1),
    ]  # fmt: skip
    assert (values["wait_mean"], values["slowdown_mean"], values["makespan"]) == (5, 1.25, 30)


def test_a_job_that_shrinks() -> None:
    """Job 2 has 4 processors for 15 s, 1 for 5 s: area 65, m = 3.25; job 3 waits from 20 to 30 for all 8."""
    third = frame({"id": 3, "submit": 20, "start": 30, "end": 31, "processors": 8, "nodes": 4})
    result = measured(pl.concat([TWO, third]), changes((2, 25.0, 1, 1)))
    values = result["metrics"]
    assert values["utilisation"] == pytest.approx((20 + 65 + 8) / (8 * 31))
    assert values["weighted_slowdown"] == pytest.approx((20 + 3.25 * 30 + 8 * 11) / 93)
    # 4 asked for until 10, then 8 while 4 are idle for 5 s, and 7 for 5 s.
    assert values["loss_of_capacity"] == pytest.approx((4 * 10 + 4 * 5 + 7 * 5) / (8 * 31))
    assert result["distribution"]["share"] == pytest.approx([15 / 31, 15 / 31, 1 / 31])


def test_a_job_that_grows_and_shrinks_and_does_not_change() -> None:
    """4 until 12, 6 until 20, 2 until 30: 8 + 48 + 20 = 76. Rows in any order; that at 25 changes nothing."""
    rows = changes((2, 20.0, 1, 2), (2, 12.0, 3, 6), (2, 25.0, 1, 2))
    values = measured(TWO, rows)["metrics"]
    assert values["utilisation"] == pytest.approx((20 + 76) / (8 * 30))
    assert values["weighted_slowdown_processors"] == pytest.approx((2 + 3.8 * 1.5) / 5.8)
    assert measured(TWO, changes(*rows.rows()[:2])) == measured(TWO, rows)


def test_changes_at_the_start_and_at_the_end() -> None:
    """From the start on it has 6 processors; it waited for 4. At its end nothing can change."""
    values = measured(TWO, changes((2, 10.0, 3, 6), (2, 30.0, 4, 8)))["metrics"]
    assert values["utilisation"] == pytest.approx((20 + 120) / (8 * 30))
    assert values["loss_of_capacity"] == pytest.approx(4 * 10 / (8 * 30))


def test_a_suspension_of_a_job_that_grows() -> None:
    """4 from 10 to 12, suspended to 16, 4 to 20, 8 to 24, suspended to 28 while it shrinks to 2 at 26, 2 to 30."""
    jobs = TWO.with_columns(suspended=pl.Series([0.0, 8.0]))
    periods = stops((2, 12.0, 16.0), (2, 24.0, 28.0))
    result = measured(jobs, changes((2, 20.0, 4, 8), (2, 26.0, 1, 2)), suspensions=periods)
    values, area = result["metrics"], 4 * 2 + 4 * 4 + 8 * 4 + 2 * 2
    assert values["utilisation"] == pytest.approx((20 + area) / (8 * 30))
    assert values["weighted_slowdown"] == pytest.approx((20 + area / 12 * 30) / (20 + area))
    assert values["response_mean"] == 20
    assert values["slowdown_mean"] == pytest.approx((1 + 30 / 12) / 2)
    assert result["distribution"] == {"nodes": [0, 1, 2, 4], "share": pytest.approx([8 / 30, 12 / 30, 6 / 30, 4 / 30])}
    # In a window from 14 to 27: nothing, 4, 8, nothing.
    cut = measured(jobs, changes((2, 20.0, 4, 8), (2, 26.0, 1, 2)), suspensions=periods, warmup_cut=0, cooldown_cut=3)
    assert cut["metrics"]["utilisation"] == pytest.approx((20 + 4 * 2 + 4 * 4 + 8 * 4) / (8 * 27))


def test_without_the_instants_of_its_suspension_the_area_is_not_known() -> None:
    jobs = TWO.with_columns(suspended=pl.Series([0.0, 8.0]))
    with_area = {"utilisation", "weighted_slowdown", "weighted_slowdown_processors", "pp_bounded_slowdown_mean"}
    for periods in (None, stops((2, None, 16.0))):
        result = measured(jobs, changes((2, 20.0, 4, 8)), suspensions=periods)
        reasons = {name for name, reason in result["null_reasons"].items() if reason == NO_INSTANTS}
        assert with_area <= reasons and {"loss_of_capacity", "W3", "distribution"} <= reasons
        assert result["metrics"]["slowdown_mean"] == pytest.approx((1 + 30 / 12) / 2)
        assert {row["area_share"] for row in result["classes"]} == {None}
        assert not with_area & set(measured(jobs, None, suspensions=periods)["null_reasons"])


def test_nodes_that_are_not_recorded_are_as_few_as_hold_the_processors() -> None:
    found = measured(TWO, changes((2, 15.0, None, 5)))["distribution"]
    assert found == {"nodes": [1, 2, 3], "share": pytest.approx([10 / 30, 5 / 30, 15 / 30])}


def test_changes_of_jobs_that_are_not_measured_do_not_matter() -> None:
    odd = frame({"id": 3, "submit": 5, "start": 3, "end": 9, "processors": 4})
    jobs = pl.concat([TWO, odd])
    assert measured(jobs, changes((3, 4.0, 1, 1), (99, 4.0, 1, 1))) == measured(jobs, None)


def test_a_job_that_never_changes_gives_the_same_bytes_with_and_without_the_table() -> None:
    numbers = range(1, 40)
    jobs = frame(
        *({"submit": n / 7, "start": n * 1.1, "end": n * 1.1 + n**0.5, "processors": 1 + n % 5, "nodes": 1} for n in numbers)
    )
    rows = changes(*((n, n * 1.1 + 0.1, 1, 1 + n % 5) for n in numbers))
    alone = [json.dumps(measured(jobs, table)) for table in (None, rows, rows.clear())]
    assert alone[0] == alone[1] == alone[2]
    # Beside a job that does: all that is not about the whole schedule is the same for the others.
    some, many = (Population.of(jobs, 8, 4, 0, 0, allocations=table).measured for table in (None, changes((7, 8.0, 2, 4))))
    assert some.filter(pl.col("id") != 7).equals(many.filter(pl.col("id") != 7).cast(some.schema))


@st.composite
def resized(draw: st.DrawFn) -> list[Job]:
    """Schedules some of whose jobs change their size up to three times."""
    jobs = draw(schedules())
    found = []
    for job in jobs:
        last = int(job.z + job.t)
        instants = sorted(draw(st.sets(st.integers(0, last), max_size=3))) if draw(st.booleans()) else []
        sizes = st.tuples(st.integers(1, 12), st.integers(1, 5))
        found.append(job._replace(changes=tuple((float(after), *draw(sizes)) for after in instants)))
    return found


@given(resized(), st.sampled_from(MACHINES), cuts, cuts)
@settings(deadline=None, max_examples=60)
def test_agrees_with_the_slow_implementation(jobs: list[Job], machine: tuple[int, int], warmup: float, cooldown: float) -> None:
    rows, periods = as_frames(jobs, with_nodes=True)
    options: dict[str, Any] = {
        "suspensions": periods,
        "allocations": allocations(jobs),
        "executions": executions(jobs),
        "warmup_cut": warmup,
        "cooldown_cut": cooldown,
    }
    expected = slowly(jobs, *machine, warmup=warmup, cooldown=cooldown)
    if expected is None:
        with pytest.raises(WrongUse):
            metrics.compute(rows, *machine, **options)
        return
    agree(metrics.compute(rows, *machine, **options), expected, rel=1e-9, abs=1e-12)


@given(resized())
@settings(deadline=None, max_examples=50)
def test_the_area_is_the_integral_of_what_is_held(jobs: list[Job]) -> None:
    rows, periods = as_frames(jobs, with_nodes=True)
    population = Population.of(rows, 1000, 1000, 0, 0, suspensions=periods, allocations=allocations(jobs))
    if population.resized is None:
        return
    held = population.resized.holdings.select(((pl.col("end") - pl.col("begin")) * pl.col("p")).sum()).item()
    of_jobs = population.measured.join(population.resized.jobs, on="id").select((pl.col("m") * pl.col("t")).sum()).item()
    assert math.isclose(held, of_jobs, abs_tol=1e-6)


def test_useful_work_is_that_of_the_size_at_the_start() -> None:
    """Job 1 would run for 100 s with 4 processors. From 50 s on it has 2: that takes 100 s more, and 10 s for the change. It uses
    420 processor seconds for 400 of work. Job 2 keeps its size."""
    jobs = frame(
        {"submit": 0, "start": 0, "end": 160, "processors": 4, "nodes": 4, "runtime": 100},
        {"submit": 0, "start": 60, "end": 160, "processors": 2, "nodes": 2, "runtime": 100},
    )
    shrunk = changes((1, 50.0, 2, 2))
    found = metrics.compute(jobs, 4, 4, allocations=shrunk)["metrics"]
    assert found["utilisation"] == pytest.approx((420 + 200) / (4 * 160))
    assert found["useful_utilisation"] == pytest.approx((400 + 200) / (4 * 160))
    assert found["resizes_mean"] == 0.5
    # Of a job that was killed it is not known what was done.
    killed = metrics.compute(jobs.with_columns(state=pl.lit("TIMEOUT")), 4, 4, allocations=shrunk)["metrics"]
    assert killed["useful_utilisation"] == pytest.approx(620 / 640)
    # Until 100 s job 1 used 300 processor seconds, and job 2 80.
    cut = metrics.compute(jobs, 4, 4, allocations=shrunk, suspensions=stops(), cooldown_cut=60)["metrics"]
    assert cut["utilisation"] == pytest.approx(380 / 400)
    assert cut["useful_utilisation"] == pytest.approx((300 * 400 / 420 + 80) / 400)
