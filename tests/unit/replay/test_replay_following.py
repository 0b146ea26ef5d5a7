"""Jobs that are submitted after the end of another: their order, their instants, and what an interruption does to both."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_memory_rm import InMemory, Job
from journals import start_event

from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs.kinds import Sigsleep
from slurm_mirage.jobs.plan import PlanRow
from slurm_mirage.replay.journal import Journal
from slurm_mirage.replay.monitor import Status
from slurm_mirage.replay.process import Settings, Waker
from slurm_mirage.replay.submitter import Submitter
from slurm_mirage.rm.api import ResourceManager, Submission
from slurm_mirage.rm.slurm.commands import Slurm

SPEED = 10.0
BEGAN = 1000.0
WAKER = Waker()  # one for all: it opens a pipe
Backend = Callable[[Path], ResourceManager]


def slurm(folder: Path) -> ResourceManager:
    return Slurm("/nowhere", "/nowhere", str(folder))


@pytest.fixture(params=[slurm, InMemory], ids=["slurm", "in memory"])
def backend(request: pytest.FixtureRequest) -> Backend:
    made: Backend = request.param
    return made


def row(index: int, due: float, follows: int | None = None, think: float = 0.0, dependency: str = "") -> PlanRow:
    number = 100 + index
    return PlanRow(
        index, number, due, 1, None, 5.0, 1, 40.0, "", f"r.{number}", dependency=dependency, follows=follows, think=think
    )


def submitter(folder: Path, plan: list[PlanRow], backend: Backend = slurm) -> Submitter:
    (folder / "log").mkdir(exist_ok=True)
    settings, kind = Settings("r", str(folder), "", None, SPEED, 1.0), Sigsleep("sigsleep", "sigsleep.log", None)
    journal = Journal(folder / "journal.jsonl")
    if journal.history.start is None:
        journal.append(**start_event(real=BEGAN))
    return Submitter(folder, settings, plan, Clock(speed=SPEED), backend(folder), kind, journal, WAKER, Status("r", len(plan)))


def submit(one: Submitter, index: int, job_id: int) -> None:
    one.note(one.submitted([(index, job_id)], "submitted", BEGAN, BEGAN, 0, found=False))


def next_index(one: Submitter) -> int:
    """Index of the job to submit next; the length of the plan for none."""
    action = one.timeline.next_submission()
    return len(one.plan) if action is None else action.index


def record_end(folder: Path, number: int, job_id: int, state: str = "COMPLETED") -> None:
    """The end of a job in the records of both managers."""
    with (folder / "log" / "jobcomp.log").open("a") as stream:
        stream.write(f"JobId={job_id} UserId=x Name=r.{number} JobState={state} Partition=batch ExitCode=0:0 \n")
    job = Job(job_id, Submission(f"r.{number}", "", 1, None, 1, "", ""), BEGAN, state="removed" if state == "CANCELLED" else "done")
    if state in ("COMPLETED", "CANCELLED"):
        with (folder / "ended.jsonl").open("a") as stream:
            stream.write(json.dumps(job.line()) + "\n")


PLAN = [row(0, 0), row(1, 50), row(2, 60, follows=100, think=30), row(3, 400)]


def test_a_follower_goes_when_the_other_has_ended(tmp_path: Path, backend: Backend) -> None:
    one = submitter(tmp_path, PLAN, backend)
    assert [next_index(one), one.due(0), one.due(1), one.due(3)] == [0, BEGAN, BEGAN + 5, BEGAN + 40]
    assert one.due(2) == float("inf") and not one.timeline.awaits_ends()
    submit(one, 0, 11)
    assert next_index(one) == 1 and one.timeline.awaits_ends()
    submit(one, 1, 12)
    assert next_index(one) == 3, "it does not hold up those after it"
    one.note_ends(set())
    assert next_index(one) == 3
    record_end(tmp_path, 100, 11)
    before = time.time()
    one.note_ends(set())
    assert not one.timeline.awaits_ends()
    assert before + 3 <= one.due(2) <= time.time() + 3, "think time after the end, at the clock's speed"
    submit(one, 3, 13)
    assert next_index(one) == 2
    submit(one, 2, 14)
    assert next_index(one) == 4


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT", "CANCELLED", "DEADLINE"])
def test_any_end_is_one(tmp_path: Path, state: str) -> None:
    one = submitter(tmp_path, PLAN)
    submit(one, 0, 11)
    record_end(tmp_path, 100, 11, state)
    one.note_ends(set())
    assert list(one.history.ended) == [0]


def test_what_is_no_end(tmp_path: Path, backend: Backend) -> None:
    one = submitter(tmp_path, PLAN, backend)
    submit(one, 0, 11)
    record_end(tmp_path, 100, 11, "PENDING")  # it was requeued
    record_end(tmp_path, 100, 10)  # another copy, which was cancelled
    record_end(tmp_path, 101, 12)  # nobody follows that one
    one.note_ends({1, 3})
    assert one.history.ended == {}
    one.note_ends({1}, frozenset({0}))
    assert list(one.history.ended) == [0], "another source knows it"


def test_it_goes_on_after_an_interruption(tmp_path: Path, backend: Backend) -> None:
    one = submitter(tmp_path, PLAN, backend)
    submit(one, 0, 11)
    record_end(tmp_path, 100, 11)
    one.note_ends(set())
    due = one.due(2)
    one.journal.close()
    again = submitter(tmp_path, PLAN, backend)
    assert again.due(2) == due and not again.timeline.awaits_ends()
    again.journal.append("resumed", real=time.time(), gap=7.0, submitted=1)
    assert again.due(2) == pytest.approx(due + 7), "as all that is still due"
    submit(again, 1, 12)
    submit(again, 3, 13)
    assert next_index(again) == 2
    submit(again, 2, 14)
    again.journal.close()
    last = submitter(tmp_path, PLAN, backend)
    assert next_index(last) == 4


@given(st.data())
def test_every_job_comes_once_and_none_before_the_one_that_it_follows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("run")
    count = data.draw(st.integers(1, 8))
    plan = [row(0, 0)]
    for index in range(1, count):
        follows = data.draw(st.none() | st.integers(100, 99 + index))
        plan.append(row(index, float(index), follows, data.draw(st.floats(0, 50))))
    one = submitter(folder, plan)
    order: list[int] = []
    open_ones: set[int] = set()
    while len(order) < count:
        following = next_index(one)
        if following < count and (not open_ones or data.draw(st.booleans())):
            submit(one, following, 11 + following)
            order.append(following)
            open_ones.add(following)
        else:
            ended = data.draw(st.sampled_from(sorted(open_ones)))
            open_ones.remove(ended)
            one.note_ends({ended})
        if data.draw(st.booleans()):  # the replay is killed
            one.journal.close()
            one = submitter(folder, plan)
    assert sorted(order) == list(range(count))
    assert [index for index in order if plan[index].follows is None] == [r.index for r in plan if r.follows is None]
    for r in plan:
        assert r.follows is None or order.index(r.index) > order.index(r.follows - 100)
    one.journal.close()


def test_dependencies_of_submissions(tmp_path: Path) -> None:
    plan = [row(0, 0), row(1, 0, dependency="afterany:100"), row(2, 0, dependency="never")]
    one = submitter(tmp_path, plan)
    submit(one, 0, 977)
    assert (one._submission(plan[0]).dependency, one._submission(plan[0]).delay) == ("", 0)
    assert one._submission(plan[1]).dependency == "afterany:977"
    never = one._submission(plan[2])
    assert never.dependency == "" and never.delay > 86400, "long after it is cancelled"
