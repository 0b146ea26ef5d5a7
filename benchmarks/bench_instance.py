"""An instance of its own for the benchmarks: built by the playbooks, started and stopped by hand, removed at the end.

Needs root. Whatever happens, the instance is torn down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slurm_mirage import processes

REPOSITORY = Path(__file__).parents[1]
NAME = "bench"
DIRECTORY = Path("/var/lib/slurm-mirage", NAME)
USER = f"slurm-{NAME}"
REST, REST_MIB = 10, 5.0  # samples, two seconds apart, that may differ by so many MiB: the memory is at rest
PATIENCE = 300.0  # seconds to wait for nodes or jobs


@dataclass(frozen=True)
class Cost:
    """What starting the nodes took: seconds by the clock, CPU seconds, and MiB of the host's memory, now and once merged."""

    seconds: float
    cpu_seconds: float
    memory_mib: float
    memory_merged_mib: float


def playbook(name: str, nodes: int) -> None:
    """Run a playbook on the benchmark's instance, quietly."""
    knobs = {"mirage_cluster": NAME, "mirage_nodes": nodes}
    command = [str(Path(sys.executable).with_name("ansible-playbook")), f"playbooks/{name}.yml", "-e", json.dumps(knobs)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")}
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def built(nodes: int) -> Iterator[None]:
    """The instance, built and running; torn down at the end."""
    if DIRECTORY.exists():
        raise SystemExit(f"wrong use: there is an instance {NAME} already; make teardown CLUSTER={NAME} removes it")
    try:
        playbook("cluster", nodes)
        yield
    finally:
        playbook("teardown", nodes)


def as_user(*command: str) -> list[str]:
    """The command, run as the instance's user."""
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", *command]


def environment() -> dict[str, str]:
    """What Slurm's commands, and processes that belong to the instance, need."""
    return {**os.environ, "SLURM_CONF": str(DIRECTORY / "etc/slurm.conf"), processes.INSTANCE_VARIABLE: str(DIRECTORY)}


def output(*command: str) -> str:
    """What one of Slurm's commands prints; empty when it fails."""
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False).stdout.strip()


def wait_for_nodes(nodes: int) -> None:
    """Wait until slurmctld says that all nodes are idle."""
    wait_for(lambda: output("sinfo", "--noheader", "--format", "%D %T") == f"{nodes} idle", "nodes")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; looks ten times a second."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {PATIENCE:.0f} s")
        time.sleep(0.1)


def available_mib() -> float:
    """MemAvailable of the host (proc(5))."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) / 1024


def settled_mib() -> float:
    """MemAvailable once it has come to rest: the kernel gives back the (merged) pages of ended processes bit by bit."""
    seen = [available_mib()]
    deadline = time.monotonic() + PATIENCE
    while len(seen) < REST or max(seen[-REST:]) - min(seen[-REST:]) > REST_MIB:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the host's memory does not come to rest: {seen[-REST:]} MiB available; something else runs")
        time.sleep(2)
        seen.append(available_mib())
    return seen[-1]


def cpu_seconds() -> float:
    """CPU time that the whole host has spent since its boot, in seconds: user, nice, system, irq and softirq of /proc/stat.

    Of the host, because a daemon's own account is rounded to 10 ms, which is what it takes to start one, and leaves ksmd out.
    """
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:7])) / os.sysconf("SC_CLK_TCK")


def stop() -> None:
    """End all that runs of the instance, the farm first (it would start its daemons again)."""
    state = json.loads((DIRECTORY / "run/farm.json").read_text()) if (DIRECTORY / "run/farm.json").exists() else None
    if state:
        processes.end([state["pid"]], 30)
    processes.end(processes.of_instance(str(DIRECTORY)), 10)
