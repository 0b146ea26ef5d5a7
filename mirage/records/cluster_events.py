"""The events of a run (events.csv): which were carried out and when, which nodes were out of service, and what they did to jobs.

Instants are trace seconds, as those of jobs.csv, unless said otherwise.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.cluster_events.planned import COLUMNS, action_of_state, settings_of, words_of
from mirage.metrics.availability import AVAILABILITY_SCHEMA, EMPTIED, OUT
from mirage.records.run_records import NS, Journal, read_text
from mirage.records.run_samples import virtual_seconds
from mirage.records.time_map import TimeMap
from slurm_mirage.base import hostlist
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import cluster_events as actions
from slurm_mirage.replay.actions import DONE
from slurm_mirage.rm.evidence import Layout

NOT_REACHED = "not reached"
"""Outcome of an event whose instant came after the last end of a job."""
BEGINS = {actions.DOWN, actions.DRAIN, actions.FAIL, actions.SILENCE}
ENDS = {
    actions.RESUME: {actions.DOWN, actions.DRAIN},
    actions.RETURN: {actions.FAIL},
    actions.ANSWER: {actions.SILENCE},
}
"""By action, the actions that took its nodes out of service and that it ends."""
DISTURBING = (actions.FAIL, actions.SILENCE, actions.DOWN)
"""Those of BEGINS because of which jobs end and daemons complain."""
NOTICED_WITHIN = 120.0
"""Virtual seconds after the end of an absence within which jobs may still end because of it: a node that registers again tells
which jobs it does not have."""
NODE_FAILURE, REQUEUED, CANCELLED = "failure of a node", "requeue by an event", "cancellation by an event"
CONTROLLER_CHANGED = "change of the controller"
END_UNKNOWN = "time limit: the controller did not know of the end"
UNPLANNED_FAILURE = "failure of a node without an event"
OTHER = "preemption or another cause"
CAUSED_SCHEMA = {
    "job": pl.Int64, "number": pl.Int64, "cause": pl.String, "start": pl.Float64, "end": pl.Float64, "processors": pl.Int64,
    "is_lost": pl.Boolean,
}  # fmt: skip
"""Columns of `ClusterEvents.caused`."""


@dataclass(frozen=True)
class RunEvent:
    """An event of the run."""

    number: int
    instant: float
    """When it was due."""
    action: str
    target: str
    argument: str
    source: str
    outcome: str
    """DONE, REFUSED or UNKNOWN of the replay, or NOT_REACHED."""
    began: float | None
    """When the replay began to carry it out."""
    played: float | None
    """When it was carried out."""
    real: tuple[float, float] | None
    """Both in real seconds, as the hosts know them."""
    words: str
    """The resource manager's words for a refusal."""

    @property
    def of_nodes(self) -> tuple[str, frozenset[str]]:
        """The action, and the nodes that it is about, none if it is not about nodes. A state that `set node` gives is the action
        of that name."""
        if self.action in actions.NODE_ACTIONS:
            return self.action, frozenset(hostlist.expand(self.target))
        kind, _, name = self.target.partition(" ")
        if self.action == actions.SET and kind == "node":
            return action_of_state(settings_of(self.argument)) or self.action, frozenset(hostlist.expand(name))
        return self.action, frozenset()


@dataclass(frozen=True)
class Absence:
    """Nodes that an event took out of service."""

    number: int
    action: str
    nodes: frozenset[str]
    begin: float
    end: float
    """Infinite if no event returned them."""


@dataclass(frozen=True)
class Reservation:
    """A reservation that was made."""

    number: int
    name: str
    announced: float
    begin: float
    end: float
    nodes: frozenset[str]
    """Empty if the resource manager chose them."""
    is_maintenance: bool


@dataclass(frozen=True)
class ClusterEvents:
    """The events of a run and what follows from them."""

    events: Sequence[RunEvent] = ()
    absences: Sequence[Absence] = ()
    reservations: Sequence[Reservation] = ()
    caused: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CAUSED_SCHEMA))
    """Columns of `CAUSED_SCHEMA`: executions that ended before their time, with the events that ended them."""
    availability: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=AVAILABILITY_SCHEMA))
    """Columns of `AVAILABILITY_SCHEMA`: when nodes were out of service, or emptied for maintenance."""
    halted: float = 0.0
    """Total time for which no job could start after events that ended the controller."""

    def __bool__(self) -> bool:
        return bool(self.events)

    def counts(self) -> dict[str, int]:
        """Number of events by outcome."""
        outcomes = [event.outcome for event in self.events]
        return {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}

    def done(self, *names: str) -> list[RunEvent]:
        """The events with these actions that were carried out."""
        return [event for event in self.events if event.action in names and event.outcome == DONE]

    def times(self, *names: str) -> list[tuple[RunEvent, float, float]]:
        """The same, each with the instants at which the replay began to carry it out, and had done so."""
        events = ((event, event.began, event.played) for event in self.done(*names))
        return [(event, began, played) for event, began, played in events if began is not None and played is not None]

    def first_controller_away(self) -> list[tuple[int, float, float]]:
        """When the first controller did not run because of an event: number of the event, begin, end (infinite if none returned
        it)."""
        spans = []
        back = [played for _, _, played in self.times(actions.TAKE_BACK)]
        for event, began, played in self.times(actions.KILL_CONTROLLER, actions.FAILOVER):
            is_short = event.action == actions.KILL_CONTROLLER
            end = played if is_short else next((returned for returned in back if returned >= played), math.inf)
            spans.append((event.number, began, end))
        return spans

    def out_of_service(
        self, instants: NDArray[np.float64], slack: float = 0.0, *, by: Set[str] = frozenset(BEGINS), reserved: bool = True
    ) -> NDArray[np.float64]:
        """The number of nodes that events have taken out of service at each instant: by absences that these actions began, and if
        `reserved`, by reservations.

        slack: seconds before and after, within which a node counts as well
        """
        spans: list[Absence | Reservation] = [absence for absence in self.absences if absence.action in by]
        count = np.zeros(len(instants))
        for of_node in by_node([*spans, *(self.reservations if reserved else ())]).values():
            is_out = np.zeros(len(instants), dtype=bool)
            for begin, end in of_node:
                is_out |= (instants >= begin - slack) & (instants <= end + slack)
            count += is_out
        return count

    def cause_of(
        self, hosts: Set[str], end: float, job: int, state: str, second: float, halted: float = 0.0
    ) -> tuple[int | None, str]:
        """The event that ended an execution on these nodes at this instant, and the cause in words; None if no event did.

        state: of the execution in the completion log; second: trace seconds in a virtual second; halted: trace seconds for which
        no controller answered because of events

        A node that registers with another controller may tell it late which jobs it has, and jobs that started in between count as
        lost: a message that the second controller refuses is sent again after half of SlurmctldTimeout.
        """
        allowed = NOTICED_WITHIN * second
        ended_by = actions.CANCEL if state == "CANCELLED" else actions.REQUEUE
        for event, began, played in reversed(self.times(ended_by)):
            if event.target == str(job) and began - second <= end <= played + allowed:
                return event.number, CANCELLED if ended_by == actions.CANCEL else REQUEUED
        if state in ("CANCELLED", "PREEMPTED"):
            return None, OTHER
        for absence in reversed(self.absences):
            if absence.action in DISTURBING and absence.nodes & hosts and absence.begin - second <= end <= absence.end + allowed:
                return absence.number, NODE_FAILURE
        for event, began, played in reversed(self.times(actions.KILL_CONTROLLER, actions.FAILOVER, actions.TAKE_BACK)):
            if state == "NODE_FAIL" and began - second <= end <= played + halted + allowed:
                return event.number, CONTROLLER_CHANGED
        return None, UNPLANNED_FAILURE if state == "NODE_FAIL" else OTHER


def by_node(spans: Iterable[Absence | Reservation]) -> dict[str, list[tuple[float, float]]]:
    """The times of each node in absences and reservations (begin, end), without overlaps, in order."""
    found: dict[str, list[tuple[float, float]]] = {}
    for span in spans:
        for node in span.nodes:
            found.setdefault(node, []).append((span.begin, span.end))
    return {node: _merged(found[node]) for node in sorted(found)}


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans of time without overlaps, in order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def read(path: Path, journal: Journal, time: TimeMap, nodes: Iterable[str]) -> ClusterEvents:
    """The events in a file, with their outcomes in the journal; none without the file. Raises WrongUse.

    nodes: all nodes of the machine
    """
    if not path.exists():
        return ClusterEvents()
    events = [_event(path, row, journal, time) for row in csv.DictReader(io.StringIO(read_text(path)))]
    return ClusterEvents(events, _absences(events), _reservations(events, time.origin, frozenset(nodes)))


def _event(path: Path, row: Mapping[str, str | None], journal: Journal, time: TimeMap) -> RunEvent:
    def trace(real: float) -> float:
        return round(float(pl.select(time.trace(time.virtual_of_real(pl.lit(real)))).item()), 6)

    try:
        text, instant, action, target, argument, source = (row[name] or "" for name in COLUMNS)
        number, began, played, real = int(text), None, None, None
        outcome, words = NOT_REACHED, ""
        if (done := journal.events_done.get(number)) is not None:
            outcome, words = done["outcome"], done["words"]
            first = journal.events_began.get(number, done)
            began, played = trace(float(first["real"])), trace(float(done["real"]))
            # On an event clock `real` of the journal is the cluster's time.
            real = float(first.get("outside", first["real"])), float(done.get("outside", done["real"]))
        due = time.origin + float(instant)
        event = RunEvent(number, due, action, target, argument, source, outcome, began, played, real, words)
        if not all(event.of_nodes[1]) or action not in actions.ACTIONS:
            raise ValueError(f"no action {action!r}")
        return event
    except (KeyError, ValueError, TypeError) as error:
        raise WrongUse(f"{path}: is not the events.csv of a run ({error})", parameter="run") from error


def _absences(events: Sequence[RunEvent]) -> list[Absence]:
    """The absences in the order of their begins. An event that returns some of the nodes divides an absence."""
    open_now: dict[str, dict[str, tuple[int, float]]] = {}
    closed: dict[tuple[int, str, float, float], set[str]] = {}
    for event in events:
        if event.outcome != DONE or event.began is None or event.played is None:
            continue
        action_of, nodes = event.of_nodes
        if action_of in BEGINS:
            for node in nodes:
                open_now.setdefault(action_of, {}).setdefault(node, (event.number, event.began))
        for action in ENDS.get(action_of, ()):
            for node in nodes:
                if (begun := open_now.get(action, {}).pop(node, None)) is not None:
                    closed.setdefault((begun[0], action, begun[1], event.played), set()).add(node)
    for action, still in open_now.items():
        for node, (number, begin) in still.items():
            closed.setdefault((number, action, begin, math.inf), set()).add(node)
    return [
        Absence(number, action, frozenset(nodes), begin, end)
        for (number, action, begin, end), nodes in sorted(closed.items(), key=lambda one: (one[0][2], one[0][0], one[0][3]))
    ]


def _reservations(events: Sequence[RunEvent], origin: float, nodes: frozenset[str]) -> list[Reservation]:
    made: dict[str, Reservation] = {}
    found: list[Reservation] = []
    for event in events:
        if event.outcome != DONE or event.played is None:
            continue
        if event.action == actions.RESERVE:
            words = words_of(event.argument)
            begin = origin + float(words["StartTime"])
            text = words.get("Nodes", "")
            named = nodes if text.upper() == "ALL" else frozenset(hostlist.expand(text)) if text else frozenset()
            flags = words.get("Flags", "").upper().split(",")
            end = begin + float(words["Duration"])
            made[event.target] = Reservation(event.number, event.target, event.played, begin, end, named, "MAINT" in flags)
            found.append(made[event.target])
        elif event.action == actions.RELEASE and (known := made.get(event.target)) is not None:
            found.remove(known)
            found.append(replace(known, end=max(known.begin, event.played)))
    return sorted(found, key=lambda one: (one.begin, one.number))


def caused(events: ClusterEvents, lines: pl.DataFrame, time: TimeMap, halted: float = 0.0) -> pl.DataFrame:
    """The executions of jobs that ended by a failure of a node, a requeue or a cancellation: columns of CAUSED_SCHEMA.

    lines: of the completion log (`run_records.completions`) with hosts; halted: as of `ClusterEvents.cause_of`. is_lost: whether
    the job went on with another execution, or ended by the failure of a node
    """
    if not events:
        return pl.DataFrame(schema=CAUSED_SCHEMA)
    ended = lines.filter(col("s_ran") & (~col("s_final") | col("s_state").is_in(["NODE_FAIL", "CANCELLED"]))).with_columns(
        start=time.trace(col("s_start")), end=time.trace(col("s_end"))
    )
    rows = []
    for job, state, start, end, processors, hosts, final in ended.select(
        "id", "s_state", "start", "end", "s_allocated", "hosts", "s_final"
    ).iter_rows():
        if end is None:
            continue
        number, cause = events.cause_of(_expanded(hosts), end, job, state, time.second, halted)
        rows.append((job, number, cause, start, end, processors or 0, not final or state == "NODE_FAIL"))
    return pl.DataFrame(rows, schema=CAUSED_SCHEMA, orient="row")


def availability(events: ClusterEvents, lines: pl.DataFrame, time: TimeMap, layout: Layout | None) -> pl.DataFrame:
    """When nodes were out of service by absences and maintenance windows, and when they were emptied for these: columns of
    AVAILABILITY_SCHEMA.

    lines: as of `caused`
    """
    windows = [one for one in events.reservations if one.is_maintenance]
    if layout is None or not (windows or events.absences):
        return pl.DataFrame(schema=AVAILABILITY_SCHEMA)
    out = by_node([*events.absences, *windows])
    emptied = _emptied(windows, lines, time, out) if windows else {}
    rows = []
    for kind, spans in ((OUT, out), (EMPTIED, emptied)):
        alike: dict[tuple[float, float], list[str]] = {}
        for node, of_node in spans.items():
            for span in of_node:
                alike.setdefault(span, []).append(node)
        for (begin, end), nodes in sorted(alike.items()):
            processors = sum(layout.nodes[node].processors for node in nodes if node in layout.nodes)
            rows.append((kind, begin, None if math.isinf(end) else end, hostlist.compress(nodes), processors))
    return pl.DataFrame(rows, schema=AVAILABILITY_SCHEMA, orient="row")


def _emptied(
    windows: Sequence[Reservation], lines: pl.DataFrame, time: TimeMap, out: Mapping[str, Sequence[tuple[float, float]]]
) -> dict[str, list[tuple[float, float]]]:
    """When nodes of maintenance windows had no job before the window any more, nor were out of service."""
    # A job that changed its size has no start in the log.
    start = time.trace(col("s_start")).fill_null(-math.inf)
    ran = lines.filter("s_ran").select(start=start, end=time.trace(col("s_end")), hosts="hosts").drop_nulls()
    found: dict[str, list[tuple[float, float]]] = {}
    for window in windows:
        before = ran.filter(col("start") < window.begin, col("end") > window.announced)
        since = dict.fromkeys(window.nodes, window.announced)
        for end, hosts in before.group_by("hosts").agg(col("end").max()).select("end", "hosts").iter_rows():
            for node in _expanded(hosts) & window.nodes:
                since[node] = max(since[node], end)
        for node, begin in since.items():
            for left, right in _without(begin, window.begin, out.get(node, ())):
                found.setdefault(node, []).append((left, right))
    return {node: _merged(found[node]) for node in sorted(found)}


def _without(begin: float, end: float, spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The parts of the time from begin to end that are in none of the spans, which are in order and do not overlap."""
    left = []
    for since, until in spans:
        if since > begin and min(since, end) > begin:
            left.append((begin, min(since, end)))
        begin = max(begin, until)
    return [*left, (begin, end)] if begin < end else left


def _expanded(hosts: str | None) -> set[str]:
    """The nodes in a host list of the completion log; none where it is not one, as `(null)`."""
    try:
        return set(hostlist.expand(hosts or ""))
    except ValueError:
        return set()


def told_late(events: ClusterEvents, joined: pl.DataFrame, time: TimeMap, halted: float) -> pl.DataFrame:
    """The jobs whose nodes could not tell their ends to the first controller at once, because an event had ended it: columns of
    CAUSED_SCHEMA, without a cause where the record has the state that the job had. A node asks the first controller before the
    second one.

    joined: the records of each job; halted: trace seconds for which no controller answered because of events
    """
    is_killed = (col("s_state") == "TIMEOUT") & col("completed")
    ended = joined.select(
        job="id", number=pl.lit(None), cause=pl.when(is_killed).then(pl.lit(END_UNKNOWN)), start=time.trace(col("s_start")),
        end=time.trace(col("s_end")), processors=col("s_allocated").fill_null(0), is_lost=pl.lit(False),
    ).select(col(name).cast(kind) for name, kind in CAUSED_SCHEMA.items()).drop_nulls(["job", "start", "end"])  # fmt: skip
    allowed = halted + NOTICED_WITHIN * time.second
    late = [
        ended.filter(col("end").is_between(begin - time.second, end + allowed)).with_columns(number=pl.lit(number, pl.Int64))
        for number, begin, end in events.first_controller_away()
    ]
    return pl.concat([ended.clear(), *late]).unique("job", keep="first", maintain_order=True)


def disturbed_ends(events: ClusterEvents, lines: pl.DataFrame, time: TimeMap) -> list[int]:
    """Ids of the jobs at whose ends nodes of theirs were gone or did not answer, so that their processors were free late.

    lines: as of `caused`
    """
    spans = [one for one in events.absences if one.action in DISTURBING]
    if not spans:
        return []
    ids = set()
    for job, end, hosts in lines.filter("s_final").select("id", time.trace(col("s_end")), "hosts").iter_rows():
        names = _expanded(hosts)
        if end is not None and any(
            one.nodes & names and one.begin - time.second <= end <= one.end + NOTICED_WITHIN * time.second for one in spans
        ):
            ids.add(job)
    return sorted(ids)


def virtual_instants(samples: pl.DataFrame, time: TimeMap) -> NDArray[np.float64]:
    """The instants of samples."""
    if "virtual" not in samples.columns:
        return np.zeros(samples.height)
    virtual = (virtual_seconds(samples) * NS).round().cast(pl.Int64)
    return pl.DataFrame({"v": virtual}).select(time.trace(col("v"))).to_series().to_numpy()
