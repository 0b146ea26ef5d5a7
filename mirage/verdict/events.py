"""Finds which disturbances of a run its events explain, so that the verdict does not count them, and names the events that were not
carried out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.cluster_events.planned import GENERATED, settings_of
from mirage.records.cluster_events import DISTURBING, END_UNKNOWN, NOT_REACHED, Reservation, RunEvent, by_node, virtual_instants
from mirage.records.record import RunRecord
from mirage.records.rounding import rounded
from mirage.records.run_samples import ANY, SILENT
from mirage.verdict.advice import counted
from slurm_mirage.base import hostlist
from slurm_mirage.jobs import cluster_events as actions
from slurm_mirage.replay.actions import DONE, REFUSED, UNKNOWN
from slurm_mirage.rm.evidence import START_FORGOTTEN, Layout

SLACK = 120.0
"""Virtual seconds before and after an absence in which nodes may still be out of service: slurmctld notices a node that registers,
and a reservation that ends, within that time."""
COMPLAINTS_EACH = 20
"""Messages of daemons that an event which takes nodes away, or ends the controller, explains."""
SHOWN = 3
"""Number of events that a reason names."""
ENDS_WITHIN = 60.0
"""Real seconds after an event by which the farm has noted the end of a daemon that it caused."""
_ACCESS = ("allow", "deny")
"""Begins of the words that say which jobs may use a partition."""
_LIMITED = ("account", "user", "qos")
"""What `set` events give limits: where a job waits for one, the manager's log says so (`ManagerFacts.limits_told`)."""
_NO_WAITS = ("priority", "fairshare", "weight", "comment", "reason", "description", "nice", "preempt", "gracetime")
"""Begins of the words of a `set` event because of which no job waits while what it needs is idle."""


def planned_absence(record: RunRecord, samples: pl.DataFrame, nodes: int) -> dict[str, NDArray[np.float64]] | None:
    """How many nodes may have been of each kind of `LACKING`, and of any, at each sample because of events; None in a run without
    events. After an event that ends the controller, none of the nodes need respond until they have registered with the next one.

    nodes: of the machine
    """
    events = record.events
    if not events:
        return None
    instants, slack = virtual_instants(samples, record.time), SLACK * record.time.second
    halted = np.zeros(len(instants), dtype=bool)
    for begin, end in controller_ends(record):
        halted |= (instants >= begin - slack) & (instants <= end + slack + record.events.halted)

    def out(*actions_of: str) -> NDArray[np.float64]:
        return np.where(halted, nodes, events.out_of_service(instants, slack, by=set(actions_of), reserved=False))

    # Slurm takes a node for silent from its return to service until it has answered.
    returned = [
        replace(one, begin=one.end)
        for one in events.absences
        if one.action in (actions.DRAIN, actions.DOWN) and math.isfinite(one.end)
    ]
    answering = replace(events, absences=returned).out_of_service(instants, slack, by={actions.DRAIN, actions.DOWN}, reserved=False)
    silent = np.minimum(nodes, out(actions.FAIL, actions.SILENCE) + answering)
    return {
        # Slurm shows a node that is drained and down, as by an event `down`, as drained.
        "drained": events.out_of_service(instants, slack, by={actions.DRAIN, actions.DOWN}, reserved=False),
        "down": events.out_of_service(instants, slack, by=set(DISTURBING), reserved=False),
        "reserved": events.out_of_service(instants, slack, by=set()),
        "unknown": out(actions.FAIL, actions.SILENCE),
        SILENT: silent,
        ANY: np.where(halted, nodes, events.out_of_service(instants, slack)),
    }


def unplanned(samples: pl.DataFrame, kind: str, planned: Mapping[str, NDArray[np.float64]] | None) -> pl.DataFrame:
    """The samples, in which nodes of this kind do not count that are so by events."""
    column = f"nodes_{kind}"
    if planned is None or column not in samples.columns:
        return samples
    return samples.with_columns(pl.Series(column, (samples[column].fill_null(0.0).to_numpy() - planned[kind]).clip(0.0)))


def controller_ends(record: RunRecord) -> list[tuple[float, float]]:
    """When events ended the controller, or let the first one take control back: from when the replay began to do so until it had.
    Slurm 23.11 and later start a new process for each change of the configuration."""
    others = record.events.done(actions.TAKE_BACK, actions.CONFIGURE)
    events = {one.number: one for one in (*_ending_controller(record), *others)}
    return [(one.began, one.played) for one in events.values() if one.began is not None and one.played is not None]


def due_without_controller(record: RunRecord) -> pl.Expr:
    """Whether a submission was due after an event that ended the controller, when none answered: the replay waits, as a user's
    sbatch does. Of a frame with the column submit."""
    reason, slack = pl.lit(False), SLACK * record.time.second
    for begin, end in controller_ends(record):
        reason |= col("submit").is_between(begin - slack, end + slack + record.events.halted)
    return reason


def _ending_controller(record: RunRecord) -> list[RunEvent]:
    """The events that were carried out and ended the controller: another configuration does, where Slurm reads it at its start
    only."""
    restarts = (one for one in record.events.done(actions.CONFIGURE) if one.argument == actions.RESTART)
    return [*record.events.done(actions.KILL_CONTROLLER, actions.FAILOVER), *restarts]


def ended_controllers(record: RunRecord) -> int:
    """How many ends of the controller events explain."""
    return len(_ending_controller(record))


def explained_nodes(record: RunRecord) -> int:
    """How many times events explain that the controller sets a node down."""
    return sum(len(absence.nodes) for absence in record.events.absences if absence.action in DISTURBING)


def explained_complaints(record: RunRecord) -> int:
    """How many messages of daemons events explain at most."""
    return COMPLAINTS_EACH * (explained_nodes(record) + ended_controllers(record))


def failed_jobs(record: RunRecord) -> pl.Series:
    """Ids of jobs that ended by the failure of a node which an event caused."""
    return record.events.caused.filter(col("number").is_not_null())["job"]


def killed_jobs(record: RunRecord) -> pl.Series:
    """Ids of jobs that were ended at their time limits because an event had ended the controller, which did not know that they
    had ended."""
    return record.events.caused.filter(col("cause") == END_UNKNOWN)["job"]


def not_carried_out(record: RunRecord) -> list[str]:
    """Reasons for an inconclusive run: events that were refused, of which the outcome is unknown, or that were not reached."""
    reasons = []
    for outcome, how in (
        (REFUSED, f"{record.names.manager} refused it"),
        (UNKNOWN, "the replay was killed, and whether it was carried out is not known"),
        (NOT_REACHED, "all jobs had ended before"),
    ):
        events = [
            event
            for event in record.events.events
            if event.outcome == outcome and not (outcome == NOT_REACHED and (event.source in GENERATED or _is_end(event)))
        ]
        if events:
            named = "; ".join(_in_words(event) for event in events[:SHOWN])
            more = f" and {len(events) - SHOWN} more" if len(events) > SHOWN else ""
            reasons.append(f"{counted(len(events), 'event')} not carried out, {how}: {named}{more}")
    return reasons


def _is_end(event: RunEvent) -> bool:
    """Whether the event only ends what another one began."""
    return event.action in (actions.RETURN, actions.ANSWER, actions.RESUME, actions.RELEASE, actions.RELEASE_JOB, actions.TAKE_BACK)


def _in_words(event: RunEvent) -> str:
    words = " ".join(word for word in (event.action, event.target) if word)
    return f"{event.source}: {words}{f' ({event.words})' if event.words else ''}"


def left_out_of_latency(record: RunRecord, layout: Layout) -> pl.Expr:
    """Whether a job may have waited for an event, and not for the emulation: no controller ran between its acceptance and its
    start, it was held, what may run was changed, or it might not have ended before a large reservation that was known then. Of a
    frame with the columns id, accepted, start, limit and partition. Nodes out of service, and small reservations, are in `taken`.
    """
    events = record.events
    reason = pl.lit(False)
    if not events:
        return reason
    slack = SLACK * record.time.second
    accepted, start = col("accepted"), pl.coalesce("start", col("accepted"))

    def between(begin: float, end: float) -> pl.Expr:
        return (accepted <= end + slack) & (start >= begin - slack)

    for begin, end in controller_ends(record):
        reason |= between(begin, end + record.events.halted)
    held = [int(event.target) for event in events.done(actions.HOLD) if event.target.isdecimal()]
    reason |= col("id").is_in(held)
    for partition, begin, end in _changed_rules(record):
        of_partition = pl.lit(True) if partition is None else col("partition").is_in([partition, ""])
        reason |= of_partition & between(begin, end)
    for one in _reservations(record, layout, are_small=False):
        reaches_it = (accepted + col("limit").fill_null(math.inf) >= one.begin - slack) | (start >= one.begin - slack)
        reason |= (start >= one.announced) & (accepted <= one.end + slack) & reaches_it
    return reason


def _changed_rules(record: RunRecord) -> list[tuple[str | None, float, float]]:
    """From when until when jobs may have waited for what an event changed: the partition, None for all, begin, end.

    The state of a partition holds until it is UP again. Other words, and another configuration, in which limits may be others, hold
    to the end of the run, but for words that only change which job is first. Rules of which the manager's log says that a job waits
    for them count only while they are changed; so does who may use a partition, if that is given when the run begins.
    """
    events = record.events.done(actions.SET, actions.CONFIGURE)
    found: list[tuple[str | None, float, float]] = []
    closed: dict[str, float] = {}
    for event in events:
        assert event.began is not None and event.played is not None
        kind, _, name = event.target.partition(" ")
        words = settings_of(event.argument)
        if event.action == actions.SET and kind == "partition" and "state" in words:
            if words.pop("state").upper() != "UP":
                closed.setdefault(name, event.began)
            elif name in closed:
                found.append((name, closed.pop(name), event.played))
        elif event.action == actions.SET and event.of_nodes[0] != actions.SET:
            words.pop("state")
        lasting = [word for word in words if not word.startswith(_NO_WAITS)]
        if event.action == actions.CONFIGURE or lasting:
            is_access = kind == "partition" and all(word.startswith(_ACCESS) for word in lasting)
            is_told = kind in _LIMITED or (kind == "partition" and all(word.startswith((*_ACCESS, "qos")) for word in lasting))
            is_over = (record.manager.limits_told and is_told) or (is_access and event.instant <= record.time.origin)
            is_over &= event.action == actions.SET
            found.append((name if kind == "partition" else None, event.began, event.played if is_over else math.inf))
    return [*found, *((name, begin, math.inf) for name, begin in closed.items())]


def _reservations(record: RunRecord, layout: Layout, *, are_small: bool) -> list[Reservation]:
    """The reservations whose nodes are known and less than half of the machine, or all others."""
    return [one for one in record.events.reservations if (0 < len(one.nodes) < len(layout.nodes) / 2) == are_small]


def taken(record: RunRecord, layout: Layout, names: Iterable[str]) -> pl.DataFrame:
    """What absences and small reservations take of these nodes, as changes: time, width (processors), most_nodes. Reserved nodes
    are taken from when the job with the longest time limit might not have ended before."""
    schema = {"time": pl.Float64, "width": pl.Int64, "most_nodes": pl.Int64}
    if not record.events:
        return pl.DataFrame(schema=schema)
    slack, wanted = SLACK * record.time.second, frozenset(names)
    limits = record.evidence["limit"]
    longest = math.inf if limits.has_nulls() else float(limits.max() or 0.0)  # type: ignore[arg-type]
    reserved = [
        replace(one, begin=min(one.begin, max(one.announced, one.begin - longest)))
        for one in _reservations(record, layout, are_small=True)
    ]
    rows = []
    for node, spans in by_node([*record.events.absences, *reserved]).items():
        if node in wanted and node in layout.nodes:
            width = layout.nodes[node].processors
            for begin, end in spans:
                rows += [(begin - slack, width, 1), (end + slack, -width, -1)]
    return pl.DataFrame([row for row in rows if math.isfinite(row[0])], schema=schema, orient="row")


def summary(record: RunRecord, messages: Mapping[str, int] | None) -> dict[str, Any]:
    """The member `events` of metrics.json: counts by outcome, work lost by cause, for how long no job could start, absences,
    reservations, and a row for each event with what it caused.

    messages: of daemons by kind
    """
    caused = record.events.caused
    hours = (col("end") - col("start")) * col("processors") / 3600
    lost = caused.filter("is_lost")
    by_cause = {
        cause: {"executions": count, "processor_hours": rounded(spent)}
        for cause, count, spent in lost.group_by("cause", maintain_order=True)
        .agg(pl.len(), spent=hours.sum())
        .sort("cause")
        .iter_rows()
    }
    of_event = {
        number: {"jobs": jobs, "executions": count, "processor_hours": rounded(spent)}
        for number, jobs, count, spent in caused.drop_nulls("number")
        .group_by("number", maintain_order=True)
        .agg(jobs=col("job").n_unique(), count=pl.len(), spent=pl.when("is_lost").then(hours).otherwise(0.0).sum())
        .iter_rows()
    }
    rows = [
        {
            "number": event.number, "instant": rounded(event.instant), "action": event.action, "target": event.target,
            "source": event.source, "outcome": event.outcome, "played": event.played, "words": event.words,
            **of_event.get(event.number, {"jobs": 0, "executions": 0, "processor_hours": 0.0}),
        }
        for event in record.events.events
    ]  # fmt: skip
    return {
        "counts": record.events.counts(),
        "lost": by_cause,
        "starts_forgotten": (messages or {}).get(START_FORGOTTEN, 0),
        "halted_by_events": rounded(record.events.halted),
        "absences": [
            {
                "number": one.number,
                "action": one.action,
                "nodes": hostlist.compress(one.nodes),
                "begin": one.begin,
                "end": None if math.isinf(one.end) else one.end,
            }
            for one in record.events.absences
        ],
        "reservations": [
            {
                "number": one.number,
                "name": one.name,
                "announced": one.announced,
                "begin": one.begin,
                "end": one.end,
                "nodes": hostlist.compress(one.nodes),
                "is_maintenance": one.is_maintenance,
            }
            for one in record.events.reservations
        ],
        "events": rows,
    }


def remaining_ends(ended: Mapping[str, Sequence[Any]], record: RunRecord, kind: str) -> dict[str, list[Any]]:
    """The ends of daemons by kind without those of the controller (`kind`) that events explain: of each event the first one that
    the farm noted from its beginning on."""
    left = {name: list(of_kind) for name, of_kind in ended.items()}
    for event in _ending_controller(record):
        assert event.real is not None
        began, done = event.real
        of_event = (one for one in left.get(kind, []) if began - 1 <= one[1]["real"] <= done + ENDS_WITHIN)
        if (killed := next(of_event, None)) is not None:
            left[kind].remove(killed)
    return {name: of_kind for name, of_kind in left.items() if of_kind}


def forgotten_words(member: Mapping[str, Any]) -> str:
    """`; 2 starts forgotten`, from the member `events` of metrics.json; empty if there were none."""
    count = member.get("starts_forgotten", 0)
    return f"; {counted(count, 'start')} that the controller had not saved when it ended" if count else ""


def outcome_words(counts: Mapping[str, int]) -> str:
    """`12 events: 11 done, 1 refused`."""
    order = Counter(counts)
    known = [outcome for outcome in (DONE, REFUSED, UNKNOWN, NOT_REACHED) if order[outcome]]
    return f"{counted(sum(counts.values()), 'event')}: {', '.join(f'{order[outcome]} {outcome}' for outcome in known)}"
