"""Checks the lines of EVENTS against the machine and the workload, and expands them to events."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from mirage.cluster_events.planned import PlannedEvent, action_of_state, as_argument, number_word, ordered, settings_of
from mirage.cluster_events.user_file import PARAMETER, Line
from mirage.text import durations
from mirage.text.words import duration
from slurm_mirage.base import hostlist, line_text
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import cluster_events as actions
from slurm_mirage.rm.slurm import account_file

ALL = "all"
_SPELLINGS = {
    "start": "StartTime", "starttime": "StartTime", "duration": "Duration", "end": "EndTime", "endtime": "EndTime",
    "nodes": "Nodes", "count": "NodeCnt", "nodecnt": "NodeCnt", "corecnt": "CoreCnt", "users": "Users", "user": "Users",
    "accounts": "Accounts", "account": "Accounts", "flags": "Flags", "partition": "PartitionName",
    "partitionname": "PartitionName", "features": "Features", "licenses": "Licenses", "tres": "TRES",
}  # fmt: skip
"""Words of a reservation, as a user may write them and as `scontrol create reservation` has them."""
_SIZES = ("Nodes", "NodeCnt", "CoreCnt", "Licenses", "TRES")
_FLAGS = {
    "MAINT": ("MAINTENANCE", 3), "OVERLAP": ("OVERLAP", 1), "FLEX": ("FLEX", 1), "IGNORE_JOBS": ("IGNORE_JOBS", 1),
    "STATIC_ALLOC": ("STATIC_ALLOC", 1), "ANY_NODES": ("ANY_NODES", 1), "LICENSE_ONLY": ("LICENSE_ONLY", 1),
    "PART_NODES": ("PART_NODES", 2), "MAGNETIC": ("MAGNETIC", 3), "PURGE_COMP": ("PURGE_COMP", 2),
    "FIRST_CORES": ("FIRST_CORES", 1), "REPLACE": ("REPLACE", 1), "REPLACE_DOWN": ("REPLACE_DOWN", 8),
    "NO_HOLD_JOBS_AFTER_END": ("NO_HOLD_JOBS_AFTER_END", 1),
}  # fmt: skip
"""Flags of a reservation: the whole word, and how many of its characters Slurm needs (`parse_resv_flags`); the first that fits is
taken."""
_REPEATING = ("HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY", "TIME_FLOAT")
"""Flags of reservations that repeat or move by themselves: their instants would not be those of the event."""
_CHANGED = ("partition", "node", "job", "account", "user", "qos")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", re.ASCII)
BACK = {actions.FAIL: actions.RETURN, actions.SILENCE: actions.ANSWER}
"""The actions that end or stop daemons, which the replay can do on its own host only, and those that return them: a duration stands
for these, or they are lines, as in the events.csv of a run."""
ABSENT = {action: action for action in BACK} | {back: action for action, back in BACK.items()}
OF_CONTROLLERS = (actions.FAILOVER, actions.TAKE_BACK)
"""Actions of a cluster with a second controller."""
_WITHOUT_TARGET = (actions.KILL_CONTROLLER, *OF_CONTROLLERS, actions.RUN)
_WITHOUT_ARGUMENT = (
    actions.RESUME, *BACK.values(), actions.RELEASE, actions.KILL_CONTROLLER, actions.TAKE_BACK, *actions.JOB_ACTIONS,
)  # fmt: skip


def _no_way(before: str, after: str) -> str:
    raise WrongUse("this cluster keeps its configuration", PARAMETER)


@dataclass(frozen=True)
class World:
    """The cluster and the workload to which the lines refer."""

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
    enforces_limits: bool = True
    """Whether Slurm holds jobs that exceed limits of their account, user or QOS."""
    controllers: int = 1
    configuration: str = ""
    """Name of the configuration at the start."""
    way: Callable[[str, str], str] = _no_way
    """How the second configuration takes the place of the first one: RESTART or RECONFIGURE. Raises WrongUse if it cannot."""
    node_set: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_set", frozenset(self.nodes))

    def expand(self, text: str) -> list[str]:
        """The nodes in a host list, or all of them for ALL, each once. Raises ValueError with a reason."""
        if text.lower() == ALL:
            return list(self.nodes)
        names = list(dict.fromkeys(self._name(name) for name in hostlist.expand(text)))
        if not names:
            raise ValueError("no node is given; it may be a host list such as n[1-4], or ALL")
        unknown = [name for name in names if name not in self.node_set]
        if unknown:
            raise ValueError(f"there is no node {unknown[0]}; the nodes are {_short(hostlist.compress(self.nodes))}")
        return names

    def _name(self, name: str) -> str:
        """The name that a node has here: numbers are written without leading zeros."""
        renamed = self.renamed.get(name, name)
        plain = re.sub(r"(?<!\d)0+(?=\d+\Z)", "", renamed)
        return plain if renamed not in self.node_set and plain in self.node_set else renamed


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
        self._drained: set[str] = set()
        """Nodes that are down or drained until resume."""
        self._absent: dict[str, tuple[Line, float]] = {}
        """Nodes that fail or do not respond: the line, and the instant at which they return; infinite if a later line says so."""
        self._configuration = world.configuration
        self._second_until = 0.0
        """The instant until which the second controller is in charge."""
        self._reservations: dict[str, _Reservation] = {}

    def all(self, lines: Sequence[Line]) -> list[PlannedEvent]:
        """The events of lines in the order of their instants."""
        events: list[PlannedEvent] = []
        for line in lines:
            for field_name, text in (("target", line.target), ("argument", line.argument)):
                if fault := line_text.fault(text):
                    raise line.wrong(f"{field_name} {fault}")
            if line.action not in actions.ACTIONS:
                usable = [action for action in actions.ACTIONS if action not in OF_CONTROLLERS or self._world.controllers > 1]
                near = difflib.get_close_matches(line.action, usable, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise line.wrong(f"action {line.action!r}: {hint}it may be one of {', '.join(usable)}")
            if line.instant > self._world.last and line.action not in BACK.values():
                raise line.wrong(
                    f"instant {number_word(line.instant)}: is after the end of the run: all its jobs, one after the other, would "
                    f"have ended after {duration(self._world.last)}"
                )
            if line.target and line.action in _WITHOUT_TARGET:
                raise line.wrong(f"{line.action} has no target: leave the third field empty")
            if line.argument and line.action in _WITHOUT_ARGUMENT:
                raise line.wrong(f"{line.action} has no argument: leave the fourth field empty")
            events += self._of(line)
        self._check_ends()
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
        if line.action == actions.CONFIGURE:
            return [self._configure(line)]
        if line.action in OF_CONTROLLERS:
            return self._failover(line)
        if line.action == actions.RUN and not line.argument:
            raise line.wrong("run needs a command as its argument")
        return [_event(line, "", line.argument)]

    # ---- nodes ----

    def _nodes(self, line: Line, text: str, what: str = "target") -> list[str]:
        try:
            return self._world.expand(text)
        except ValueError as error:
            raise line.wrong(f"{what}: {error}") from None

    def _of_nodes(self, line: Line) -> list[PlannedEvent]:
        names = self._nodes(line, line.target)
        target = hostlist.compress(names)
        if line.action in ABSENT:
            return self._absence(line, names, target)
        if line.action == actions.RESUME:
            if still := [name for name in names if name not in self._drained]:
                raise line.wrong(f"{still[0]} is not out of service by down or drain at {number_word(line.instant)}")
            self._drained.difference_update(names)
            return [_event(line, target)]
        self._drained.update(names)
        return [_event(line, target, " ".join(line.argument.split()))]

    def _absence(self, line: Line, names: Sequence[str], target: str) -> list[PlannedEvent]:
        """The events of fail and not-responding, and of the actions that end them."""
        if self._world.hosts > 1:
            raise line.wrong(f"{line.action} needs a cluster on one host, and this inventory has {self._world.hosts}")
        action = ABSENT[line.action]
        if line.action != action:
            for name in names:
                begun, until = self._absent.get(name, (None, 0.0))
                if begun is None or begun.action != action or until != math.inf:
                    raise line.wrong(f"{name} is not out of service by a line with {action} that has no duration")
                del self._absent[name]
            return [_event(line, target)]
        for name in names:
            begun, until = self._absent.get(name, (None, 0.0))
            if begun is not None and line.instant < until:
                raise line.wrong(f"{name} is already out of service by {begun.action} at {number_word(line.instant)}")
        until = line.instant + self._length(line, line.argument) if line.argument else math.inf
        self._absent |= dict.fromkeys(names, (line, until))
        if not line.argument:
            return [_event(line, target)]
        return [_event(line, target), PlannedEvent(until, BACK[action], target, "", line.source)]

    def _check_ends(self) -> None:
        """Each absence has an end."""
        for name, (line, until) in self._absent.items():
            if until == math.inf:
                raise line.wrong(
                    f"{line.action} needs as its argument for how long ({durations.FORM}), or for {name} a later line with "
                    f"{BACK[line.action]}"
                )

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

    # ---- controllers ----

    def _failover(self, line: Line) -> list[PlannedEvent]:
        if self._world.controllers < 2:
            raise line.wrong(f"{line.action} needs a second slurmctld, and this cluster has one; kill-controller ends it")
        is_second = line.instant < self._second_until
        if line.action == actions.FAILOVER:
            if is_second:
                raise line.wrong("the second slurmctld is in charge then already")
            self._second_until = line.instant + self._length(line, line.argument) if line.argument else math.inf
            back = [PlannedEvent(self._second_until, actions.TAKE_BACK, "", "", line.source)] if line.argument else []
            return [_event(line, ""), *back]
        if not is_second or self._second_until != math.inf:
            raise line.wrong("take-back has to be after a failover without a duration")
        self._second_until = 0.0
        return [_event(line, "")]

    def _configure(self, line: Line) -> PlannedEvent:
        if not _NAME.fullmatch(line.target):
            raise line.wrong(
                f"configure needs as its target the name of a configuration, such as fifo, and {line.target!r} is none"
            )
        if line.argument not in ("", actions.RECONFIGURE, actions.RESTART):
            raise line.wrong(f"argument {line.argument!r}: it may be {actions.RECONFIGURE} or {actions.RESTART}, or empty")
        if line.target == self._configuration:
            raise line.wrong(f"{line.target} is the configuration then already")
        try:
            way = self._world.way(self._configuration, line.target)
        except WrongUse as error:
            raise line.wrong(f"configure {line.target}: {error.message}") from None
        if way == actions.RESTART and line.argument == actions.RECONFIGURE:
            raise line.wrong(f"slurmctld has to be restarted for {line.target}: leave the fourth field empty")
        self._configuration = line.target
        return _event(line, line.target, line.argument or way)

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
        self._check_size(line, words)
        if nodes is not None:
            words["Nodes"] = "ALL" if len(set(nodes)) == len(self._world.nodes) else hostlist.compress(nodes)
        if (name := words.get("PartitionName")) is not None and name not in self._world.partitions:
            raise line.wrong(f"there is no partition {name}; it may be one of {', '.join(sorted(self._world.partitions))}")
        flags = self._flags(line, words)
        if flags:
            words["Flags"] = ",".join(flags)
        may_overlap = bool({"MAINT", "OVERLAP"} & flags.keys())
        this = _Reservation(line, begin, begin + seconds, None if nodes is None else set(nodes), may_overlap)
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
            if spelled in words:
                raise line.wrong(f"{word!r}: {spelled} is given twice")
            words[spelled] = value
        return words

    def _check_size(self, line: Line, words: Mapping[str, str]) -> None:
        if not any(size in words for size in _SIZES):
            raise line.wrong("a reservation needs its nodes: nodes=LIST, nodes=ALL or count=NUMBER")
        if (count := words.get("NodeCnt")) is not None:
            most = len(self._world.nodes)
            if "Nodes" in words:
                raise line.wrong("a reservation has nodes=LIST or count=NUMBER, not both")
            if not re.fullmatch(r"\d{1,6}", count, re.ASCII) or not 1 <= int(count) <= most:
                raise line.wrong(f"count={count}: it may be a whole number from 1 to {most}")

    def _flags(self, line: Line, words: Mapping[str, str]) -> dict[str, None]:
        """The flags of a reservation in whole words, each once."""
        flags: dict[str, None] = {}
        for text in words.get("Flags", "").upper().split(","):
            flag, sign, value = text.partition("=")
            if not flag and not sign:
                continue
            repeating = [name for name in _REPEATING if flag and name.startswith(flag)]
            # Slurm takes the beginning of a flag's word for the flag.
            found = [name for name, (word, least) in _FLAGS.items() if len(flag) >= least and word.startswith(flag)]
            if repeating and not found:
                raise line.wrong(f"flag {text}: a reservation of a run has one begin; give a line for each, or MAINTENANCE")
            if not found or (sign and found[0] != "PURGE_COMP"):
                raise line.wrong(f"flag {text!r}: it may be some of {', '.join(_FLAGS)}, separated by commas")
            flags[f"{found[0]}{sign}{value}"] = None
        if {"REPLACE", "REPLACE_DOWN"} & flags.keys() and "Nodes" in words:
            raise line.wrong("Slurm takes the flags REPLACE and REPLACE_DOWN with count=NUMBER only, not with nodes")
        if "PART_NODES" in flags and not ("PartitionName" in words and words.get("Nodes") == "ALL"):
            raise line.wrong("Slurm takes the flag PART_NODES with partition=NAME and nodes=ALL only")
        return flags

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
        limits = [word.partition("=")[0] for word in line.argument.split() if re.match("(max|grp|min)", word, re.IGNORECASE)]
        if kind in ("account", "user", "qos") and limits and not self._world.enforces_limits:
            needed = "AccountingStorageEnforce of the configuration needs limits, as in CONFIG=multifactor"
            raise line.wrong(f"{limits[0]} of {kind} {name} would not be enforced: {needed}")
        if kind in ("account", "user", "qos"):
            try:
                account_file.check_name(kind, name)
            except WrongUse as error:
                raise line.wrong(error.message) from None
        if kind == "node":
            names = self._nodes(line, name)
            name = hostlist.compress(names)
            self._set_state(line, names)
        if kind == "job":
            name = str(self._job(line, name))
        return _event(line, f"{kind} {name}", " ".join(line.argument.split()))

    def _set_state(self, line: Line, names: Sequence[str]) -> None:
        """Note nodes that `set node` takes out of service, or returns."""
        settings = settings_of(line.argument)
        action = action_of_state(settings)
        if action == actions.RESUME:
            self._drained.difference_update(names)
        elif action is not None:
            if not settings.get("reason"):
                raise line.wrong(f"Slurm wants a reason: give 'State={settings['state']} Reason=WORD'")
            self._drained.update(names)


def _event(line: Line, target: str, argument: str = "") -> PlannedEvent:
    return PlannedEvent(line.instant, line.action, target, argument, line.source)


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."
