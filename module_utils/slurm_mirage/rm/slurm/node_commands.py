"""The nodes of a running slurmctld with their hardware and their jobs, and commands that drain and resume them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ...base import processes, user_folders
from ...base.errors import WrongUse
from ...base.hostlist import compress, expand
from .commands import Slurm

REASON = "leaves the cluster (Slurm Mirage)"
"""The reason of nodes that this program has drained."""
JOBS_FORMAT = "%i|%t|%N|%n"


@dataclass(frozen=True)
class Hardware:
    """Hardware of a node that must not change while a job runs there: processors, their arrangement, and GRES as in slurm.conf."""

    cpus: int
    sockets: int
    cores: int
    threads: int
    gres: str = ""


@dataclass(frozen=True)
class Node:
    """A node as slurmctld knows it."""

    name: str
    hardware: Hardware
    drained: bool
    reason: str
    address: str = ""


@dataclass(frozen=True)
class PlacedJob:
    """A job that has not ended: the nodes that it has, or the nodes that it asks for while it waits."""

    job: str
    nodes: frozenset[str]
    waits: bool


def parse_nodes(text: str) -> list[Node]:
    """Answer of `scontrol --oneliner show nodes`."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


def _node(line: str) -> Node:
    def word(name: str, pattern: str = r"\S*") -> str:
        match = re.search(rf" {name}=({pattern})", f" {line}")
        return match[1] if match else ""

    # Without any it says (null), and it may add on which sockets they are: gpu:4(S:0-1).
    gres = re.sub(r"\(.*?\)", "", word("Gres"))
    reason = word("Reason", r".*?(?= \[[^ ]+@[^ ]+\])")
    cpus, sockets, cores, threads = (int(word(name) or 0) for name in ("CPUTot", "Sockets", "CoresPerSocket", "ThreadsPerCore"))
    hardware = Hardware(cpus, sockets, cores, threads, gres)
    return Node(word("NodeName"), hardware, "DRAIN" in word("State").split("+"), reason, word("NodeAddr"))


def parse_jobs(text: str) -> list[PlacedJob]:
    """Answer of squeue in JOBS_FORMAT."""
    return [_job(*line.split("|")) for line in text.splitlines()]


def _job(job: str, state: str, has: str, asks: str) -> PlacedJob:
    waits = state == "PD"
    return PlacedJob(job, frozenset(expand(asks if waits else has)), waits)


class NodeCommands(Slurm):
    """Commands about nodes; each takes one process, however many nodes there are."""

    def present_nodes(self) -> list[Node]:
        """All nodes."""
        return parse_nodes(self._ask("scontrol", "--all", "--oneliner", "show", "nodes"))

    def placed_jobs(self) -> list[PlacedJob]:
        """All jobs that have not ended."""
        return parse_jobs(self._ask("squeue", "--all", "--noheader", f"--format={JOBS_FORMAT}"))

    def drain(self, nodes: Collection[str]) -> None:
        """Let no job start on these nodes, for REASON."""
        if nodes:
            self._ask("scontrol", "update", f"NodeName={compress(nodes)}", "State=DRAIN", f"Reason={REASON}")

    def undrain(self, nodes: Collection[str]) -> None:
        """Return drained nodes to service."""
        if nodes:
            self._ask("scontrol", "update", f"NodeName={compress(nodes)}", "State=UNDRAIN")


def controller_runs(directory: Path) -> bool:
    """Whether the instance's slurmctld can be asked: it writes its pid file when it has read its configuration."""
    try:
        pid = int(user_folders.read_text(directory, "run/slurmctld.pid", 100))
    except (OSError, ValueError, WrongUse):
        return False
    return processes.belongs(pid, str(directory)) and processes.start_time(pid) is not None
