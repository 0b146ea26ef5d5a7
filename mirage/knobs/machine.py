"""The emulated machine: classes of equal nodes, given by NODES and CPUS or by the file CLASSES."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirage.text import yaml_input
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.node_classes import NodeClass, node_classes

FORM = "a YAML list of classes of nodes, each with count and cpus, like machines/example.yml"
KEYS = {"count": int, "cpus": int, "prefix": str, "first": int, "extra": dict}
TYPE_NAMES = {int: "a whole number", str: "a text", dict: "a mapping of words of a NodeName line"}


@dataclass(frozen=True)
class Machine:
    """Classes of equal nodes. `path` is the file that they were read from; empty for NODES and CPUS."""

    classes: tuple[NodeClass, ...]
    path: str = ""

    @classmethod
    def of_equal_nodes(cls, nodes: int, cpus: int) -> Machine:
        """A machine with one class of nodes."""
        return cls(tuple(node_classes([{"count": nodes, "cpus": cpus}])))

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(node_class.count for node_class in self.classes)

    @property
    def processors(self) -> int:
        """Number of processors of all nodes."""
        return sum(node_class.count * node_class.cpus for node_class in self.classes)

    def options(self) -> list[dict[str, Any]]:
        """The classes in the form of the role variable slurm_controller_nodes."""
        return [
            {"prefix": item.prefix, "first": item.first, "count": item.count, "cpus": item.cpus, "extra": dict(item.extra)}
            for item in self.classes
        ]

    def role_variables(self) -> dict[str, Any]:
        """Variables of the roles that describe this machine."""
        return {"slurm_controller_nodes": self.options()}

    def __str__(self) -> str:
        """The classes as JSON: equal for files that describe the same machine."""
        return json.dumps(self.options(), sort_keys=True)

    def in_words(self) -> str:
        """`360 nodes of 16 CPUs`, or for nodes of several sizes `8 nodes of 32 CPUs, 100 of 16`."""
        counts: dict[int, int] = {}
        for node_class in self.classes:
            counts[node_class.cpus] = counts.get(node_class.cpus, 0) + node_class.count
        (cpus, count), *others = counts.items()
        nodes = "1 node" if count == 1 else f"{count} nodes"
        return ", ".join([f"{nodes} of {cpus} CPUs", *(f"{number} of {size}" for size, number in others)])


def read(path: str) -> Machine:
    """Read a YAML file with a list of classes, like machines/example.yml.

    Raises WrongUse in one line that names the file, and the class that is wrong.
    """
    import yaml  # 10 ms that calls without CLASSES save

    name = f"CLASSES: {path}"
    try:
        content = yaml_input.load(path, "classes")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" line {mark.line + 1}:"
        raise WrongUse(f"{name}:{where} is not YAML; it may be {FORM}") from None
    if not isinstance(content, list) or not content:
        raise WrongUse(f"{name} is something else; it may be {FORM}")
    for position, option in enumerate(content, start=1):
        _check(option, f"{name}: class {position}")
    try:
        return Machine(tuple(node_classes(content)), path)
    except WrongUse as error:
        raise WrongUse(f"{name}: {str(error).removeprefix('nodes: ')}") from None


def _check(option: Any, where: str) -> None:
    """Check keys and types of a class. `node_classes` checks the values."""
    if not isinstance(option, Mapping):
        raise WrongUse(f"{where}: {_shortened(option)}: it may be a mapping of {', '.join(KEYS)}")
    for key in ("count", "cpus"):
        if key not in option:
            raise WrongUse(f"{where}: {key} is missing: a whole number from 1 on")
    for key, value in option.items():
        if key not in KEYS:
            raise WrongUse(f"{where}: there is no {_shortened(key)}; it may have {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            raise WrongUse(f"{where}: {key} {_shortened(value)}: {TYPE_NAMES[KEYS[key]]}")


def _shortened(value: Any) -> str:
    """A value for a message, at most 60 characters long."""
    return textwrap.shorten(repr(value), 60, placeholder=" ...")
