"""The machine of a run as its slurm.conf describes it: processors and memory of the nodes, nodes of the partitions, limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slurm_mirage.base.hostlist import expand

FILE = "slurm.conf"
_WORD = re.compile(r'(\w+)=("[^"]*"|\S+)')
_LIMITS = re.compile(r"^AccountingStorageEnforce\s*=.*\b(limits|qos|safe|all)\b", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Node:
    """A node: processors, and MiB of memory (None: memory is not managed)."""

    processors: int
    memory: int | None = None

    def usable(self, memory: int) -> int:
        """Processors that jobs of `memory` MiB per processor can use while the node is idle."""
        if memory == 0 or self.memory is None:
            return self.processors
        return min(self.processors, self.memory // memory)


@dataclass(frozen=True)
class Layout:
    """The nodes, and the partitions that have only some of them or limits of their own."""

    nodes: Mapping[str, Node]
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names of the nodes of each partition."""
    limited: frozenset[str] = frozenset()
    """Partitions with a QOS or with a limit of processors, which hold for their jobs."""
    enforces_limits: bool = False
    """Whether limits of accounts and of QOS hold."""

    @classmethod
    def of_equal(cls, processors: int, nodes: int) -> Layout:
        """A machine of equal nodes; its partitions are not known."""
        return cls({f"n{number}": Node(max(1, processors // max(1, nodes))) for number in range(1, nodes + 1)})


def read_layout(folder: Path, processors: int, nodes: int) -> Layout:
    """The machine of the run in `folder`; equal nodes if it has no slurm.conf that describes `nodes` nodes."""
    path = folder / FILE
    found = parse_layout(path.read_text(errors="replace")) if path.is_file() else None
    return found if found and len(found.nodes) == nodes else Layout.of_equal(processors, nodes)


def parse_layout(text: str) -> Layout | None:
    """The machine in a slurm.conf; None if there is a line that is not understood."""
    nodes: dict[str, Node] = {}
    listed: dict[str, str] = {}
    limited = set()
    for line in text.splitlines():
        words = {key.lower(): value.strip('"') for key, value in _WORD.findall(line)}
        try:
            if line.lower().startswith("nodename="):
                memory = int(words["realmemory"]) if "realmemory" in words else None
                nodes |= dict.fromkeys(expand(words["nodename"]), Node(int(words["cpus"]), memory))
            elif line.lower().startswith("partitionname="):
                listed[words["partitionname"]] = words.get("nodes", "")
                if words.get("qos") or "maxcpuspernode" in words:
                    limited.add(words["partitionname"])
        except (KeyError, ValueError):
            return None
    partitions = {}
    for name, names in listed.items():
        try:
            partitions[name] = frozenset(nodes) if names.upper() == "ALL" else frozenset(expand(names)) & nodes.keys()
        except ValueError:
            return None
    return Layout(nodes, partitions, frozenset(limited), _LIMITS.search(text) is not None)
