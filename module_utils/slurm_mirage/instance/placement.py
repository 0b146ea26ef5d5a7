"""Assigns to each emulated node its place: an address and a port of the instance's block.

The block is a range of ports. slurmctld has the first port on the instance's own address. The nodes have the other ports, first on
that address, then on the loopback addresses that follow it (127.0.0.1, 127.0.0.2, ...). The number of nodes is therefore not
limited by the number of ports, and instances do not conflict if their ranges of ports are disjoint.

In a cluster of several hosts each host has the block on its own address, the only one of its nodes. The nodes are distributed in
their order, the first ones to the first host, with equal numbers for all hosts.

An existing node keeps its place, because the slurmstepd of its jobs know its address.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..rm.slurm.conf import Nodes
from ..rm.slurm.node_classes import NodeClass, node_classes

PLACED = re.compile(
    r"^NodeName=(?P<prefix>[A-Za-z._-][A-Za-z0-9._-]*?)\[?(?P<first>\d+)(?:-(?P<last>\d+)\])? "
    r"NodeAddr=(?P<address>[\d.]+) Port=\[?(?P<port>\d+)",
    re.MULTILINE,
)
"""The beginning of a NodeName line as `rm.slurm.conf` writes it."""


@dataclass(frozen=True)
class Block:
    """The `ports` ports from `port` on, on `address` and the addresses that follow it. The places of nodes are numbered from 0."""

    address: str
    port: int
    ports: int

    def addresses(self, nodes: int) -> int:
        """Return the number of addresses that `nodes` nodes need."""
        return math.ceil(nodes / (self.ports - 1))

    def place(self, index: int) -> tuple[str, int]:
        """Return address and port of place number `index`."""
        address, port = divmod(index, self.ports - 1)
        return following(self.address, address), self.port + 1 + port

    def index(self, address: str, port: int) -> int | None:
        """Return the number of the place at an address and port; None when it is not in the block."""
        number = int(IPv4Address(address)) - int(IPv4Address(self.address))
        if number < 0 or not self.port < port < self.port + self.ports:
            return None
        return number * (self.ports - 1) + port - self.port - 1


def following(address: str, count: int) -> str:
    """Return the IPv4 address `count` after `address`."""
    return str(IPv4Address(int(IPv4Address(address)) + count))


def placed_in(slurm_conf: str) -> list[Nodes]:
    """Return the nodes, with addresses and ports, in the text of an earlier slurm.conf that `rm.slurm.conf.render` wrote."""
    placed = []
    for match in PLACED.finditer(slurm_conf):
        first = int(match["first"])
        count = int(match["last"] or first) - first + 1
        placed.append(Nodes(match["prefix"], first, count, 1, match["address"], int(match["port"])))
    return placed


Place = tuple[str, int]
"""Address and port of a node."""
Name = tuple[str, int]
"""Prefix and number of a node."""


def place(classes: Iterable[NodeClass], block: Block, earlier: Iterable[Nodes] = ()) -> list[Nodes]:
    """Assign every node a place in the block: its place in `earlier`, or the first free one.

    Returns one `Nodes` for each range of consecutive ports of one address within a class. Of n nodes in all, no new node gets a
    place after the first n, so that `Block.addresses` is enough for the new ones.
    """
    wanted = list(classes)
    known = {}
    for name, (address, port) in _known(wanted, earlier).items():
        if (index := block.index(address, port)) is not None:
            known[name] = index
    taken = set(known.values())
    free = (index for index in itertools.count() if index not in taken)
    places = {name: block.place(known[name] if name in known else next(free)) for name in _names(wanted)}
    return [nodes for node_class in wanted for nodes in _ranges(node_class, places)]


def place_on_hosts(
    classes: Iterable[NodeClass], addresses: Sequence[str], block: Block, earlier: Iterable[Nodes] = ()
) -> list[Nodes]:
    """Assign every node a place on one of several hosts. Returns one `Nodes` for each range of consecutive ports of one address.

    addresses: the hosts' addresses; block: its ports are used on each of them, its address is not used; earlier: nodes with their
    earlier places

    A node keeps its host, and also its port if it is in the block; `distribute` assigns hosts to the other nodes. Raises WrongUse
    when a host has more nodes than ports.
    """
    wanted = list(classes)
    known = _known(wanted, earlier)
    homes = distribute(wanted, addresses, known)
    places = {
        name: (address, port)
        for name, (address, port) in known.items()
        if address == homes[name] and block.port < port < block.port + block.ports
    }
    taken: dict[str, set[int]] = {address: set() for address in addresses}
    for address, port in places.values():
        taken[address].add(port)
    free = {address: iter(sorted(set(range(block.port + 1, block.port + block.ports)) - taken[address])) for address in addresses}
    for name, address in homes.items():
        if name not in places:
            port = next(free[address], 0)
            if not port:
                raise WrongUse(
                    f"more than {block.ports - 1} on {address}, whose block has no more ports for them", parameter="nodes"
                )
            places[name] = (address, port)
    return [nodes for node_class in wanted for nodes in _ranges(node_class, places)]


def nodes_of_hosts(classes: Iterable[NodeClass], addresses: Sequence[str], earlier: Iterable[Nodes] = ()) -> dict[str, int]:
    """Return the number of nodes that `place_on_hosts` assigns to each host, by the host's address."""
    wanted = list(classes)
    count = Counter(distribute(wanted, addresses, _known(wanted, earlier)).values())
    return {address: count[address] for address in addresses}


def distribute(classes: Sequence[NodeClass], addresses: Sequence[str], known: Mapping[Name, Place]) -> dict[Name, str]:
    """Return the address of each node's host: the address in `known` if it is in `addresses`, otherwise a new one.

    The new nodes, in their order, fill the hosts with the fewest nodes up to an equal number.
    """
    homes = {name: place[0] for name, place in known.items() if place[0] in addresses}
    count = Counter(homes.values())
    new_nodes = [name for name in _names(classes) if name not in homes]
    begin = 0
    for address, more in zip(addresses, _levelling([count[address] for address in addresses], len(new_nodes))):
        homes |= dict.fromkeys(new_nodes[begin : begin + more], address)
        begin += more
    return {name: homes[name] for name in _names(classes)}


def _levelling(loads: Sequence[int], more: int) -> list[int]:
    """Return how many of `more` items each gets, so that those with the lowest loads become equal; the first may get one more."""
    low, high = min(loads), max(loads) + more
    while low < high:
        level = (low + high + 1) // 2
        low, high = (level, high) if sum(max(0, level - load) for load in loads) <= more else (low, level - 1)
    additions = [max(0, low - load) for load in loads]
    left = more - sum(additions)
    for position, load in enumerate(loads):
        if left and load <= low:
            additions[position] += 1
            left -= 1
    return additions


def _names(classes: Iterable[NodeClass]) -> Iterable[Name]:
    """Return prefix and number of each node, in order."""
    return ((item.prefix, number) for item in classes for number in range(item.first, item.first + item.count))


def _known(classes: Sequence[NodeClass], earlier: Iterable[Nodes]) -> dict[Name, Place]:
    """Return the earlier places of those nodes of `classes` that had one."""
    numbers: dict[str, list[range]] = {}
    for item in classes:
        numbers.setdefault(item.prefix, []).append(range(item.first, item.first + item.count))
    known: dict[Name, Place] = {}
    for nodes in earlier:
        for offset in range(nodes.count):
            number = nodes.first + offset
            if any(number in class_numbers for class_numbers in numbers.get(nodes.prefix, [])):
                known[nodes.prefix, number] = nodes.address, nodes.port + offset
    return known


def _ranges(item: NodeClass, places: Mapping[Name, Place]) -> Iterable[Nodes]:
    """Yield the nodes of a class, one `Nodes` for each range of consecutive ports of one address."""
    begin, begin_address, begin_port = item.first, "", 0
    for number in range(item.first, item.first + item.count):
        address, port = places[item.prefix, number]
        if (address, port) != (begin_address, begin_port + number - begin):
            if number > begin:
                yield Nodes(item.prefix, begin, number - begin, item.cpus, begin_address, begin_port, item.extra)
            begin, begin_address, begin_port = number, address, port
    yield Nodes(item.prefix, begin, item.first + item.count - begin, item.cpus, begin_address, begin_port, item.extra)


def shares(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many nodes each host gets, as the module slurm_placement_info does, by its parameters. Raises WrongUse."""
    if not parameters["hosts"]:
        raise WrongUse("group compute is empty; it may hold the hosts that run the emulated nodes", parameter="inventory")
    known = known_in(Path(parameters["directory"]))
    return {"counts": nodes_of_hosts(node_classes(parameters["nodes"]), parameters["hosts"], placed_in(known)), "known": known}


def known_in(directory: Path) -> str:
    """Return the NodeName lines of the instance's slurm.conf; empty when the file does not exist."""
    slurm_conf = directory / "etc/slurm.conf"
    lines = slurm_conf.read_text().splitlines() if slurm_conf.exists() else []
    return "".join(f"{line}\n" for line in lines if line.startswith("NodeName="))
