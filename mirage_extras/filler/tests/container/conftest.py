"""Builds the programs of filler jobs that CRIU saves. Tests with CRIU need it on this host, and are skipped elsewhere."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "files" / "filler_container"
PATIENCE = 120.0  # seconds until a wait is given up

sys.path.insert(0, str(SOURCE))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` is true; `what` describes it in the error message."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"time-out while waiting for: {what}"
        time.sleep(0.005)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built programs, with the Python files beside them. CRIU is in it if this host has it."""
    if shutil.which("cc") is None:
        pytest.skip("skipped: no C compiler")
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run(["make", "-s", "-C", SOURCE, f"OUT={folder}"], check=True)
    for path in SOURCE.glob("*.py"):
        shutil.copy(path, folder)
    if found := shutil.which("criu"):
        (folder / "criu").symlink_to(found)
    return folder


class Chain:
    """A computation with 1 MiB, and its result, worked out here."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.program = programs / "chain"
        self.result, self.state = folder / "result", folder / "state"
        self.processes: list[subprocess.Popen[str]] = []

    def command(self, rounds: int, *words: str) -> list[str]:
        return [str(self.program), "--memory", "1", "--rounds", str(rounds), "--result", str(self.result), *words]

    def run(self, rounds: int, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(rounds, *words), capture_output=True, text=True, check=False, timeout=PATIENCE)

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.communicate()


@pytest.fixture
def chain(programs: Path, tmp_path: Path) -> Iterator[Chain]:
    made = Chain(programs, tmp_path)
    yield made
    made.close()
