"""Jobs that are submitted held and released at an instant, with the in-memory manager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from test_replay_in_memory import Run, run

from mirage.records.run_records import read_journal
from slurm_mirage.rm.api import QueuedJob

__all__ = ["run"]

HOLD = 0.6


def test_requests_that_the_manager_refuses_are_left_out(run: Run) -> None:
    run.write(4)
    run.plan[1] = replace(run.plan[1], request="gres=gpu:1")
    run.plan[2] = replace(run.plan[2], request="nice=1")
    run.rewrite()
    run.manager.refused_requests.add("gres=gpu:1")
    assert run.play()["states"] == {"COMPLETED": 4}
    submitted = [event for event in run.events() if event["event"] == "submitted"]
    assert [event["index"] for event in submitted if event.get("plain")] == [1]
    assert read_journal(run.folder / "journal.jsonl").plain == [1]
    assert [job.request.words for job in (run.manager.named(f"r.{number}")[0].submission for number in range(100, 104))] == [
        "", "", "nice=1", "",
    ]  # fmt: skip
    run.check_each_was_played_once()


def write(run: Run, jobs: int, held: int, hold: float = HOLD) -> None:
    run.write(jobs)
    run.plan[held] = replace(run.plan[held], request=f"nodes=1 hold={hold}")
    run.rewrite()


def test_a_job_is_released_at_its_instant_and_not_by_the_monitor(run: Run) -> None:
    write(run, 4, 1)
    result = run.play()
    job = run.manager.named("r.101")[0]
    assert job.start is not None and HOLD <= job.start - job.submitted < HOLD + 0.5
    assert [event["index"] for event in run.events() if event["event"] == "released"] == [1]
    assert result["released"] == 0
    run.check_each_was_played_once()


def test_a_job_that_is_released_while_the_monitor_looks_is_not_released_by_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(run, 4, 1, hold=3.0)
    queue, slow = run.manager.queue, []

    def slowly(names: Sequence[str] = (), ended: bool = False) -> list[QueuedJob]:
        found = queue(names, ended)
        if not names and any(job.held for job in found):
            slow.append(1)
            while not any(event["event"] == "released" for event in run.events()):
                run.time.sleep(0.05)
        return found

    monkeypatch.setattr(run.manager, "queue", slowly)
    assert run.play()["released"] == 0 and slow
    run.check_each_was_played_once()


def test_a_held_job_that_the_controller_forgot_is_held_and_released_again(run: Run) -> None:
    write(run, 3, 1)
    run.manager.after[3] = lambda: run.manager.restart(forget=2)
    run.play()
    job = run.manager.named("r.101")[0]
    assert job.start is not None and job.start - job.submitted >= HOLD
    run.check_each_was_played_once()


def test_a_job_that_is_cancelled_while_it_is_held_is_not_released(run: Run) -> None:
    write(run, 3, 1)
    run.plan[1] = replace(run.plan[1], cancel_after=0.2)
    run.rewrite()
    assert run.play()["states"] == {"COMPLETED": 2, "CANCELLED": 1}
    assert [event["index"] for event in run.events() if event["event"] == "released"] == []
