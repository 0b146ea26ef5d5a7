"""Taking nodes out of a running instance, or changing their hardware, without losing jobs.

slurmctld learns of other nodes by its restart only. A job that it finds on a node that is no longer there, or on one that has
other processors or GRES, it ends as NODE_FAIL (slurmctld/read_config.c, _sync_jobs_to_conf), and so a waiting one that asks
for such a node by its name. So nodes that shall go are drained first, that no job starts there while we look; and if there
are jobs, the drain is undone and the change refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base import processes
from ..base.errors import WrongUse
from ..base.hostlist import compress, expand
from ..rm.slurm.commands import Slurm
from ..rm.slurm.node_classes import NodeClass
from ..rm.slurm.node_options import arrangement, word
from .instance import refuse_during_run

REASON = "leaves the cluster (Slurm Mirage)"
"""By this reason nodes are known that an interrupted call has drained."""
SHOWN_JOBS = 5
JOBS_FORMAT = "%i|%t|%N|%n"


@dataclass(frozen=True)
class Hardware:
    """What of a node may not change under a job: processors and how they are arranged, and GRES as in slurm.conf."""

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
class Job:
    """A job that has not ended: the nodes that it has, or the nodes that it asks for while it waits."""

    job: str
    nodes: frozenset[str]
    waits: bool


@dataclass(frozen=True)
class Change:
    """What a new configuration means to the nodes that are there, as sets of names."""

    going: frozenset[str]
    reshaped: frozenset[str]
    drain: frozenset[str]
    """Going, and not drained yet; those that others have drained stay theirs."""
    drained_by_us: frozenset[str]
    """By an earlier call that did not come to its end."""
    moving: frozenset[str] = frozenset()
    """To another host: the one that they are on is none of the cluster's any more."""

    @property
    def resume(self) -> frozenset[str]:
        """Nodes that stay although an earlier call began to remove them."""
        return self.drained_by_us - self.going


def wanted_hardware(classes: Iterable[NodeClass]) -> dict[str, Hardware]:
    """Each node of these classes by its name."""
    hardware: dict[str, Hardware] = {}
    for some in classes:
        of_each = Hardware(some.cpus, *arrangement(some.cpus, some.extra), word(some.extra, "Gres"))
        hardware |= {f"{some.prefix}{number}": of_each for number in range(some.first, some.first + some.count)}
    return hardware


def plan(present: Iterable[Node], wanted: Mapping[str, Hardware], addresses: Sequence[str] = ()) -> Change:
    """What becomes of the nodes that are `present` when the configuration has the `wanted` ones.

    `addresses` are those of the hosts that it has; none: they are not looked at.
    """
    nodes = list(present)
    going = frozenset(node.name for node in nodes if node.name not in wanted)
    return Change(
        going=going,
        reshaped=frozenset(node.name for node in nodes if node.name in wanted and node.hardware != wanted[node.name]),
        moving=frozenset(node.name for node in nodes if node.name in wanted and not _stays(node.address, addresses)),
        drain=frozenset(node.name for node in nodes if node.name in going and not node.drained),
        drained_by_us=frozenset(node.name for node in nodes if node.drained and node.reason.startswith(REASON)),
    )


def _stays(address: str, addresses: Sequence[str]) -> bool:
    """Whether a node with that address stays on its host.

    A host that is all of a cluster may have many loopback addresses, and nodes that front ends stand for have none.
    """
    if not addresses or address in addresses or not re.fullmatch(r"[\d.]+", address):
        return True
    return address.startswith("127.") and addresses[0].startswith("127.")


def check(change: Change, jobs: Sequence[Job], count: int) -> None:
    """Raise WrongUse if a job would be lost. `count` is the number of nodes that are wanted."""
    changes = (
        (change.going, ""),
        (change.reshaped, ", whose processors or GRES would change"),
        (change.moving, ", which would move to another host"),
    )
    for nodes, does in changes:
        running = [job.job for job in jobs if not job.waits and not nodes.isdisjoint(job.nodes)]
        if running:
            words, them = _named(running, "run")
            raise WrongUse(f"{words} on {compress(nodes)}{does}; wait for {them} or scancel {them}", parameter="nodes", value=count)
    waiting = [job.job for job in jobs if job.waits and not change.going.isdisjoint(job.nodes)]
    if waiting:
        words, them = _named(waiting, "wait")
        raise WrongUse(
            f"{words} for nodes of {compress(change.going)} by name (sbatch -w); scancel {them}", parameter="nodes", value=count
        )


def _named(jobs: list[str], verb: str) -> tuple[str, str]:
    """`jobs 12, 15 run` and the pronoun for them."""
    if len(jobs) == 1:
        return f"job {jobs[0]} {verb}s", "it"
    total = f" ({len(jobs)} in all)" if len(jobs) > 2 else ""
    return f"jobs {', '.join(jobs[:SHOWN_JOBS])}{total} {verb}", "them"


# ---- slurmctld ----


def parse_nodes(text: str) -> list[Node]:
    """Answer of `scontrol --oneliner show nodes`."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


def _node(line: str) -> Node:
    def word(name: str, pattern: str = r"\S*") -> str:
        found = re.search(rf" {name}=({pattern})", f" {line}")
        return found[1] if found else ""

    # Without any it says (null), and it may add on which sockets they are: gpu:4(S:0-1).
    gres = re.sub(r"\(.*?\)", "", word("Gres"))
    reason = word("Reason", r".*?(?= \[[^ ]+@[^ ]+\])")
    cpus, sockets, cores, threads = (int(word(name) or 0) for name in ("CPUTot", "Sockets", "CoresPerSocket", "ThreadsPerCore"))
    hardware = Hardware(cpus, sockets, cores, threads, gres)
    return Node(word("NodeName"), hardware, "DRAIN" in word("State").split("+"), reason, word("NodeAddr"))


def parse_jobs(text: str) -> list[Job]:
    """Answer of squeue in JOBS_FORMAT."""
    return [_job(*line.split("|")) for line in text.splitlines()]


def _job(job: str, state: str, has: str, asks: str) -> Job:
    waits = state == "PD"
    return Job(job, frozenset(expand(asks if waits else has)), waits)


class NodeCommands(Slurm):
    """The commands that this needs; each takes one process, however many nodes there are."""

    def node_states(self) -> list[Node]:
        return parse_nodes(self._ask("scontrol", "--all", "--oneliner", "show", "nodes"))

    def placed_jobs(self) -> list[Job]:
        return parse_jobs(self._ask("squeue", "--all", "--noheader", f"--format={JOBS_FORMAT}"))

    def drain(self, nodes: Collection[str]) -> None:
        if nodes:
            self._ask("scontrol", "update", f"NodeName={compress(nodes)}", "State=DRAIN", f"Reason={REASON}")

    def undrain(self, nodes: Collection[str]) -> None:
        if nodes:
            self._ask("scontrol", "update", f"NodeName={compress(nodes)}", "State=UNDRAIN")


def controller_runs(directory: Path) -> bool:
    """Whether the instance's slurmctld is there to be asked: it writes its file when it has read its configuration."""
    try:
        pid = int((directory / "run/slurmctld.pid").read_text())
    except (OSError, ValueError):
        return False
    return processes.belongs(pid, str(directory)) and processes.start_time(pid) is not None


def leave(
    slurm: NodeCommands, directory: Path, wanted: Mapping[str, Hardware], write: bool, addresses: Sequence[str] = ()
) -> Change:
    """Drain the nodes that go, and resume those that stay; returns what there was to do, which without `write` is not done.

    Raises WrongUse, with everything undone, when a job would be lost.
    """
    change = plan(slurm.node_states(), wanted, addresses)
    if write:
        slurm.undrain(change.resume)
    if not (change.going or change.reshaped or change.moving):
        return change
    refuse_during_run(directory)
    if write:
        slurm.drain(change.drain)
    try:
        check(change, slurm.placed_jobs(), len(wanted))
    except BaseException:
        if write:
            slurm.undrain(change.drain | change.drained_by_us)
        raise
    return change


def stay(slurm: NodeCommands, write: bool) -> frozenset[str]:
    """Resume all nodes that calls of `leave` have drained; returns which, also without `write`."""
    drained = plan(slurm.node_states(), {}).drained_by_us
    if write:
        slurm.undrain(drained)
    return drained
