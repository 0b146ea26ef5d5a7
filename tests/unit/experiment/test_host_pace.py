"""What earlier runs took on this host, and what that makes of the next estimate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.experiment import host_pace
from mirage.experiment.host_pace import (
    AROUND_BUSY,
    FIRST_RANGE,
    KEPT,
    LAST_RANGE,
    Corrected,
    Played,
    Predicted,
    corrected,
    keep,
    played,
)

RUN = Predicted(360, 16.0, 70.0, 30.0, 20.0, 1.0, "none", "slurm-defaults  ", "KTH.swf ")
RUNS = st.builds(
    Predicted,
    nodes=st.integers(1, 10**5),
    cpus=st.floats(0.5, 256),
    scheduler=st.floats(0.01, 1e6),
    rest=st.floats(0.01, 1e6),
    around=st.floats(1, 1e3),
    slow=st.floats(1, 100),
    work=st.sampled_from(["none", "configure", "build"]),
    configuration=st.sampled_from(["a", "b"]),
    workload=st.sampled_from(["a", "b"]),
)


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_pace, "PATH", tmp_path / ".pace.json")
    return tmp_path / ".pace.json"


def slower(factor: float, run: Predicted = RUN) -> Played:
    return Played(run, factor * run.scheduler, factor * run.rest * run.slow, factor * run.around * run.slow**AROUND_BUSY)


def test_without_earlier_runs_the_prediction_stays() -> None:
    assert corrected(RUN, played()) == (Corrected(),) * 3


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_after_the_same_run_the_range_is_narrow_and_holds_it(factor: float) -> None:
    keep(slower(factor))
    for found in corrected(RUN, played()):
        assert found.factor == pytest.approx(LAST_RANGE)
        assert factor / LAST_RANGE < found.ratio < factor * LAST_RANGE


@pytest.mark.parametrize(
    "others",
    [
        (RUN, replace(RUN, scheduler=140.0, rest=60.0), replace(RUN, workload="x"), replace(RUN, nodes=1440)),
        (
            RUN,
            replace(RUN, configuration="x"),
            replace(RUN, configuration="x", workload="x"),
            replace(RUN, scheduler=10.0, rest=90.0),
        ),
    ],
)
def test_the_less_a_run_is_like_the_earlier_one_the_wider_is_its_range(others: tuple[Predicted, ...]) -> None:
    found = [corrected(other, [slower(3.0)])[0] for other in others]
    assert found == sorted(found, key=lambda one: one.factor) == sorted(found, key=lambda one: -one.ratio)
    assert all(1 < one.ratio < 3 and LAST_RANGE <= one.factor < FIRST_RANGE for one in found)


def test_what_a_run_took_on_a_busy_host_says_less_of_one_at_rest() -> None:
    """But slurmctld's processor time is the same. A command that builds its cluster says nothing of one that finds it."""
    scheduler, rest, around = corrected(RUN, [slower(3.0, replace(RUN, slow=2.0))])
    assert scheduler == corrected(RUN, [slower(3.0)])[0]
    for found in (rest, around):
        assert 1 < found.ratio < 1.5 and 1.6 < found.factor < FIRST_RANGE
    assert corrected(replace(RUN, work="build"), [slower(3.0)])[2] == Corrected()
    # Nor is a host that is as busy again as sure as one at rest.
    busy = replace(RUN, slow=2.0)
    assert corrected(busy, [slower(3.0, busy)])[1].factor == pytest.approx((FIRST_RANGE * LAST_RANGE) ** 0.5)


def test_the_latest_of_equal_runs_count_most_and_a_spread_widens_the_range() -> None:
    rising, falling = ([slower(factor) for factor in factors] for factors in ((1, 1, 1, 2, 2, 2), (2, 2, 2, 1, 1, 1)))
    assert corrected(RUN, rising)[0].ratio > corrected(RUN, falling)[0].ratio
    assert corrected(RUN, rising)[0].factor == FIRST_RANGE
    assert corrected(RUN, [slower(2)] * 6)[0].factor < 1.5


@given(RUNS, st.lists(st.tuples(RUNS, st.floats(1e-3, 1e3)), max_size=20))
def test_a_range_is_never_wider_than_the_first(run: Predicted, before: list[tuple[Predicted, float]]) -> None:
    for found in corrected(run, [slower(factor, other) for other, factor in before]):
        assert LAST_RANGE - 1e-9 <= found.factor <= FIRST_RANGE and 0.05 <= found.ratio <= 20
    assert 0 <= run.likeness(before[0][0]) <= 1 if before else run.likeness(run) == 1


def test_the_record_keeps_the_latest_runs(path: Path) -> None:
    for number in range(KEPT + 3):
        keep(slower(1.0, replace(RUN, rest=100.0 + number)))
    assert [one.run.rest for one in played()] == [103.0 + number for number in range(KEPT)]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    ["", "[", "{}", "[1]", '[{"model": "x"}]', "[NaN]", '[{"model": "x", "run": {}, "rest": 1, "around": 1}]'],
)
def test_a_damaged_record_counts_as_empty_and_is_replaced(text: str, path: Path) -> None:
    path.write_text(text)
    assert played() == []
    keep(slower(2.0))
    assert played() == [slower(2.0)]


def test_numbers_that_no_run_has_are_not_believed(path: Path) -> None:
    keep(slower(2.0))
    [row] = json.loads(path.read_text())
    for wrong in ({"rest": 0}, {"around": -1}, {"run": {**row["run"], "nodes": 0}}, {"run": {**row["run"], "slow": 0.5}}):
        path.write_text(json.dumps([{**row, **wrong}]))
        assert played() == []
    keep(Played(RUN, 1.0, 0.0, 1.0))
    assert played() == []


def test_runs_of_another_host_or_model_do_not_count(path: Path) -> None:
    keep(slower(2.0))
    [row] = json.loads(path.read_text())
    path.write_text(json.dumps([{**row, "model": "another"}]))
    assert played() == []


def test_a_record_that_cannot_be_written_is_no_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_pace, "PATH", path / "none" / ".pace.json")
    keep(slower(2.0))
    assert played() == []
