"""The replay as a process: its settings, lock and waits; what tells that a run does not go on."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from journals import start_event
from other_managers import KNOWN
from virtual_time import VirtualTime

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_lock import signed_by
from slurm_mirage.clock.time_source import TimeSource
from slurm_mirage.jobs.kinds import Sigsleep
from slurm_mirage.jobs.plan import PlanRow, write_plan
from slurm_mirage.programs.replay import main
from slurm_mirage.replay.monitor import StallDetector, _append_rows, pause_after
from slurm_mirage.replay.process import Stopped, Waker, sign_lock, take_lock
from slurm_mirage.replay.replay import Replay
from slurm_mirage.rm import registry
from slurm_mirage.rm.api import JobState, QueuedJob
from slurm_mirage.rm.slurm.commands import Slurm

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder in order, of an instance that does not exist."""
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    write_plan(folder / "plan.csv", [PlanRow(0, 7, 0.0, 4, None, 1.0, 2, None, "", "first.7")])
    settings = {
        "run": "first",
        "instance": str(tmp_path),
        "plan_sha256": hashlib.sha256((folder / "plan.csv").read_bytes()).hexdigest(),
        "slurm_conf": str(tmp_path / "slurm.conf"),
        "bin": "/nowhere",
        "sigsleep": "/bin/true",
        "sigsleep_log": str(folder / "sigsleep.log"),
        "clock": None,
        "speed": 1,
        "sample_interval": 10,
    }
    (folder / "run.json").write_text(json.dumps(settings))
    return folder


def change(folder: Path, **changes: Any) -> None:
    path = folder / "run.json"
    settings = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in settings.items() if value is not ...}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speed": 0}, "speed may not be 0"),
        ({"speed": "fast"}, "speed may not be 'fast'"),
        ({"bin": None}, "bin may not be None"),
        ({"sigsleep": ...}, "'sigsleep' is missing"),
        ({"run": ...}, "'run' is missing"),
        ({"rm": "loadleveler"}, f"rm 'loadleveler': may be one of {KNOWN}"),
        ({"kind": 1}, "kind may not be 1"),
        ({"kind": "mpi"}, "kind 'mpi': may be one of .*sigsleep"),
    ],
)
def test_bad_settings(folder: Path, changes: dict[str, Any], message: str) -> None:
    change(folder, **changes)
    with pytest.raises(WrongUse, match=message):
        Replay(folder, 0, Waker(), registry.connect)


def test_a_run_without_the_names_is_one_of_sigsleep_on_slurm(folder: Path) -> None:
    """run.json names the kind of malleable jobs only."""
    change(folder, seed=1)
    run = Replay(folder, 0, Waker(), registry.connect)
    assert (type(run.manager), type(run.submitter.kind)) == (Slurm, Sigsleep)
    change(folder, rm="slurm", kind="sigsleep")
    named = Replay(folder, 0, Waker(), registry.connect)
    assert (type(named.manager), named.submitter.kind) == (Slurm, run.submitter.kind)
    for one in (run, named):
        one.journal.close()


@pytest.fixture
def run_main(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("SLURM_MIRAGE_INSTANCE", "")  # which the replay sets

    def run() -> tuple[int, str]:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            code = main([str(folder)])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return code, capsys.readouterr().err

    return run


def test_a_plan_that_is_not_the_one_of_the_settings(folder: Path, run_main: Any) -> None:
    change(folder, plan_sha256="0" * 64)
    code, said = run_main()
    assert code == 2 and "is not the plan of run.json" in said
    assert not (folder / "journal.jsonl").exists()


def test_a_speed_that_is_not_the_clocks(folder: Path, run_main: Any) -> None:
    change(folder, speed=10)
    code, said = run_main()
    assert code == 2 and said.startswith("wrong use: SPEED: 10 in run.json, 1.0 in")


def test_programs_that_are_missing_end_the_run(folder: Path, run_main: Any) -> None:
    code, said = run_main()
    assert (code, said) == (2, "wrong use: /nowhere/scontrol: there is no such program (bin in run.json)\n")
    progress = json.loads((folder / "progress.json").read_text())
    assert (progress["phase"], progress["jobs"], progress["submitted"]) == ("failed", 1, 0)
    assert holder_of(folder / "replay.lock") == os.getpid(), "this process lives on"


def test_a_finished_run_is_left_alone(folder: Path, run_main: Any) -> None:
    start = start_event()
    journal = f"{json.dumps(start)}\n{json.dumps({'event': 'finished', 'real': 2.0})}\n"
    (folder / "journal.jsonl").write_text(journal)
    (folder / "progress.json").write_text(json.dumps({"phase": "draining", "jobs": 1, "message": "x"}))
    assert run_main() == (0, "")
    assert (folder / "journal.jsonl").read_text() == journal
    assert json.loads((folder / "progress.json").read_text()) == {"phase": "finished", "jobs": 1, "message": ""}


@pytest.mark.parametrize("words", [[], ["a", "b"]])
def test_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "python3 -m slurm_mirage.programs.replay RUNDIR" in capsys.readouterr().err


def holder_of(path: Path) -> int | None:
    """The live process that a lock file names."""
    with path.open("rb") as lock:
        named = signed_by(lock.fileno())
        return named[0] if named else None


def test_one_replay_per_folder(tmp_path: Path) -> None:
    path = tmp_path / "replay.lock"
    held = take_lock(path, Waker())
    assert holder_of(path) is None, "it has not begun"
    sign_lock(held)
    assert holder_of(path) == os.getpid()
    with pytest.raises(WrongUse, match=f"is being replayed by process {os.getpid()}"):
        take_lock(path, Waker())
    os.close(held)
    os.close(take_lock(path, Waker()))


class Hold(TimeSource):
    """Another process holds the lock until this one waits for it."""

    def __init__(self, holder: subprocess.Popen[bytes]) -> None:
        self.holder, self.waits = holder, 0

    def is_readable(self, descriptor: int, seconds: float | None) -> bool:
        self.waits += 1
        self.holder.communicate()
        return False


def test_the_lock_waits_for_a_submission_that_outlived_its_replay(tmp_path: Path) -> None:
    """A process takes the lock as a replay does, and is killed; its child, like an sbatch under way, keeps it for a while."""
    path = tmp_path / "replay.lock"
    code = (
        "import os, sys, subprocess, signal\n"
        "from pathlib import Path\n"
        "from slurm_mirage.replay.process import Waker, sign_lock, take_lock\n"
        f"lock = take_lock(Path({str(path)!r}), Waker())\n"
        "sign_lock(lock)\n"
        "child = subprocess.Popen(['cat'], pass_fds=[lock])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        killed.wait()
        assert holder_of(path) is None
        held = Hold(killed)
        os.close(take_lock(path, Waker(held)))
    assert held.waits >= 1


def test_waits_are_ended_by_a_wish_to_stop() -> None:
    waker = Waker()
    thread = threading.Thread(target=lambda: waker._stop(signal.SIGTERM, None))
    thread.start()
    with pytest.raises(Stopped):
        waker.sleep(600)
    thread.join()
    with pytest.raises(Stopped):
        waker.wait(0)


def test_a_wake_up_before_the_wait_is_not_lost() -> None:
    """Nor does one end more waits than those before its bytes are read."""
    time = VirtualTime()
    waker = Waker(time)
    for _ in range(100_000):
        waker.wake()
    ended = 0
    while time.monotonic() == 0:
        waker.wait(0.5)
        ended += 1
    assert time.monotonic() == 0.5 and 1 < ended < 100


def waiting(job_id: int, reason: str = "Resources") -> QueuedJob:
    return QueuedJob(job_id, JobState.PENDING, None, f"r.{job_id}", reason)


def test_queries_take_a_part_of_the_time_but_are_never_far_apart() -> None:
    assert [pause_after(took) for took in (0.0, 0.01, 0.5, 1.5, 20.0)] == [1.0, 1.0, 10.0, 30.0, 30.0]


def test_a_row_that_does_not_fit_on_the_disk_is_not_there(tmp_path: Path) -> None:
    """Nothing of it is left, nor of one that a killed replay began."""
    path, row = tmp_path / "samples.csv", {"real": "1.000", "pending": 7}
    _append_rows(path, [row])
    before = path.read_bytes()
    assert before == b"real,pending\n1.000,7\n"
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 3, limits[1]))
        with pytest.raises(OSError, match="No space left on device"):
            _append_rows(path, [row])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == before
    path.write_bytes(before + b"1.0")
    _append_rows(path, [row])
    assert path.read_bytes() == before + b"1.000,7\n"


def test_stalls() -> None:
    stall = StallDetector()
    jobs = [waiting(2, "PartitionNodeLimit"), waiting(3), QueuedJob(1, JobState.RUNNING, 50, "r.1")]
    assert stall.look(jobs, 0, 100.0, 60.0) == ""
    assert stall.look(jobs, 0, 160.0, 60.0) == ""
    message = "stalled: no job has started or ended for 61 s: 1 run, 2 wait, the first is r.2 (PartitionNodeLimit)"
    assert stall.look(jobs, 0, 161.0, 60.0) == message
    assert stall.look(jobs[:2], 1, 162.0, 60.0) == "", "a job has ended"
    assert stall.look([jobs[0], QueuedJob(3, JobState.RUNNING, 163, "r.3")], 1, 230.0, 60.0) == "", "a job has started"
    assert stall.look([], 2, 500.0, 60.0) == stall.look([], 2, 900.0, 60.0) == "", "nothing can stall without jobs"
