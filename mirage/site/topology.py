"""The topology of a site as the emulated cluster has it: switches, and the nodes by their new names (topology/tree)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirage.site import conf_lines
from mirage.site.conf_lines import Line
from mirage.text import yaml_input
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.hostlist import NotHostList, compress, expand
from slurm_mirage.rm.slurm.conf import line_of

CONF, YAML = "topology.conf", "topology.yaml"
TREE, FLAT = "topology/tree", "topology/flat"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_FORM = "a list of topologies, as topology.yaml(5) has it"


@dataclass(frozen=True)
class Switch:
    """Equal switches: lists of their names, of the nodes and of the switches below them. where: the place, for messages"""

    where: str
    names: str
    nodes: str
    switches: str


@dataclass(frozen=True)
class Topology:
    """A topology of topology.yaml: its name, its plugin, and the switches of a tree."""

    name: str
    plugin: str
    switches: tuple[Switch, ...]


def of_lines(lines: Iterable[Line]) -> Iterator[Switch]:
    """The switches in the lines of topology.conf(5)."""
    for line in lines:
        words = {key.lower(): value for key, value in line.words}
        yield Switch(line.where, *(words.get(word, "") for word in ("switchname", "nodes", "switches")))


def of_yaml(text: str, where: str) -> list[Topology]:
    """The topologies in a topology.yaml(5), the cluster's default first. Raises WrongUse, beginning with `where`."""
    import yaml  # 10 ms that calls without such a file save

    try:
        content = yaml_input.parsed(text.encode())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise WrongUse(f"{where}{'' if mark is None else f' line {mark.line + 1}'}: is not YAML", "slurm_conf") from None
    if not isinstance(content, list) or not content:
        raise WrongUse(f"{where}: is not {_FORM}", "slurm_conf")
    found = [_topology(one, f"{where}: topology {number}") for number, one in enumerate(content, 1)]
    default = next((number for number, one in enumerate(content) if one.get("cluster_default")), 0)
    return [found[default], *found[:default], *found[default + 1 :]]


def _topology(content: Any, where: str) -> Topology:
    kinds = [kind for kind in content if kind not in ("topology", "cluster_default")] if isinstance(content, Mapping) else []
    if len(kinds) != 1 or not all(_NAME.fullmatch(str(word)) for word in (content.get("topology", ""), *kinds)):
        raise WrongUse(f"{where}: is not one of {_FORM}", "slurm_conf")
    name, plugin, switches = str(content["topology"]), f"topology/{kinds[0]}", content[kinds[0]]
    if plugin != TREE:
        return Topology(name, plugin, ())
    listed = switches.get("switches") if isinstance(switches, Mapping) else None
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise WrongUse(f"{where}: tree: has no list of switches", "slurm_conf")
    places = ((f"{where}: switch {number}", one) for number, one in enumerate(listed, 1))
    return Topology(
        name,
        TREE,
        tuple(Switch(place, *(_names(one.get(word, "")) for word in ("switch", "nodes", "children"))) for place, one in places),
    )


def _names(value: Any) -> str:
    """A host list, which may be a list of names."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def tree(switches: Iterable[Switch], nodes: Mapping[str, str]) -> tuple[str, int]:
    """The text of topology.conf, and the number of nodes that the switches name and the cluster does not have.

    nodes: the new names of the nodes

    Switches that have no node of the cluster below them are left out: slurmctld does not start with them. The text is empty if none
    is left. Raises WrongUse for a list of hosts that cannot be read, and for a switch that is defined twice.
    """
    found: dict[str, tuple[list[str], list[str]]] = {}
    unknown = 0
    for switch in switches:
        for name in _expanded(switch.names, switch):
            if not _NAME.fullmatch(name):
                raise WrongUse(f"{switch.where}: the name of a switch may have letters, digits, '.', '_' and '-'", "slurm_conf")
            if name in found:
                raise WrongUse(f"{switch.where}: the switch is defined twice", "slurm_conf")
            named = _expanded(switch.nodes, switch)
            own = [nodes[node] for node in named if node in nodes]
            unknown += len(named) - len(own)
            found[name] = own, _expanded(switch.switches, switch)
    while empty := [name for name, (own, below) in found.items() if not own and not set(below) & found.keys()]:
        for name in empty:
            del found[name]
    return _written({name: (own, [each for each in below if each in found]) for name, (own, below) in found.items()}), unknown


def _expanded(text: str, switch: Switch) -> list[str]:
    try:
        return expand(text)
    except NotHostList as error:
        raise WrongUse(f"{switch.where}: a list of names {error.reason}", "slurm_conf") from None


def with_nodes(text: str, added: Iterable[tuple[Sequence[str], Sequence[str]]]) -> str:
    """A topology.conf with new nodes: on new leaf switches, as large as the largest one, beside that of the last node they copy.

    text: as `tree` makes it. added: for each kind of nodes the names of those that are copied, and of the new ones
    """
    switches = {one.names: (expand(one.nodes), expand(one.switches)) for one in of_lines(conf_lines.parsed(text, CONF))}
    size = max((len(own) for own, _ in switches.values()), default=1)
    leaf_of = {node: name for name, (own, _) in switches.items() for node in own}
    number = 0
    for copied, new in added:
        beside = next((leaf_of[node] for node in reversed(copied) if node in leaf_of), None)
        if beside is None:
            continue
        above = next((below for _, below in switches.values() if beside in below), None)
        for first in range(0, len(new), size):
            number += 1
            while (name := f"grown{number}") in switches:
                number += 1
            if above is None:
                switches[beside][0].extend(new[first : first + size])
            else:
                switches[name] = [*new[first : first + size]], []
                above.append(name)
    return _written(switches)


def _written(switches: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> str:
    """The text of topology.conf. switches: nodes and switches below each, by its name"""
    lines = (
        line_of("SwitchName", name, {"Nodes": compress(own)} if own else {"Switches": [*below]}, CONF)
        for name, (own, below) in switches.items()
    )
    return "".join(f"{line}\n" for line in lines)
