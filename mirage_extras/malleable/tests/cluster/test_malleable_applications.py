"""The malleable MPI applications as jobs of a real cluster: resized by the broker, with the results that they have alone.

Needs a running instance on this host with a broker, SPEED=1, eight nodes in which nothing else runs, and OpenMPI:

    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/mirage \\
        pytest -m cluster mirage_extras/malleable/tests/cluster/test_malleable_applications.py
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from mirage_extras.malleable.benchmarks.resize_cost import PATIENCE, PROGRAMS, Instance, alone
from slurm_mirage.base import processes

pytestmark = pytest.mark.cluster
NODES = 8


@pytest.fixture(scope="module")
def instance() -> Instance:
    if "SLURM_MIRAGE_INSTANCE" not in os.environ or shutil.which("mpicc") is None:
        pytest.skip("skipped: SLURM_MIRAGE_INSTANCE is not set, or OpenMPI is missing")
    instance = Instance(Path(os.environ["SLURM_MIRAGE_INSTANCE"]))
    if not (instance.directory / "run/private/broker.socket").exists():
        pytest.skip("skipped: the instance has no broker (MALLEABLE)")
    instance.install()
    return instance


def sizes_seen(instance: Instance, job: int, until: int = 0) -> list[int]:
    """Return the numbers of nodes that squeue shows, until the job has `until` nodes or does not run any more."""
    seen: list[int] = []
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        nodes = instance.nodes(job)
        if nodes and (not seen or seen[-1] != nodes):
            seen.append(nodes)
        if (seen and not nodes) or (until and nodes == until):
            return seen
        time.sleep(0.1)
    raise TimeoutError(f"job {job}: sizes {seen}")


def resizes(instance: Instance, job: int) -> list[tuple[int, int]]:
    return [(entry["from"], entry["to"]) for entry in instance.journal(job) if entry.get("outcome") == "done"]


def killed_steps(instance: Instance, job: int) -> int:
    """Return how many steps Slurm killed on nodes that a shrink released: they had not ended before, which may drain the nodes."""
    return (instance.directory / "log/slurmctld.log").read_text().count(f"Killing JobId={job} StepId=")


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_to_four_to_eight_to_one_has_the_result_of_the_program_alone(instance: Instance, program: str) -> None:
    computation = ("--rows=256", "--iterations=4000")
    requests = ("--minimum=2", "--maximum=2", "--request=1000:4", "--request=2000:8", "--request=3000:1")
    job = instance.submit(2, program, *computation, *requests)
    assert sizes_seen(instance, job) == [2, 4, 8, 1]
    assert instance.output(job).endswith(alone(instance.folder, program, *computation))
    assert resizes(instance, job) == [(2, 4), (4, 8), (8, 1)]
    assert killed_steps(instance, job) == 0
    costs = [entry["cost"] for entry in instance.journal(job) if "resumed" in entry]
    assert len(costs) == 3 and all(cost > 0 for cost in costs)


@pytest.mark.parametrize("mode", ["--asynchronous", "--factor=2"])
def test_the_policy_lets_it_grow_and_shrinks_it_for_a_job_that_waits(instance: Instance, mode: str) -> None:
    computation = ("--rows=256", "--iterations=12000")
    job = instance.submit(2, "jacobi", *computation, f"--maximum={NODES}", mode)
    sizes_seen(instance, job, until=NODES)
    waiting = int(
        instance.run("sbatch", "--parsable", "--nodes=6", "--exclusive", "--time=1", "--wrap=sleep 2", "--output=/dev/null")
    )
    assert sizes_seen(instance, job, until=2)[-1] == 2
    assert sizes_seen(instance, waiting) == [6]
    assert sizes_seen(instance, job)[-1] == NODES
    assert instance.output(job).endswith(alone(instance.folder, "jacobi", *computation))
    assert killed_steps(instance, job) == 0


def test_it_ends_properly_when_the_broker_is_killed_during_every_second_action(instance: Instance) -> None:
    computation = ("--rows=256", "--iterations=21000")
    requests = [f"--request={3000 * number}:{nodes}" for number, nodes in enumerate((4, 8, 2, 8, 1, 4), start=1)]
    job = instance.submit(2, "jacobi", *computation, "--minimum=2", "--maximum=2", *requests)
    while not instance.nodes(job):
        time.sleep(0.1)
    begun, kills = 0, 0
    while instance.nodes(job):
        if (now := sum("begun" in entry for entry in instance.journal(job))) > begun and now % 2:
            for pid in processes.of_instance(str(instance.directory)):
                if "slurm_mirage.extras.malleable.program" in processes.command_line(pid):
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
        begun = now
    assert kills > 1
    assert instance.output(job).endswith(alone(instance.folder, "jacobi", *computation))
    idle = ""
    give_up = time.monotonic() + PATIENCE
    while idle != str(NODES):  # the next broker frees what the killed one left
        assert time.monotonic() < give_up, "nodes stay allocated to nobody"
        idle = instance.run("sinfo", "--noheader", "--states=idle", "--format=%D")
        time.sleep(1)
