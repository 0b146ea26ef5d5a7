"""Tests of the queue in an archive of mirage-capture --now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import BEGIN, DAY, table
from hypothesis import given
from hypothesis import strategies as st

from mirage.site import archive, now
from mirage.site.now import COLUMNS, CONFIG, PRIORITY_COLUMNS, SPRIO, SQUEUE, SSHARE, Waiting
from slurm_mirage.base.errors import WrongUse


def row(job: int, array: int = 0, task: object = "", **more: Any) -> tuple[Any, ...]:
    usual: dict[str, Any] = {"JobID": job, "ArrayJobID": array or job, "ArrayTaskID": task, "State": "PENDING", "Priority": 100}
    usual |= {"Reason": "Priority", "StartTime": 0, "NodeList": ""}
    return tuple({**usual, **more}[column] for column in COLUMNS)


def made(path: Path, queue: str, **more: str) -> archive.Archive:
    parts = {SQUEUE: queue, "sacct/a.txt": "JobIDRaw\n1\n", **more}
    archive.write(path, parts, begin=BEGIN, end=BEGIN + DAY)
    return archive.open_archive(path)


def waiting(path: Path, *rows: tuple[Any, ...], **more: str) -> list[Waiting]:
    return now.waiting(made(path / "a.tar", table(COLUMNS, *rows), **more))


def test_waiting_jobs_come_in_the_order_of_their_priorities(tmp_path: Path) -> None:
    found = waiting(tmp_path, row(1, Priority=5), row(2, Priority=70, StartTime=BEGIN), row(3, State="RUNNING"), row(9, 8, 4))
    assert [one.name for one in found] == ["8_4", "2", "1"]
    assert [one.promised for one in found] == [None, BEGIN, None]
    assert not any(one.is_held for one in found)


def test_jobs_that_do_not_wait_are_known_by_number_and_task(tmp_path: Path) -> None:
    queue = table(COLUMNS, row(1), row(3, State="RUNNING"), row(9, 8, 4, State="COMPLETING"), row(10, 8, 5))
    assert now.running(made(tmp_path / "a.tar", queue)) == {(3, None), (8, 4)}


@pytest.mark.parametrize(
    ("more", "is_held"),
    [
        ({"Priority": 0}, True),
        ({"Reason": "JobHeldUser"}, True),
        ({"Reason": "DependencyNeverSatisfied"}, True),
        ({"Reason": "Dependency"}, False),
        ({"Reason": "launch failed requeued held"}, True),
    ],
)
def test_jobs_that_someone_holds_are_known(tmp_path: Path, more: dict[str, Any], is_held: bool) -> None:
    assert waiting(tmp_path, row(1, **more))[0].is_held == is_held


def test_age_and_fair_share_of_a_job_are_those_of_its_best_partition_and_of_its_array(tmp_path: Path) -> None:
    priorities = table(PRIORITY_COLUMNS, (1, 10, 20), (1, 10, 50), (8, 7, 0))
    found = waiting(tmp_path, row(1), row(8, 8, 3), row(2), **{SPRIO: priorities})
    assert {one.name: one.ahead for one in found} == {"1": 60, "8_3": 7, "2": 0}


@pytest.mark.parametrize(
    "wrong", [{"JobID": "x"}, {"Priority": "-1"}, {"StartTime": "soon"}, {"ArrayTaskID": "1-3"}, {"Priority": "9" * 11}]
)
def test_a_damaged_line_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=r"now/squeue.txt:3: .* is no whole number"):
        waiting(tmp_path, row(1), row(2, **wrong))


def test_an_archive_without_the_queue_says_how_to_get_one(tmp_path: Path) -> None:
    archive.write(
        tmp_path / "a.tar", {"sacct/a.txt": "JobIDRaw\n1\n"}, begin=BEGIN, end=BEGIN + DAY, failed={SQUEUE: "no slurmctld"}
    )
    with pytest.raises(WrongUse, match=r"has not the queue \(at the site: no slurmctld\); .*mirage-capture --now"):
        now.waiting(archive.open_archive(tmp_path / "a.tar"))


def test_a_new_job_has_what_fair_share_gives_its_user(tmp_path: Path) -> None:
    share = table(
        ("Account", "User", "FairShare"), ("root", "", ""), (" a_1", "u_b", "0.25"), (" a_1", "u_c", "nan"), (" a_2", "u_b", "1")
    )
    config = "PriorityType = priority/multifactor\nPriorityWeightFairShare = 1000\n"
    path = tmp_path / "a.tar"
    assert now.fair_shares(made(path, table(COLUMNS), **{SSHARE: share, CONFIG: config})) == {
        ("u_b", "a_1"): 250,
        ("u_b", "a_2"): 1000,
    }
    assert now.fair_shares(made(path, table(COLUMNS), **{SSHARE: share, CONFIG: "PriorityWeightFairShare = 0\n"})) == {}
    largest = now.fair_shares(made(path, table(COLUMNS), **{SSHARE: share, CONFIG: "PriorityWeightFairShare = 4000000000\n"}))
    assert set(largest.values()) == {now.LARGEST_PRIORITY}
    assert now.fair_shares(made(path, table(COLUMNS), **{CONFIG: config})) == {}


@given(
    st.integers(0, 400), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100), st.integers(1, 100)), min_size=1, max_size=8)
)
def test_parts_at_an_instant_have_each_job_that_was_submitted_in_its_state(instant: int, jobs: list[tuple[int, int, int]]) -> None:
    rows = [
        {
            "JobID": number,
            "JobIDRaw": number,
            "Submit": submit,
            "Start": submit + wait,
            "End": submit + wait + run,
            "State": "COMPLETED",
        }
        for number, (submit, wait, run) in enumerate(jobs, 1)
    ]
    columns = ("JobIDRaw", "Start", "End", "State")
    parts = now.parts_at(rows, instant, columns)
    _, *lines = parts["sacct/all.txt"].splitlines()
    states = {int(line.split("\t")[0]): line.split("\t")[3] for line in lines}
    for number, (submit, wait, run) in enumerate(jobs, 1):
        begin, end = submit + wait, submit + wait + run
        expected = None if submit > instant else "PENDING" if begin > instant else "RUNNING" if end > instant else "COMPLETED"
        assert states.get(number) == expected
    _, *queue = parts[SQUEUE].splitlines()
    assert {int(line.split("\t")[0]) for line in queue} == {job for job, state in states.items() if state != "COMPLETED"}
