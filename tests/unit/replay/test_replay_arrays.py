"""Job arrays in a replay with the resource manager in memory, which gives a task a number of its own when it starts it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from in_memory_rm import InMemory
from test_replay_in_memory import RUNS, Run, run

from mirage.records.collect import collect
from mirage.records.run_folder import RunFolder
from slurm_mirage.jobs import arrays
from slurm_mirage.replay.journal import Journal

__all__ = ["run"]  # a fixture
FIRST, LAST = 2, 6
"""Indices of the first and the last task of the array in the plan; jobs 0, 1 and 7 are jobs of their own."""
TASKS = [f"r.{100 + index}" for index in range(FIRST, LAST + 1)]


def plan(run: Run, **changes: Any) -> None:
    """Eight jobs that are due at once; five of them are an array."""
    run.write(8, due=0.0, **changes)
    array = run.plan[FIRST].id
    run.plan = [replace(row, array=array) if FIRST <= row.index <= LAST else row for row in run.plan]
    run.rewrite()
    run.manager.most = arrays.MOST_TASKS


def ids(run: Run) -> list[int]:
    """The ids in the journal, in order of submission."""
    return [event["slurm_id"] for event in run.events() if event["event"] in ("submitted", "resubmitted")]


def test_an_array_is_submitted_at_once(run: Run) -> None:
    plan(run)
    result = run.play()
    run.check_each_was_played_once()
    assert ids(run)[2:7] == [arrays.task_id(3, task) for task in range(5)]
    assert run.manager.accepted == [row.name for row in run.plan]
    assert (result["submitted"], result["retries"], result["resubmitted"]) == (8, 0, 0)
    assert result["states"] == {"COMPLETED": 8}


@pytest.mark.parametrize("most", [0, 1, 4])
def test_tasks_are_single_jobs_where_arrays_may_not_be_so_large(run: Run, most: int) -> None:
    plan(run)
    run.manager.most = most
    run.play()
    run.check_each_was_played_once()
    assert all(arrays.array_and_task(job_id) is None for job_id in ids(run))


def test_a_task_is_cancelled_without_the_others(run: Run) -> None:
    plan(run)
    run.plan[FIRST] = replace(run.plan[FIRST], runtime=60.0, cancel_after=0.3)
    run.plan[FIRST + 1] = replace(run.plan[FIRST + 1], cancel_after=0.0)
    run.rewrite()
    result = run.play()
    assert result["states"] == {"CANCELLED": 2, "COMPLETED": 6}
    assert {job.submission.name for job in run.manager.jobs if job.state == "removed"} == set(TASKS[:2])


def test_a_job_waits_for_a_task(run: Run) -> None:
    plan(run)
    run.plan[7] = replace(run.plan[7], dependency=f"afterany:{run.plan[LAST].id}")
    run.rewrite()
    run.play()
    run.check_each_was_played_once()
    [last], [task] = run.manager.named("r.107"), run.manager.named(TASKS[-1])
    assert last.submission.dependency == f"afterany:{arrays.task_id(3, LAST - FIRST)}"
    assert last.start is not None and task.end is not None and last.start >= task.end


def test_an_accepted_array_whose_answer_was_lost_is_found_by_its_name(run: Run) -> None:
    plan(run)
    run.manager.unanswered.add(arrays.array_name(TASKS[0]))
    result = run.play()
    run.check_each_was_played_once()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert result["retries"] == 1
    assert [event["index"] for event in run.events() if event.get("found")] == list(range(FIRST, LAST + 1))


@pytest.mark.parametrize("written", range(6))
def test_a_replay_that_was_killed_while_it_journalled_an_array_goes_on(
    run: Run, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(run)
    append = Journal.append_all

    def killed(journal: Journal, events: list[dict[str, Any]]) -> None:
        if len(events) == 1:
            append(journal, events)
            return
        if written:
            append(journal, events[:written])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append_all", killed)
        with pytest.raises(KeyboardInterrupt):
            run.play()
    result = run.play()
    run.check_each_was_played_once()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert (result["submitted"], result["resubmitted"]) == (8, 0)


@pytest.mark.parametrize("accepted", [7, 8])
@pytest.mark.parametrize("forget", [1, 2, 4, 5, 6, 7])
@pytest.mark.parametrize("registration", [0.1, 1.0])
def test_tasks_that_a_restarted_controller_forgot_are_submitted_again(
    run: Run, accepted: int, forget: int, registration: float
) -> None:
    """In part or as a whole, when the last of them or a later job was accepted; some run on until the node registers."""
    plan(run, runtime=0.4)
    run.manager.after[accepted] = lambda: run.manager.restart(forget, registration)
    result = run.play()
    run.check_each_was_played_once()
    assert len(result["restarts"]) == 1 and run.manager.is_open
    assert sum(result["states"].values()) == 8


@pytest.mark.parametrize("width", [2, 4])
def test_a_restarted_controller_gives_an_array_a_number_that_others_had(run: Run, width: int) -> None:
    """It is given up if all of it waits. Tasks that have started are left alone."""
    plan(run, processors=width)
    run.manager.after[2] = lambda: run.manager.restart(forget=1)
    run.play()
    run.check_each_was_played_once()
    assert (run.manager.placeholders > 0) == (width == 4)


def test_its_records_are_collected(run: Run) -> None:
    plan(run)
    run.plan[LAST] = replace(run.plan[LAST], runtime=60.0, cancel_after=0.5)
    run.rewrite()
    run.play()
    shutil.copy(run.manager.directory / "ended.jsonl", run.folder)
    rows = [{"id": row.id, "submit": row.due, "runtime": row.runtime, "requested": 60.0} for row in run.plan]
    pl.DataFrame(rows).write_csv(run.folder / "workload.csv")
    collected = collect(RunFolder(run.folder))
    assert collected.jobs["state"].to_list() == ["COMPLETED"] * 6 + ["CANCELLED"] + ["COMPLETED"]
    done = collected.jobs.filter(state="COMPLETED")
    assert (done["end"] - done["start"]).to_list() == pytest.approx([RUNS] * 7, abs=1e-3), "as sigsleep recorded"
    assert collected.evidence["slurm_id"].to_list()[FIRST : LAST + 1] == [arrays.task_id(3, task) for task in range(5)]
    assert collected.tables.disagreements.is_empty() and collected.replay.unsubmitted == 0 and collected.tables.foreign.is_empty()


def test_the_manager_in_memory_numbers_tasks_when_they_start(run: Run) -> None:
    plan(run)
    run.play()
    manager: InMemory = run.manager
    numbers = [job.number for job in manager.jobs if job.array]
    assert len(set(numbers)) == 5 and all(number > 3 for number in numbers)
