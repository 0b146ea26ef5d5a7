"""Replay, monitor, recovery and collection with a resource manager that is not Slurm: the in-memory one."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from in_memory_rm import InMemory
from virtual_time import VirtualTime

from mirage.records import run_files
from mirage.records.collect import collect
from mirage.records.run_folder import RunFolder
from slurm_mirage.jobs.plan import PlanRow, write_plan
from slurm_mirage.jobs.sigsleep_log import read_log
from slurm_mirage.replay import halts, monitor, recovery, submitter
from slurm_mirage.replay.launch_cost import REAL_TIME
from slurm_mirage.replay.process import Failed, Stopped, Waker
from slurm_mirage.replay.replay import Replay
from slurm_mirage.replay.time_left import TimeLeft, TimeLeftEstimator
from slurm_mirage.rm import registry
from slurm_mirage.rm.api import AccountShare, Submission

RUNS = 0.2  # seconds that a job runs


class Run:
    """A run of jobs of two processors on a manager of four; jobs 100, 101, ... are due every 20 ms. All seconds are virtual."""

    def __init__(self, folder: Path, manager: InMemory, time: VirtualTime) -> None:
        self.folder, self.manager, self.time = folder, manager, time
        self.plan: list[PlanRow] = []

    def write(self, jobs: int, **changes: Any) -> None:
        """Plan this many jobs; `changes` are those of all rows."""
        rows = [PlanRow(i, 100 + i, 0.02 * i, 2, None, RUNS, 1, None, "", f"r.{100 + i}") for i in range(jobs)]
        self.plan = [replace(row, **changes) for row in rows]
        self.rewrite()

    def rewrite(self) -> None:
        write_plan(self.folder / "plan.csv", self.plan)
        settings = {
            "rm": "memory",
            "run": "r",
            "instance": str(self.manager.directory),
            "plan_sha256": hashlib.sha256((self.folder / "plan.csv").read_bytes()).hexdigest(),
            "sigsleep": "sigsleep",
            "sigsleep_log": str(self.folder / "sigsleep.log"),
            "clock": None,
            "speed": 1.0,
            "shrink_percent": 100.0,
            "sample_interval": 0.1,
        }
        (self.folder / "run.json").write_text(json.dumps(settings))

    def play(self, waker: Waker | None = None) -> dict[str, Any]:
        """Replay the plan, or go on with it; result.json."""
        lock = os.open(self.folder / "replay.lock", os.O_RDWR | os.O_CREAT)
        try:
            Replay(self.folder, lock, waker or Waker(self.time), registry.connect).run()
        finally:
            os.close(lock)
        result: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return result

    def progress(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "progress.json").read_text())
        return content

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "journal.jsonl").read_text().splitlines()]

    def played(self) -> Counter[int]:
        """How often each job ran to its end, by its number."""
        return Counter(record.id for record in read_log(self.folder / "sigsleep.log")[0] if record.completed)

    def check_each_was_played_once(self) -> None:
        assert self.played() == Counter(row.id for row in self.plan)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    folder = tmp_path / "runs/r"
    folder.mkdir(parents=True)
    time = VirtualTime()
    manager = InMemory(tmp_path, time=time)
    implementation = registry.Implementation(lambda settings, lock: manager, manager.records)
    monkeypatch.setitem(registry.IMPLEMENTATIONS, "memory", implementation)
    # Nothing here takes as long as with a real manager.
    for module, name, seconds in (
        (monitor, "POLL_INTERVAL", 0.05),
        (monitor, "UNACCOUNTED_AFTER", 0.2),
        (recovery, "KILLING", 0.05),
        (recovery, "LOOK_INTERVAL", 0.05),
        (recovery, "SETTLE", 0.3),
        (submitter, "FIRST_DELAY", 0.02),
    ):
        monkeypatch.setattr(module, name, seconds)
    return Run(folder, manager, time)


@pytest.mark.parametrize("startless", [set(), {"r.101"}])
def test_a_job_that_the_manager_lets_run_beyond_its_limit_is_ended(
    run: Run, startless: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run.write(4)
    run.manager.startless = startless
    monkeypatch.setattr(monitor, "POLL_INTERVAL", 5.0)
    run.manager.left_running.add("r.101")
    assert run.play()["states"] == {"COMPLETED": 4}
    job = run.manager.named("r.101")[0]
    assert job.start is not None and job.end is not None
    assert 60 + monitor.OVERDUE_AFTER < job.end - job.start < 60 + monitor.OVERDUE_AFTER + 10


def test_a_plan_is_played_to_its_end(run: Run) -> None:
    run.write(8)
    result = run.play()
    run.check_each_was_played_once()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert (result["states"], result["messages"]) == ({"COMPLETED": 8}, {"time-out": 2})
    assert (result["submitted"], result["retries"], result["resubmitted"], result["restarts"]) == (8, 0, 0, [])
    progress = run.progress()
    assert (progress["phase"], progress["done"], progress["ended"]) == ("finished", 8, {"completed": 8})
    assert (progress["processors"], set(progress["nodes"])) == (4, {"present"})
    start = run.events()[0]
    assert (start["slurm_version"], start["controller_log_offset"]) == ("in memory", 17)
    assert start["launch_cost"] == result["launch_cost"] == REAL_TIME.record()


def test_shares_of_accounts_are_sampled(run: Run) -> None:
    run.write(4)
    run.manager.shares = [AccountShare("lab1", 0.25, 0.75, 0.125), AccountShare("lab2", 0.75, 0.25, 0.5)]
    run.play()
    shares, samples = RunFolder(run.folder).shares, RunFolder(run.folder).samples
    assert shares.filter(account="lab1")["virtual"].to_list() == samples["virtual"].to_list() != []
    assert set(shares.drop("virtual").rows()) == {("lab1", 0.25, 0.75, 0.125), ("lab2", 0.75, 0.25, 0.5)}


def test_its_records_are_collected(run: Run) -> None:
    run.write(6)
    run.plan[4] = replace(run.plan[4], runtime=60.0, cancel_after=0.1)
    run.rewrite()
    run.play()
    shutil.copy(run.manager.directory / "ended.jsonl", run.folder)
    rows = [{"id": row.id, "submit": row.due, "runtime": row.runtime, "requested": 60.0} for row in run.plan]
    pl.DataFrame(rows).write_csv(run.folder / "workload.csv")
    collected = collect(RunFolder(run.folder))
    jobs = collected.jobs
    assert jobs["state"].to_list() == ["COMPLETED"] * 4 + ["CANCELLED"] + ["COMPLETED"]
    assert set(jobs["partition"]) == {"all"} and set(jobs["processors"]) == {2}
    assert jobs["suspended"].to_list() == [0.0] * 6
    done = jobs.filter(state="COMPLETED")
    assert (done["end"] - done["start"]).to_list() == pytest.approx([RUNS] * 5, abs=1e-3), "as sigsleep recorded"
    assert (jobs["start"] >= jobs["submit"]).drop_nulls().all()
    assert jobs["start"][2] >= jobs["end"][:2].min(), "four processors are two jobs"
    assert collected.tables.disagreements.is_empty() and collected.replay.unsubmitted == 0
    header = run_files.render(collected, 4, 1)["jobs.csv"].decode().splitlines()
    assert len(header) == 7 and header[0].startswith("id,submit,eligible,start,end,")
    waiting = RunFolder(run.folder).diagnostics
    assert waiting.columns == ["real", "virtual", "backfill_queue_length", "unknown"] and waiting.height > 0


def test_a_refused_job_ends_the_run(run: Run) -> None:
    run.write(4)
    run.manager.refused.add("r.102")
    with pytest.raises(Failed, match=r"job 102 \(number 3 of the plan\): never"):
        run.play()
    assert run.progress()["phase"] == "failed"
    run.manager.refused.clear()
    result = run.play()
    run.check_each_was_played_once()
    assert result["submitted"] == 4 and len(result["interruptions"]) == 1


def test_a_monitor_that_fails_ends_the_replay(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no end of a job would be seen, and the replay would wait for ever."""

    def look(_: monitor.Monitor) -> None:
        raise ValueError("INVALID")

    run.write(4)
    with monkeypatch.context() as patch:
        patch.setattr(monitor.Monitor, "look", look)
        with pytest.raises(ValueError, match="INVALID"):
            run.play()
    assert run.progress()["phase"] == "failed"
    run.play()
    run.check_each_was_played_once()


def test_estimates_take_a_small_part_of_real_time_although_the_clusters_stands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, instants = 0, itertools.count(1000.0)
    look = TimeLeftEstimator.look

    def counted(*given: Any) -> TimeLeft:
        nonlocal looks
        looks += 1
        return look(*given)

    run.write(20)
    monkeypatch.setattr(TimeLeftEstimator, "look", counted)
    monkeypatch.setattr(run.time, "real_now", lambda: next(instants))
    monkeypatch.setattr(monitor, "ESTIMATE_SHARE", 1e-6)
    run.play()
    assert run.progress()["time_left_most"] is not None
    assert looks == 1


def test_a_manager_that_does_not_answer_is_asked_again(run: Run) -> None:
    run.write(4)

    def leave() -> None:
        run.manager.unavailable = 6

    run.manager.after[2] = leave
    result = run.play()
    run.check_each_was_played_once()
    assert run.manager.accepted == [row.name for row in run.plan], "none twice"
    assert result["retries"] > 0 and result["states"] == {"COMPLETED": 4}


def test_an_accepted_job_whose_answer_was_lost_is_found_by_its_name(run: Run) -> None:
    run.write(4)
    run.manager.unanswered |= {"r.100", "r.102"}
    result = run.play()
    run.check_each_was_played_once()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert [event["index"] for event in run.events() if event.get("found") is True] == [0, 2]
    assert result["retries"] == 2


def expected(run: Run) -> list[list[str]]:
    """The numbers of the jobs that the manager was told to expect, without the call at the start and at the end of the replay."""
    return [[name.removeprefix("r.") for name in names] for _, names in run.manager.expected if names]


def test_the_manager_is_told_which_jobs_come_next(run: Run) -> None:
    """Those that are due soon, from the one on that is submitted."""
    run.write(5, due=0.0)
    run.plan[3:] = [replace(row, due=3600.0) for row in run.plan[3:]]
    run.rewrite()
    waker = Waker(run.time)
    run.manager.after[3] = lambda: waker._stop(0, None)
    with pytest.raises(Stopped):
        run.play(waker)
    assert expected(run) == [["100", "101", "102"], ["101", "102"], ["102"]]
    assert run.manager.expected[-1] == (3, []), "nothing stays prepared"


def test_jobs_that_depend_on_others_are_not_expected(run: Run) -> None:
    """Their options have ids, which may be others when they are submitted."""
    run.write(5, due=0.0)
    run.plan[2] = replace(run.plan[2], dependency="afterany:100")
    run.rewrite()
    run.play()
    assert expected(run) == [["100", "101"], ["101"], ["102", "103", "104"], ["103", "104"], ["104"]]


def test_jobs_that_follow_others_are_expected_when_they_are_submitted(run: Run) -> None:
    run.write(4, due=0.0)
    run.plan[1] = replace(run.plan[1], follows=100, think=0.0)
    run.rewrite()
    run.play()
    assert expected(run) == [["100", "102", "103"], ["102", "103"], ["103"], ["101"]]


def test_nothing_is_expected_after_a_refusal(run: Run) -> None:
    run.write(3, due=0.0)
    run.manager.refused.add("r.101")
    with pytest.raises(Failed):
        run.play()
    assert run.manager.expected[-1] == (1, [])


def test_nothing_is_expected_when_jobs_are_submitted_again(run: Run) -> None:
    run.write(8, due=0.0, runtime=0.5)
    run.manager.after[5] = lambda: run.manager.restart(3, 0.1)
    assert run.play()["resubmitted"] == 3
    again = [count for count, name in enumerate(run.manager.accepted) if name in run.manager.accepted[:count]]
    assert len(again) >= 3
    for count in again:
        assert [names for before, names in run.manager.expected if before <= count][-1] == []


@pytest.mark.parametrize(
    ("forget", "registration", "ended_meanwhile"),
    [
        (1, 0.1, 0),
        (3, 0.1, 0),
        (5, 0.05, 0),  # two of them ran, and are killed
        (5, 1.5, 2),  # they end before the node registers
    ],
)
def test_jobs_that_a_restarted_controller_forgot_are_submitted_again(
    run: Run, forget: int, registration: float, ended_meanwhile: int
) -> None:
    """Jobs that ended without the controller are not."""
    run.write(8, due=0.0, runtime=0.5)
    run.manager.after[5] = lambda: run.manager.restart(forget, registration)
    result = run.play()
    run.check_each_was_played_once()
    assert len(result["restarts"]) == 1 and run.manager.is_open
    assert result["resubmitted"] == forget - ended_meanwhile
    assert result["states"] == {
        "COMPLETED": 8 - ended_meanwhile,
        **({"UNRECORDED": ended_meanwhile} if ended_meanwhile else {}),
    }
    assert 0.0 < result["halted"] < 10.0
    kinds = [event["event"] for event in run.events()]
    assert kinds.index("closed") < kinds.index("restarted") < kinds.index("opened")
    names = Counter(name for name in run.manager.accepted if name.startswith("r.1"))
    assert sum(names.values()) == 8 + result["resubmitted"] + run.manager.placeholders


def test_a_cancellation_that_a_restarted_controller_forgot_is_repeated(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.write(3, due=0.0)
    run.plan[2] = replace(run.plan[2], runtime=60.0, cancel_after=0.3)
    run.rewrite()
    manager, cancel = run.manager, run.manager.cancel_named
    manager.lines_lost.add("r.102")

    def cancel_and_forget(name: str) -> None:
        cancel(name)
        if "r.102" in manager.lines_lost and name == "r.102":
            manager.lines_lost.remove("r.102")
            [job] = manager.named("r.102")
            job.state, job.end = "plays", None
            manager.restart(forget=0)

    monkeypatch.setattr(manager, "cancel_named", cancel_and_forget)
    result = run.play()
    assert result["states"] == {"COMPLETED": 2, "CANCELLED": 1} and len(result["restarts"]) == 1


def test_a_waiting_job_is_not_cancelled_before_nodes_have_registered(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program may run: only registration ends that, and only while the job waits."""
    run.write(3, due=0.0, runtime=1.5)
    run.plan[2] = replace(run.plan[2], runtime=60.0, cancel_after=0.1)
    run.rewrite()
    manager, cancelled = run.manager, dict[str, float]()
    [cancel, cancel_named] = [manager.cancel, manager.cancel_named]

    def note(ids: list[int]) -> None:
        cancelled.update((job.submission.name, run.time.now()) for job in manager.jobs if job.id in ids)
        cancel(ids)

    def note_name(name: str) -> None:
        cancelled[name] = run.time.now()
        cancel_named(name)

    monkeypatch.setattr(manager, "cancel", note)
    monkeypatch.setattr(manager, "cancel_named", note_name)
    manager.after[3] = lambda: manager.restart(forget=0, registration=0.8)
    result = run.play()
    assert cancelled["r.102"] > manager._registered_at
    assert result["states"] == {"COMPLETED": 2, "CANCELLED": 1} and result["restarts"] != []
    [event] = [event for event in run.events() if event["event"] == "cancelled"]
    assert event["real"] < manager._registered_at, "nothing else waited for it"


def test_ids_that_come_again_are_used_up(run: Run) -> None:
    run.write(6)
    run.manager.after[4] = lambda: run.manager.restart(forget=2)
    run.play()
    run.check_each_was_played_once()
    journalled = [event["slurm_id"] for event in run.events() if event["event"] in ("submitted", "resubmitted")]
    assert len(journalled) == len(set(journalled)), "no job has the id of another"
    assert {job.state for job in run.manager.named("r.skip")} <= {"removed"}


@pytest.mark.parametrize(
    ("remembers", "is_silent", "state"),
    [
        (math.inf, False, "COMPLETED"),  # the queue knows it
        (math.inf, True, "COMPLETED"),
        (0.0, False, "UNRECORDED"),  # its own record only
        (0.0, True, "LOST"),
    ],
)
def test_a_job_whose_end_is_not_recorded_ends_the_wait(run: Run, remembers: float, is_silent: bool, state: str) -> None:
    """And is not submitted a second time, because the controller has not been restarted. A job that follows it is submitted."""
    run.write(4)
    run.plan[3] = replace(run.plan[3], follows=101, think=0.1)
    run.rewrite()
    run.manager.lines_lost, run.manager.remembers = {"r.101"}, remembers
    run.manager.silent = {"r.101"} if is_silent else set()
    result = run.play()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert Counter(result["states"]) == Counter({"COMPLETED": 3}) + Counter({state: 1})
    assert (result["resubmitted"], result["submitted"]) == (0, 4)
    if state == "COMPLETED":
        kept = [json.loads(line) for line in (run.folder / "suspended.jsonl").read_text().splitlines()]
        assert [job["is"] for job in kept if job["called"] == "r.101"] == ["done"]


def test_a_line_that_comes_late_counts(run: Run) -> None:
    run.write(4)
    run.manager.lines_late = {"r.101": 0.6}
    run.manager.remembers = 0.0
    result = run.play()
    run.check_each_was_played_once()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert sum(result["states"].values()) == 4


def test_the_details_that_were_kept_tell_the_end_to_a_replay_that_goes_on(run: Run) -> None:
    run.write(4)
    run.plan[0] = replace(run.plan[0], runtime=10.0)
    run.rewrite()
    run.manager.lines_lost, run.manager.silent = {"r.101"}, {"r.101"}
    waker, kept = Waker(run.time), run.folder / "suspended.jsonl"

    run.time.when(lambda: kept.exists() and "r.101" in kept.read_text(), lambda: waker._stop(15, None))
    with pytest.raises(Stopped):
        run.play(waker)
    run.manager.remembers = 0.0
    result = run.play()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert result["states"] == {"COMPLETED": 4}


def test_a_controller_that_does_nothing_for_a_while_was_halted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "HALTED_AFTER", 0.5)
    run.write(8, due=0.0)

    def stop() -> None:
        run.manager.stopped_until = run.time.now() + 1.5

    run.manager.after[5] = stop
    result = run.play()
    run.check_each_was_played_once()
    (halt,) = result["halts"]
    assert (halt["what"], result["restarts"]) == ("controller", [])
    assert halt["seconds"] == pytest.approx(1.5, abs=0.3) and result["halted"] == pytest.approx(halt["seconds"], abs=1e-3)


def test_a_controller_that_was_restarted_was_halted_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody answered meanwhile is no halt beside it."""
    monkeypatch.setattr(halts, "HALTED_AFTER", 0.2)
    run.write(8, due=0.0, runtime=0.5)

    def die() -> None:
        run.manager.stopped_until = run.time.now() + 1.0
        run.manager.restart(forget=3, registration=1.1)

    run.manager.after[5] = die
    result = run.play()
    run.check_each_was_played_once()
    assert (len(result["restarts"]), result["halts"]) == (1, [])


def test_second_copies_are_cancelled(run: Run) -> None:
    """And the end of the copy is not taken for that of the job, which goes on for longer than the recovery takes."""
    run.write(6)
    run.plan[5] = replace(run.plan[5], runtime=1.0)
    run.rewrite()
    folder, manager = run.folder, run.manager

    def copy() -> None:
        command = f"exec sigsleep --id 100 --cores 2 --priority x --submit 1 --runtime 60 --log {folder}/sigsleep.log"
        manager.submit(Submission("r.105", command, 2, None, 1, "", ""))
        manager.restart(forget=0)

    manager.after[6] = copy
    result = run.play()
    run.check_each_was_played_once()
    assert (result["copies_cancelled"], result["states"]) == (1, {"COMPLETED": 6})
    assert [job.state for job in manager.named("r.105")] == ["done", "removed"]


def test_held_jobs_are_released(run: Run) -> None:
    run.write(4)
    run.manager.failing_launches["r.101"] = 2
    result = run.play()
    run.check_each_was_played_once()
    assert result["released"] == 2


def test_a_replay_that_was_stopped_goes_on(run: Run) -> None:
    run.write(6)
    waker = Waker(run.time)
    run.manager.after[3] = lambda: waker._stop(15, None)
    with pytest.raises(Stopped):
        run.play(waker)
    assert run.progress()["phase"] == "stopped"
    result = run.play()
    run.check_each_was_played_once()
    assert run.manager.accepted == [row.name for row in run.plan]
    assert len(result["interruptions"]) == 1


def test_a_job_that_follows_another(run: Run) -> None:
    run.write(3)
    run.plan[2] = replace(run.plan[2], follows=100, think=0.1)
    run.rewrite()
    run.play()
    run.check_each_was_played_once()
    first, follower = run.manager.named("r.100")[0], run.manager.named("r.102")[0]
    assert first.end is not None and follower.submitted >= first.end + 0.1


def test_jobs_wait_for_others_by_the_managers_ids(run: Run) -> None:
    run.write(3)
    run.plan[1] = replace(run.plan[1], dependency="afterany:100")
    run.plan[2] = replace(run.plan[2], dependency="never", cancel_after=0.4)
    run.rewrite()
    result = run.play()
    first, waited, never = (run.manager.named(row.name)[0] for row in run.plan)
    assert waited.start == first.end and never.start is None
    assert result["states"] == {"COMPLETED": 2, "CANCELLED": 1}
