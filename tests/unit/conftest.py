"""What the tests of several modules need."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from shared_fixtures import browser, call  # noqa: F401

from mirage.experiment import host_pace
from slurm_mirage.base.processes import INSTANCE_VARIABLE

pytest.register_assert_rewrite("browser")

# No test is timed: on a busy machine an example may take any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _no_earlier_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Estimates do not depend on the runs of this checkout, nor are runs of tests kept among them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_pace, "PATH", tmp_path_factory.mktemp("pace") / "pace.json")
        yield


REPLAY = (
    "import os, sys, time; from pathlib import Path; from slurm_mirage.replay.process import Waker, sign_lock, take_lock\n"
    "os.setuid(int(sys.argv[2])); lock = take_lock(Path(sys.argv[1]), Waker()); sign_lock(lock)\n"
    "print('replays', flush=True); time.sleep(1000)"
)


@pytest.fixture
def replaying() -> Iterator[Callable[[Path, str], None]]:
    """Starts a process that holds and has signed the lock of a run of the instance in a directory, as its replay does."""
    started: list[subprocess.Popen[bytes]] = []

    def start(directory: Path, run: str) -> None:
        folder = directory / "runs" / run
        folder.mkdir(parents=True, exist_ok=True)
        # As in an instance, whose user is the owner of `run`.
        owner = (directory / "run").stat() if (directory / "run").exists() else folder.stat()
        if os.geteuid() == 0:
            os.chown(folder, owner.st_uid, owner.st_gid)
        process = subprocess.Popen(
            [sys.executable, "-c", REPLAY, str(folder / "replay.lock"), str(owner.st_uid)],
            stdout=subprocess.PIPE,
            env={**os.environ, INSTANCE_VARIABLE: str(directory)},
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"replays\n"

    yield start
    for process in started:
        process.kill()
        process.communicate()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect a worker's garbage while pytest-xdist still waits for it.

    pytest does so five times more afterwards. On a busy machine that takes longer than the five seconds that the worker has to end.
    """
    if hasattr(session.config, "workerinput"):
        gc.collect()
        gc.freeze()
