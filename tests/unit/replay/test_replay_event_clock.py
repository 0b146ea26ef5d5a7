"""The replay on a real event clock: the library preloaded, the coordinator running, and a resource manager in memory."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_mirage.base import processes
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.processes import is_stopped
from slurm_mirage.base.run_settings import RunSettings
from slurm_mirage.clock import clock_page, instance_clock, real_time
from slurm_mirage.clock.event_clock import DRIVER, HOLD_BYTE
from slurm_mirage.clock.time_source import TimeSource
from slurm_mirage.jobs.kinds import Sigsleep
from slurm_mirage.jobs.plan import PlanRow, write_plan
from slurm_mirage.jobs.sigsleep_log import read_log
from slurm_mirage.replay.driver import drive, figures_since
from slurm_mirage.replay.halts import REPLAY, Halts
from slurm_mirage.replay.phase import WEEK, next_begin
from slurm_mirage.replay.process import Settings, Waker

ROOT = Path(__file__).parents[3]
HOUR = 3600.0
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
USER = 61_900 + WORKER
"""A user without other processes: those of the instance's user hold the clock up when they work."""
PATIENCE = 120

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root for a user without other processes")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("virtual_clock")
    subprocess.run(["make", "-sC", str(ROOT / "files/virtual_clock"), f"OUT={folder}"], check=True)
    return folder


class Instance:
    """An instance with an event clock, its coordinator, and one run."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.directory, self.folder = directory, directory / "runs/r"
        (directory / "lib").mkdir(parents=True)
        for program in ("virtual_clock.so", "clock_coordinator"):
            shutil.copy(programs / program, directory / "lib")
        for name in ("state", "run"):
            (directory / name).mkdir()
        self.folder.mkdir(parents=True)
        instance_clock.set_speed(directory, "event")
        self.started: list[subprocess.Popen[bytes]] = []

    def plan(self, rows: list[PlanRow]) -> None:
        write_plan(self.folder / "plan.csv", rows)
        settings = {
            "rm": "memory",
            "run": "r",
            "instance": str(self.directory),
            "plan_sha256": hashlib.sha256((self.folder / "plan.csv").read_bytes()).hexdigest(),
            "sigsleep": "sigsleep",
            "sigsleep_log": str(self.folder / "sigsleep.log"),
            "clock": None,
            "clock_kind": "event",
            "speed": 1.0,
            "shrink_percent": 100.0,
            "sample_interval": HOUR,
        }
        (self.folder / "run.json").write_text(json.dumps(settings))
        for path in self.directory.rglob("*"):
            os.chown(path, USER, USER)

    def coordinate(self) -> None:
        command = [str(instance_clock.coordinator(self.directory)), str(instance_clock.clock_file(self.directory))]
        self.started.append(subprocess.Popen(command, user=USER, stderr=subprocess.DEVNULL))
        until(lambda: clock_page.figures(self.directory)["started"] > 0)

    def replay(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT / "module_utils"), str(Path(__file__).parent)])
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, **instance_clock.environment(self.directory)}
        command = [sys.executable, str(Path(__file__).parent / "event_replay.py"), str(self.folder), str(USER)]
        self.started.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
        return self.started[-1]

    def result(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return content

    def progress(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.folder / "progress.json").read_text())
        except FileNotFoundError:
            return {}
        return content

    def played(self) -> Counter[int]:
        return Counter(record.id for record in read_log(self.folder / "sigsleep.log")[0] if record.completed)

    def has_jumped_within(self, seconds: float) -> bool:
        """Wait for so long; returns whether the clock has jumped meanwhile."""
        jumps = clock_page.figures(self.directory)["jumps"]
        time.sleep(seconds)
        return clock_page.figures(self.directory)["jumps"] > jumps

    def close(self) -> None:
        for process_ in self.started:
            process_.kill()
            process_.wait()


@pytest.fixture
def instance(programs: Path) -> Iterator[Instance]:
    directory = Path("/tmp", f"event-replay-test-{os.getpid()}-{time.monotonic_ns()}")
    instance = Instance(directory, programs)
    yield instance
    instance.close()
    shutil.rmtree(directory)


def rows(number: int, hours: float) -> list[PlanRow]:
    """Jobs that are due some hours from each other, and run for one."""
    return [PlanRow(i, 100 + i, HOUR * hours * i, 2, None, HOUR, 120, None, "", f"r.{100 + i}") for i in range(number)]


@needs_root
def test_days_are_played_on_time_to_the_second(instance: Instance) -> None:
    instance.plan(rows(12, 6))
    instance.coordinate()
    assert instance.replay().wait(PATIENCE) == 0
    result, progress = instance.result(), instance.progress()
    assert result["states"] == {"COMPLETED": 12}
    assert instance.played() == Counter(range(100, 112))
    assert result["lag_max"] < 1.0
    assert result["last_submission"] - result["began"] == pytest.approx(66 * HOUR, abs=1)
    assert result["halts"] == []
    assert result["launch_cost"]["narrow"] == {"nodes": 1, "seconds": 0.0, "error": 0.0, "jobs": 0}
    # The coordinator's figures are those of the run.
    clock = result["event_clock"]
    assert clock["virtual_seconds"] >= 67 * HOUR
    assert clock["jumps"] >= 12
    assert clock["given_up"] == clock["coordinator_starts"] == clock["charged_seconds"] == 0
    # Who looks from outside sees real time: stale progress is known by it.
    assert abs(progress["real"] - time.time()) < PATIENCE
    assert progress["virtual"] - progress["real"] > 60 * HOUR
    assert progress["pace"] > 100 and progress["real_left_least"] == progress["real_left_most"] == 0
    assert result["outside"]["began"] <= result["outside"]["ended"] <= time.time()
    assert result["outside"]["ended"] - result["outside"]["began"] < PATIENCE


class Farm(threading.Thread):
    """Starts a controller, and another one after the first has ended; holds the clock meanwhile."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(daemon=True)
        self.instance, self.starts = instance, [0]
        self.controller = self.started()

    def started(self) -> subprocess.Popen[bytes]:
        environment = {processes.INSTANCE_VARIABLE: str(self.instance.directory)}
        controller = subprocess.Popen(["sleep", "1000"], user=USER, group=USER, extra_groups=[], env=environment)
        with (self.instance.directory / clock_page.FILE).open("r+b") as page:
            os.pwrite(page.fileno(), struct.pack("<i", controller.pid), clock_page.SCHEDULER_AT)
        self.instance.started.append(controller)
        return controller

    def run(self) -> None:
        assert self.controller.wait() == -signal.SIGKILL
        with (self.instance.directory / DRIVER).open("r+b") as driver:
            fcntl.lockf(driver, fcntl.LOCK_EX, 1, HOLD_BYTE)
            self.starts.append(clock_page.now(self.instance.directory))
            self.started()


@needs_root
@pytest.mark.parametrize("second_of_week", [0, 170_065])
@pytest.mark.parametrize("job", ["none runs", "one runs"])
def test_a_run_begins_at_its_second_of_the_week(instance: Instance, second_of_week: int, job: str) -> None:
    """The controller starts 120 s before, without what earlier runs have left. While a job runs, the clock does not leap."""
    instance.plan(rows(3, 1))
    settings = json.loads((instance.folder / "run.json").read_text())
    (instance.folder / "run.json").write_text(json.dumps({**settings, "second_of_week": second_of_week}))
    if job == "none runs":
        (instance.folder / "saved").write_text("jobs")
        os.chown(instance.folder, USER, USER)
    instance.coordinate()
    farm = Farm(instance)
    farm.start()
    before = clock_page.now(instance.directory)
    assert instance.replay().wait(PATIENCE) == 0
    start = json.loads((instance.folder / "journal.jsonl").read_text().splitlines()[0])
    begin = round(start["virtual"] * 1e9)
    assert begin == next_begin(before, second_of_week) and start["virtual"] % WEEK == (4 * 86400 + second_of_week) % WEEK
    assert farm.starts[1] == pytest.approx(begin - 120e9, abs=1e9)
    assert not (instance.folder / "saved").exists()
    jumped = start["clock"]["jumped_ns"]
    assert jumped < 600e9 if job == "none runs" else jumped > 0.9 * (begin - before) - 600e9
    assert instance.result()["states"] == {"COMPLETED": 3} and instance.result()["halts"] == []
    assert instance.progress()["pace"] < 1e9


@needs_root
def test_a_killed_replay_goes_on_and_the_clock_runs_like_real_time_meanwhile(instance: Instance) -> None:
    instance.plan(rows(4000, 1))
    instance.coordinate()
    replay = instance.replay()
    until(lambda: instance.progress().get("submitted", 0) >= 3)
    replay.kill()
    replay.wait()
    # A jump that was decided before the kill may be made after it.
    until(lambda: not instance.has_jumped_within(0.3))
    assert instance.replay().poll() is None
    until(lambda: '"gap"' in (instance.folder / "journal.jsonl").read_text())
    gap = next(line for line in (instance.folder / "journal.jsonl").read_text().splitlines() if '"gap"' in line)
    assert 0 < json.loads(gap)["gap"] < PATIENCE


@needs_root
@pytest.mark.parametrize("also", ["alone", "with the coordinator killed"])
def test_a_stopped_replay_holds_time_up(instance: Instance, also: str) -> None:
    """Another program, which waits again and again, does not let time pass meanwhile."""
    instance.plan(rows(4000, 1))
    instance.coordinate()
    waits = [sys.executable, "-c", f"import os, time\nos.setuid({USER})\nwhile True: time.sleep(10)"]
    environment = {"PATH": os.environ["PATH"], **instance_clock.environment(instance.directory)}
    instance.started.append(subprocess.Popen(waits, env=environment))
    replay = instance.replay()
    until(lambda: instance.progress().get("submitted", 0) >= 3)
    starts = clock_page.figures(instance.directory)["starts"]
    if also != "alone":
        instance.started[0].kill()
        instance.started[0].wait()
    replay.send_signal(signal.SIGSTOP)
    until(lambda: is_stopped(replay.pid))
    if also != "alone":
        instance.coordinate()
        until(lambda: clock_page.figures(instance.directory)["starts"] > starts)
    virtual = clock_page.now(instance.directory)
    assert not instance.has_jumped_within(1)
    replay.send_signal(signal.SIGCONT)
    until(lambda: clock_page.now(instance.directory) - virtual > HOUR * 1e9)


@needs_root
def test_a_wait_ends_at_its_instant_although_others_wake_the_replay(instance: Instance) -> None:
    """A driver that sleeps until an instant reads at most a few milliseconds more when it wakes up, of virtual time."""
    instance.plan([])
    instance.coordinate()
    program = (
        "import sys, time; from pathlib import Path; from slurm_mirage.replay.driver import drive\n"
        "from slurm_mirage.replay.process import Waker\n"
        f"import os; os.setgid({USER}); os.setuid({USER})\n"
        "driver, waker, late = drive(Path(sys.argv[1])), Waker(), []\n"
        "for length in [0.001, 1.0, 3000.0, 7500.0, 0.5] * 4:\n"
        "    until = time.monotonic() + length\n"
        "    while (left := until - time.monotonic()) > 0: waker.wait(left)\n"
        "    late.append(time.monotonic() - until)\n"
        "print(max(late))\n"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "module_utils")}
    environment |= instance_clock.environment(instance.directory)
    command = [sys.executable, "-c", program, str(instance.directory)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert float(ended.stdout) < 0.1


@needs_root
def test_there_is_one_driver(instance: Instance) -> None:
    with (instance.directory / DRIVER).open("w") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        instance.plan(rows(1, 1))
        _, errors = instance.replay().communicate(timeout=PATIENCE)
    assert b"another process drives the clock" in errors


def test_a_replay_without_the_clocks_library_is_refused(instance: Instance) -> None:
    with pytest.raises(WrongUse, match="has to be started with the library"):
        drive(instance.directory)


def test_a_cluster_without_an_event_clock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(WrongUse, match="has no event clock"):
        drive(tmp_path)


def test_figures_are_differences() -> None:
    before = dict.fromkeys(clock_page.FIGURES, 5)
    before |= {"jumps": 10, "driven_ns": 10**9}
    now = dict.fromkeys(clock_page.FIGURES, 5) | {"jumps": 25, "driven_ns": 4 * 10**9, "mode": 2, "starts": 6}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_page, "figures", lambda _: now)
        figures = figures_since(Path("/nowhere"), before)
    assert (figures["jumps"], figures["virtual_seconds"], figures["mode"], figures["coordinator_starts"]) == (15, 3.0, 2, 1)


def test_a_wake_up_that_comes_late_was_a_halt_of_the_replay() -> None:
    halts = Halts(TimeSource())
    halts.missed(1000.0, 1004.9)
    halts.missed(2000.0, 1990.0)
    assert halts.take(3000.0) == []
    halts.missed(1000.0, 1100.0)
    (halt,) = halts.take(3000.0)
    assert (halt.what, halt.since, halt.until) == (REPLAY, 1000.0, 1100.0)


def settings(**more: object) -> RunSettings:
    content = {"run": "r", "instance": "/i", "plan_sha256": "", "clock": None, "speed": 1, "sample_interval": 1}
    return RunSettings(Path("run.json"), {**content, "sigsleep": "s", "sigsleep_log": "l", **more})


def test_jobs_of_a_run_on_the_event_clock_have_the_clock_file() -> None:
    assert Sigsleep.of_run(settings()).clock is None
    assert Sigsleep.of_run(settings(clock="/i/state/clock")).clock == "/i/state/clock"
    assert Sigsleep.of_run(settings(clock_kind="event")).clock == "/i/state/clock"
    assert Settings.of(settings(clock_kind="event")).event_clock
    assert not Settings.of(settings(clock_kind="constant")).event_clock
    assert not Settings.of(settings()).event_clock


def test_threads_wake_the_main_thread_and_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait that is interrupted is repeated: one thread sleeps until its end, however often. Time stands while they work."""
    began, alarms, over = 1_000_000_000, list[int](), threading.Event()

    def sleep_until(instant: int) -> None:
        alarms.append(instant)
        if instant >= began + 300_000_000:
            over.wait()

    monkeypatch.setattr(real_time, "is_preloaded", lambda: True)
    monkeypatch.setattr(real_time, "sleep_until", sleep_until)
    waker = Waker(Standing(began))
    for _ in range(50):
        waker.wake()
        waker.wait(0.3)
    assert len(alarms) <= 1
    waker.wait(0.01)
    assert sorted(alarms) == [began + 10_002_000, began + 300_002_000]
    over.set()
    waker.wait(0.3)


class Standing(TimeSource):
    """Time that stands at an instant (ns since the epoch)."""

    def __init__(self, instant: int) -> None:
        self._instant = instant

    def now(self) -> float:
        return self._instant / 1e9
