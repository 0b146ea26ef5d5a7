"""Builds sigsleep and runs it: the tests send real signals and read the real log."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_mirage.jobs.sigsleep_log import Record, read_log

SOURCE = Path(__file__).parents[2] / "files" / "sigsleep"
PATIENCE = 120.0  # seconds until a wait is given up: how long a loaded machine may take, not how long it should


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` is true; `what` describes it in the error message."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"time-out while waiting for: {what}"
        time.sleep(0.002)


def arguments(**options: object) -> list[str]:
    """Return sigsleep's arguments: the defaults of the tests, replaced by `options`. An option with the value None is left out."""
    values = {"id": 7, "cores": 16, "priority": "high", "submit": "1700000000.25", **options}
    return [word for name, value in values.items() if value is not None for word in (f"--{name}", str(value))]


class Job:
    """A running sigsleep process and its log."""

    def __init__(self, command: list[str], log: Path, **popen: object) -> None:
        self.log = log
        self.process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen
        )

    def status(self, field: str) -> str:
        """Return a field of /proc/PID/status."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field + ":")), "")

    def await_blocked(self) -> Job:
        """Wait until main() has blocked signals: from then on signals are recorded instead of killing or stopping the process."""
        bit = 1 << (signal.SIGTSTP - 1)
        wait_until(lambda: bool(int(self.status("SigBlk"), 16) & bit), "signals to be blocked")
        return self

    def await_asleep(self) -> Job:
        """Wait until sigsleep has finished its start-up and sleeps."""

        def has_signalfd() -> bool:
            for fd in Path(f"/proc/{self.process.pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # closed meanwhile, as the loader of the sanitized build does
                    if str(fd.readlink()) == "anon_inode:[signalfd]":
                        return True
            return False

        wait_until(has_signalfd, "the end of start-up")
        return self.await_state("S")

    def await_state(self, state: str) -> Job:
        """Wait for a process state (T is stopped, S is sleeping)."""
        wait_until(lambda: self.status("State").startswith(state), f"state {state}")
        return self

    def send(self, *signals: signal.Signals) -> Job:
        """Send the signals in order, as long as the process runs."""
        for one in signals:
            self.process.send_signal(one)
        return self

    def end(self) -> tuple[int, str]:
        """Wait for the end; returns the exit code (negative: killed by that signal) and the standard error."""
        _, stderr = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, stderr

    def only_record(self) -> Record:
        """Return the only record of the log, after a check that the log contains nothing else."""
        records, damage = read_log(self.log)
        assert damage == []
        assert len(records) == 1
        return records[0]


def build(out: Path, target: str, flags: str = "") -> None:
    """Run make in files/sigsleep with the result in the folder `out`."""
    make = shutil.which("make")
    if make is None or shutil.which("cc") is None:
        pytest.skip("skipped: make or a C compiler is missing")
    subprocess.run([make, "-C", str(SOURCE), f"OUT={out}", f"CPPFLAGS={flags}", target], check=True)


def _usual_signals() -> None:
    """Restore the default actions of signals that a shell ignores for background processes, as the tests may be one."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def hangup() -> None:
    """Programs end at SIGHUP, also where the tests run under nohup, which has it ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The program as it is shipped, one with run-time checks, and one that can record only three suspensions."""
    usual, small = tmp_path_factory.mktemp("usual"), tmp_path_factory.mktemp("small")
    build(usual, "all")
    build(usual, "sanitize")
    build(small, "all", "-DMAX_SUSPENSIONS=3")
    return {
        "static": usual / "sigsleep",
        "sanitized": usual / "sigsleep-sanitize",
        "small": small / "sigsleep",
    }


@pytest.fixture(scope="session", params=["static", "sanitized"])
def program(request: pytest.FixtureRequest, builds: dict[str, Path]) -> Path:
    """Each of the two programs with which tests of behaviour are run."""
    return builds[request.param]


@pytest.fixture(scope="session")
def launch() -> Iterator[Callable[..., Job]]:
    """launch(program, log, runtime, popen={...}, OPTION=VALUE...): a sigsleep in a process group of its own.

    Its environment holds no variable of Slurm unless popen says otherwise. Whatever still runs at the end of all tests
    is ended.
    """
    jobs: list[Job] = []

    def launch_one(
        program: Path,
        log: Path,
        runtime: object,
        popen: dict[str, object] | None = None,
        **options: object,
    ) -> Job:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        settings: dict[str, object] = {
            "process_group": 0,
            "env": environment,
            "preexec_fn": _usual_signals,
            **(popen or {}),
        }
        jobs.append(Job([str(program), *arguments(log=log, runtime=runtime, **options)], log, **settings))
        return jobs[-1]

    yield launch_one
    for job in jobs:
        if job.process.poll() is None:
            job.process.kill()
            job.process.communicate()


@pytest.fixture
def start(launch: Callable[..., Job], program: Path, tmp_path: Path) -> Callable[..., Job]:
    """start(runtime, ...): launch `program` with a log in `tmp_path`."""

    def start_one(runtime: object, **options: object) -> Job:
        return launch(program, options.pop("log", tmp_path / "sigsleep.log"), runtime, **options)

    return start_one
