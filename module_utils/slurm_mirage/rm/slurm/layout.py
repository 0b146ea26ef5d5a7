"""The machine that a slurm.conf describes: processors and memory of the nodes, nodes of the partitions, limits."""

from __future__ import annotations

import re

from ...base.errors import WrongUse
from ...base.hostlist import expand
from ..evidence import Layout, Node
from .node_options import GPU, gres_of

FILE = "slurm.conf"
_WORD = re.compile(r'(\w+)=("[^"]*"|\S+)')
_LIMITS = re.compile(r"^AccountingStorageEnforce\s*=.*\b(limits|qos|safe|all)\b", re.MULTILINE | re.IGNORECASE)


def _gpus(text: str) -> tuple[tuple[str, int], ...]:
    """Types of the GPUs of a node, with their numbers; none if the words after Gres= cannot be read."""
    try:
        return tuple((gres.type, int(gres.count)) for gres in gres_of((("Gres", text),)) if gres.name == GPU)
    except (ValueError, WrongUse):
        return ()


def parse_layout(text: str) -> Layout | None:
    """The machine in a slurm.conf; None if there is a line that is not understood."""
    nodes: dict[str, Node] = {}
    listed: dict[str, str] = {}
    limited = set()
    for line in text.splitlines():
        words = {key.lower(): value.strip('"') for key, value in _WORD.findall(line)}
        try:
            if line.lower().startswith("nodename="):
                memory = int(words["realmemory"]) - int(words.get("memspeclimit", 0)) if "realmemory" in words else None
                features = frozenset(filter(None, words.get("feature", words.get("features", "")).split(",")))
                aside = int(words.get("corespeccount", 0))
                node = Node(int(words["cpus"]), memory, _gpus(words.get("gres", "")), features, aside)
                nodes |= dict.fromkeys(expand(words["nodename"]), node)
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
