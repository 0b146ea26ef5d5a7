"""The command of a filler's batch script: with CRIU where this host has it (as root), and without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import criu
import filler_measure
import pytest

from .conftest import PATIENCE, Chain, wait_until
from .test_chain import MANY, catches


class Batch:
    """The batch script of a filler: a process each time that the job starts."""

    def __init__(self, chain: Chain, programs: Path, folder: Path) -> None:
        self.chain, self.programs, self.folder = chain, programs, folder
        self.words: list[str] = ["--patience", "0"]

    def start(self, rounds: int) -> subprocess.Popen[str]:
        script = str(self.programs / "filler_container.py")
        command = [sys.executable, script, "run", "--folder", str(self.folder), *self.words, "--"]
        return self.chain.start([*command, *self.chain.command(rounds)])

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        _, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, errors

    def events(self) -> list[dict[str, Any]]:
        journal = self.folder / "journal.jsonl"
        return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []

    def named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events() if event["event"] == name]


@pytest.fixture
def batch(chain: Chain, programs: Path, tmp_path: Path) -> Batch:
    return Batch(chain, programs, tmp_path / "filler")


@pytest.fixture
def saved_by_criu(batch: Batch) -> Batch:
    if reason := criu.Criu(batch.programs / "run_criu", batch.programs / "at_pid").refusal(batch.folder, os.getpid()):
        pytest.skip(f"skipped: CRIU cannot save processes on this host: {reason}")
    return batch


def test_a_program_moves_through_three_executions_and_has_the_result_that_it_has_alone(saved_by_criu: Batch) -> None:
    batch = saved_by_criu
    rounds = 8000
    assert batch.chain.run(rounds).returncode == 0
    expected = batch.chain.result.read_text()
    batch.chain.result.unlink()
    for number in range(3):
        process = batch.start(rounds)
        wait_until(lambda: len(batch.named("started") + batch.named("restored")) > number, "the start")  # noqa: B023
        process.send_signal(signal.SIGUSR1)
        assert batch.end(process) == (99, "")
    assert batch.end(batch.start(rounds)) == (0, "")
    assert batch.chain.result.read_text() == expected
    assert [event["event"] for event in batch.events()] == ["started", "saved", *["restored", "saved"] * 2, "restored", "ended"]
    assert not list(batch.folder.glob("save-*"))
    costs = filler_measure.of_journals([batch.folder])
    assert (len(costs.save), len(costs.restore)) == (3, 3) and min(costs.size) > 1 << 20
    # Slurm may run it again.
    code, errors = batch.end(batch.start(rounds))
    assert code == 0 and "the work is done already" in errors and len(batch.named("started")) == 1


def test_a_killed_script_leaves_no_process_and_the_save_before(saved_by_criu: Batch) -> None:
    batch = saved_by_criu
    batch.words += ["--interval", "0.2"]
    process = batch.start(MANY)
    wait_until(lambda: len(batch.named("saved")) > 1, "two saves")
    process.kill()
    process.wait()
    save = criu.newest(batch.folder)
    assert save is not None
    wait_until(lambda: not Path(f"/proc/{save.pid}").exists(), "the end of the program")
    again = batch.start(MANY)
    wait_until(lambda: len(batch.named("restored")) == 1, "the program goes on")
    again.terminate()
    assert batch.end(again)[0] == 128 + signal.SIGTERM
    assert not Path(f"/proc/{save.pid}").exists()


def test_a_save_that_fails_leaves_the_one_before_and_the_program_runs(saved_by_criu: Batch) -> None:
    batch = saved_by_criu
    process = batch.start(MANY)
    wait_until(lambda: len(batch.named("started")) == 1, "the start")
    # CRIU cannot write into a file in the place of its folder.
    (batch.folder / "save-1.new").write_text("")
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(batch.named("not_saved")) == 1, "the failure")
    assert process.poll() is None
    (batch.folder / "save-1.new").unlink()
    process.send_signal(signal.SIGUSR1)
    code, errors = batch.end(process)
    assert code == 99 and errors.startswith("filler_container: not saved, the program goes on: ")


def test_a_save_of_another_program_is_refused(batch: Batch) -> None:
    save = criu.Save(1, 2, ["/bin/true"], 0.1, 1)
    (batch.folder / "save-1").mkdir(parents=True)
    (batch.folder / "save-1/save.json").write_text(json.dumps(vars(save)))
    code, errors = batch.end(batch.start(1))
    assert code == 2 and "the save of another program (/bin/true)" in errors


def test_a_torn_record_is_refused(batch: Batch) -> None:
    (batch.folder / "save-1").mkdir(parents=True)
    for text in ("", "{}", "[]", '{"number": 1'):
        (batch.folder / "save-1/save.json").write_text(text)
        code, errors = batch.end(batch.start(1))
        assert code == 2 and "torn" in errors and len(errors.splitlines()) == 1


def test_an_id_in_use_is_left_to_a_later_start(batch: Batch) -> None:
    command = batch.chain.command(1)
    (batch.folder / "save-1").mkdir(parents=True)
    (batch.folder / "save-1/save.json").write_text(json.dumps(vars(criu.Save(1, os.getpid(), command, 0.1, 1))))
    code, errors = batch.end(batch.start(1))
    assert code == 99 and f"process id {os.getpid()} is in use" in errors


def test_an_incomplete_save_does_not_count(batch: Batch) -> None:
    (batch.folder / "save-3.new").mkdir(parents=True)
    assert criu.newest(batch.folder) is None


def test_without_criu_the_program_saves_itself(batch: Batch) -> None:
    rounds = 4000
    assert batch.chain.run(rounds).returncode == 0
    expected = batch.chain.result.read_text()
    batch.words += ["--criu", "/nowhere/criu", "--own-saves", f"--state {batch.chain.state}"]
    process = batch.start(rounds)
    wait_until(lambda: len(batch.named("started")) == 1, "the start")
    program = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    wait_until(lambda: catches(program, signal.SIGUSR1), "the handler")
    process.send_signal(signal.SIGUSR1)
    code, errors = batch.end(process)
    assert code == 99 and batch.chain.state.exists()
    reason = "/nowhere/criu is missing, or this user may not run it"
    assert errors == f"filler_container: CRIU cannot save processes on this node ({reason}); the program saves itself\n"
    # It goes on by itself where CRIU could save it: its work is in its own save.
    batch.words = ["--patience", "0", "--own-saves", f"--state {batch.chain.state}"]
    assert batch.end(batch.start(rounds)) == (0, "")
    assert batch.chain.result.read_text() == expected
    assert [event["code"] for event in batch.named("ended")] == [99, 0]


def test_a_saved_program_stays_until_the_job_is_killed(batch: Batch) -> None:
    """Before Slurm 24.05 a job that ends in its grace time is completed, unless its code is one of RequeueExit."""
    batch.words = ["--patience", "60", "--criu", "/nowhere/criu", "--own-saves", f"--state {batch.chain.state}"]
    process = batch.start(MANY)
    wait_until(lambda: len(batch.named("started")) == 1, "the start")
    program = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    wait_until(lambda: catches(program, signal.SIGUSR1), "the handler")
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(batch.named("ended")) == 1, "the save")
    assert process.poll() is None
    process.terminate()
    assert batch.end(process)[0] == 128 + signal.SIGTERM


def test_costs_are_means_with_their_ranges_and_words(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [
        {"event": "started"},
        {"event": "saved", "seconds": 1.0, "size": 1 << 20},
        {"event": "saved", "seconds": 2.0, "size": 3 << 20},
        {"event": "restored", "seconds": 0.5},
    ]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    costs = filler_measure.of_journals([tmp_path])
    assert costs.words() == 'FILLER_JOBS="save=1.5 restore=0.5"'
    assert [" ".join(line.split()) for line in costs.lines()] == [
        "save 1.500 s (1.000 to 2.000, 2 times)",
        "restore 0.500 s (0.500 to 0.500, 1 times)",
        "files of a save 2.000 MiB (1.000 to 3.000, 2 times)",
    ]
    costs.alone, costs.filler = [9.0, 9.0], [10.0, 9.0]
    assert costs.words() == 'FILLER_JOBS="save=1.5 restore=0.5 speed=0.95"'
    costs.filler = [8.0, 9.0]
    assert costs.words().endswith('speed=1"')
