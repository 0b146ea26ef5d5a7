"""What qmgr(8B) has to do so that a running server has the wanted nodes, queues and attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base import line_text
from ...base.errors import WrongUse
from . import addresses, clock_settings
from .node_classes import Nodes
from .queues import IS_DEFAULT, NAME, check, default_of, seconds_of

QUEUE = "batch"
"""The queue of a configuration without partitions."""
ERRORS, SYSTEM, ADMIN, SECURITY, SCHEDULER, DEBUG = 0x01, 0x02, 0x04, 0x20, 0x40, 0x80
"""Events in logs (include/log.h)."""
SERVER_DEFAULTS: Mapping[str, Any] = {
    "scheduling": True,
    "flatuid": True,
    "job_history_enable": True,
    "log_events": ERRORS | SYSTEM | ADMIN | SECURITY,
    "backfill_depth": 1,
}
SCHEDULER_DEFAULTS: Mapping[str, Any] = {
    # The beginning and the end of a cycle are events of debugging.
    "log_events": ERRORS | SYSTEM | ADMIN | SCHEDULER | DEBUG,
}
QUEUE_DEFAULTS: Mapping[str, Any] = {"queue_type": "Execution", "enabled": True, "started": True}
_CREATE = re.compile(r"create (queue|node) (\S+)")
_OBJECT = re.compile(r"set (queue|node) (\S+) (\S+) (=|\+=) ?(.*)\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@*+-]+")
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_][\w-]*)?", re.ASCII)
_SINGLE = re.compile(r"set (server|sched) (\S+) (=|\+=) ?(.*)\Z")


@dataclass
class State:
    """Attributes of the server and of the scheduler, and those of each queue and node by its name, as qmgr prints them."""

    server: dict[str, str] = field(default_factory=dict)
    scheduler: dict[str, str] = field(default_factory=dict)
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)


def printed(text: str) -> State:
    """The state in an answer of `print server`, `print sched` and `print node @default`."""
    state = State()
    objects = {"queue": state.queues, "node": state.nodes}
    singles = {"server": state.server, "sched": state.scheduler}
    for line in map(str.strip, text.splitlines()):
        if created := _CREATE.match(line):
            objects[created[1]].setdefault(created[2], {})
        elif match := _OBJECT.match(line):
            kind, name, key, operator, value = match.groups()
            _add(objects[kind].setdefault(name, {}), key, operator, value)
        elif match := _SINGLE.match(line):
            kind, key, operator, value = match.groups()
            _add(singles[kind], key, operator, value)
    return state


def _add(attributes: dict[str, str], key: str, operator: str, value: str) -> None:
    value = value.strip()
    if value[:1] in ('"', "'") and value[-1:] == value[:1] and len(value) > 1:
        value = value[1:-1]
    attributes[key] = f"{attributes[key]},{value}" if operator == "+=" and key in attributes else value


def value_of(where: str, value: Any) -> str:
    """An attribute's value as qmgr prints it. Raises WrongUse, beginning with `where`, for a value that `quoted` cannot write."""
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, (list, tuple)):
        return ",".join(value_of(where, item) for item in value)
    text = str(value)
    if value is None or isinstance(value, Mapping) or not text or line_text.fault(text):
        raise WrongUse(f"{where}: is not an attribute with a value of one line")
    if not text.isascii() or "\t" in text or "&" in text or ('"' in text and "'" in text):
        raise WrongUse(f"{where}: qmgr takes printable ASCII characters without &, and not both kinds of quotes")
    return text


def quoted(text: str) -> str:
    """A value as qmgr reads it letter by letter (cmds/qmgr.c, Libifl/pbs_quote_parse.c): outside of quotes a semicolon begins
    another command, a comma another attribute, and a # after a blank a comment. There are no escapes."""
    if _PLAIN.fullmatch(text):
        return text
    return f"'{text}'" if '"' in text else f'"{text}"'


def _named(where: str, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes. Raises WrongUse for a name that is none of an attribute, perhaps with a resource after a dot."""
    for key in attributes:
        if not isinstance(key, str) or not _ATTRIBUTE.fullmatch(key):
            raise WrongUse(f"{where}: {key!r} is not the name of an attribute")
    return attributes


def wanted(
    nodes: Sequence[Nodes],
    server: Mapping[str, Any],
    partitions: Sequence[Mapping[str, Any]],
    speed: float,
    event_clock: bool = False,
) -> State:
    """The wanted state. `server`: attributes of a configuration; `partitions`: queues with `name`, `Default` and attributes.

    Raises WrongUse.
    """
    partitions = partitions or [{NAME: QUEUE}]
    check(partitions, "partitions")
    queues: dict[str, dict[str, str]] = {}
    for partition in partitions:
        name = str(partition[NAME])
        words = _named(f"queue {name}", {key: value for key, value in partition.items() if key not in (NAME, IS_DEFAULT)})
        queues[name] = {key: _of_queue(name, key, value) for key, value in {**QUEUE_DEFAULTS, **words}.items()}
    attributes = {
        **SERVER_DEFAULTS,
        **clock_settings.server_settings(speed, event_clock),
        "default_queue": default_of(partitions),
        **_named("server", server),
    }
    scheduler = {**SCHEDULER_DEFAULTS, **clock_settings.scheduler_settings(speed)}
    return State(
        {key: value_of(f"server: {key}", value) for key, value in attributes.items()},
        {key: value_of(f"scheduler: {key}", value) for key, value in scheduler.items()},
        queues,
        {name: _node(name, number, item.cpus) for item in nodes for name, number in item.numbered()},
    )


def _of_queue(name: str, key: str, value: Any) -> str:
    """An attribute of a queue. A time is HH:MM:SS, as qmgr prints it."""
    seconds = seconds_of(value) if key.endswith(".walltime") else None
    return value_of(f"queue {name}: {key}", value) if seconds is None else clock_settings.duration(seconds)


def _node(name: str, number: int, cpus: int) -> dict[str, str]:
    return {"Mom": name, "Port": str(addresses.node_ports(number)[0]), "resources_available.ncpus": str(cpus)}


def commands(now: State, want: State) -> Iterator[str]:
    """The lines for qmgr that lead from one state to the other. Attributes that are not wanted keep their values.

    Queues come before the server, which names one of them, and are deleted after it.
    """
    for name, attributes in want.queues.items():
        if name not in now.queues:
            yield f"create queue {name} queue_type={attributes['queue_type']}"
        yield from _changes(f"queue {name}", now.queues.get(name, {}), attributes)
    yield from _changes("server", now.server, want.server)
    yield from _changes("sched", now.scheduler, want.scheduler)
    for name in _surplus(now.queues, want.queues):
        yield f"delete queue {name}"
    for name in _surplus(now.nodes, want.nodes):
        yield f"delete node {name}"
    for name, attributes in want.nodes.items():
        before = now.nodes.get(name)
        if before is None:
            yield f"create node {name} " + ",".join(f"{key}={value}" for key, value in attributes.items())
        elif before.get("resources_available.ncpus") != attributes["resources_available.ncpus"]:
            yield f"set node {name} resources_available.ncpus = {attributes['resources_available.ncpus']}"


def _surplus(now: Iterable[str], want: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in now if name not in want)


def _changes(what: str, now: Mapping[str, str], want: Mapping[str, str]) -> Iterator[str]:
    for key, value in want.items():
        if now.get(key) != value:
            yield f"set {what} {key} = {quoted(value)}"
