"""Classes of equal nodes, as a user names them, and checks of what refers to their names."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import WrongUse
from ...base.hostlist import expand
from .conf import names_of, value_of
from .node_options import Words, arrangement, gres_of, words_of

PREFIX = re.compile(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z._-])?\Z")


@dataclass(frozen=True)
class NodeClass:
    """`count` equal nodes, PREFIX{first} and so on; `extra` are further words of their NodeName line."""

    prefix: str
    first: int
    count: int
    cpus: int
    extra: Words = ()

    @property
    def names(self) -> str:
        """Names of the nodes as Slurm writes them."""
        return names_of(self.prefix, self.first, self.count)

    @property
    def each(self) -> list[str]:
        """The name of each node."""
        return [f"{self.prefix}{number}" for number in range(self.first, self.first + self.count)]


def node_classes(options: Sequence[Mapping[str, Any]]) -> list[NodeClass]:
    """Classes of nodes from mappings with `count`, `cpus`, and if need be `prefix` (n), `first` and `extra`.

    Without `first` the numbers go on where the last class with that prefix ended, or begin with 1. Raises WrongUse for an invalid
    class, or when two classes have a node of the same name.
    """
    classes: list[NodeClass] = []
    # By prefix: first number and position of each class, ascending, and the number after the last class.
    ordered: dict[str, list[tuple[int, int]]] = {}
    following: dict[str, int] = {}
    for position, option in enumerate(options, start=1):
        prefix = option.get("prefix") or "n"
        before = ordered.setdefault(prefix, [])
        first = option.get("first")
        if first is None:
            first = following.get(prefix, 1)
        where = f"nodes: class {position}"
        this = NodeClass(prefix, first, option["count"], option["cpus"], words_of(option.get("extra") or {}, where))
        _check(this, where)
        place = bisect(before, (first, position))
        for begin, number in before[max(0, place - 1) : place + 1]:  # the classes with the next lower and higher numbers
            low, high = max(first, begin), min(first + this.count, begin + classes[number - 1].count)
            if low < high:
                names = names_of(prefix, low, high - low)
                raise WrongUse(f"nodes: class {position}: {names} would be there twice, see class {number}")
        before.insert(place, (first, position))
        following[prefix] = first + this.count
        classes.append(this)
    return classes


def _check(this: NodeClass, where: str) -> None:
    if not PREFIX.match(this.prefix):
        # A digit at its end: n1 + 2 and n + 12 would be one name.
        raise WrongUse(f"{where}: prefix {this.prefix!r}: a letter, then letters, digits, '.', '_', '-', no digit at its end")
    for name, value, least in (("count", this.count, 1), ("cpus", this.cpus, 1), ("first", this.first, 0)):
        if value < least:
            raise WrongUse(f"{where}: {name} {value}: a whole number from {least} on")
    arrangement(this.cpus, this.extra, where)
    gres_of(this.extra, where)


def check_partitions(partitions: Iterable[Mapping[str, Any]], classes: Sequence[NodeClass]) -> None:
    """Raise WrongUse for a partition with a node that does not exist, with which slurmctld would not start.

    A name without a number is not checked: it is ALL, or that of a NodeSet.
    """
    names: set[str] | None = None
    for partition in partitions:
        text = value_of({key.lower(): value for key, value in partition.items()}.get("nodes", "ALL"))
        where = f"slurm.conf: PartitionName={partition.get('name')}: Nodes={text}"
        try:
            wanted = [name for name in expand(text) if name[-1].isdecimal()]
        except ValueError:
            raise WrongUse(f"{where}: names of nodes like n[1-3],fat2, or ALL") from None
        if wanted and names is None:
            names = {name for node_class in classes for name in node_class.each}
        unknown = [name for name in wanted if name not in (names or ())]
        if unknown:
            more = f" and {len(classes) - 5} classes more" if len(classes) > 5 else ""
            some_names = ",".join(node_class.names for node_class in classes[:5]) + more
            raise WrongUse(f"{where}: there is no node {unknown[0]}; the nodes are {some_names}")
