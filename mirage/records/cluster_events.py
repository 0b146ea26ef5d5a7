"""The events of a run (events.csv): which were carried out and when, which nodes were out of service, and what they did to jobs.

Instants are trace seconds, as those of jobs.csv, unless said otherwise.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.cluster_events.planned import COLUMNS, words_of
from mirage.records.run_records import NS, read_text
from mirage.records.time_map import TimeMap
from slurm_mirage.base import hostlist
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import cluster_events as actions
from slurm_mirage.replay.actions import DONE

NOT_REACHED = "not reached"
"""Outcome of an event whose instant came after the last end of a job."""
BEGINS = {actions.DOWN, actions.DRAIN, actions.FAIL, actions.SILENCE}
ENDS = {
    actions.RESUME: {actions.DOWN, actions.DRAIN},
    actions.RETURN: {actions.FAIL},
    actions.ANSWER: {actions.SILENCE},
}
"""Which absences of its nodes an action ends."""
NOTICED_WITHIN = 120.0
"""Trace seconds after the end of an absence within which jobs may still end because of it: a node that registers again tells which
jobs it does not have."""
NODE_FAILURE, REQUEUED, CANCELLED = "failure of a node", "requeue by an event", "cancellation by an event"
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
    played: float | None
    """When it was carried out."""
    words: str
    """The resource manager's words for a refusal."""


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

    def __bool__(self) -> bool:
        return bool(self.events)

    def counts(self) -> dict[str, int]:
        """Number of events by outcome."""
        outcomes = [event.outcome for event in self.events]
        return {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}

    def done(self, *names: str) -> list[RunEvent]:
        """The events with these actions that were carried out."""
        return [event for event in self.events if event.action in names and event.outcome == DONE]

    def out_of_service(self, instants: NDArray[np.float64], slack: float = 0.0, *, reserved: bool = True) -> NDArray[np.float64]:
        """The number of nodes that events have taken out of service at each instant, by absence or, if `reserved`, reservation.

        slack: seconds before and after, within which a node counts as well
        """
        spans = [(absence.nodes, absence.begin, absence.end) for absence in self.absences]
        if reserved:
            spans += [(one.nodes, one.begin, one.end) for one in self.reservations]
        by_node: dict[str, list[tuple[float, float]]] = {}
        for nodes, begin, end in spans:
            for node in nodes:
                by_node.setdefault(node, []).append((begin - slack, end + slack))
        count = np.zeros(len(instants))
        for node_spans in by_node.values():
            is_out = np.zeros(len(instants), dtype=bool)
            for begin, end in node_spans:
                is_out |= (instants >= begin) & (instants <= end)
            count += is_out
        return count

    def absent_processors(self, processors: Mapping[str, int]) -> list[tuple[float, int]]:
        """The processors out of service by absences and maintenance windows, as steps: (instant from which on, number)."""
        spans = [(absence.nodes, absence.begin, absence.end) for absence in self.absences]
        spans += [(one.nodes, one.begin, one.end) for one in self.reservations if one.is_maintenance]
        by_node: dict[str, list[tuple[float, float]]] = {}
        for nodes, begin, end in spans:
            for node in nodes:
                by_node.setdefault(node, []).append((begin, end))
        changes: dict[float, int] = {}
        for node, of_node in by_node.items():
            for begin, end in _merged(of_node):
                changes[begin] = changes.get(begin, 0) + processors.get(node, 0)
                changes[end] = changes.get(end, 0) - processors.get(node, 0)
        level, steps = 0, []
        for instant in sorted(changes):
            level += changes[instant]
            steps.append((instant, level))
        return steps

    def cause_of(self, hosts: Set[str], end: float, job: int, state: str) -> tuple[int | None, str]:
        """The event that ended an execution on these nodes at this instant, and the cause in words; (None, OTHER) if none did."""
        for event in reversed(self.done(actions.REQUEUE, actions.CANCEL)):
            assert event.played is not None
            if event.target == str(job) and -1.0 <= end - event.played <= NOTICED_WITHIN:
                is_requeue = event.action == actions.REQUEUE
                if is_requeue == (state != "CANCELLED"):
                    return event.number, REQUEUED if is_requeue else CANCELLED
        for absence in reversed(self.absences):
            ends_jobs = absence.action != actions.DRAIN
            if ends_jobs and absence.nodes & hosts and absence.begin - 1.0 <= end <= absence.end + NOTICED_WITHIN:
                return absence.number, NODE_FAILURE
        return None, OTHER


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans of time without overlaps, in order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def read(path: Path, outcomes: Mapping[int, Mapping[str, Any]], time: TimeMap, nodes: Iterable[str]) -> ClusterEvents:
    """The events in a file, with their outcomes in the journal by number; none without the file. Raises WrongUse.

    nodes: all nodes of the machine
    """
    if not path.exists():
        return ClusterEvents()
    events = [_event(path, row, outcomes, time) for row in csv.DictReader(io.StringIO(read_text(path)))]
    return ClusterEvents(events, _absences(events), _reservations(events, time.origin, frozenset(nodes)))


def _event(path: Path, row: Mapping[str, str | None], outcomes: Mapping[int, Mapping[str, Any]], time: TimeMap) -> RunEvent:
    try:
        number, instant, action, target, argument, source = (row[name] or "" for name in COLUMNS)
        outcome = outcomes.get(int(number))
        played = None
        if outcome is not None:
            frame = pl.select(time.trace(time.virtual_of_real(pl.lit(float(outcome["real"])))))
            played = round(float(frame.item()), 6)
        return RunEvent(
            int(number), time.origin + float(instant), action, target, argument, source,
            NOT_REACHED if outcome is None else outcome["outcome"], played, "" if outcome is None else outcome["words"],
        )  # fmt: skip
    except (KeyError, ValueError, TypeError) as error:
        raise WrongUse(f"{path}: is not the events.csv of a run ({error})", parameter="run") from error


def _absences(events: Sequence[RunEvent]) -> list[Absence]:
    """The absences in the order of their begins. An event that returns some of the nodes divides an absence."""
    open_now: dict[str, dict[str, tuple[int, float]]] = {}
    closed: dict[tuple[int, str, float, float], set[str]] = {}
    for event in events:
        if event.outcome != DONE or event.played is None:
            continue
        if event.action in BEGINS:
            for node in hostlist.expand(event.target):
                open_now.setdefault(event.action, {}).setdefault(node, (event.number, event.played))
        for action in ENDS.get(event.action, ()):
            for node in hostlist.expand(event.target):
                if (begun := open_now.get(action, {}).pop(node, None)) is not None:
                    closed.setdefault((begun[0], action, begun[1], event.played), set()).add(node)
    for action, nodes in open_now.items():
        for node, (number, begin) in nodes.items():
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
            end = max(known.begin, event.played)
            found.append(
                Reservation(known.number, known.name, known.announced, known.begin, end, known.nodes, known.is_maintenance)
            )
    return sorted(found, key=lambda one: (one.begin, one.number))


def caused(events: ClusterEvents, lines: pl.DataFrame, time: TimeMap) -> pl.DataFrame:
    """The executions of jobs that ended by a failure of a node, a requeue or a cancellation: columns of CAUSED_SCHEMA.

    lines: of the completion log (`run_records.completions`) with hosts. is_lost: whether the job went on with another execution, or
    ended by the failure of a node
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
        try:
            names = set(hostlist.expand(hosts or ""))
        except ValueError:
            names = set()
        number, cause = events.cause_of(names, end, job, state)
        rows.append((job, number, cause, start, end, processors or 0, not final or state == "NODE_FAIL"))
    return pl.DataFrame(rows, schema=CAUSED_SCHEMA, orient="row")


def disturbed_ends(events: ClusterEvents, lines: pl.DataFrame, time: TimeMap) -> list[int]:
    """Ids of the jobs at whose ends nodes of theirs were gone or did not answer, so that their processors were free late.

    lines: as of `caused`
    """
    spans = [one for one in events.absences if one.action in (actions.FAIL, actions.SILENCE, actions.DOWN)]
    if not spans:
        return []
    ids = set()
    for job, end, hosts in lines.select("id", time.trace(col("s_end")), "hosts").iter_rows():
        try:
            names = set(hostlist.expand(hosts or ""))
        except ValueError:
            continue
        if end is not None and any(one.nodes & names and one.begin - 1.0 <= end <= one.end + NOTICED_WITHIN for one in spans):
            ids.add(job)
    return sorted(ids)


def virtual_instants(samples: pl.DataFrame, time: TimeMap) -> NDArray[np.float64]:
    """The instants of samples."""
    if "virtual" not in samples.columns:
        return np.zeros(samples.height)
    virtual = (samples["virtual"].interpolate().fill_null(strategy="backward").fill_null(0.0) * NS).round().cast(pl.Int64)
    return pl.DataFrame({"v": virtual}).select(time.trace(col("v"))).to_series().to_numpy()
