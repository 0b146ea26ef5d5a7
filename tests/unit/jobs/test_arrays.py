"""Ids and names of the tasks of job arrays, and which jobs of a plan are tasks of one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import arrays
from slurm_mirage.jobs.plan import ALIKE, PlanRow, parse_plan, plan_text, with_arrays

FIRST = PlanRow(0, 50, 0.0, 4, None, 12.5, 2, None, "", "r.50", "u3", "high", 100)
"""Job 50 of a plan."""

numbers = st.integers(1, 67_043_328)
tasks = st.integers(0, 4_000_000)


def plan(*numbers: int) -> list[PlanRow]:
    """Jobs with these numbers that are like FIRST but for their run time."""
    return [
        replace(FIRST, index=index, id=number, name=f"r.{number}", runtime=float(number)) for index, number in enumerate(numbers)
    ]


def grouped(rows: list[PlanRow], arrays: list[int | None], limits: list[int | None] | None = None) -> list[int | None]:
    return [row.array for row in with_arrays(rows, arrays, limits or [None] * len(rows))]


@given(numbers, tasks)
def test_a_task_is_known_by_its_array(array: int, task: int) -> None:
    job_id = arrays.task_id(array, task)
    assert arrays.array_and_task(job_id) == (array, task) and arrays.number(job_id) == array
    assert arrays.array_and_task(array) is None and arrays.number(array) == array


@given(numbers, tasks)
def test_a_task_has_the_name_of_its_job(first: int, task: int) -> None:
    assert arrays.task_name(arrays.array_name(f"my.run.{first}"), task) == f"my.run.{first + task}"


@pytest.mark.parametrize("name", ["r.5", "wrap", "x.array", ".array", "r.x.array", "array", ""])
def test_other_names_stay(name: str) -> None:
    assert arrays.task_name(name, 3) == name


def test_alike_tasks_are_in_an_array() -> None:
    rows = plan(50, 51, 52, 53, 54)
    assert grouped(rows, [7, 7, None, 7, 8]) == [50, 50, None, 50, None]
    assert [row.task for row in with_arrays(rows, [7, 7, None, 7, 8], [None] * 5)] == [0, 1, 0, 3, 0]


@pytest.mark.parametrize("column", ALIKE)
def test_a_task_that_asks_for_something_else_begins_another_array(column: str) -> None:
    rows = plan(50, 51, 52, 53)
    other = {"partition": "x", "account": "x", "qos": "x", "request": "nice=1"}.get(column, 9)
    rows[2:] = [replace(row, **{column: other}) for row in rows[2:]]
    assert grouped(rows, [7] * 4) == [50, 50, 52, 52]
    rows[3] = replace(FIRST, index=3, id=53)
    assert grouped(rows, [7] * 4, [3] * 4) == [50, 50, None, None]


@pytest.mark.parametrize(
    "change", [{"dependency": "afterany:50"}, {"follows": 50}, {"nodes": 2, "extras": {"own": "words"}}, {"request": "hold=5"}]
)
def test_jobs_that_wait_or_change_their_size_are_single_jobs(change: dict[str, object]) -> None:
    rows = plan(50, 51, 52)
    rows[2] = replace(rows[2], **change)  # type: ignore[arg-type]
    assert grouped(rows, [7] * 3) == [50, 50, None]


def test_numbers_of_tasks_are_below_slurms_default() -> None:
    rows = plan(50, 50 + arrays.MOST_TASKS - 1, 50 + arrays.MOST_TASKS, 60 + arrays.MOST_TASKS)
    assert grouped(rows, [7] * 4) == [50, 50, rows[2].id, rows[2].id]


def test_a_limit_is_that_of_a_whole_array() -> None:
    rows = plan(50, 51, 52, 53)
    assert [row.at_once for row in with_arrays(rows, [7, 7, 8, 8], [2, 2, None, None])] == [2, 2, None, None]
    rows[1] = replace(rows[1], processors=9)
    rows[3] = replace(rows[3], processors=9)
    assert [row.at_once for row in with_arrays(rows, [7, 7, 7, 7], [2, 2, 2, 2])] == [None] * 4


def test_a_plan_with_arrays_survives_its_file() -> None:
    rows = with_arrays(plan(50, 51, 52), [7, 7, None], [2, 2, None])
    assert parse_plan(plan_text(rows)) == rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"array": 49}, "task of the array of job 49, which is not above, or not like it"),
        ({"array": 50, "processors": 5}, "task of the array of job 50, which is not above, or not like it"),
        ({"at_once": 2}, "at_once 2: 1 or more tasks of an array, or empty"),
        ({"array": 50, "at_once": 0}, "at_once 0: 1 or more tasks of an array, or empty"),
    ],
)
def test_plans_with_jobs_that_are_no_tasks(change: dict[str, object], message: str) -> None:
    first, second = plan(50, 51)
    text = plan_text([replace(first, array=50), replace(second, **change)])  # type: ignore[arg-type]
    with pytest.raises(WrongUse) as caught:
        parse_plan(text)
    assert str(caught.value) == f"plan.csv:3: {message}"
