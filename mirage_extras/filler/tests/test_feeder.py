"""The feeder of filler jobs with a queue in memory, whose time stands still between looks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_settings import RunSettings
from slurm_mirage.clock.clock import Clock
from slurm_mirage.extras.filler.feeder.feeder import ATTEMPTS, LIMIT_MINUTES, Feeder
from slurm_mirage.extras.filler.feeder.policy import SPARE, to_ask, wanted
from slurm_mirage.extras.filler.feeder.settings import FeederSettings
from slurm_mirage.extras.filler.filler_log import Cause, FillerRecord, pack_filler
from slurm_mirage.extras.filler.fillers import FillerJob, Fillers, PlannedJob, Room, filler_number
from slurm_mirage.extras.filler.words import Filler
from slurm_mirage.rm.api import JobState, Submitted, Unavailable

LIMIT = 60 * LIMIT_MINUTES


@dataclass
class Queue(Fillers):
    """A cluster of some processors, and its queue of fillers."""

    processors: int = 3
    jobs: dict[int, FillerJob] = field(default_factory=dict)
    planned: tuple[PlannedJob, ...] = ()
    commands: dict[int, str] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    next_id: int = 100
    unavailable: bool = False
    unanswered: bool = False
    """Whether the next submission is accepted, but has no answer."""

    def look(self) -> Room:
        if self.unavailable:
            raise Unavailable("squeue: no answer")
        running = sum(job.state is JobState.RUNNING for job in self.jobs.values())
        return Room(tuple(self.jobs.values()), self.planned, self.processors - running)

    def submit_filler(
        self, number: int, command: str, directory: str, limit_minutes: int, least_minutes: int, signalled: bool
    ) -> Submitted:
        job, self.next_id = self.next_id, self.next_id + 1
        self.jobs[job] = FillerJob(job, number, JobState.PENDING, 60 * limit_minutes, None, ())
        self.commands[job] = command
        if self.unanswered:
            self.unanswered = False
            raise Unavailable("sbatch: no answer")
        return Submitted(job)

    def ask(self, job_ids: Iterable[int]) -> None:
        self.asked += job_ids

    def set_limit(self, job_ids: Iterable[int], minutes: int) -> None:
        for job in self.jobs.keys() & set(job_ids):
            self.jobs[job] = replace(self.jobs[job], limit=60 * minutes)

    def cancel(self, job_ids: Iterable[int]) -> None:
        for job in job_ids:
            self.jobs.pop(job, None)

    def start_some(self) -> None:
        """Start waiting fillers on free processors, with a lowered time limit."""
        for job in list(self.jobs.values()):
            if job.state is JobState.PENDING and self.look().free:
                self.jobs[job.job_id] = replace(job, state=JobState.RUNNING, start=50, limit=60, hosts=(f"n{job.job_id}",))

    @property
    def numbers(self) -> list[int]:
        return sorted(job.number for job in self.jobs.values())


@pytest.fixture
def queue() -> Queue:
    return Queue()


def settings(folder: Path, words: str = "", planned: bool = True) -> FeederSettings:
    return FeederSettings(folder, planned, Filler.parse(words), 15 if planned else 0, "/bin/sigsleep", None)


def feeder(folder: Path, queue: Queue, words: str = "", planned: bool = True, may_submit: bool = True) -> Feeder:
    """After its first look, in which it only looks for fillers of an earlier run."""
    made = Feeder(settings(folder, words, planned), queue, Clock(), lambda: may_submit)
    if made._is_new:
        made.look()
    return made


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    for line in (folder / "feeder.jsonl").read_text().splitlines():
        entry = json.loads(line)
        del entry["virtual"]
        yield entry


def record(folder: Path, number: int, **changes: Any) -> None:
    """Append a record of a filler: by default a save of all its work."""
    values: dict[str, Any] = {"cause": Cause.END, "completed": True, **changes}
    one = FillerRecord(number, values.pop("cause"), "n1", 1, 1, 2, 2, 5, 6, 3, 0, 3, 3, **values)
    with (folder / "fillers.bin").open("ab") as file:
        file.write(pack_filler(one))


def test_as_many_wait_as_there_is_room_for_and_some_more(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    assert queue.numbers == list(range(1, 3 + SPARE + 1))
    fed.look()
    assert len(queue.jobs) == 3 + SPARE
    assert "--state " + str(tmp_path / "fillers/1.state") in queue.commands[100]
    assert "--slot" not in queue.commands[100]
    assert next(entries(tmp_path)) == {"event": "submitted", "number": 1, "job": 100}


def test_in_slots_one_more_waits_for_each_that_runs(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue, planned=False)
    fed.look()
    queue.start_some()
    fed.look()
    assert len(queue.jobs) == 3 + 3 + SPARE
    assert "--slot 600" in queue.commands[100]


def test_waiting_fillers_that_are_too_many_are_cancelled_and_come_again(tmp_path: Path, queue: Queue) -> None:
    queue.processors = 40
    feeding = feeder(tmp_path, queue)
    feeding.look()
    assert queue.numbers == list(range(1, 45))
    queue.processors = 2  # jobs of the workload have the others
    feeding.look()
    assert queue.numbers == list(range(1, 7))
    restarted = feeder(tmp_path, queue)
    for processors, numbers in ((5, 9), (40, 44)):
        queue.processors = processors
        for _ in range(3):
            restarted.look()
        assert queue.numbers == list(range(1, numbers + 1))
    assert not any(entry["event"] == "given up" for entry in entries(tmp_path))


def test_the_number_of_fillers_is_limited_by_their_words(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue, "count=2")
    fed.look()
    assert queue.numbers == [1, 2]


def test_a_list_gives_each_its_work(tmp_path: Path, queue: Queue) -> None:
    feeder(tmp_path, queue, "work=70,80").look()
    assert ["--runtime 70" in queue.commands[100], "--runtime 80" in queue.commands[101]] == [True, True]


def test_nothing_is_submitted_while_the_controller_has_to_be_compared(tmp_path: Path, queue: Queue) -> None:
    feeder(tmp_path, queue, may_submit=False).look()
    assert not queue.jobs


def test_fillers_of_an_earlier_run_are_cancelled_first(tmp_path: Path, queue: Queue) -> None:
    queue.submit_filler(1, "", "", 1, 1, False)
    fed = feeder(tmp_path, queue)
    assert not queue.jobs
    fed.look()
    assert not queue.jobs, "the queue is looked at again"
    fed.look()
    assert queue.numbers[0] == 1 and 100 not in queue.jobs


def test_lowered_time_limits_are_raised_again(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    queue.start_some()
    assert {job.limit for job in queue.jobs.values()} == {60, LIMIT}
    fed.look()
    assert {job.limit for job in queue.jobs.values()} == {LIMIT}
    assert {"event": "extended", "jobs": [100, 101, 102]} in list(entries(tmp_path))


def test_a_lost_job_is_replaced_by_one_of_its_number(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    del queue.jobs[101]
    fed.look()
    assert 2 not in queue.numbers, "it may be on its way through the controller"
    del queue.jobs[100]
    fed.look()
    assert queue.numbers == list(range(2, 3 + SPARE + 2)), "before a filler of a new number"
    queue.processors += 1
    fed.look()
    assert queue.numbers == list(range(1, 3 + SPARE + 2))


def test_a_filler_that_has_done_its_work_is_not_run_again(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    record(tmp_path, 1)
    del queue.jobs[100]
    for _ in range(3):
        fed.look()
    assert queue.numbers == list(range(2, 3 + SPARE + 2))


def test_a_filler_that_slurm_would_run_again_after_its_end_is_cancelled(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    record(tmp_path, 1)
    fed.look()
    assert 100 not in queue.jobs
    assert {"event": "cancelled", "number": 1, "job": 100} in list(entries(tmp_path))


def test_a_torn_record_is_read_again(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    record(tmp_path, 7, cause=Cause.INTERVAL, completed=False)
    record(tmp_path, 8)
    data = (tmp_path / "fillers.bin").read_bytes()
    (tmp_path / "fillers.bin").write_bytes(data[:-10])
    fed.progress.read()
    assert (fed.progress.saves, fed.progress.completed) == ({7: 1}, set())
    (tmp_path / "fillers.bin").write_bytes(data)
    fed.progress.read()
    record(tmp_path, 8, repeated=True)
    fed.progress.read()
    assert (fed.progress.saves, fed.progress.completed) == ({7: 1, 8: 1}, {8}), "no save of its own"


def test_a_filler_whose_jobs_end_without_a_save_is_given_up(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue, "count=1")
    for _ in range(20):
        fed.look()
        queue.jobs.clear()
    submitted = [entry["job"] for entry in entries(tmp_path) if entry["event"] == "submitted"]
    assert len(submitted) == 1 + ATTEMPTS
    assert {"event": "given up", "number": 1, "job": submitted[-1]} in list(entries(tmp_path))
    after = feeder(tmp_path, queue, "count=1")
    after.look()
    after.look()
    after.look()
    assert not queue.jobs


def test_a_filler_that_saves_each_time_is_never_given_up(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue, "count=1")
    for _ in range(40):
        fed.look()
        if queue.jobs:
            record(tmp_path, 1, cause=Cause.REQUEST, completed=False)
            queue.jobs.clear()
    assert {entry["event"] for entry in entries(tmp_path)} == {"submitted"}


def test_a_killed_feeder_goes_on_with_its_fillers(tmp_path: Path, queue: Queue) -> None:
    feeder(tmp_path, queue).look()
    with (tmp_path / "feeder.jsonl").open("a") as file:
        file.write('{"event": "subm')
    queue.start_some()
    record(tmp_path, 1)
    del queue.jobs[100]
    after = feeder(tmp_path, queue)
    after.look()
    assert queue.numbers == list(range(2, 3 + SPARE + 2))
    assert after.highest_id == max(queue.jobs)


def test_a_submission_without_an_answer_is_found_by_its_name(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    queue.unanswered = True
    with pytest.raises(Unavailable):
        fed.look()
    fed.look()
    assert queue.numbers == list(range(1, 3 + SPARE + 1))
    assert {"event": "submitted", "number": 1, "job": 100} in list(entries(tmp_path))


def test_of_two_jobs_of_a_filler_one_is_cancelled(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    twin = queue.submit_filler(1, "", "", 1, 1, False).job_id
    fed.look()
    assert 100 in queue.jobs and twin not in queue.jobs


def test_fillers_are_asked_once_for_a_planned_job(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    queue.start_some()
    now = int(Clock().virtual_now() / 1e9)
    queue.planned = (PlannedJob(7, now + 10, ("n101", "n9")), PlannedJob(8, now + 1000, ("n102",)))
    fed.look()
    fed.look()
    assert queue.asked == [101]
    assert {"event": "asked", "number": 2, "job": 101, "for": 7} in list(entries(tmp_path))


def test_in_slots_no_plan_is_looked_at(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue, planned=False)
    fed.look()
    queue.start_some()
    queue.planned = (PlannedJob(7, int(Clock().virtual_now() / 1e9) + 10, ("n101",)),)
    fed.look()
    assert queue.asked == []


def test_at_the_end_all_save_themselves_and_end(tmp_path: Path, queue: Queue) -> None:
    fed = feeder(tmp_path, queue)
    fed.look()
    queue.start_some()
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        for job in queue.asked:  # which leave their nodes, and are put back in the queue
            if job in queue.jobs:
                queue.jobs[job] = replace(queue.jobs[job], state=JobState.PENDING)
        queue.unavailable = len(slept) == 1

    fed.finish(sleep)
    assert sorted(queue.asked) == [100, 101, 102] and not queue.jobs
    assert not (tmp_path / "fillers").exists()
    assert [entry["event"] for entry in entries(tmp_path)][-1] == "finished"
    # A replay that was killed after that ends them again, and starts none.
    again = Feeder(settings(tmp_path), queue, Clock(), lambda: True)
    again.start()
    again.finish(sleep)
    assert not queue.jobs


def test_an_unexpected_error_is_kept(tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = feeder(tmp_path, queue)
    error = ValueError("not expected")

    def fail() -> Room:
        raise error

    monkeypatch.setattr(queue, "look", fail)
    fed.start()
    fed._thread.join()
    assert fed.failure is error


def test_how_many_wait() -> None:
    waits = FillerJob(1, 1, JobState.PENDING, None, None, ())
    runs = replace(waits, state=JobState.RUNNING)
    assert wanted(Room((waits, runs), (), 5), planned=True) == 5 + SPARE - 1
    assert wanted(Room((waits, runs), (), 5), planned=False) == 5 + SPARE + 1 - 1
    assert wanted(Room((waits,) * 20, (), 5), planned=True) == 0


def test_whose_nodes_are_wanted_soon() -> None:
    runs = [FillerJob(n, n, JobState.RUNNING, None, 5, (f"n{n}",)) for n in range(1, 5)]
    waits = FillerJob(9, 9, JobState.PENDING, None, None, ())
    plan = (
        PlannedJob(20, 130, ("n1", "n2")),
        PlannedJob(21, 100, ("n3",)),
        PlannedJob(22, 110, ("n2",)),
        PlannedJob(23, 200, ("n4",)),
    )
    room = Room((*runs, waits), plan, 0)
    found = [(filler.job_id, job.job_id) for filler, job in to_ask(room, 100, 30, ())]
    assert found == [(1, 20), (2, 22)], "n3 is wanted now, n4 later"
    assert not list(to_ask(room, 100, 30, [(1, 5), (2, 5)]))
    assert [filler.job_id for filler, _ in to_ask(room, 100, 30, [(1, 4), (2, 5)])] == [1], "it was started again since"


def run_json(folder: Path, **content: Any) -> RunSettings:
    base = {"instance": str(folder), "sigsleep": "/bin/sigsleep", "sigsleep_log": str(folder / "sigsleep.log"), "clock": None}
    return RunSettings(folder / "run.json", {**base, **content})


def test_the_settings_of_a_run(tmp_path: Path) -> None:
    assert FeederSettings.of_run(run_json(tmp_path), tmp_path) is None
    assert FeederSettings.of_run(run_json(tmp_path, filler=None), tmp_path) is None
    given = {"variant": "planned", "words": "save=3", "grace": 8}
    found = FeederSettings.of_run(run_json(tmp_path, filler=given), tmp_path)
    assert found == FeederSettings(tmp_path, True, Filler(save=3), 8, "/bin/sigsleep", None)


@pytest.mark.parametrize("wrong", [{"variant": "often"}, {"words": 5}, {"grace": -1}, {"grace": "5"}])
def test_settings_that_are_wrong(tmp_path: Path, wrong: dict[str, Any]) -> None:
    given = {"variant": "slots", "words": "", "grace": 0, **wrong}
    with pytest.raises(WrongUse, match="filler may not be"):
        FeederSettings.of_run(run_json(tmp_path, filler=given), tmp_path)


def test_names() -> None:
    assert [filler_number(name) for name in ("mirage-filler-12", "mirage-filler-", "x-mirage-filler-1")] == [12, None, None]
