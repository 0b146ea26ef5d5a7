"""sigsleep on an event clock whose time is kept by the real coordinator (files/virtual_clock/coordinator.c)."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP

import pytest

from slurm_mirage.jobs.sigsleep_log import read_log

from .conftest import PATIENCE, Job, wait_until
from .event_clock import SECOND, EventClock

SOURCE = Path(__file__).parents[2] / "files" / "virtual_clock"
DAY = 86_400
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
OWNER = 61_800 + WORKER if os.geteuid() == 0 else os.geteuid()  # a user without other processes, if possible
SHORT_STOP = 0.05


@pytest.fixture(scope="session")
def shared_folder(builds: dict[str, Path]) -> Iterator[Path]:
    """A folder with the programs that other users can enter, unlike those of pytest. The coordinator has run-time checks."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-mirage-sigsleep-"))
    folder.chmod(0o755)
    subprocess.run(["make", "-sC", str(SOURCE), f"OUT={folder}", str(folder / "clock_coordinator-sanitize")], check=True)
    for built in (builds["static"], builds["sanitized"]):
        shutil.copy(built, folder)
    yield folder
    shutil.rmtree(folder)


class Kept:
    """An event clock, its coordinator, and jobs of the same user on it."""

    def __init__(self, folder: Path, program: Path, launch: Callable[..., Job], sigsleep: Path) -> None:
        self.clock = EventClock(folder)
        self.log = folder / "sigsleep.log"
        self.driver = (folder / "clock.driver").open("w")
        self._coordinator_program, self._launch, self._sigsleep = program, launch, sigsleep
        for path in (folder, *folder.iterdir()):
            os.chown(path, OWNER, -1)
        self.coordinator = self.start_coordinator()

    def start_coordinator(self) -> subprocess.Popen[bytes]:
        starts = self.figure(200)
        self.coordinator = subprocess.Popen(
            [str(self._coordinator_program), str(self.clock.file)], user=OWNER, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: self.figure(200) > starts, "the coordinator's start")
        return self.coordinator

    def kill_coordinator(self) -> None:
        self.coordinator.kill()
        self.coordinator.wait()

    def close(self) -> None:
        self.driver.close()
        self.coordinator.send_signal(SIGINT)
        assert self.coordinator.wait(PATIENCE) == 0
        self.clock.close()

    def drive(self) -> None:
        """Lock the first byte of the driver's file: from now on time jumps."""
        fcntl.lockf(self.driver, fcntl.LOCK_EX, 1)

    def figure(self, offset: int) -> int:
        return int.from_bytes(self.clock.page[offset : offset + 8], "little", signed=True)

    def start(self, runtime: float, number: int = 7) -> Job:
        popen = {"user": OWNER, "preexec_fn": None, "start_new_session": True, "process_group": None}
        return self._launch(self._sigsleep, self.log, runtime, popen=popen, clock=self.clock.file, id=number)

    def start_all(self, runtimes: list[float]) -> list[Job]:
        """Jobs that are asleep before time jumps, with their index as number."""
        jobs = [self.start(runtime, number) for number, runtime in enumerate(runtimes)]
        for job in jobs:
            job.await_asleep()
        wait_until(lambda: len({slot.owner for slot in self.clock.slots()}) == len(jobs), "slots of all jobs")
        return jobs


@pytest.fixture
def kept(shared_folder: Path, launch: Callable[..., Job], program: Path) -> Iterator[Kept]:
    folder = Path(tempfile.mkdtemp(dir=shared_folder))
    folder.chmod(0o755)
    kept = Kept(folder, shared_folder / "clock_coordinator-sanitize", launch, shared_folder / program.name)
    yield kept
    kept.close()


def test_without_a_driver_a_second_lasts_a_second(kept: Kept) -> None:
    before = time.monotonic()
    assert kept.start(0.3).end() == (0, "")
    assert time.monotonic() - before >= 0.3


def test_a_year_passes_at_once_and_exactly(kept: Kept) -> None:
    runtimes = [float(day * DAY) for day in range(365, 0, -7)]
    jobs = kept.start_all(runtimes)
    kept.drive()
    assert {job.end() for job in jobs} == {(0, "")}
    records, damage = read_log(kept.log)
    assert damage == []
    assert sorted(record.id for record in records) == list(range(len(jobs)))
    assert [record.id for record in records] == sorted(range(len(jobs)), reverse=True)
    for record in records:
        assert record.completed
        assert 0 <= record.executed_ns - record.runtime_ns < 60 * SECOND
    assert all(early.end_ns <= late.end_ns for early, late in pairwise(records))
    assert kept.clock.slots() == []


def test_a_suspended_job_does_not_hold_the_clock(kept: Kept) -> None:
    suspended, other = kept.start_all([2.0 * DAY, 1.0 * DAY])
    suspended.send(SIGTSTP).await_state("T")
    kept.drive()
    assert other.end() == (0, "")
    assert suspended.process.poll() is None
    suspended.send(SIGCONT)
    assert suspended.end() == (0, "")
    records, _ = read_log(kept.log)
    record = {one.id: one for one in records}[0]
    ((suspend, resume),) = record.suspensions
    assert resume - suspend >= 0.99 * DAY * SECOND
    assert 0 <= record.executed_ns - record.runtime_ns < 60 * SECOND


def test_a_stop_without_sigtstp_is_converted_by_the_coordinators_history(kept: Kept) -> None:
    """The clock passes a day while the job is stopped."""
    stopped, _ = kept.start_all([2.0 * DAY, 1.0 * DAY])
    stopped.send(SIGSTOP).await_state("T")
    time.sleep(SHORT_STOP)
    kept.drive()
    wait_until(lambda: len(kept.log.read_bytes()) > 0, "the end of the other job")
    stopped.send(SIGCONT)
    assert stopped.end() == (0, "")
    records, _ = read_log(kept.log)
    record = {one.id: one for one in records}[0]
    assert record.inferred
    ((suspend, resume),) = record.suspensions
    assert resume - suspend >= 0.99 * DAY * SECOND
    assert suspend - record.start_ns <= 60 * SECOND
    assert record.executed_ns >= record.runtime_ns


def test_killed_jobs_do_not_hold_the_clock(kept: Kept) -> None:
    jobs = kept.start_all([1.0 * DAY, 2.0 * DAY, 3.0 * DAY])
    for job in jobs[:2]:
        job.send(SIGKILL).end()
    kept.drive()
    assert jobs[2].end() == (0, "")
    assert kept.clock.slots() == []


def test_a_cancelled_job_ends_while_time_stands(kept: Kept) -> None:
    (job,) = kept.start_all([1.0 * DAY])
    kept.kill_coordinator()
    assert job.send(SIGTERM).end() == (143, "")
    kept.start_coordinator()


def test_time_stands_without_a_coordinator_and_goes_on_with_the_next(kept: Kept) -> None:
    """Killed at ten random instants while jobs end one after another."""
    chance = random.Random(1)
    runtimes = [float(number) for number in range(1000, 5000, 200)]
    jobs = kept.start_all(runtimes)
    kept.drive()
    for _ in range(10):
        time.sleep(chance.random() * 0.005)
        kept.kill_coordinator()
        running = [job for job in jobs if job.process.poll() is None]
        time.sleep(0.15)
        stood_at = [job.process.poll() is None for job in running]
        time.sleep(0.1)
        assert [job.process.poll() is None for job in running] == stood_at
        kept.start_coordinator()
    assert {job.end() for job in jobs} == {(0, "")}
    records, _ = read_log(kept.log)
    assert sorted(record.id for record in records) == list(range(len(jobs)))
    assert all(0 <= record.executed_ns - record.runtime_ns < 60 * SECOND for record in records)
