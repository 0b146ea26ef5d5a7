"""Who replays a run: what the lock file says is believed only as far as the kernel confirms it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from visible import visible

from slurm_mirage.base import processes
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_lock import lock_holder
from slurm_mirage.instance.instance import active_run, refuse_during_run

SIGNED_AND_HELD = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """The lock file of the run `first` of an instance, which does not exist yet."""
    (tmp_path / "run").mkdir()
    (tmp_path / "runs/first").mkdir(parents=True)
    return tmp_path / "runs/first/replay.lock"


@contextmanager
def holder(lock: Path, **environment: str) -> Iterator[tuple[int, int]]:
    """A process that holds the lock, by id and start time; the file does not name it."""
    command = [sys.executable, "-c", SIGNED_AND_HELD, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **environment}) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"held\n"
            yield process.pid, processes.start_time(process.pid) or 0
        finally:
            process.kill()


def test_a_replay_that_holds_its_lock(lock: Path, tmp_path: Path) -> None:
    with holder(lock, SLURM_MIRAGE_INSTANCE=str(tmp_path)) as (pid, started):
        assert lock_holder(tmp_path, "first") is None, "it has not signed yet"
        lock.write_text(f"{pid} {started}\n")
        assert lock_holder(tmp_path, "first") == (pid, started)
        assert active_run(tmp_path) == "first"
        with pytest.raises(WrongUse, match="run first goes on"):
            refuse_during_run(tmp_path)
    assert lock_holder(tmp_path, "first") is None


def test_a_lock_that_nobody_holds(lock: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)"]
    environment = {**os.environ, "SLURM_MIRAGE_INSTANCE": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline()
        lock.write_text(f"{process.pid} {processes.start_time(process.pid)}\n")
        assert processes.belongs(process.pid, str(tmp_path))
        assert lock_holder(tmp_path, "first") is None
        assert active_run(tmp_path) is None
        process.kill()


def test_a_process_that_is_not_of_the_instance(lock: Path, tmp_path: Path) -> None:
    """Process 1 is alive, and somebody holds the lock."""
    with holder(lock):
        lock.write_text(f"1 {processes.start_time(1)}\n")
        assert lock_holder(tmp_path, "first") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a process of root and an instance of another user")
def test_a_process_of_root(lock: Path, tmp_path: Path) -> None:
    """It has the instance's variable, as a program that root starts in a shell of the instance."""
    with holder(lock, SLURM_MIRAGE_INSTANCE=str(tmp_path)) as (pid, started):
        lock.write_text(f"{pid} {started}\n")
        for path in (tmp_path / "run", tmp_path / "runs", tmp_path / "runs/first", lock):
            os.chown(path, 65534, 65534)
        assert lock_holder(tmp_path, "first") is None


@pytest.mark.parametrize(
    "content", [b"", b"abc def", b"\xff\xfe \x80", b"1", b"0 0", b"-1 5", b"1 2 3", b"9" * 30 + b" 1", b"1 1\n" * 100_000]
)
def test_what_is_no_signature(lock: Path, tmp_path: Path, content: bytes) -> None:
    lock.write_bytes(content)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock_holder(tmp_path, "first") is None
        assert active_run(tmp_path) is None


@pytest.mark.parametrize("found", ["a FIFO", "a symbolic link", "a folder"])
def test_what_is_no_file(lock: Path, tmp_path: Path, found: str) -> None:
    if found == "a FIFO":
        os.mkfifo(lock)
    elif found == "a folder":
        lock.mkdir()
    else:
        lock.symlink_to("/etc/passwd")
    with pytest.raises(WrongUse, match=f"replay.lock: is {found}; remove it"):
        lock_holder(tmp_path, "first")
    assert active_run(tmp_path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of other users")
def test_a_process_belongs_if_it_runs_as_the_instances_user_or_root(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    os.chown(tmp_path / "run", 65534, 65534)
    tmp_path.chmod(0o755)
    environment = {**os.environ, "SLURM_MIRAGE_INSTANCE": str(tmp_path)}
    for user, belongs in ((65534, True), (0, True), (12345, False)):
        with visible(subprocess.Popen(["sleep", "1000"], env=environment, user=user, group=user)) as process:
            assert processes.users_of(process.pid) == {user}
            assert processes.belongs(process.pid, str(tmp_path)) is belongs
            process.kill()
