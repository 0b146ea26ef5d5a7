"""The event-driven clock and Slurm's daemons: waits without a purpose, saves, and the processor of slurmctld."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
from pathlib import Path

import pytest

from .clocked import SECOND, lines
from .event_instance import Instance, wait_until
from .test_event_waits import copy_of_probe

MINUTE = 60_000  # ms


@pytest.mark.parametrize("wait", ["usleep", "pthread_cond_timedwait:realtime"])
def test_slurmstepds_sampler_does_not_hold_time_up(driven: Instance, wait: str) -> None:
    """The thread with this name; another one wakes up each second. Before 17.11 it sleeps."""
    sampler = driven.start(driven.builds.probe, "named", "acctg_prof", wait, str(SECOND))
    another = driven.start(driven.builds.probe, "named", "another", wait, str(SECOND))
    driven.finish(another)
    before = driven.figures()["jumps"]
    driven.run("sleep", "1000")
    assert driven.figures()["jumps"] - before < 10
    assert sampler.poll() is None


def polls(instance: Instance, name: str, files: int, limit: int) -> subprocess.Popen[str]:
    """A program with this name that polls its standard input and pipes beside it, with a limit in ms."""
    return instance.start(copy_of_probe(instance, name), "polls", "1", str(files), str(limit), stdin=subprocess.PIPE)


@pytest.mark.parametrize("name", ["slurmstepd", "slurmctld"])
def test_slurm_polls_for_messages_without_a_limit(driven: Instance, name: str) -> None:
    """From 24.11.6 on its loops poll for a minute at a time; a message ends that at once."""
    process = polls(driven, name, 2, MINUTE)
    driven.run("sleep", "1000")
    before = driven.figures()["jumps"]
    driven.run("sleep", "1000")
    assert driven.figures()["jumps"] - before < 10
    assert process.poll() is None
    assert process.stdin is not None
    process.stdin.write("x")
    process.stdin.flush()
    ready, virtual = driven.finish(process).split()[1:]
    assert ready == "ready=1"
    assert int(virtual.removeprefix("virtual=")) == 2000 * SECOND


@pytest.mark.parametrize(
    ("name", "files", "limit"),
    [("slurmstepd", 1, MINUTE), ("slurmctld", 1, MINUTE), ("slurmstepd", 2, 1000), ("slurmd", 2, MINUTE)],
)
def test_other_polls_end_at_their_limit(driven: Instance, name: str, files: int, limit: int) -> None:
    """Such as those for the answer of slurmctld, which wait for one file."""
    process = polls(driven, name, files, limit)
    wait_until(lambda: process.poll() is not None, "the end of the limit")
    ready, virtual = driven.finish(process).split()[1:]
    assert ready == "ready=0"
    assert 0 <= int(virtual.removeprefix("virtual=")) - limit * SECOND // 1000 < SECOND


@pytest.mark.parametrize(
    ("name", "saves", "answers"),
    [
        ("slurmctld", "memory", [(0, 0), (-1, errno.EBADF)]),
        ("slurmctld", "disk", [(-1, errno.EINVAL), (-1, errno.EBADF)]),
        ("slurmctld", None, [(-1, errno.EINVAL), (-1, errno.EBADF)]),
        ("slurmdbd", "memory", [(-1, errno.EINVAL), (-1, errno.EBADF)]),
    ],
)
def test_slurmctld_does_not_wait_for_the_disk_where_it_need_not(
    instance: Instance, name: str, saves: str | None, answers: list[tuple[int, int]]
) -> None:
    """fsync fails for a pipe (EINVAL), unless it does nothing. Only slurmctld's."""
    environment = {} if saves is None else {"SLURM_MIRAGE_SAVES": saves}
    printed = lines(instance.run(copy_of_probe(instance, name), "save", environment=environment))
    assert [(answer["result"], answer["errno"]) for _, answer in printed] == answers


def scheduler(instance: Instance) -> int:
    """The process that the page names as slurmctld."""
    pid: int = struct.unpack_from("<i", instance.page, 256)[0]
    return pid


def test_the_child_that_runs_scripts_is_not_taken_for_slurmctld(driven: Instance) -> None:
    """From 24.11 on it is slurmctld's program too."""
    program = copy_of_probe(driven, "slurmctld")
    controller = driven.start(program, "real", "slurmctld", str(1000 * SECOND))
    wait_until(lambda: scheduler(driven) == controller.pid, "slurmctld")
    driven.run(program, "save", environment={"SLURMSCRIPTD_MODE": "1"})
    assert scheduler(driven) == controller.pid


several = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="skipped: this machine has one processor")


def processors(process: subprocess.Popen[str]) -> list[set[int]]:
    """The processors on which each thread of a process may run."""
    return [os.sched_getaffinity(int(thread.name)) for thread in Path(f"/proc/{process.pid}/task").iterdir()]


@several
def test_slurmctld_and_the_coordinator_have_one_processor_while_there_is_a_driver(bpf_instance: Instance) -> None:
    """All threads of it, and nothing else of the instance; also with the next coordinator, when one is killed."""
    everywhere = os.sched_getaffinity(0)
    controller = bpf_instance.start(copy_of_probe(bpf_instance, "slurmctld"), "naps", "1000000000")
    other = bpf_instance.start(bpf_instance.builds.event_probe, "naps", "1000000000")

    def are_together() -> bool:
        assert bpf_instance.coordinator is not None
        given = [*processors(controller), *processors(bpf_instance.coordinator)]
        return len(given[0]) == 1 and all(one == given[0] for one in given)

    def are_free() -> bool:
        assert bpf_instance.coordinator is not None
        return all(one == everywhere for one in [*processors(controller), *processors(bpf_instance.coordinator)])

    wait_until(are_free, "no driver")
    bpf_instance.drive()
    wait_until(are_together, "one processor")
    assert processors(other) == [everywhere]
    bpf_instance.drive(False)
    wait_until(are_free, "no driver")
    bpf_instance.drive()
    wait_until(are_together, "one processor")
    bpf_instance.kill_coordinator()
    assert len(processors(controller)[0]) == 1
    bpf_instance.drive(False)
    bpf_instance.start_coordinator()
    wait_until(are_free, "the next coordinator")


@several
def test_a_slurmctld_whose_threads_work_at_once_has_more_processors(bpf_instance: Instance) -> None:
    """From time to time, as long as they do."""
    controller = bpf_instance.start(copy_of_probe(bpf_instance, "slurmctld"), "workers", "3", str(20 * SECOND))
    bpf_instance.drive()
    wait_until(lambda: len(processors(controller)[0]) == 1, "one processor")
    wait_until(lambda: len(processors(controller)[0]) > 1, "several processors")


@several
def test_a_coordinator_that_reads_proc_leaves_slurmctld_alone(scan_instance: Instance) -> None:
    scan_instance.drive()
    controller = scan_instance.start(copy_of_probe(scan_instance, "slurmctld"), "naps", "1000000000")
    scan_instance.run("sleep", "1000")
    assert set(map(len, processors(controller))) == {len(os.sched_getaffinity(0))}
