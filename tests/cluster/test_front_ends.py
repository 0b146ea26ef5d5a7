"""A real cluster in Slurm's front-end mode: placement of jobs, suspension, and the loss of a front end.

Needs a running instance on this host that was built with FRONT_END and SPEED=1, and in which nothing else runs:

    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/mirage pytest -m cluster tests/cluster/test_front_ends.py
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slurm_mirage.base import processes
from slurm_mirage.base.files import read_json
from slurm_mirage.base.processes import INSTANCE_VARIABLE
from slurm_mirage.instance.instance import commands_of
from slurm_mirage.rm.slurm import front_end

pytestmark = pytest.mark.cluster
PATIENCE = 120.0


class Cluster:
    """The instance. The commands of its Slurm release run as its user, in real time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.front_ends = len(front_end.placed_in((directory / "etc/slurm.conf").read_text()))

    def run(self, program: str, *words: str) -> str:
        owner = (self.directory / "run").stat()
        slurm_conf = f"{self.directory}/etc/slurm.conf"
        return subprocess.run(
            [str(commands_of(self.directory) / program), *words],
            env={"PATH": "/usr/bin:/bin", "SLURM_CONF": slurm_conf, INSTANCE_VARIABLE: str(self.directory)},
            cwd=self.directory / "home",
            capture_output=True,
            text=True,
            check=True,
            **({"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}),
        ).stdout.strip()

    def submit(self, script: str, *words: str) -> str:
        return self.run("sbatch", "--parsable", "--output=%j.out", *words, f"--wrap={script}")

    def suspend(self, job: str) -> bool:
        """Suspend a job; returns whether slurmctld did so. It refuses while the launch of the job is not complete."""
        with suppress(subprocess.CalledProcessError):
            self.run("scontrol", "suspend", job)
            return True
        return False

    def running(self) -> list[str]:
        """Return the front ends of the running jobs."""
        return self.run("squeue", "--noheader", "--states=RUNNING", "--format=%B").split()

    def state_of_sleep(self, seconds: int) -> list[str]:
        """Return the kernel's states of the instance's processes `sleep SECONDS`."""
        members = processes.of_instance(str(self.directory))
        sleeping = [pid for pid in members if processes.command_line(pid) == ["sleep", str(seconds)]]
        return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in sleeping]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.2)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(Path(os.environ.get(INSTANCE_VARIABLE, "/var/lib/slurm-mirage/mirage")))
    if not cluster.front_ends:
        pytest.skip("skipped: the instance has a slurmd for each node")
    yield cluster
    for job in cluster.run("squeue", "--noheader", "--format=%i").split():
        cluster.run("scancel", job)
    until(lambda: not cluster.run("squeue", "--noheader"))


def test_front_ends_share_the_jobs_evenly(cluster: Cluster) -> None:
    for _ in range(2 * cluster.front_ends):
        cluster.submit("exec sleep 600")
    until(lambda: len(cluster.running()) == 2 * cluster.front_ends)
    names = [f"{front_end.PREFIX}{number}" for number in range(1, cluster.front_ends + 1)]
    assert Counter(cluster.running()) == dict.fromkeys(names, 2)
    assert len(cluster.state_of_sleep(600)) == 2 * cluster.front_ends


def test_tasks_of_all_nodes_run_on_one_front_end(cluster: Cluster) -> None:
    srun = commands_of(cluster.directory) / "srun"
    job = cluster.submit(
        f"{srun} sh -c 'echo $SLURMD_NODENAME $SLURM_NODEID $SLURM_JOB_NODELIST'", "--nodes=3", "--ntasks=3", "--wait"
    )
    tasks = (cluster.directory / f"home/{job}.out").read_text().splitlines()
    assert len(tasks) == 3 and len(set(tasks)) == 1
    assert tasks[0].startswith(front_end.PREFIX) and tasks[0].split()[1] == "0"


def test_a_job_is_suspended_and_resumed(cluster: Cluster) -> None:
    job = cluster.submit("exec sleep 601", "--nodes=2", "--exclusive")
    until(lambda: len(cluster.state_of_sleep(601)) == 1)
    until(lambda: len(cluster.running()) == 1)
    until(lambda: cluster.suspend(job))
    until(lambda: cluster.state_of_sleep(601) == ["T"])
    cluster.run("scontrol", "resume", job)
    until(lambda: cluster.state_of_sleep(601) == ["S"])


def test_the_loss_of_a_front_end_affects_neither_nodes_nor_jobs(cluster: Cluster) -> None:
    for _ in range(cluster.front_ends):
        cluster.submit("exec sleep 602")
    until(lambda: len(cluster.state_of_sleep(602)) == cluster.front_ends)
    before = read_json(cluster.directory / "run/farm.json")
    members = processes.of_instance(str(cluster.directory))
    first = next(pid for pid in members if processes.command_line(pid)[1:4] == ["-D", "-N", f"{front_end.PREFIX}1"])
    os.kill(first, signal.SIGKILL)
    until(lambda: read_json(cluster.directory / "run/farm.json")["restarts"] == before["restarts"] + 1)
    until(lambda: read_json(cluster.directory / "run/farm.json")["daemons"]["slurmd"]["ready"] == cluster.front_ends)
    until(lambda: "NO_RESPOND" not in cluster.run("scontrol", "show", "frontend"))
    assert len(cluster.running()) == len(cluster.state_of_sleep(602)) == cluster.front_ends
    assert cluster.run("sinfo", "--noheader", "--states=down,drained,unknown", "--format=%D") in ("", "0")
