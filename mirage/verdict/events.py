"""What events of a run explain of its disturbances, and what the verdict says of events that were not carried out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.metrics.measured_jobs import Population
from mirage.metrics.usage_over_time import within
from mirage.records.cluster_events import NOT_REACHED, RunEvent, virtual_instants
from mirage.records.collect import Collected
from mirage.records.rounding import rounded
from mirage.verdict.advice import counted
from slurm_mirage.base import hostlist
from slurm_mirage.jobs import cluster_events as actions
from slurm_mirage.replay.actions import DONE, REFUSED
from slurm_mirage.rm.evidence import Layout

SLACK = 120.0
"""Virtual seconds before and after an absence in which nodes may still be out of service: slurmctld notices a node that registers,
and a reservation that ends, within that time."""
COMPLAINTS_EACH = 20
"""Messages of daemons that an event which takes nodes away, or ends the controller, explains."""
SHOWN = 3
"""Number of events that a reason names."""
GENERATED = ("FAILURES", "MAINTENANCE")
"""Sources of events whose instants the user did not choose: that one was not reached is no reason."""
DISTURBING = (actions.FAIL, actions.SILENCE, actions.DOWN, actions.KILL_CONTROLLER)
"""Actions of which daemons complain."""


def planned_absence(collected: Collected, samples: pl.DataFrame) -> NDArray[np.float64] | None:
    """How many nodes events had taken out of service at each sample; None in a run without events."""
    if not collected.events:
        return None
    return collected.events.out_of_service(virtual_instants(samples, collected.time), SLACK * collected.time.second)


def unplanned(samples: pl.DataFrame, column: str, planned: NDArray[np.float64] | None) -> pl.DataFrame:
    """The samples, in which `column` does not count the nodes that events had taken out of service."""
    if planned is None or column not in samples.columns:
        return samples
    return samples.with_columns(pl.Series(column, (samples[column].fill_null(0.0).to_numpy() - planned).clip(0.0)))


def ended_controllers(collected: Collected) -> int:
    """How many ends of the controller events explain."""
    return len(collected.events.done(actions.KILL_CONTROLLER))


def explained_nodes(collected: Collected) -> int:
    """How many times events explain that the controller sets a node down."""
    events = collected.events.done(actions.FAIL, actions.SILENCE, actions.DOWN)
    return sum(len(absence.nodes) for absence in collected.events.absences if absence.number in {event.number for event in events})


def explained_complaints(collected: Collected) -> int:
    """How many messages of daemons events explain at most."""
    nodes = sum(len(one.nodes) for one in collected.events.absences if one.action in DISTURBING)
    return COMPLAINTS_EACH * (nodes + ended_controllers(collected))


def failed_jobs(collected: Collected) -> pl.Series:
    """Ids of jobs that ended by the failure of a node which an event caused."""
    return collected.caused.filter(col("number").is_not_null())["job"]


def not_carried_out(collected: Collected) -> list[str]:
    """Reasons for an inconclusive run: events that were refused, of which the outcome is unknown, or that were not reached."""
    reasons = []
    for outcome, how in (
        (REFUSED, f"{collected.names.manager} refused it"),
        ("unknown", "the replay was killed, and whether it was carried out is not known"),
        (NOT_REACHED, "all jobs had ended before"),
    ):
        events = [
            event
            for event in collected.events.events
            if event.outcome == outcome and not (outcome == NOT_REACHED and (event.source in GENERATED or _is_end(event)))
        ]
        if events:
            named = "; ".join(_in_words(event) for event in events[:SHOWN])
            more = f" and {len(events) - SHOWN} more" if len(events) > SHOWN else ""
            reasons.append(f"{counted(len(events), 'event')} not carried out, {how}: {named}{more}")
    return reasons


def _is_end(event: RunEvent) -> bool:
    """Whether the event only ends what another one began."""
    return event.action in (actions.RETURN, actions.ANSWER, actions.RESUME, actions.RELEASE, actions.RELEASE_JOB)


def _in_words(event: RunEvent) -> str:
    words = " ".join(word for word in (event.action, event.target) if word)
    return f"{event.source}: {words}{f' ({event.words})' if event.words else ''}"


def left_out_of_latency(collected: Collected) -> pl.Expr:
    """Whether a job may have waited for an event, and not for the emulation: nodes were out of service, or no controller ran,
    between its acceptance and its start, or it might not have ended before a reservation that was known then. Of a frame with the
    columns accepted, start and limit.
    """
    events = collected.events
    reason = pl.lit(False)
    if not events:
        return reason
    slack = SLACK * collected.time.second
    accepted, start = col("accepted"), pl.coalesce("start", col("accepted"))
    spans = [(absence.begin, absence.end) for absence in events.absences]
    spans += [
        (event.played, event.played) for event in events.done(actions.KILL_CONTROLLER, actions.SET) if event.played is not None
    ]
    for begin, end in spans:
        reason |= (accepted <= end + slack) & (start >= begin - slack)
    for one in events.reservations:
        reaches_it = (accepted + col("limit").fill_null(0.0) >= one.begin - slack) | (start >= one.begin - slack)
        reason |= (start >= one.announced) & (accepted <= one.end + slack) & reaches_it
    return reason


def summary(
    collected: Collected, layout: Layout, population: Population, course: pl.DataFrame | str, processors: int
) -> dict[str, Any]:
    """The member `events` of metrics.json: counts by outcome, the machine that was available, work lost by cause, and a row for
    each event with what it caused.

    course: of the whole schedule (`usage_over_time.course`); or why it is not known
    """
    caused = collected.caused
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
        for event in collected.events.events
    ]  # fmt: skip
    return {
        "counts": collected.events.counts(),
        **_available(collected, layout, population, course, processors),
        "lost": by_cause,
        "halted_by_events": rounded(collected.halted_by_events),
        "absences": [
            {
                "number": one.number,
                "action": one.action,
                "nodes": hostlist.compress(one.nodes),
                "begin": one.begin,
                "end": None if math.isinf(one.end) else one.end,
            }
            for one in collected.events.absences
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
            for one in collected.events.reservations
        ],
        "events": rows,
    }


def _available(
    collected: Collected, layout: Layout, population: Population, course: pl.DataFrame | str, processors: int
) -> dict[str, float | None]:
    """The share of the machine's processor time that was in service, and utilisation and loss of capacity of that; null if the
    course is not known."""
    unknown = dict.fromkeys(
        ("available_fraction", "utilisation_available", "loss_of_capacity_available", "idle_before_maintenance")
    )
    window = population.window
    if window is None or window.length <= 0 or isinstance(course, str):
        return unknown
    levels = within(course, window)
    instants = window.begin + np.concatenate([[0.0], np.cumsum(levels["dt"].to_numpy())])
    steps = collected.events.absent_processors({name: node.processors for name, node in layout.nodes.items()})
    at = np.array([instant for instant, _ in steps if window.begin < instant < window.end])
    edges = np.unique(np.concatenate([instants, at]))
    widths, middles = np.diff(edges), (edges[:-1] + edges[1:]) / 2
    place = np.clip(np.searchsorted(instants, middles, side="right") - 1, 0, levels.height - 1)
    busy, waiting = (levels[name].to_numpy()[place].astype(float) for name in ("busy", "waiting"))
    levels_of_steps = np.array([0, *(level for _, level in steps)], dtype=float)
    absent = (
        levels_of_steps[np.searchsorted([instant for instant, _ in steps], middles, side="right")]
        if steps
        else np.zeros(len(middles))
    )
    # A job that goes on on a drained node uses a processor that is out of service for others.
    available = np.maximum(processors - absent, np.minimum(busy, processors))
    total, idle = float((available * widths).sum()), np.maximum(available - busy, 0.0)
    if total <= 0:
        return unknown
    return {
        "available_fraction": rounded(total / (processors * float(widths.sum()))),
        "utilisation_available": rounded(float((busy * widths).sum()) / total),
        "loss_of_capacity_available": rounded(float((np.minimum(waiting, idle) * widths).sum()) / total),
        "idle_before_maintenance": rounded(_idle_before(collected, edges, idle, waiting)),
    }


def _idle_before(
    collected: Collected, edges: NDArray[np.float64], idle: NDArray[np.float64], waiting: NDArray[np.float64]
) -> float:
    """Processor hours that were idle while jobs waited, from the announcement of each maintenance window to its begin. The time
    before several windows counts once."""
    spans = [(one.announced, one.begin) for one in collected.events.reservations if one.is_maintenance]
    widths, middles = np.diff(edges), (edges[:-1] + edges[1:]) / 2
    is_before = np.zeros(len(middles), dtype=bool)
    for begin, end in spans:
        is_before |= (middles >= begin) & (middles < end)
    return float((np.where(is_before & (waiting > 0), idle, 0.0) * widths).sum()) / 3600


def remaining_ends(ended: Mapping[str, Sequence[Any]], collected: Collected, kind: str) -> dict[str, list[Any]]:
    """The ends of daemons by kind without those of the controller (`kind`) that events explain: the first ones by SIGKILL."""
    left = {name: list(of_kind) for name, of_kind in ended.items()}
    for _ in range(ended_controllers(collected)):
        killed = next((one for one in left.get(kind, []) if one[1].get("signal") == 9), None)
        if killed is not None:
            left[kind].remove(killed)
    return {name: of_kind for name, of_kind in left.items() if of_kind}


def outcome_words(counts: Mapping[str, int]) -> str:
    """`12 events: 11 done, 1 refused`."""
    order = Counter(counts)
    known = [outcome for outcome in (DONE, REFUSED, "unknown", NOT_REACHED) if order[outcome]]
    return f"{counted(sum(counts.values()), 'event')}: {', '.join(f'{order[outcome]} {outcome}' for outcome in known)}"
