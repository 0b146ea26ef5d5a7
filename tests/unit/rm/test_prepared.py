"""Submissions that are prepared before their jobs are due, with a program in place of sbatch that reads its script as that does."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base import processes
from slurm_mirage.rm.api import Refused, Submission, Submitted, Unavailable, Unclear
from slurm_mirage.rm.slurm import commands, prepared
from slurm_mirage.rm.slurm.commands import PREPARED, Slurm
from slurm_mirage.rm.slurm.prepared import WRAPPED, script_of

SBATCH = """#!/bin/sh
for word; do
    case $word in
    --job-name=*) name=${word#*=} ;;
    --wrap=*) script=${word#*=} way=wrap ;;
    esac
done
echo "start $name $$" >> DIRECTORY/log
if [ -z "$way" ]; then
    script=$(tail -n 1)
    way=pipe
    if [ -z "$script" ]; then
        echo "empty $name" >> DIRECTORY/log
        echo "sbatch: error: Batch script is empty!" >&2
        exit 1
    fi
fi
case $script in
refused*) echo "sbatch: error: Batch job submission failed: Invalid partition specified" >&2; exit 1 ;;
killed*) kill -9 $$ ;;
silent*) exec sleep 600 ;;
again*) echo "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying" >&2 ;;
esac
echo "$way $name $script" >> DIRECTORY/log
grep -c -e ^pipe -e ^wrap DIRECTORY/log
"""


class Cluster:
    """A folder with the program, whose log says for each job when it was started, and how it was submitted."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.log = directory, directory / "log"
        self.log.touch()
        path = directory / "sbatch"
        path.write_text(SBATCH.replace("DIRECTORY", str(directory)))
        path.chmod(0o755)
        self.slurm = Slurm("/etc/slurm.conf", str(directory), str(directory))

    def lines(self, *kinds: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.split()[0] in kinds]

    def submitted(self) -> list[str]:
        return self.lines("pipe", "wrap")

    def wait_for_start(self, name: str) -> int:
        """The id of the process that was started for a job."""
        until(lambda: any(line.split()[1] == name for line in self.lines("start")))
        return next(int(line.split()[2]) for line in self.lines("start") if line.split()[1] == name)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def job(name: str, command: str = "exec x") -> Submission:
    return Submission(name, command, 1, None, 1, "", "/srv")


JOBS = [job(name, f"exec {name}") for name in "abcdef"]


def test_a_burst_is_submitted_in_order_by_processes_that_waited(cluster: Cluster) -> None:
    for number, one in enumerate(JOBS):
        cluster.slurm.expect(JOBS[number:])
        assert cluster.slurm.submit(one) == Submitted(number + 1)
    assert cluster.submitted() == ["wrap a exec a", *(f"pipe {name} exec {name}" for name in "bcdef")]
    assert len(cluster.lines("start")) == len(JOBS), "one process for each job"


def test_as_many_are_prepared_as_is_said(cluster: Cluster) -> None:
    cluster.slurm.expect(iter(JOBS))
    assert cluster.lines("start") == [], "nothing before the first is submitted"
    cluster.slurm.submit(JOBS[0])
    for one in JOBS[1 : 1 + PREPARED]:
        cluster.wait_for_start(one.name)
    cluster.slurm.expect(())
    assert {line.split()[1] for line in cluster.lines("start")} == {one.name for one in JOBS[: 1 + PREPARED]}


def test_a_command_is_that_of_the_submission(cluster: Cluster) -> None:
    """It has the instant of the submission in it."""
    cluster.slurm.expect(JOBS[:2])
    cluster.slurm.submit(JOBS[0])
    cluster.slurm.submit(replace(JOBS[1], command="exec b later"))
    assert cluster.submitted()[1] == "pipe b exec b later"


def test_a_job_with_other_options_than_expected_is_submitted_by_a_process_of_its_own(cluster: Cluster) -> None:
    cluster.slurm.expect(JOBS[:2])
    cluster.slurm.submit(JOBS[0])
    cluster.slurm.submit(replace(JOBS[1], limit_minutes=7))
    cluster.slurm.expect(())
    assert cluster.submitted()[1] == "wrap b exec b"


def test_a_single_job_is_submitted_as_ever(cluster: Cluster) -> None:
    cluster.slurm.expect(JOBS[:1])
    cluster.slurm.submit(JOBS[0])
    assert cluster.log.read_text().count("start") == 1
    assert cluster.submitted() == ["wrap a exec a"]


def test_what_was_prepared_for_other_jobs_ends(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "PREPARED", 2)
    cluster.slurm.expect(JOBS[:3])
    cluster.slurm.submit(JOBS[0])
    pids = {name: cluster.wait_for_start(name) for name in "bc"}
    cluster.slurm.expect([JOBS[2], JOBS[3]])
    assert not Path(f"/proc/{pids['b']}").exists(), "killed and waited for"
    assert processes.start_time(pids["c"]) is not None
    cluster.slurm.expect(())
    assert not Path(f"/proc/{pids['c']}").exists()
    assert cluster.submitted() == ["wrap a exec a"]


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [("refused", Refused, "Invalid partition"), ("killed", Unavailable, "ended by signal 9"), ("silent", Unavailable, "no answer")],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_after_a_failure_nothing_is_prepared(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, command: str, error: type[Exception], message: str, is_first: bool
) -> None:
    """Whether the job that failed was the first, by --wrap, or one that was prepared."""
    for module in (commands, prepared):
        monkeypatch.setattr(module, "SUBMIT_TIMEOUT", 0.5 if command == "silent" else 300.0)
    jobs = [JOBS[0], JOBS[1], JOBS[2]]
    fails = 0 if is_first else 1
    jobs[fails] = replace(jobs[fails], command=command)
    cluster.slurm.expect(jobs)
    for one in jobs[:fails]:
        cluster.slurm.submit(one)
    with pytest.raises(error, match=message):
        cluster.slurm.submit(jobs[fails])
    started = [line.split() for line in cluster.lines("start")]
    assert not any(Path(f"/proc/{pid}").exists() for _, _, pid in started)
    cluster.slurm.submit(JOBS[2])
    assert cluster.submitted()[-1] == "wrap c exec c"


def test_retries_of_sbatch_itself_are_counted(cluster: Cluster) -> None:
    cluster.slurm.expect(JOBS[:2])
    cluster.slurm.submit(JOBS[0])
    assert cluster.slurm.submit(replace(JOBS[1], command="again")) == Submitted(2, retries=1)
    assert cluster.submitted()[1] == "pipe b again"


def test_a_process_that_died_while_it_waited_is_replaced(cluster: Cluster) -> None:
    cluster.slurm.expect(JOBS[:2])
    cluster.slurm.submit(JOBS[0])
    pid = cluster.wait_for_start("b")
    os.kill(pid, signal.SIGKILL)
    until(lambda: processes.start_time(pid) is None)
    assert cluster.slurm.submit(JOBS[1]) == Submitted(2)
    assert cluster.submitted() == ["wrap a exec a", "wrap b exec b"]


def test_a_command_that_became_too_long_is_submitted_as_ever(cluster: Cluster) -> None:
    cluster.slurm.expect(JOBS[:2])
    cluster.slurm.submit(JOBS[0])
    pid = cluster.wait_for_start("b")
    long = "x" * select.PIPE_BUF
    assert cluster.slurm.submit(replace(JOBS[1], command=long)) == Submitted(2)
    assert cluster.submitted()[1] == f"wrap b {long}"
    assert not Path(f"/proc/{pid}").exists()


def test_programs_that_cannot_be_started_twice_are_no_failure(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without memory for another process prepares nothing."""

    def no_memory(*_words: object, **_options: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(cluster.slurm._prepared, "_start", no_memory)
    for number, one in enumerate(JOBS[:3]):
        cluster.slurm.expect(JOBS[number:])
        assert cluster.slurm.submit(one) == Submitted(number + 1)
    assert [line.split()[0] for line in cluster.submitted()] == ["wrap"] * 3


def test_nothing_is_prepared_through_another_program(cluster: Cluster) -> None:
    """A program such as sudo, once killed, would leave its sbatch."""
    slurm = Slurm("/etc/slurm.conf", str(cluster.directory), str(cluster.directory), become=("env",))
    slurm.expect(JOBS)
    slurm.submit(JOBS[0])
    assert len(cluster.lines("start")) == 1


KILLED = """
import os, signal, sys
from slurm_mirage.rm.api import Submission
from slurm_mirage.rm.slurm.commands import Slurm
directory, lock = sys.argv[1], int(sys.argv[2])
slurm = Slurm("/etc/slurm.conf", directory, directory, lock)
jobs = [Submission(name, "exec x", 1, None, 1, "", "/srv") for name in "ab"]
slurm.expect(jobs)
slurm.submit(jobs[0])
print("submitted", flush=True)
signal.pause()
"""


def test_prepared_processes_end_with_a_killed_replay(cluster: Cluster) -> None:
    """Without a job; until then they hold the run's lock."""
    lock = os.open(cluster.directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    words = [sys.executable, "-c", KILLED, str(cluster.directory), str(lock)]
    replay = subprocess.Popen(words, pass_fds=[lock], stdout=subprocess.PIPE, text=True)
    os.close(lock)
    assert replay.stdout is not None
    assert replay.stdout.readline() == "submitted\n"
    pid = cluster.wait_for_start("b")
    assert Path(f"/proc/{pid}/fd/{lock}").stat().st_ino == (cluster.directory / "lock").stat().st_ino, "the sbatch holds the lock"
    replay.kill()
    replay.communicate()
    with (cluster.directory / "lock").open() as stream:
        until(lambda: takes(stream.fileno()))
    assert cluster.lines("empty") == ["empty b"]
    assert cluster.submitted() == ["wrap a exec x"]


def takes(descriptor: int) -> bool:
    """Whether a lock can be taken."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("command", ["", "#SBATCH --hold", "  # x", "x\ny", "x\ry", "x\0y", "x" * select.PIPE_BUF])
def test_commands_that_no_pipe_gets(command: str) -> None:
    assert script_of(command) is None


@given(st.text(max_size=2 * select.PIPE_BUF))
def test_a_script_is_that_of_wrap_and_fits_the_pipe(command: str) -> None:
    script = script_of(command)
    if script is not None:
        assert script.decode(errors="surrogateescape") == WRAPPED.format(command)
        assert len(script) <= select.PIPE_BUF
        assert [line[:1] for line in script.splitlines()[:3]] == [b"#", b"#", b""]
        assert script.count(b"\n") == 4


def test_an_empty_script_is_no_known_refusal() -> None:
    """If it is ever seen in an answer, a few attempts are made."""
    assert isinstance(commands.failure("sbatch", "sbatch: error: Batch script is empty!"), Unclear)
