"""The emulated machine: classes of equal nodes, said by NODES and CPUS or by the file CLASSES.

Standard library only, but for reading that file.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.node_classes import NodeClass, node_classes

FORM = "a YAML list of classes of nodes, each with count and cpus, like machines/example.yml"
KEYS = {"count": int, "cpus": int, "prefix": str, "first": int, "extra": dict}
KINDS = {int: "a whole number", str: "a text", dict: "a mapping of words of a NodeName line"}


@dataclass(frozen=True)
class Machine:
    """Classes of nodes. `path` is that of the file that they were read from, empty when NODES and CPUS said them."""

    classes: tuple[NodeClass, ...]
    path: str = ""

    @classmethod
    def of_equal_nodes(cls, nodes: int, cpus: int) -> Machine:
        return cls(tuple(node_classes([{"count": nodes, "cpus": cpus}])))

    @property
    def nodes(self) -> int:
        return sum(some.count for some in self.classes)

    @property
    def processors(self) -> int:
        return sum(some.count * some.cpus for some in self.classes)

    def options(self) -> list[dict[str, Any]]:
        """The classes as the variable slurm_controller_nodes takes them."""
        return [
            {"prefix": some.prefix, "first": some.first, "count": some.count, "cpus": some.cpus, "extra": dict(some.extra)}
            for some in self.classes
        ]

    def __str__(self) -> str:
        """All that makes the machine what it is: the same for files that say the same in other words."""
        return json.dumps(self.options(), sort_keys=True)

    def in_words(self) -> str:
        """`360 nodes of 16 CPUs`, or for several classes `8 nodes of 32 CPUs, 100 of 16`."""
        first, *others = self.classes
        nodes = "1 node" if first.count == 1 else f"{first.count} nodes"
        return ", ".join([f"{nodes} of {first.cpus} CPUs", *(f"{some.count} of {some.cpus}" for some in others)])


def read(path: str) -> Machine:
    """The machine that a YAML file describes: a list of classes, see machines/example.yml.

    Raises WrongUse in one line that names the file, and the class that cannot be.
    """
    import yaml  # make's help is printed before anything is installed

    name = f"CLASSES: {path if path.isprintable() else repr(path)}"
    try:
        content = yaml.safe_load(Path(path).read_bytes())
    except OSError as error:
        raise WrongUse(f"{name} cannot be read ({error.strerror}); it may be {FORM}") from None
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
    """The form of a class: keys and their types. What the values may be is said by `node_classes`."""
    if not isinstance(option, Mapping):
        raise WrongUse(f"{where}: {shortened(option)}: it may be a mapping of {', '.join(KEYS)}")
    for key in ("count", "cpus"):
        if key not in option:
            raise WrongUse(f"{where}: {key} is missing: a whole number from 1 on")
    for key, value in option.items():
        if key not in KEYS:
            raise WrongUse(f"{where}: there is no {shortened(key)}; it may have {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            raise WrongUse(f"{where}: {key} {shortened(value)}: {KINDS[KEYS[key]]}")


def shortened(value: Any) -> str:
    """A value as it stands in a message."""
    return textwrap.shorten(repr(value), 60, placeholder=" ...")
