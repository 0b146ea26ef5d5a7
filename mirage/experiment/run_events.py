"""The events of a run: those of EVENTS, FAILURES and MAINTENANCE, checked against its cluster and its workload."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence, Set
from datetime import datetime
from functools import cache
from pathlib import Path

from mirage.cluster_events import checks, user_file
from mirage.cluster_events.generated import RESERVATION, Failures, Maintenance
from mirage.cluster_events.planned import PlannedEvent, ordered
from mirage.knobs.knobs import NONE, EventKnobs, Knobs
from mirage.text.input_file import read_input
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import cluster_events as actions

TAKE_NODES_AWAY = (actions.FAIL, actions.SILENCE)


def check(events: EventKnobs) -> None:
    """Check that there is one file at most. Raises WrongUse."""
    if len(events.calendars) > 1:
        raise WrongUse("only make compare takes several; it may be the path of one file", user_file.PARAMETER, events.files)


@cache
def _content(path: str) -> bytes:
    """The content of a file, read once: all runs of a comparison have the same events, also if the file changes meanwhile. Raises
    WrongUse."""
    return read_input(path, user_file.PARAMETER, user_file.LARGEST)


def digest(events: EventKnobs) -> str:
    """SHA-256 of the file; empty without one. Raises WrongUse."""
    if not events.path:
        return ""
    return hashlib.sha256(_content(events.path)).hexdigest()


def silences_nodes(events: EventKnobs) -> bool:
    """Whether slurmctld has to notice that nodes do not answer. Raises WrongUse."""
    if events.failures is not None:
        return True
    return any(
        line.action in TAKE_NODES_AWAY
        for path in events.calendars
        if path != NONE
        for line in user_file.parse(path, _content(path))
    )


def node_names(knobs: Knobs) -> list[str]:
    """The names of the cluster's nodes."""
    classes = knobs.nodes.machine.classes
    return [f"{of.prefix}{number}" for of in classes for number in range(of.first, of.first + of.count)]


def of_run(
    knobs: Knobs,
    *,
    partitions: Set[str],
    jobs: Set[int],
    last: float,
    until: float,
    replica: int,
    calendar: datetime | None,
    hosts: int,
    renamed: dict[str, str],
    has_accounting: bool,
) -> Sequence[PlannedEvent]:
    """The events in the order of their instants, which are trace seconds after the start of the run.

    last: the last instant of an event. until: that of a generated one, if it is earlier. calendar: local date and time at the start
    of the run; None if it is not known. The others are those of `checks.World`. Raises WrongUse.
    """
    wanted = knobs.events
    world = checks.World(node_names(knobs), partitions, jobs, last, hosts, renamed, has_accounting)
    given = checks.expanded(user_file.parse(wanted.path, _content(wanted.path)), world) if wanted.path else []
    events = list(given)
    if wanted.failures is not None:
        if hosts > 1:
            raise WrongUse(f"needs a cluster on one host, and this inventory has {hosts}", "failures", wanted.failures)
        failures = Failures.parse(wanted.failures)
        events += failures.events(world.nodes, min(until, last), knobs.workload.seed, replica, given)
    if wanted.maintenance is not None:
        for event in given:
            if event.action == actions.RESERVE and event.target.startswith(RESERVATION):
                raise WrongUse(
                    f"{event.source}: MAINTENANCE has reservations of the name {event.target}; it may be another name",
                    user_file.PARAMETER,
                )
        try:
            events += Maintenance.parse(wanted.maintenance).events(world, min(until, last), calendar)
        except ValueError as error:
            raise WrongUse(str(error), "maintenance", wanted.maintenance) from None
    return ordered(events)


def name_of(path: str) -> str:
    """The name of a file of events as an arm of a comparison."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", Path(path).stem)
