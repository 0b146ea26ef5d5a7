"""sigsleep under signals, as a table of cases with the expected records.

All cases of a program run at the same time, so their speed varies: no test asserts an upper bound of a duration, only that no
duration is too short and that nothing is missing.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from signal import SIG_IGN, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGSTOP, SIGTERM, SIGTSTP, Signals
from signal import signal as set_handler

import pytest

from slurm_mirage.jobs.sigsleep_log import Record, read_log

from .conftest import Job

MS = 1_000_000
RUNTIME = 1.0  # seconds; the steps of a case while the job runs have to fit in
PAUSE = 0.3  # seconds for which a job is stopped
SLACK = 1 * MS  # ns, because two clocks are not read at the same instant

STOPPED, RUNNING = "T", "S"  # states of the process to wait for
ORPHANED = {"start_new_session": True, "process_group": None}  # SIGTSTP's default action has no effect in an orphaned process group


@dataclass(frozen=True)
class Case:
    """Steps (signals to send, seconds to wait, states to wait for), and the expected exit code and suspensions."""

    name: str
    steps: tuple[Signals | float | str, ...]
    code: int = 0
    suspensions: int = 0
    inferred: bool = False
    popen: tuple[tuple[str, object], ...] = ()


def ignoring(*signals: Signals) -> tuple[tuple[str, object], ...]:
    """Return Popen arguments with which the process ignores these signals, as under nohup or in the background of a shell."""
    return (("preexec_fn", lambda: [set_handler(number, SIG_IGN) for number in signals]),)


SUSPEND = (SIGTSTP, STOPPED, PAUSE, SIGCONT, RUNNING)
SLURM_SUSPEND = (SIGTSTP, STOPPED, 0.05, SIGSTOP, PAUSE, SIGCONT, RUNNING)
BARE_STOP = (SIGSTOP, STOPPED, PAUSE, SIGCONT, RUNNING)
CASES = [
    Case("undisturbed", ()),
    Case("suspended", SUSPEND, suspensions=1),
    Case("suspended by Slurm", SLURM_SUSPEND, suspensions=1),
    Case("suspended past its planned end", (SIGTSTP, STOPPED, 1.3, SIGCONT), suspensions=1),
    Case("suspended three times", SUSPEND * 3, suspensions=3),
    Case("suspended while suspended", (SIGTSTP, STOPPED, SIGTSTP, PAUSE, SIGCONT), suspensions=1),
    Case("suspended, orphaned", SUSPEND * 2, suspensions=2, popen=tuple(ORPHANED.items())),
    Case("suspended by Slurm, orphaned", SLURM_SUSPEND, suspensions=1, popen=tuple(ORPHANED.items())),
    Case("suspended, SIGTSTP ignored", SUSPEND, suspensions=1, popen=ignoring(SIGTSTP)),
    Case("stopped", BARE_STOP, suspensions=1, inferred=True),
    Case("stopped past its planned end", (SIGSTOP, STOPPED, 1.3, SIGCONT), suspensions=1, inferred=True),
    Case("stopped twice", BARE_STOP * 2, suspensions=2, inferred=True),
    Case("stopped, orphaned", BARE_STOP, suspensions=1, inferred=True, popen=tuple(ORPHANED.items())),
    Case("SIGTSTP lost in a stop", (SIGSTOP, STOPPED, SIGTSTP, PAUSE, SIGCONT), suspensions=1, inferred=True),
    Case("suspended and stopped", (*SUSPEND, *BARE_STOP, *SUSPEND), suspensions=3, inferred=True),
    Case("resumed without a stop", (SIGCONT, 0.05, SIGCONT, 0.05, SIGCONT)),
    Case("alarms of others", (SIGALRM, 0.05, SIGALRM)),
    Case("alarms ignored", SUSPEND, suspensions=1, popen=ignoring(SIGALRM)),
    Case("cancelled", (SIGTERM,), code=143),
    Case("interrupted", (SIGINT,), code=130),
    Case("hung up", (SIGHUP,), code=129),
    Case("hung up under nohup", (SIGHUP, 0.05, SIGINT), popen=ignoring(SIGHUP, SIGINT)),
    Case("cancelled by Slurm", (SIGCONT, SIGTERM), code=143),
    Case("cancelled after a suspension", (*SUSPEND, SIGTERM), code=143, suspensions=1),
    Case("cancelled while suspended", (SIGTSTP, STOPPED, SIGTERM, PAUSE, STOPPED, SIGCONT), 143, 1),
    Case("cancelled while stopped", (SIGSTOP, STOPPED, SIGTERM, PAUSE, SIGCONT), 143, 1, inferred=True),
]


@dataclass(frozen=True)
class Outcome:
    code: int
    stderr: str
    record: Record
    longest: int  # ns from before the first step to after the end


def play(case: Case, job: Job) -> Outcome:
    """Perform the steps of a case and wait for the end of the job."""
    begin = time.monotonic_ns()
    job.await_asleep()
    for step in case.steps:
        if isinstance(step, Signals):
            job.send(step)
        elif isinstance(step, str):
            job.await_state(step)
        else:
            time.sleep(step)
    code, stderr = job.end()
    return Outcome(code, stderr, job.only_record(), time.monotonic_ns() - begin)


@pytest.fixture(scope="session")
def outcomes(launch: Callable[..., Job], program: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """A function that returns the outcome of a case by its name. All cases are run in parallel."""
    logs = tmp_path_factory.mktemp("signals")
    with ThreadPoolExecutor(len(CASES)) as pool:
        futures = {}
        for case in CASES:
            runtime = RUNTIME if case.code == 0 else 60
            job = launch(program, logs / case.name, runtime, popen=dict(case.popen))
            futures[case.name] = pool.submit(play, case, job)
    return lambda name: futures[name].result()


def stopped(record: Record) -> int:
    """Return the nanoseconds for which the job was suspended."""
    return sum(period.resume_ns - period.suspend_ns for period in record.suspensions)


def assert_adds_up(record: Record) -> None:
    """Assert what holds for every record: its instants are in order, and execution time excludes suspensions."""
    suspensions = [instant for period in record.suspensions for instant in period]
    instants = [record.start_ns, *suspensions, record.end_ns]
    assert all(late >= early - SLACK for early, late in pairwise(instants))
    assert record.executed_ns <= record.end_ns - record.start_ns - stopped(record) + SLACK
    assert record.completed == (record.executed_ns >= record.runtime_ns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(outcomes: Callable[[str], Outcome], case: Case) -> None:
    outcome = outcomes(case.name)
    record = outcome.record
    assert (outcome.code, outcome.stderr) == (case.code, "")
    assert record.completed == (case.code == 0)
    assert len(record.suspensions) == case.suspensions
    assert record.inferred == case.inferred
    assert not record.overflowed
    assert_adds_up(record)
    for period in record.suspensions:
        assert PAUSE * 1e9 - SLACK <= period.resume_ns - period.suspend_ns <= outcome.longest


def test_suspensions_around_the_end(launch: Callable[..., Job], program: Path, tmp_path: Path) -> None:
    """A job that is suspended some milliseconds before or after its end is either suspended or finished, and never too short."""
    jobs = [launch(program, tmp_path / str(number), 0.5).await_asleep() for number in range(12)]
    time.sleep(0.4)
    for job in jobs:
        job.send(SIGTSTP)
        time.sleep(0.015)
    time.sleep(PAUSE)
    for job in jobs:
        job.send(SIGCONT)
    for job in jobs:
        assert job.end() == (0, "")
        record = job.only_record()
        assert_adds_up(record)
        assert len(record.suspensions) <= 1
        assert all(period.resume_ns - period.suspend_ns >= PAUSE * 1e9 - SLACK for period in record.suspensions)


def test_no_resume_is_lost(launch: Callable[..., Job], program: Path, tmp_path: Path) -> None:
    """A SIGCONT that arrives while the process is about to stop itself must not be lost."""
    job = launch(program, tmp_path / "log", 60).await_asleep()
    for number in range(2000):
        job.send(SIGTSTP)
        meet = time.perf_counter_ns() + number % 100 * 1000  # the process stops some 10 to 100 us after the signal
        while time.perf_counter_ns() < meet:
            pass
        job.send(SIGCONT).await_state(RUNNING)
    assert job.send(SIGTERM).end() == (143, "")
    assert_adds_up(job.only_record())


def test_more_suspensions_than_the_record_can_hold(launch: Callable[..., Job], builds: dict[str, Path], tmp_path: Path) -> None:
    """Suspensions that do not fit into the record are still excluded from the execution time."""
    job = launch(builds["small"], tmp_path / "log", RUNTIME).await_asleep()
    for _ in range(5):
        job.send(SIGTSTP).await_state(STOPPED)
        time.sleep(PAUSE / 3)
        job.send(SIGCONT).await_state(RUNNING)
    assert job.end() == (0, "")
    record = job.only_record()
    assert record.overflowed
    assert len(record.suspensions) == 3
    assert record.end_ns - record.start_ns >= RUNTIME * 1e9 + 5 * PAUSE / 3 * 1e9 - SLACK
    assert_adds_up(record)


def in_start_up(launch: Callable[..., Job], program: Path, log: Path, runtime: float) -> Job:
    """Return a sigsleep that waits in its start-up with signals blocked, because its log is a FIFO without a reader."""
    subprocess.run(["mkfifo", str(log)], check=True)
    return launch(program, log, runtime).await_blocked()


def test_suspended_in_start_up(launch: Callable[..., Job], program: Path, tmp_path: Path) -> None:
    log = tmp_path / "fifo"
    job = in_start_up(launch, program, log, 1).send(SIGTSTP)
    with log.open("rb") as reader:
        job.await_state(STOPPED)
        time.sleep(PAUSE)
        job.send(SIGCONT)
        assert job.end() == (0, "")
        (record,), damage = read_log(reader)
    assert damage == []
    *delays, suspension = record.suspensions
    assert suspension.resume_ns - suspension.suspend_ns >= PAUSE * 1e9 - SLACK
    # On a busy host it may get no processor before it looks at its signals: that counts as a stop, up to the suspension.
    assert bool(delays) == record.inferred and all(one.resume_ns == two.suspend_ns for one, two in pairwise(record.suspensions))
    assert_adds_up(record)


def test_stopped_in_start_up(launch: Callable[..., Job], program: Path, tmp_path: Path) -> None:
    log = tmp_path / "fifo"
    job = in_start_up(launch, program, log, 0.05).send(SIGSTOP).await_state(STOPPED)
    time.sleep(PAUSE)
    job.send(SIGCONT)
    with log.open("rb") as reader:
        assert job.end() == (0, "")
        (record,), damage = read_log(reader)
    assert damage == []
    assert record.inferred
    assert stopped(record) >= PAUSE * 1e9 - SLACK
    assert_adds_up(record)


def test_cancelled_in_start_up(launch: Callable[..., Job], program: Path, tmp_path: Path) -> None:
    log = tmp_path / "fifo"
    job = in_start_up(launch, program, log, 60).send(SIGTERM)
    with log.open("rb") as reader:
        assert job.end() == (143, "")
        (record,), damage = read_log(reader)
    assert damage == []
    assert not record.completed
    assert_adds_up(record)


def test_a_suspension_does_not_count_as_run_time(launch: Callable[..., Job], builds: dict[str, Path], tmp_path: Path) -> None:
    """A suspended sleep(1) would end too early. This is why sigsleep exists."""
    seconds = 0.5
    job = launch(builds["static"], tmp_path / "log", seconds).await_asleep()
    job.send(SIGSTOP).await_state(STOPPED)
    time.sleep(seconds)
    job.send(SIGCONT).end()
    record = job.only_record()
    assert (record.end_ns - record.start_ns) / 1e9 >= 2 * seconds
    assert_adds_up(record)
