"""Checks the lines of EVENTS against the machine and the workload, and expands them to events."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from mirage.cluster_events.planned import PlannedEvent, as_argument, number_word, ordered
from mirage.cluster_events.user_file import Line
from mirage.text import durations
from mirage.text.words import duration
from slurm_mirage.base import hostlist
from slurm_mirage.jobs import cluster_events as actions

ALL = "all"
_SPELLINGS = {
    "start": "StartTime", "starttime": "StartTime", "duration": "Duration", "end": "EndTime", "endtime": "EndTime",
    "nodes": "Nodes", "count": "NodeCnt", "nodecnt": "NodeCnt", "corecnt": "CoreCnt", "users": "Users", "user": "Users",
    "accounts": "Accounts", "account": "Accounts", "flags": "Flags", "partition": "PartitionName",
    "partitionname": "PartitionName", "features": "Features", "licenses": "Licenses", "tres": "TRES",
}  # fmt: skip
"""Words of a reservation, as a user may write them and as `scontrol create reservation` has them."""
_SIZES = ("Nodes", "NodeCnt", "CoreCnt", "Licenses", "TRES")
_CHANGED = ("partition", "node", "job", "account", "user", "qos")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", re.ASCII)
OF_ONE_HOST = (actions.FAIL, actions.SILENCE)
"""Actions that end or stop daemons, which the replay can do on its own host only."""
OWN = (actions.RETURN, actions.ANSWER)
"""Actions that others imply; users do not write them."""
NOT_YET = (actions.CONFIGURE, actions.FAILOVER, actions.TAKE_BACK)
"""Actions that this release does not have."""
USABLE = tuple(action for action in actions.ACTIONS if action not in (*OWN, *NOT_YET))


@dataclass(frozen=True)
class World:
    """What events refer to."""

    nodes: Sequence[str]
    """Names of the nodes."""
    partitions: Set[str]
    jobs: Set[int]
    """Numbers of the jobs of the run in the trace."""
    last: float
    """The last instant, in trace seconds after the start, at which the run may still go on."""
    hosts: int = 1
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The name that a node of the user's own slurm.conf has here, where it is another one."""
    has_accounting: bool = True
    node_set: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_set", frozenset(self.nodes))


@dataclass
class _Reservation:
    """A reservation of the file, for later lines."""

    line: Line
    begin: float
    end: float
    nodes: Set[str] | None
    """None: as many as Slurm picks."""
    may_overlap: bool


def expanded(lines: Iterable[Line], world: World) -> list[PlannedEvent]:
    """The events of the lines in the order of their instants. Raises WrongUse with file and line for the first wrong line."""
    return _Checks(world).all(sorted(lines, key=lambda line: line.instant))


class _Checks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._out: dict[str, tuple[str, float]] = {}
        """Nodes that are out of service: the action, and the instant at which they return by themselves."""
        self._reservations: dict[str, _Reservation] = {}

    def all(self, lines: Sequence[Line]) -> list[PlannedEvent]:
        """The events of lines in the order of their instants."""
        events: list[PlannedEvent] = []
        for line in lines:
            if line.action not in USABLE:
                near = difflib.get_close_matches(line.action, USABLE, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise line.wrong(f"action {line.action!r}: {hint}it may be one of {', '.join(USABLE)}")
            if line.instant > self._world.last:
                raise line.wrong(
                    f"instant {number_word(line.instant)}: is after the end of the run: all its jobs, one after the other, would "
                    f"have ended after {duration(self._world.last)}"
                )
            events += self._of(line)
        return ordered(events)

    def _of(self, line: Line) -> list[PlannedEvent]:
        if line.action in actions.NODE_ACTIONS:
            return self._of_nodes(line)
        if line.action in actions.JOB_ACTIONS:
            return [_event(line, str(self._job(line, line.target)))]
        if line.action == actions.RESERVE:
            return [self._reservation(line)]
        if line.action == actions.RELEASE:
            return [self._release(line)]
        if line.action == actions.SET:
            return [self._setting(line)]
        if line.action == actions.RUN and not line.argument:
            raise line.wrong("run needs a command as its argument")
        if line.action == actions.RUN and line.target:
            raise line.wrong("run has no target: leave the third field empty, the command is the fourth")
        return [_event(line, "", line.argument)]

    # ---- nodes ----

    def _nodes(self, line: Line, text: str, what: str = "target") -> list[str]:
        if text.lower() == ALL:
            return list(self._world.nodes)
        try:
            names = [self._name(name) for name in hostlist.expand(text)]
        except ValueError as error:
            raise line.wrong(f"{what}: {error}") from None
        if not names:
            raise line.wrong(f"{what}: no node is given; it may be a host list such as n[1-4], or ALL")
        unknown = [name for name in names if name not in self._world.node_set]
        if unknown:
            raise line.wrong(f"{what}: there is no node {unknown[0]}; the nodes are {_short(hostlist.compress(self._world.nodes))}")
        return names

    def _name(self, name: str) -> str:
        """The name that a node has here: numbers are written without leading zeros."""
        renamed = self._world.renamed.get(name, name)
        plain = re.sub(r"(?<!\d)0+(?=\d+\Z)", "", renamed)
        return plain if renamed not in self._world.node_set and plain in self._world.node_set else renamed

    def _of_nodes(self, line: Line) -> list[PlannedEvent]:
        names = self._nodes(line, line.target)
        if line.action in OF_ONE_HOST and self._world.hosts > 1:
            raise line.wrong(f"{line.action} needs a cluster on one host, and this inventory has {self._world.hosts}")
        for name in names:
            action, until = self._out.get(name, ("", 0.0))
            is_out = bool(action) and line.instant < until
            if line.action == actions.RESUME and not (is_out and action in (actions.DOWN, actions.DRAIN)):
                raise line.wrong(f"{name} is not out of service by down or drain at {number_word(line.instant)}")
            if line.action in OF_ONE_HOST and is_out and action in OF_ONE_HOST:
                raise line.wrong(f"{name} is already out of service by {action} at {number_word(line.instant)}")
        target = hostlist.compress(names)
        if line.action in OF_ONE_HOST:
            length = self._length(line, line.argument)
            until = line.instant + length
            self._out |= dict.fromkeys(names, (line.action, until))
            back = actions.RETURN if line.action == actions.FAIL else actions.ANSWER
            return [_event(line, target), PlannedEvent(until, back, target, "", line.place)]
        if line.action == actions.RESUME:
            for name in names:
                del self._out[name]
            return [_event(line, target)]
        self._out |= dict.fromkeys(names, (line.action, float("inf")))
        return [_event(line, target, " ".join(line.argument.split()))]

    def _length(self, line: Line, text: str) -> float:
        try:
            length = durations.seconds(text)
        except ValueError:
            length = 0.0
        if length <= 0:
            raise line.wrong(
                f"{line.action} needs as its argument for how long, and {text!r} is none; it may be {durations.FORM}, above 0"
            )
        return length

    # ---- jobs ----

    def _job(self, line: Line, text: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII) or int(text) not in self._world.jobs:
            raise line.wrong(f"there is no job {text!r} in the run; workload.csv has the numbers of its jobs in the column id")
        return int(text)

    # ---- reservations ----

    def _reservation(self, line: Line) -> PlannedEvent:
        if not _NAME.fullmatch(line.target):
            raise line.wrong(f"target {line.target!r}: the name of a reservation, of letters, digits, '.', '_' and '-'")
        words = self._words(line)
        begin = self._instant(line, words.pop("StartTime", number_word(line.instant)), "start")
        if begin < line.instant:
            raise line.wrong(f"the reservation starts at {number_word(begin)}, before the event itself")
        end, length = words.pop("EndTime", ""), words.pop("Duration", "")
        if bool(end) == bool(length):
            raise line.wrong("a reservation needs its duration or its end, such as duration=6h")
        seconds = self._length(line, length) if length else self._instant(line, end, "end") - begin
        if seconds < 60:
            raise line.wrong("a reservation lasts at least a minute, which is Slurm's own unit")
        nodes = self._nodes(line, words["Nodes"], "nodes") if "Nodes" in words else None
        if not any(size in words for size in _SIZES):
            raise line.wrong("a reservation needs its nodes: nodes=LIST, nodes=ALL or count=NUMBER")
        if nodes is not None:
            words["Nodes"] = "ALL" if len(set(nodes)) == len(self._world.nodes) else hostlist.compress(nodes)
        if (name := words.get("PartitionName")) is not None and name not in self._world.partitions:
            raise line.wrong(f"there is no partition {name}; it may be one of {', '.join(sorted(self._world.partitions))}")
        flags = {flag.strip().upper() for flag in words.get("Flags", "").split(",")}
        this = _Reservation(line, begin, begin + seconds, None if nodes is None else set(nodes), bool({"MAINT", "OVERLAP"} & flags))
        self._check_others(line, this)
        self._reservations[line.target] = this
        if not {"Users", "Accounts"} & words.keys():
            words["Users"] = "root"
        return _event(line, line.target, as_argument({"StartTime": number_word(begin), "Duration": number_word(seconds), **words}))

    def _words(self, line: Line) -> dict[str, str]:
        words = {}
        for word in line.argument.split():
            name, sign, value = word.partition("=")
            spelled = _SPELLINGS.get(name.lower())
            if not sign or not value or spelled is None:
                usual = "start, duration, end, nodes, count, users, accounts, flags, partition"
                raise line.wrong(f"{word!r} is not a word of a reservation; it may have NAME=VALUE with {usual}")
            words[spelled] = value
        return words

    def _instant(self, line: Line, text: str, what: str) -> float:
        try:
            return durations.seconds(text)
        except ValueError:
            raise line.wrong(f"{what} {text!r}: it may be {durations.FORM}, counted from the start of the run") from None

    def _check_others(self, line: Line, this: _Reservation) -> None:
        """Slurm refuses reservations of one name, and two of the same nodes at one time, unless both may overlap."""
        for name, other in self._reservations.items():
            if name == line.target and line.instant < other.end:
                raise line.wrong(f"the reservation {name} of {other.line.place} has not ended then")
            is_together = this.begin < other.end and other.begin < this.end
            common = this.nodes & other.nodes if this.nodes is not None and other.nodes is not None else set()
            if is_together and common and not (this.may_overlap or other.may_overlap):
                nodes = hostlist.compress(common)
                raise line.wrong(
                    f"{_short(nodes)} are reserved by {name} of {other.line.place} at the same time; flags=OVERLAP allows it"
                )

    def _release(self, line: Line) -> PlannedEvent:
        known = self._reservations.get(line.target)
        if known is None or line.instant >= known.end:
            raise line.wrong(f"there is no reservation {line.target!r} then: a line with reserve has to be before")
        known.end = line.instant
        return _event(line, line.target)

    # ---- settings ----

    def _setting(self, line: Line) -> PlannedEvent:
        kind, _, name = line.target.partition(" ")
        kind, name = kind.lower(), name.strip()
        if kind not in _CHANGED or not name or len(name.split()) > 1:
            raise line.wrong(f"target {line.target!r}: it may be {', '.join(_CHANGED)} and a name, such as 'partition batch'")
        if not line.argument or not all(re.fullmatch(r"[A-Za-z_]\w*[+-]?=\S+", word) for word in line.argument.split()):
            raise line.wrong("set needs words NAME=VALUE as its argument, such as MaxTime=2-00:00:00")
        if kind == "partition" and name not in self._world.partitions:
            raise line.wrong(f"there is no partition {name}; it may be one of {', '.join(sorted(self._world.partitions))}")
        if kind in ("account", "user", "qos") and not self._world.has_accounting:
            raise line.wrong(f"set {kind} needs a cluster with accounting; give ACCOUNTING=yes")
        if kind == "node":
            name = hostlist.compress(self._nodes(line, name))
        if kind == "job":
            name = str(self._job(line, name))
        return _event(line, f"{kind} {name}", " ".join(line.argument.split()))


def _event(line: Line, target: str, argument: str = "") -> PlannedEvent:
    return PlannedEvent(line.instant, line.action, target, argument, line.place)


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."
