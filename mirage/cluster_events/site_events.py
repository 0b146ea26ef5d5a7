"""Outages and reservations in the archive of a site's week, as lines of events (docs/site.md).

Nodes that were out of service when the run begins are drained then, whatever their state was, so that no job ends. A reservation is
made at the start of the run, as it is not known when the site made it; one of which jobs of the log made use is left out, because
here they run without it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mirage.cluster_events.planned import SITE, as_argument, number_word
from mirage.cluster_events.user_file import Line
from mirage.site.archive import Archive
from mirage.site.associations import of_cluster
from slurm_mirage.base import hostlist
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import cluster_events as actions

EVENT, RESERVATION, NODE = "sacctmgr/event.txt", "sacctmgr/reservation.txt", "scontrol/node.txt"
OUTAGES, RESERVATIONS = "outages of nodes", "reservations"
"""What is counted."""
_DRAINED = {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FAILG"}
_BASE_STATE, _DOWN = 0xF, 1
"""Bits of the number of a state that say whether a node is down, idle or allocated; and that of down (slurm.h)."""
_OTHERS = "ALLOC ALLOCATED BLOCKED COMPLETING DOWN ERROR FUTURE IDLE INVALID MAINT MIXED PLANNED RESERVED UNKNOWN"
_STATE = re.compile(rf"({'|'.join((*_OTHERS.split(), *_DRAINED))})\b")
"""Beginning of a state as scontrol shows it; flags and signs follow."""
_FLAGS = ("MAINT", "OVERLAP")
"""Flags of reservations that are kept. IGNORE_JOBS is always given: jobs run when a reservation is made."""
_AMOUNT = re.compile(r"(?:^|(?<=,))(cpu|gres/[^=,]+)=(\d{1,15})([KMGT]?)(?=,|$)")
"""The amounts of CPUs and GRES in the column TRES."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,55}", re.ASCII)
LEAST = 60.0
"""Seconds of a reservation: Slurm's own unit is the minute."""


def resources(cpus: int, gres: str) -> dict[str, int]:
    """The TRES of a node: `cpu`, and `gres/NAME` for each name in the word Gres of its NodeName line."""
    found = Counter({"cpu": cpus})
    for item in gres.split(",") if gres else ():
        name, *_, count = item.split(":")
        found[f"gres/{name}"] += int(count) if count.isdecimal() else 1
    return dict(found)


@dataclass(frozen=True)
class SiteEvents:
    """The lines, in no order, and how many outages and reservations they stand for or were left out, by what and why."""

    lines: list[Line] = field(default_factory=list)
    taken: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Outage:
    """A time in which a node was out of service, in trace seconds after the start of the run."""

    begin: float
    end: float
    action: str
    reason: str
    place: str


@dataclass(frozen=True)
class _World:
    nodes: Mapping[str, Mapping[str, int]]
    renamed: Mapping[str, str]
    start: float
    last: float

    def has(self, node: str) -> bool:
        """Whether the cluster has the node of the site."""
        return self.renamed.get(node, node) in self.nodes


def of(
    taken: Archive,
    nodes: Mapping[str, Mapping[str, int]],
    renamed: Mapping[str, str],
    start: float,
    last: float,
    access: Mapping[str, Mapping[str, str]] | None = None,
) -> SiteEvents:
    """The events of a run.

    nodes, renamed: the cluster's nodes and what each has (`resources`), and names of those of the site that have another one here
    start, last: instant at which the run begins, in seconds since the epoch, and its last instant of an event, in trace seconds
    access: words of partitions that name accounts and QOS, by the partition's name
    Raises WrongUse with file and line for what cannot be read.
    """
    events, world = SiteEvents(), _World(nodes, renamed, start, last)
    events.lines.extend(of_access(taken.path, access or {}).lines)
    outages = _of_events(taken, world, events) if EVENT in taken.parts else _of_nodes(taken, world, events)
    events.lines.extend(_lines_of_outages(outages, last))
    if RESERVATION in taken.parts:
        events.lines.extend(_reservations(taken, world, events))
    return events


def of_access(path: Path, access: Mapping[str, Mapping[str, str]]) -> SiteEvents:
    """Events that let accounts and QOS use partitions. They are not in slurm.conf: slurmctld does not start with a partition's QOS
    that its database does not have yet. path: what messages name; access: as for `of`"""
    events = SiteEvents()
    for name, words in access.items():
        line = Line(f"{path.name}: partition {name}", 0.0, actions.SET, f"partition {name}", "", SITE)
        try:
            events.lines.append(replace(line, argument=as_argument(words)))
        except WrongUse as error:
            raise line.wrong(error.message) from None
    return events


# ---- outages ----


def action_of(state: str, number: str = "") -> str | None:
    """What a node in this state is given: down, drain, or None for one that is in service.

    number: the state as Slurm's own number, which may say that a node was down where sacctmgr prints DRAIN only; empty if unknown
    """
    words = set(re.split(r"[^A-Z_]+", state.upper()))
    is_down = number.isdecimal() and int(number) & _BASE_STATE == _DOWN
    return actions.DOWN if "DOWN" in words or is_down else actions.DRAIN if words & _DRAINED else None


def _of_events(taken: Archive, world: _World, events: SiteEvents) -> dict[str, list[_Outage]]:
    """Outages by node, from the events that slurmdbd has."""
    found: dict[str, list[_Outage]] = {}
    for line, row in of_cluster(taken, EVENT, ("nodename", "timestart", "timeend", "state")):
        if not row["nodename"]:
            continue  # of the cluster
        action, begin, end = action_of(row["state"], row.get("stateraw", "")), *_span(taken, EVENT, line, row, world)
        for node in _expanded(taken, EVENT, line, row["nodename"]):
            if action is None or not world.has(node):
                events.left_out[f"{OUTAGES}: {'nodes that the cluster does not have' if action else 'another state'}"] += 1
            elif end > 0 and begin <= world.last:
                reason = " ".join(row.get("reason", "").split()) or "site"
                found.setdefault(node, []).append(_Outage(begin, end, action, reason, f"{taken.path.name}: {EVENT}:{line}"))
                events.taken[OUTAGES] += 1
    return found


def _of_nodes(taken: Archive, world: _World, events: SiteEvents) -> dict[str, list[_Outage]]:
    """The same from the states that scontrol showed when the week was taken, where slurmdbd's events could not be."""
    found: dict[str, list[_Outage]] = {}
    for line, words in taken.things(NODE, "NodeName", ("NodeName", "State")):
        if not _STATE.match(words["State"]):
            raise taken.wrong(NODE, line, f"State {words['State'][:40]!r} is none of a node")
        action = action_of(words["State"])
        if action is not None and world.has(words["NodeName"]):
            found[words["NodeName"]] = [_Outage(0.0, math.inf, action, "site", f"{taken.path.name}: {NODE}:{line}")]
            events.taken[OUTAGES] += 1
    return found


def _lines_of_outages(found: Mapping[str, Iterable[_Outage]], last: float) -> Iterator[Line]:
    """Lines for the nodes that leave and return at the same instants. One that only changes its state does not return between."""
    groups: dict[tuple[float, str, str], tuple[str, list[str]]] = {}
    for node, outages in found.items():
        end, action = -1.0, ""
        for one in sorted(outages, key=lambda outage: outage.begin):
            begin = max(one.begin, 0.0)
            if begin > end:
                if action:
                    _join(groups, (end, actions.RESUME, ""), one.place, node)
                action = ""
            # Nodes that are out of service at the start are drained: no job ends with them.
            wanted = actions.DRAIN if begin == 0 else one.action
            if not action or (wanted, action) == (actions.DOWN, actions.DRAIN):
                _join(groups, (begin, wanted, one.reason), one.place, node)
                action = wanted
            end = max(end, one.end)
        _join(groups, (end, actions.RESUME, ""), place_of(outages), node)
    for (instant, action, reason), (place, nodes) in groups.items():
        if instant <= last:
            yield Line(place, instant, action, ",".join(nodes), reason, SITE)


def place_of(outages: Iterable[_Outage]) -> str:
    """The place of the last of the outages."""
    return max(outages, key=lambda outage: outage.begin).place


def _join(groups: dict[tuple[float, str, str], tuple[str, list[str]]], key: tuple[float, str, str], place: str, node: str) -> None:
    groups.setdefault(key, (place, []))[1].append(node)


# ---- reservations ----


def _reservations(taken: Archive, world: _World, events: SiteEvents) -> Iterator[Line]:
    used = _used(taken)
    names: Counter[str] = Counter()
    made: list[tuple[float, float, set[str], bool]] = []
    for line, row in of_cluster(taken, RESERVATION, ("name", "timestart", "timeend", "flags", "nodename")):
        begin, end = _span(taken, RESERVATION, line, row, world)
        begin = max(begin, 0.0)
        nodes = [node for node in _expanded(taken, RESERVATION, line, row["nodename"]) if world.has(node)]
        flags = [flag for flag in _FLAGS if flag in row["flags"].upper().split(",")]
        others = [one for one in made if one[0] < end and begin < one[1] and one[2] & set(nodes)]
        if end - begin < LEAST or begin > world.last:
            continue
        if why := (
            ("jobs of the log used them, and run without here" if row["name"] in used else "")
            or ("" if nodes else "without nodes of the cluster")
            or ("that move with the time (TIME_FLOAT)" if "TIME_FLOAT" in row["flags"].upper().split(",") else "")
            or ("" if _is_of_whole_nodes(row.get("tres", ""), nodes, world) else "of some CPUs or GRES of their nodes")
            or ("at the same time as others" if others and not flags and not all(one[3] for one in others) else "")
        ):
            events.left_out[f"{RESERVATIONS}: {why}"] += 1
            continue
        made.append((begin, end, set(nodes), bool(flags)))
        events.taken[RESERVATIONS] += 1
        name = row["name"] if _NAME.fullmatch(row["name"]) else f"site-{line}"
        names[name] += 1
        words = {
            "start": number_word(begin), "duration": number_word(min(end, world.last + LEAST + begin) - begin),
            "nodes": ",".join(nodes), "flags": ",".join([*flags, "IGNORE_JOBS"]),
        }  # fmt: skip
        unique = f"{name}-{names[name]}" if names[name] > 1 else name
        yield Line(f"{taken.path.name}: {RESERVATION}:{line}", 0.0, actions.RESERVE, unique, as_argument(words), SITE)


def _is_of_whole_nodes(tres: str, nodes: Iterable[str], world: _World) -> bool:
    """Whether a reservation covers all CPUs of its nodes, and all of each GRES that its TRES name. Without TRES it covers whole
    nodes; with GRES but no CPUs it does not."""
    has: Counter[str] = Counter()
    typed: Counter[str] = Counter()
    for name, amount, unit in _AMOUNT.findall(tres):
        (typed if ":" in name else has)[name.partition(":")[0]] += int(amount) * 1024 ** " KMGT".index(unit or " ")
    has |= typed
    of_nodes: Counter[str] = Counter()
    for node in nodes:
        of_nodes.update(world.nodes[world.renamed.get(node, node)])
    return not has or ("cpu" in has and all(amount >= of_nodes[name] for name, amount in has.items()))


def _used(taken: Archive) -> set[str]:
    """Names of the reservations that jobs of the log used."""
    found: set[str] = set()
    for piece in taken.pieces("sacct"):
        headings, rows = taken.table(piece)
        if "Reservation" in headings:
            place = headings.index("Reservation")
            found.update(fields[place] for fields in rows)
    return found


# ---- fields ----


def _span(taken: Archive, name: str, line: int, row: Mapping[str, str], world: _World) -> tuple[float, float]:
    """Begin and end of a row in trace seconds after the start; the end is infinite while it lasts."""
    begin, end = row["timestart"], row["timeend"]
    if not re.fullmatch(r"\d{1,12}", begin):
        raise taken.wrong(name, line, f"TimeStart {begin[:40]!r} is no number of seconds since the epoch")
    if not re.fullmatch(r"\d{1,12}|Unknown|None|", end):
        raise taken.wrong(name, line, f"TimeEnd {end[:40]!r} is no number of seconds since the epoch")
    has_end = end.isdecimal() and int(end) > 0
    return int(begin) - world.start, int(end) - world.start if has_end else math.inf


def _expanded(taken: Archive, name: str, line: int, text: str) -> list[str]:
    try:
        return list(dict.fromkeys(hostlist.expand(text))) if text else []
    except ValueError as error:
        raise taken.wrong(name, line, str(error)) from None
