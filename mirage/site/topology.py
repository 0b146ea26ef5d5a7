"""topology.conf(5) of a site as the emulated cluster has it: switches, and the nodes by their new names (topology/tree)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurm_mirage.base.hostlist import compress, expand


@dataclass
class _Switch:
    nodes: list[str]
    switches: list[str]


def tree(lines: Iterable[Mapping[str, str]], nodes: Mapping[str, str]) -> tuple[str, int]:
    """The text of the file, and the number of nodes that it names and the cluster does not have.

    lines: words of each line by their names in small letters
    nodes: the new names of the nodes

    Switches that have no node of the cluster below them are left out: slurmctld does not start with them. The text is empty if none
    is left. Raises ValueError for a list of hosts that cannot be read, and for a switch that is defined twice.
    """
    found: dict[str, _Switch] = {}
    unknown = 0
    for words in lines:
        for name in expand(words.get("switchname", "")):
            if name in found:
                raise ValueError(f"switch {name} is defined twice")
            named = expand(words.get("nodes", ""))
            own = [nodes[node] for node in named if node in nodes]
            unknown += len(named) - len(own)
            found[name] = _Switch(own, expand(words.get("switches", "")))
    while empty := [name for name, switch in found.items() if not switch.nodes and not set(switch.switches) & found.keys()]:
        for name in empty:
            del found[name]
    text = ""
    for name, switch in found.items():
        below = [each for each in switch.switches if each in found]
        text += (
            f"SwitchName={name} " + (f"Nodes={compress(switch.nodes)}" if switch.nodes else f"Switches={','.join(below)}") + "\n"
        )
    return text, unknown
