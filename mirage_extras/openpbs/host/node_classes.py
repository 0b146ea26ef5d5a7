"""Classes of equal nodes of OpenPBS, as a user names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import WrongUse
from .addresses import MOST_NODES

PREFIX = re.compile(r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z-])?\Z")


@dataclass(frozen=True)
class Nodes:
    """`count` equal nodes, PREFIX{first} and so on."""

    prefix: str
    first: int
    count: int
    cpus: int

    def numbered(self) -> Iterator[tuple[str, int]]:
        """Name and number of each node."""
        return ((f"{self.prefix}{number}", number) for number in range(self.first, self.first + self.count))

    def entry(self) -> dict[str, Any]:
        """The class as the farm takes it, without a digest."""
        return {"prefix": self.prefix, "first": self.first, "count": self.count}


def node_classes(options: Sequence[Mapping[str, Any]]) -> list[Nodes]:
    """Classes of nodes from mappings with `count`, `cpus`, and if need be `prefix` (n) and `first`.

    Without `first` the numbers go on where the last class ended, or begin with 1. A node's number gives its address and its ports
    (`addresses`), so that no two nodes have the same one. Raises WrongUse for an invalid class.
    """
    classes: list[Nodes] = []
    following = 1
    for position, option in enumerate(options, start=1):
        where = f"nodes: class {position}"
        first = option.get("first")
        this = Nodes(option.get("prefix") or "n", following if first is None else first, option["count"], option["cpus"])
        _check(this, where)
        if option.get("extra"):
            raise WrongUse(
                f"{where}: {', '.join(sorted(option['extra']))}: a node of OpenPBS has only processors here; leave it out"
            )
        for number, other in enumerate(classes, start=1):
            if this.first < other.first + other.count and other.first < this.first + this.count:
                raise WrongUse(f"{where}: has numbers of class {number}; with OpenPBS each node needs a number of its own")
        following = this.first + this.count
        classes.append(this)
    return classes


def _check(this: Nodes, where: str) -> None:
    if not PREFIX.match(this.prefix):
        # A digit at its end: n1 + 2 and n + 12 would be one name.
        raise WrongUse(f"{where}: prefix {this.prefix!r}: a letter, then letters, digits and '-', no digit at its end")
    for name, value, least in (("count", this.count, 1), ("cpus", this.cpus, 1), ("first", this.first, 0)):
        if value < least:
            raise WrongUse(f"{where}: {name} {value}: a whole number from {least} on")
    if this.first + this.count - 1 > MOST_NODES:
        raise WrongUse(f"{where}: node {this.prefix}{this.first + this.count - 1}: with OpenPBS at most {MOST_NODES} nodes")
