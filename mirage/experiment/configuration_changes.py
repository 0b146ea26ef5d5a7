"""What differs between two configurations of Slurm: names of CONFIG, or files as SLURM_CONF with CONFIG over them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mirage.experiment import configuration, site
from mirage.knobs.knobs import Knobs
from mirage.site.site_conf import LeftOut
from mirage.site.site_words import REST

_LIST = ","  # between the parts of values like those of SchedulerParameters


@dataclass(frozen=True)
class Changes:
    """What differs, a line each.

    played: what the emulated clusters differ in
    left_out: what is left out of the emulation though it decides about scheduling or changes resources, with the reason
    rest: what is left out and has no part in scheduling
    """

    played: list[str]
    left_out: list[str]
    rest: list[str]


def changes(before: Knobs, after: Knobs) -> Changes:
    """The differences of two configurations. Raises WrongUse for one that cannot be read."""
    old, new = ({_key(item): item for item in site.left_out(one.scheduler)} for one in (before, after))
    gone = [item for key, item in old.items() if key not in new]
    added = [item for key, item in new.items() if key not in old]
    return Changes(
        _differences(_words(before), _words(after)),
        list(dict.fromkeys(f"{item.what}: {item.why}" for item in [*added, *gone] if item.group != REST)),
        list(dict.fromkeys(item.what for item in [*added, *gone] if item.group == REST)),
    )


def _key(item: LeftOut) -> tuple[str, str]:
    """Lines of nodes are not compared: the same word may stand in another one."""
    return "" if item.line.startswith("NodeName") else item.line, item.what


def _words(knobs: Knobs) -> dict[str, str]:
    """Each setting, and each word of the lines of nodes and partitions, with its value as text."""
    config, taken = configuration.of(knobs.scheduler), configuration.site_of(knobs.scheduler)
    own = {key.lower(): (key, value) for key, value in {**(taken.settings if taken else {}), **config.settings}.items()}
    words = {key: _text(value) for key, value in own.values()}
    for item in knobs.nodes.machine.classes:
        line = f"NodeName={item.names}"
        words |= {f"{line} CPUs": str(item.cpus), **{f"{line} {word}": value for word, value in dict(item.extra).items()}}
    for partition in config.partitions:
        line = f"PartitionName={partition['name']}"
        words |= {line: "there", **{f"{line} {word}": _text(value) for word, value in partition.items() if word != "name"}}
    words["order of nodes"] = " ".join(item.names for item in knobs.nodes.machine.classes)
    words["order of partitions"] = " ".join(str(partition["name"]) for partition in config.partitions)
    words["accounting"] = "yes" if config.has_accounting(knobs) else "no"
    words |= {name: _text(value) for name, value in (("routing", config.routing), ("qos", config.qos), ("shares", config.shares))}
    return words


def _text(value: Any) -> str:
    """A value of a configuration: of SchedulerParameters, which may be a mapping, the words as slurm.conf has them."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and not any(isinstance(one, (Mapping, list)) for one in value.values()):
        return _LIST.join(f"{key}={_text(one)}" for key, one in value.items())
    return json.dumps(value, sort_keys=True, default=str)


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    names = {name.lower(): name for name in (*before, *after)}
    old, new = ({name.lower(): value for name, value in words.items()} for words in (before, after))
    return [f"{name}: {_change(old.get(key), new.get(key))}" for key, name in names.items() if old.get(key) != new.get(key)]


def _change(before: str | None, after: str | None) -> str:
    """`30 -> 60`; of lists only the parts that differ. None: not set."""
    if before and after and _LIST in before + after:
        old, new = before.split(_LIST), after.split(_LIST)
        before, after = _LIST.join(_without(old, new)) or None, _LIST.join(_without(new, old)) or None
        if before == after:  # another order
            before, after = _LIST.join(old), _LIST.join(new)
    return f"{before or 'not set'} -> {after or 'not set'}"


def _without(these: Iterable[str], others: Iterable[str]) -> list[str]:
    left = set(others)
    return [one for one in these if one not in left]
