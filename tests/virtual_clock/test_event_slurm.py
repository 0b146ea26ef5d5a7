"""Waits of Slurm without a purpose do not hold the event-driven clock up."""

from __future__ import annotations

import subprocess

import pytest

from .clocked import SECOND
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
    assert int(virtual.removeprefix("virtual=")) > 2000 * SECOND


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
