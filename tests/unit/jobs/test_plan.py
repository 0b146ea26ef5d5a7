"""The instants at which jobs are due, and the plan's file."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import line_values
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.plan import (
    COLUMNS,
    NEVER,
    WORDS,
    PlanRow,
    due_times,
    parse_plan,
    plan_text,
    read_plan,
    targets,
    with_ids,
    write_plan,
)

gaps = st.lists(st.floats(0, 1e5), max_size=40)
seconds = st.floats(0.001, 1e5)
ROW = PlanRow(0, 7, 0.0, 4, None, 12.5, 2, None, "", "first.7", "u3", "high")


@pytest.mark.parametrize(
    ("knobs", "due"),
    [
        ({}, [0, 5, 5, 20, 100]),
        ({"warmup": 3, "group": 2}, [0, 5, 5, 20, 100]),
        ({"period": 10}, [0, 10, 20, 30, 40]),
        ({"period": 10, "group": 2}, [0, 0, 10, 10, 20]),
        ({"period": 10, "group": 2, "drift": 0.5}, [0, 0, 10.5, 10.5, 21]),
        ({"period": 10, "warmup": 2}, [0, 0, 10, 20, 30]),
        ({"period": 10, "warmup": 2, "drift": -1, "group": 2}, [0, 0, 9, 9, 18]),
        ({"period": 10, "warmup": 2, "warmup_period": 60}, [0, 0, 60, 70, 80]),
        ({"period": 10, "warmup": 9}, [0, 0, 0, 0, 0]),
    ],
)
def test_due_times(knobs: dict[str, float], due: list[float]) -> None:
    assert due_times([1000, 1005, 1005, 1020, 1100], **knobs) == due  # type: ignore[arg-type]


def test_nothing_is_due_without_jobs() -> None:
    assert due_times([]) == due_times([], period=5, warmup=1) == []


@given(gaps)
def test_own_times_keep_their_distances(gaps: list[float]) -> None:
    submits = list(accumulate(gaps))
    assert due_times(submits) == [submit - submits[0] for submit in submits]


@given(st.integers(0, 60), st.integers(0, 70), st.integers(1, 9), seconds, st.floats(-1, 1), st.floats(0, 100))
def test_groups_go_at_their_instants(jobs: int, warmup: int, group: int, period: float, share: float, warmup_period: float) -> None:
    drift = share * period
    due = due_times([0.0] * jobs, warmup, group, period, drift, warmup_period)
    assert due[:warmup] == [0.0] * min(warmup, jobs)
    assert due == sorted(due)
    for k, first in enumerate(range(warmup, jobs, group)):
        members = due[first : first + group]
        assert set(members) == {warmup_period + (drift + period) * k}


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"warmup": -1}, "submission: a warm-up of -1"),
        ({"group": 0}, "submission: groups of 0"),
        ({"period": -5}, "submission: a period of -5"),
        ({"period": float("nan")}, "submission: a period of nan"),
        ({"period": 5, "drift": -6}, "submission: a drift of -6"),
        ({"drift": float("inf")}, "submission: a drift of inf"),
        ({"warmup_period": -1}, "submission: a warm-up period of -1"),
    ],
)
def test_knobs_out_of_range(knobs: dict[str, float], message: str) -> None:
    with pytest.raises(WrongUse, match=f"^{message}"):
        due_times([0.0], **knobs)  # type: ignore[arg-type]


def test_submissions_out_of_order() -> None:
    with pytest.raises(WrongUse, match=r"^trace: job number 3 in it was submitted at 4"):
        due_times([1, 5, 4])


rows = st.builds(
    PlanRow,
    index=st.just(0),
    id=st.integers(0, 10**9),
    due=st.floats(0, 1e9),
    processors=st.integers(1, 10**6),
    nodes=st.none() | st.integers(1, 10**5),
    runtime=st.floats(0, 1e9),
    limit_minutes=st.integers(1, 10**6),
    cancel_after=st.none() | st.floats(0, 1e9),
    partition=st.sampled_from(["", "batch", "a,b"]),
    name=st.just(""),
    account=st.sampled_from(["", "u12"]),
    qos=st.sampled_from(["", "urgent"]),
    memory=st.none() | st.integers(1, 10**6),
    think=st.floats(0, 1e9),
    owner=st.sampled_from(["", "u12"]),
)
asking = st.sampled_from(["nodes=2 most_nodes=4", "nodes=2 tasks=8 gres=gpu:2", "begin=28800.5 nice=3"])
asking_rows = st.builds(replace, rows, nodes=st.none(), request=asking)


@given(st.lists(rows | asking_rows, max_size=8, unique_by=lambda row: row.id), st.data())
def test_a_plan_survives_its_file(plan: list[PlanRow], data: st.DataObject) -> None:
    dues = sorted(row.due for row in plan)
    plan = [replace(row, index=i, due=dues[i], name=f"run.{row.id}") for i, row in enumerate(plan)]
    numbers = [row.id for row in plan]
    for i in range(1, len(plan)):
        others = st.sampled_from(numbers[:i])
        if data.draw(st.booleans()):
            plan[i] = replace(plan[i], follows=data.draw(others))
        elif plan[(other := numbers.index(data.draw(others)))].follows is None:
            forms = (NEVER, f"afterany:{numbers[other]}", f"after:{numbers[other]}+5?afterany:{numbers[other]}")
            plan[i] = replace(plan[i], dependency=data.draw(st.sampled_from(forms)))
    assert parse_plan(plan_text(plan)) == plan


def test_dependencies_with_the_ids_of_the_jobs() -> None:
    text = "after:7+10,afterany:12:14"
    assert targets(text) == [7, 12, 14]
    assert with_ids(text, {7: 900, 12: 907, 14: 12}) == "after:900+10,afterany:907:12"
    assert (targets(NEVER), with_ids("", {})) == ([], "")


def test_plan_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    with pytest.raises(WrongUse, match="there is no plan there"):
        read_plan(path)
    write_plan(path, [ROW])
    assert path.read_text().splitlines() == [",".join(COLUMNS), "0,7,0.0,4,,12.5,2,,,first.7,u3,high,,,,0.0,,,,,"]
    assert read_plan(path) == [ROW]


def lines_of(text: str) -> str:
    """A plan with these lines, of which the last columns are added: those of a job that asks for nothing else."""
    rest = [*[""] * 15, "0", *[""] * 5]
    return "\n".join([",".join(COLUMNS), *(",".join([line, *rest[line.count(",") + 1 :]]) for line in text.split("\n"))])


def test_other_columns() -> None:
    for heading in ("", ",".join(COLUMNS[:12]), ",".join([*COLUMNS, "more"])):
        with pytest.raises(WrongUse, match=r"^plan\.csv:1: the columns may be index,id"):
            parse_plan(f"{heading}\n")
    with pytest.raises(WrongUse, match=f"^plan.csv:2: 9 columns instead of {len(COLUMNS)}"):
        parse_plan(f"{','.join(COLUMNS)}\n0,7,0,4,,12,2,,\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,7,0,4,,12,2,,,a.7,,", "plan.csv:2: index 1"),
        ("0,7,x,4,,12,2,,,a.7,,", "plan.csv:2: could not convert"),
        ("0,7,-1,4,,12,2,,,a.7,,", "plan.csv:2: due -1"),
        ("0,7,5,4,,12,2,,,a.7,,\n1,8,4,4,,12,2,,,a.8,,", "plan.csv:3: due 4"),
        ("0,7,0,0,,12,2,,,a.7,,", "plan.csv:2: processors"),
        ("0,7,0,1,0,12,2,,,a.7,,", "plan.csv:2: processors, nodes"),
        ("0,7,0,1,,12,0,,,a.7,,", "plan.csv:2: processors, nodes and limit"),
        ("0,7,0,1,,nan,2,,,a.7,,", "plan.csv:2: runtime nan"),
        ("0,7,0,1,,12,2,-3,,a.7,,", "plan.csv:2: cancel_after -3"),
        ("0,7,0,1,,12,2,,,a 7,,", "plan.csv:2: name 'a 7'"),
        ("0,7,0,1,,12,2,,,a.7,u 3,", "plan.csv:2: account 'u 3'"),
        ("0,7,0,1,,12,2,,,a.7,,a|b", "plan.csv:2: qos 'a|b'"),
        ("0,7,0,1,,12,2,,,a.7,,\n1,8,0,1,,12,2,,,a.7,,", "plan.csv: two jobs have the same name"),
        ("0,7,0,1,,12,2,,,a.7,,\n1,7,0,1,,12,2,,,a.8,,", "plan.csv: two jobs have the same id"),
    ],
)
def test_bad_plans(text: str, message: str) -> None:
    with pytest.raises(WrongUse) as caught:
        parse_plan(lines_of(text))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("0,,,0", "plan.csv:3: memory 0"),
        (",soon,,0", "plan.csv:3: dependency 'soon'"),
        (",afterok:7,,0", "plan.csv:3: dependency 'afterok:7'"),
        (",afterany:7?,,0", "plan.csv:3: dependency"),
        (",afterany:8,,0", "plan.csv:3: waits for job 8, which is not above"),
        (",,9,0", "plan.csv:3: follows job 9, which is not above"),
        (",,7,-1", "plan.csv:3: think -1"),
        (",,7,inf", "plan.csv:3: think inf"),
        (
            ",,7,5\n2,9,0,1,,12,2,,,a.9,,,,afterany:8,,0",
            "plan.csv:4: waits for job 8, which is not above, or follows another itself",
        ),
    ],
)
def test_plans_with_jobs_that_cannot_wait_so(second: str, message: str) -> None:
    with pytest.raises(WrongUse) as caught:
        parse_plan(lines_of(f"0,7,0,1,,12,2,,,a.7,,,,,,0\n1,8,0,1,,12,2,,,a.8,,,{second}"))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("nodes", "request_", "message"),
    [
        ("", "gpus=many", "plan.csv:2: request: gpus='many' may be one of nodes, most_nodes, "),
        ("", "colour=red", "plan.csv:2: request: colour='red' may be one of"),
        ("", "hold=-1", "plan.csv:2: request: hold='-1'"),
        ("2", "nodes=3", "plan.csv:2: a job with whole nodes asks for no other number"),
    ],
)
def test_plans_with_bad_requests(nodes: str, request_: str, message: str) -> None:
    with pytest.raises(WrongUse) as caught:
        parse_plan(f"{','.join(COLUMNS)}\n0,7,0,1,{nodes},12,2,,,a.7,,,,,,0,,,,{request_},\n")
    assert str(caught.value).startswith(message)


def test_a_user_is_one_word() -> None:
    with pytest.raises(WrongUse, match=r"^plan.csv:2: owner 'u 3': one word, or empty"):
        parse_plan(f"{','.join(COLUMNS)}\n0,7,0,1,,12,2,,,a.7,,,,,,0,,,,,u 3\n")


@pytest.mark.parametrize("column", WORDS)
@given(value=line_values.values)
def test_words_of_the_plan_are_read_letter_by_letter_or_refused(column: str, value: str) -> None:
    row = PlanRow(0, 7, 0.0, 1, None, 12.0, 2, None, "", "a.7")
    try:
        text = plan_text([replace(row, **{column: value})])
    except WrongUse as error:
        assert str(error).startswith(f"jobs with {column} ")
        return
    if column != "name" or value:
        [read] = parse_plan(text)
        assert getattr(read, column) == value


@pytest.mark.parametrize(
    ("request_", "dependency", "waits"),
    [
        ("", "", False),
        ("begin=60.0", "", True),
        ("hold=60.0", "", False),
        ("switches=1", "", False),
        ("switches=1@60", "", True),
        ("", "afterany:12:14", False),
        ("", "after:15+2", True),
    ],
)
def test_a_job_that_waits_for_an_instant(request_: str, dependency: str, waits: bool) -> None:
    assert replace(ROW, request=request_, dependency=dependency).waits_for_instant is waits
