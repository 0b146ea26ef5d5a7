"""Where each emulated node listens: an address and a port out of the instance's block.

The block is a range of ports. slurmctld has the first one, on the instance's own address; the nodes have the others, first on that
address, then on the loopback addresses that follow it (127.0.0.1, 127.0.0.2, ...). So there is no end of nodes, and an
instance keeps out of the others' way by its range of ports alone.

On several hosts each has the block on an address of its own, the only one that its nodes have. Nodes are dealt to the hosts in
their order, as many to each, one after the other.

A node that exists keeps its place: the slurmstepd of its jobs know its address.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from ..base.errors import WrongUse
from ..rm.slurm.conf import Nodes
from ..rm.slurm.node_classes import NodeClass

PLACED = re.compile(
    r"^NodeName=(?P<prefix>[A-Za-z._-][A-Za-z0-9._-]*?)\[?(?P<first>\d+)(?:-(?P<last>\d+)\])? "
    r"NodeAddr=(?P<address>[\d.]+) Port=\[?(?P<port>\d+)",
    re.MULTILINE,
)
"""The beginning of a NodeName line as slurm_conf writes it."""


@dataclass(frozen=True)
class Block:
    """`ports` ports from `port` on, of `address` and of the addresses that follow it. Places of nodes are counted from 0."""

    address: str
    port: int
    ports: int

    def addresses(self, nodes: int) -> int:
        """How many addresses so many nodes take."""
        return math.ceil(nodes / (self.ports - 1))

    def place(self, index: int) -> tuple[str, int]:
        """Address and port of place `index`."""
        address, port = divmod(index, self.ports - 1)
        return following(self.address, address), self.port + 1 + port

    def index(self, address: str, port: int) -> int | None:
        """The place of that address and port; None when it is not in the block."""
        number = int(IPv4Address(address)) - int(IPv4Address(self.address))
        if number < 0 or not self.port < port < self.port + self.ports:
            return None
        return number * (self.ports - 1) + port - self.port - 1


def following(address: str, count: int) -> str:
    """The address that is `count` after `address`."""
    return str(IPv4Address(int(IPv4Address(address)) + count))


def placed_in(slurm_conf: str) -> list[Nodes]:
    """Names, addresses and ports of the nodes of an earlier slurm.conf that `slurm_conf.render` wrote."""
    found = []
    for match in PLACED.finditer(slurm_conf):
        first = int(match["first"])
        count = int(match["last"] or first) - first + 1
        found.append(Nodes(match["prefix"], first, count, 1, match["address"], int(match["port"])))
    return found


Place = tuple[str, int]
"""Address and port of a node."""
Name = tuple[str, int]
"""Prefix and number of a node."""


def place(classes: Iterable[NodeClass], block: Block, earlier: Iterable[Nodes] = ()) -> list[Nodes]:
    """Give every node a place in the block: the one that it had, or else the first that no node has.

    Each class becomes as many `Nodes` as it has ranges of consecutive ports of one address. n new nodes beside m that have places
    never need a place beyond n + m: what `Block.addresses` says is enough for the new ones.
    """
    wanted = list(classes)
    known = {}
    for name, (address, port) in _known(wanted, earlier).items():
        if (index := block.index(address, port)) is not None:
            known[name] = index
    taken = set(known.values())
    free = (index for index in itertools.count() if index not in taken)
    places = {name: block.place(known[name] if name in known else next(free)) for name in _names(wanted)}
    return [nodes for this in wanted for nodes in _runs(this, places)]


def place_on_hosts(
    classes: Iterable[NodeClass], addresses: Sequence[str], block: Block, earlier: Iterable[Nodes] = ()
) -> list[Nodes]:
    """The same on several hosts, by their addresses: of each the ports of `block`, whose own address does not count.

    A node keeps its host, and its port if that is in the block; see `dealt` for the others.
    """
    wanted = list(classes)
    known = _known(wanted, earlier)
    homes = dealt(wanted, addresses, known)
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
    return [nodes for this in wanted for nodes in _runs(this, places)]


def nodes_of_hosts(classes: Iterable[NodeClass], addresses: Sequence[str], earlier: Iterable[Nodes] = ()) -> dict[str, int]:
    """How many nodes each host will have; see `place_on_hosts`."""
    wanted = list(classes)
    count = Counter(dealt(wanted, addresses, _known(wanted, earlier)).values())
    return {address: count[address] for address in addresses}


def dealt(classes: Sequence[NodeClass], addresses: Sequence[str], known: Mapping[Name, Place]) -> dict[Name, str]:
    """The address of each node's host: the one that it had, if that is still among them.

    The others are dealt in their order: to those with the fewest nodes as many as make them level.
    """
    homes = {name: place[0] for name, place in known.items() if place[0] in addresses}
    count = Counter(homes.values())
    fresh = [name for name in _names(classes) if name not in homes]
    begin = 0
    for address, more in zip(addresses, _levelling([count[address] for address in addresses], len(fresh)), strict=True):
        homes |= dict.fromkeys(fresh[begin : begin + more], address)
        begin += more
    return {name: homes[name] for name in _names(classes)}


def _levelling(loads: Sequence[int], more: int) -> list[int]:
    """How many of `more` each gets, so that those with the fewest are level: the first of them may get one more."""
    low, high = min(loads), max(loads) + more
    while low < high:
        level = (low + high + 1) // 2
        low, high = (level, high) if sum(max(0, level - load) for load in loads) <= more else (low, level - 1)
    given = [max(0, low - load) for load in loads]
    left = more - sum(given)
    for position, load in enumerate(loads):
        if left and load <= low:
            given[position] += 1
            left -= 1
    return given


def _names(classes: Iterable[NodeClass]) -> Iterable[Name]:
    """Prefix and number of each node, in their order."""
    return ((this.prefix, number) for this in classes for number in range(this.first, this.first + this.count))


def _known(classes: Sequence[NodeClass], earlier: Iterable[Nodes]) -> dict[Name, Place]:
    """Places of the nodes that had one already."""
    numbers: dict[str, list[range]] = {}
    for this in classes:
        numbers.setdefault(this.prefix, []).append(range(this.first, this.first + this.count))
    known: dict[Name, Place] = {}
    for nodes in earlier:
        for offset in range(nodes.count):
            number = nodes.first + offset
            if any(number in some for some in numbers.get(nodes.prefix, [])):
                known[nodes.prefix, number] = nodes.address, nodes.port + offset
    return known


def _runs(this: NodeClass, places: Mapping[Name, Place]) -> Iterable[Nodes]:
    begin, begin_address, begin_port = this.first, "", 0
    for number in range(this.first, this.first + this.count):
        address, port = places[this.prefix, number]
        if (address, port) != (begin_address, begin_port + number - begin):
            if number > begin:
                yield Nodes(this.prefix, begin, number - begin, this.cpus, begin_address, begin_port, this.extra)
            begin, begin_address, begin_port = number, address, port
    yield Nodes(this.prefix, begin, this.first + this.count - begin, this.cpus, begin_address, begin_port, this.extra)
