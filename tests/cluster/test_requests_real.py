"""What jobs ask for, on a real cluster: nodes, tasks, GPUs, features, licences, an instant to begin, a hold.

Needs an instance of tests/cluster/requests.conf without other jobs, and is skipped otherwise:

    make cluster CLUSTER=requests SLURM_CONF=tests/cluster/requests.conf ACCOUNTING=yes SPEED=1
    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/requests pytest -m cluster tests/cluster/test_requests_real.py
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from test_replay_real import instance, make

from mirage.workloads import requests
from slurm_mirage.base import processes
from slurm_mirage.base.hostlist import expand
from slurm_mirage.base.processes import INSTANCE_VARIABLE
from slurm_mirage.instance.instance import commands_of
from slurm_mirage.jobs.request import Request, counts_of
from slurm_mirage.rm.api import Refused, Submission
from slurm_mirage.rm.slurm.commands import Slurm, submit_options
from slurm_mirage.rm.slurm.node_classes import node_classes

__all__ = ["instance", "make"]

pytestmark = pytest.mark.cluster

PATIENCE = 60.0
GPU_NODES, ROME = {"n6", "n7", "n8"}, {"n6", "n7", "n8"}


class Cluster:
    """The commands of the cluster, as the instance's user."""

    def __init__(self, instance: Path) -> None:
        self._programs = commands_of(instance)
        self.slurm = Slurm(str(instance / "etc/slurm.conf"), self._programs, str(instance))
        self.directory = str(instance)
        self._environment = dict(self.slurm.environment())
        self._user = processes.as_user(instance)
        self.ids: list[int] = []

    def submit(self, words: str, processors: int = 4, seconds: float = 600, **values: object) -> int:
        """Submit a job that asks for this; its id."""
        request = Request.parse(words)
        job = Submission(
            "requests", f"exec sleep {seconds}", processors, None, 60, "", self.directory, request=request, **values,  # type: ignore[arg-type]
        )  # fmt: skip
        self.ids.append(self.slurm.submit(job).job_id)
        return self.ids[-1]

    def show(self, job_id: int) -> dict[str, str]:
        """The members of a job in scontrol's answer."""
        answer = subprocess.run(
            [f"{self._programs}/scontrol", "--oneliner", "show", "job", str(job_id)],
            env=self._environment, check=True, capture_output=True, text=True, timeout=PATIENCE, **self._user,
        ).stdout  # fmt: skip
        return dict(word.partition("=")[::2] for word in answer.split())

    def started(self, job_id: int) -> dict[str, str]:
        """The job when it runs."""
        deadline = time.monotonic() + PATIENCE
        while (job := self.show(job_id))["JobState"] != "RUNNING":
            assert time.monotonic() < deadline, job
            time.sleep(0.2)
        return job


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    directory = os.environ.get(INSTANCE_VARIABLE)
    if not directory or "Licenses=matlab:2" not in (Path(directory) / "etc/slurm.conf").read_text():
        pytest.skip(f"skipped: {INSTANCE_VARIABLE} does not name an instance of tests/cluster/requests.conf")
    made = Cluster(Path(directory))
    yield made
    made.slurm.cancel(made.ids)


def tres(job: dict[str, str]) -> dict[str, str]:
    """What a running job has; releases before 23.02 have one member TRES."""
    text = job.get("AllocTRES") or job["TRES"]
    return dict(word.partition("=")[::2] for word in text.split(","))


def seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def nodes(job: dict[str, str]) -> set[str]:
    return set(expand(job["NodeList"]))


@pytest.mark.parametrize(
    ("words", "processors", "gpus", "names"),
    [
        ("gpus=8", 8, "8", {"n6", "n7"}),
        ("gpus=a100:8 nodes=2", 8, "8", {"n6", "n7"}),
        ("nodes=2 gres=gpu:a100:3", 4, "6", {"n6", "n7"}),
        ("tasks=4 gpus_per_task=1 nodes=1", 4, "4", None),
        ("gres=gpu:v100:2", 4, "2", {"n8"}),
    ],
)
def test_gpus(cluster: Cluster, words: str, processors: int, gpus: str, names: set[str] | None) -> None:
    job = cluster.started(cluster.submit(words, processors))
    assert (tres(job)["gres/gpu"], tres(job)["cpu"]) == (gpus, str(processors))
    assert nodes(job) == names if names else nodes(job) <= GPU_NODES


@pytest.mark.parametrize(
    ("words", "processors", "count"),
    [
        ("nodes=2", 4, 2),
        ("nodes=3 most_nodes=4", 64, 4),
        ("nodes=2 tasks=4 cpus_per_task=2 tasks_per_node=2", 8, 2),
        ("nodes=1", 16, 1),
    ],
)
def test_numbers_of_nodes_and_tasks(cluster: Cluster, words: str, processors: int, count: int) -> None:
    job = cluster.started(cluster.submit(words, processors))
    assert (int(job["NumNodes"]), int(tres(job)["cpu"])) == (count, processors)


def test_exclusive_nodes_and_their_memory(cluster: Cluster) -> None:
    job = cluster.started(cluster.submit("nodes=2 exclusive=1 memory_per_node=1000 contiguous=1", 32))
    assert (tres(job)["cpu"], tres(job)["node"], tres(job)["mem"]) == ("32", "2", "2000M")


def test_constraints(cluster: Cluster) -> None:
    assert nodes(cluster.started(cluster.submit("constraint=rome&nvlink"))) <= {"n6", "n7"}
    assert nodes(cluster.started(cluster.submit("constraint=[rome*1&skylake*1] nodes=2"))) & ROME
    with pytest.raises(Refused):
        cluster.submit("constraint=nowhere")


def test_licences(cluster: Cluster) -> None:
    first = cluster.submit("licences=matlab:2")
    second = cluster.submit("licences=matlab")
    cluster.started(first)
    waiting = cluster.show(second)
    assert (waiting["JobState"], waiting["Reason"]) == ("PENDING", "Licenses")
    cluster.slurm.cancel([first])
    assert cluster.started(second)["Licenses"].startswith("matlab")


def test_nice(cluster: Cluster) -> None:
    assert cluster.show(cluster.submit("nice=7"))["Nice"] == "7"


def test_a_job_begins_when_it_may(cluster: Cluster) -> None:
    job = cluster.started(cluster.submit("", delay=10))
    assert seconds(job["StartTime"]) >= seconds(job["SubmitTime"]) + 10
    later = cluster.show(cluster.submit("", delay=28800))
    assert (later["JobState"], seconds(later["EligibleTime"]) - seconds(later["SubmitTime"])) == ("PENDING", 28800)


def test_a_held_job_waits_for_its_release(cluster: Cluster) -> None:
    held = cluster.submit("hold=30")
    time.sleep(2)
    assert [job.held for job in cluster.slurm.queue() if job.job_id == held] == [True]
    cluster.slurm.release([held])
    cluster.started(held)


def test_the_options_are_those_of_sbatch() -> None:
    request = Request.parse("nodes=2 gres=gpu:2 hold=1")
    words = submit_options(Submission("a", "true", 4, None, 1, "", "/tmp", request=request))
    assert re.search(r"--nodes=2 --ntasks=4 .*--gres=gpu:2 .*--hold", shlex.join(words))


def test_a_replay_of_jobs_with_requests(cluster: Cluster, make: Any) -> None:
    """One of them asks for a feature that no node has, and is submitted without it; one is held for some time."""
    asked = {100: "gres=gpu:a100:1", 101: "constraint=nowhere gpus=1", 102: "hold=6 nodes=1", 103: "constraint=rome"}
    run = make(6, 0.1, 3.0, rows={number: {"request": words} for number, words in asked.items()})
    run.finish()
    run.check_each_job_was_played_once()
    jobs, events = run.described(), run.events()
    assert jobs[100]["node_list"] in ("n6", "n7") and jobs[103]["node_list"] in ROME
    assert jobs[102]["start"] >= jobs[102]["submit"] + 5
    assert [event["index"] for event in events if event.get("plain")] == [1]
    assert [event["index"] for event in events if event["event"] == "released"] == [2]


CLASSES = [
    {"count": 5, "cpus": 16, "extra": {"RealMemory": 64000, "Feature": "skylake"}},
    {"count": 2, "cpus": 16, "first": 6, "extra": {"RealMemory": 64000, "Feature": ["rome", "nvlink"], "Gres": "gpu:a100:4"}},
    {"count": 1, "cpus": 16, "first": 8, "extra": {"RealMemory": 64000, "Feature": "rome", "Gres": "gpu:v100:2"}},
]
OFFERED = requests.offer(node_classes(CLASSES), [{"name": "batch"}], "CR_CPU_Memory", None, "matlab:2")
PARTS = [
    ("", "nodes=1", "nodes=2", "nodes=2 most_nodes=3", "nodes=9"),
    ("", "gpus=8", "gpus=11", "gpus=a100:4,v100:2", "gres=gpu:a100:3", "gres=gpu:5", "gpus=v100:2"),
    ("", "constraint=rome", "constraint=skylake|nvlink", "constraint=rome&skylake", "licences=matlab:2", "licences=matlab:3"),
]


@pytest.mark.parametrize("processors", [1, 2, 24, 100])
def test_what_fits_is_what_slurmctld_accepts(cluster: Cluster, processors: int) -> None:
    """Of fewer tasks than nodes sbatch itself lowers the number of nodes."""
    wrong = []
    for words in (" ".join(filter(None, parts)) for parts in itertools.product(*PARTS)):
        request = Request.parse(words)
        if request.nodes > processors:
            continue
        licences = all(number <= 2 for _, number in counts_of(request.licences))
        fits = licences and OFFERED.partitions["batch"].holds(processors, 60, 0, request)
        try:
            cluster.slurm.cancel([cluster.submit(words, processors, delay=3600)])
            is_accepted = True
        except Refused:
            is_accepted = False
        if fits and not is_accepted:
            wrong.append(words)
        if is_accepted and not fits:
            wrong.append(f"not {words}")
    assert wrong == []
