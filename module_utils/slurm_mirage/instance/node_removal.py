"""Removes nodes from a running instance, or changes their hardware, without losing jobs.

slurmctld reads a changed list of nodes only when it starts. It ends a job on a node that is gone, or that has other processors or
GRES, as NODE_FAIL (slurmctld/read_config.c, _sync_jobs_to_conf), and also a waiting job that asks for such a node by its name. So
nodes that are to go are drained first, and no job starts there during the check. If there are jobs on them, they are returned to
service and the change is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..base.hostlist import compress, expand
from ..rm.api import ResourceManagerError
from ..rm.slurm.node_classes import NodeClass, node_classes
from ..rm.slurm.node_commands import REASON, Hardware, Node, NodeCommands, PlacedJob, controller_runs
from ..rm.slurm.node_options import arrangement, word
from .instance import commands_of, refuse_during_run

SHOWN_JOBS = 5
QUERY_TIMEOUT = 20.0  # seconds; without munged, each query takes as long


@dataclass(frozen=True)
class Change:
    """What a new configuration changes for the present nodes, as sets of names."""

    going: frozenset[str]
    reshaped: frozenset[str]
    drain: frozenset[str]
    """To be removed, and not drained yet. Nodes that others have drained are left out."""
    drained_by_us: frozenset[str]
    """Nodes that an earlier, interrupted call has drained."""
    moving: frozenset[str] = frozenset()
    """Nodes that move to another host, because theirs no longer belongs to the cluster."""

    @property
    def resume(self) -> frozenset[str]:
        """Nodes to be resumed: they stay although an earlier call began to remove them."""
        return self.drained_by_us - self.going


def wanted_hardware(classes: Iterable[NodeClass]) -> dict[str, Hardware]:
    """Each node of these classes by its name."""
    hardware: dict[str, Hardware] = {}
    for nodes in classes:
        of_each = Hardware(nodes.cpus, *arrangement(nodes.cpus, nodes.extra), word(nodes.extra, "Gres"))
        hardware |= {f"{nodes.prefix}{number}": of_each for number in range(nodes.first, nodes.first + nodes.count)}
    return hardware


def plan(present: Iterable[Node], wanted: Mapping[str, Hardware], addresses: Sequence[str] = ()) -> Change:
    """The change from the `present` nodes to the `wanted` ones.

    `addresses`: those of the cluster's hosts; if empty, addresses are not compared.
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


def configured_nodes(slurm_conf: str) -> list[Node]:
    """The nodes in the text of a slurm.conf that `rm.slurm.conf.render` wrote. None of them counts as drained."""
    nodes = []
    for line in slurm_conf.splitlines():
        if line.startswith("NodeName="):
            words = dict(text.partition("=")[::2] for text in line.split())
            names, cpus = words.pop("NodeName"), int(words.pop("CPUs"))
            extra = tuple(words.items())
            hardware = Hardware(cpus, *arrangement(cpus, extra), word(extra, "Gres"))
            nodes += [Node(name, hardware, False, "", words.get("NodeAddr", "")) for name in expand(names)]
    return nodes


def all_stay(slurm_conf: str, wanted: Mapping[str, Hardware], addresses: Sequence[str] = ()) -> bool:
    """Whether every node in the text of a slurm.conf stays as it is when the configuration has the `wanted` ones (see `plan`)."""
    change = plan(configured_nodes(slurm_conf), wanted, addresses)
    return not (change.going or change.reshaped or change.moving)


def _stays(address: str, addresses: Sequence[str]) -> bool:
    """Whether a node with that address stays on its host.

    A host that is all of a cluster may have many loopback addresses, and nodes that front ends stand for have none.
    """
    if not addresses or address in addresses or not re.fullmatch(r"[\d.]+", address):
        return True
    return address.startswith("127.") and addresses[0].startswith("127.")


def check(change: Change, jobs: Sequence[PlacedJob], count: int) -> None:
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


# ---- the two actions ----


def leave(
    slurm: NodeCommands, directory: Path, wanted: Mapping[str, Hardware], write: bool, addresses: Sequence[str] = ()
) -> Change:
    """Drain the nodes that go, and resume those that stay; returns what there was to do, which without `write` is not done.

    Raises WrongUse, with everything undone, when a job would be lost.
    """
    change = plan(slurm.present_nodes(), wanted, addresses)
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
    drained = plan(slurm.present_nodes(), {}).drained_by_us
    if write:
        slurm.undrain(drained)
    return drained


def ensure(directory: Path, parameters: Mapping[str, Any], write: bool) -> dict[str, Any]:
    """Let nodes leave or stay, if `write` is true; returns what the module slurm_node_removal returns, by its parameters.

    Raises WrongUse and ResourceManagerError.
    """
    wanted = wanted_hardware(node_classes(parameters["nodes"] or []))
    if not controller_runs(directory):
        return {"changed": False, "leaving": "", "resumed": ""}
    slurm = NodeCommands.of_instance(directory, parameters["bin"] or commands_of(directory), QUERY_TIMEOUT)
    try:
        if parameters["state"] == "staying":
            resumed = stay(slurm, write)
            return {"changed": bool(resumed), "leaving": "", "resumed": compress(resumed)}
        change = leave(slurm, directory, wanted, write, parameters["addresses"])
    except ResourceManagerError:
        # After a failed change, the cause of the failure is reported; a later call resumes the nodes.
        slurm_conf = (directory / "etc/slurm.conf").read_text()
        if parameters["state"] == "leaving" and not all_stay(slurm_conf, wanted, parameters["addresses"]):
            raise
        return {"changed": False, "leaving": "", "resumed": ""}
    return {
        "changed": bool(change.drain or change.resume),
        "leaving": compress(change.going),
        "resumed": compress(change.resume),
    }
