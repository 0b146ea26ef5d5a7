"""The events of a run: those of EVENTS, SITE, FAILURES and MAINTENANCE, checked against its cluster and its workload."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence, Set
from datetime import datetime
from functools import cache, partial
from pathlib import Path

from mirage.cluster_events import checks, user_file
from mirage.cluster_events.generated import RESERVATION, Failures, Maintenance
from mirage.cluster_events.planned import PlannedEvent, ordered
from mirage.experiment import other_configurations
from mirage.knobs.knobs import NONE, EventKnobs, Knobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import cluster_events as actions


def check(events: EventKnobs) -> None:
    """Check that there is one file at most. Raises WrongUse."""
    if len(events.calendars) > 1:
        raise WrongUse("only make compare takes several; it may be the path of one file", user_file.PARAMETER, events.files)


@cache
def _file(path: str) -> user_file.UserFile:
    """A file, read once: all runs of a comparison have the same events, also if the file changes meanwhile. Raises WrongUse."""
    return user_file.read(path)


def digest(events: EventKnobs) -> str:
    """SHA-256 of the file, and of the configurations that it names; empty without one. Raises WrongUse."""
    if not events.path:
        return ""
    own, further = _file(events.path).sha256, [other_configurations.digest(name) for name in configurations(events)]
    return hashlib.sha256(" ".join([own, *further]).encode()).hexdigest() if further else own


def configurations(events: EventKnobs) -> list[str]:
    """Names of the configurations that the files name, as they are written there, each once. Raises WrongUse."""
    lines = [line for path in events.calendars if path != NONE for line in _file(path).lines]
    return sorted({line.target for line in lines if line.action == actions.CONFIGURE})


def silences_nodes(events: EventKnobs) -> bool:
    """Whether events make nodes stop answering, which slurmctld has to notice soon. Raises WrongUse."""
    if events.failures is not None:
        return True
    return any(line.action in checks.BACK for path in events.calendars if path != NONE for line in _file(path).lines)


def of_run(
    knobs: Knobs,
    *,
    partitions: Set[str],
    jobs: Set[int],
    last: float,
    until: float,
    replica: int,
    calendar: datetime | None,
    site: Sequence[user_file.Line],
    hosts: int,
    renamed: dict[str, str],
    has_accounting: bool,
    enforces_limits: bool,
) -> Sequence[PlannedEvent]:
    """The events in the order of their instants, which are trace seconds after the start of the run.

    last: the last instant of an event. until: that of a generated one, if it is earlier. calendar: local date and time at the start
    of the run; None if it is not known. site: those of a site's week. The others are those of `checks.World`. Raises WrongUse.
    """
    wanted = knobs.events
    nodes = [name for of_class in knobs.nodes.machine.classes for name in of_class.each]
    world = checks.World(
        nodes,
        partitions,
        jobs,
        last,
        hosts,
        renamed,
        has_accounting,
        enforces_limits,
        knobs.nodes.controllers,
        configuration=knobs.scheduler.config,
        way=partial(other_configurations.way, knobs),
    )
    given = checks.expanded([*(_file(wanted.path).lines if wanted.path else ()), *site], world)
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
