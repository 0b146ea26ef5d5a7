"""The nodes of a run over time, from its placements and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirage.occupancy.machine import Machine
from mirage.occupancy.needs import Needs
from mirage.occupancy.occupancy import Bound, Occupancy
from mirage.occupancy.room import ANNOUNCED, OUT, RESERVED
from mirage.records.cluster_events import Absence, Reservation, by_node
from mirage.records.record import RunRecord


def nodes_over_time(record: RunRecord, machine: Machine, needs: Mapping[int, Needs], bound: Bound, slack: float = 0.0) -> Occupancy:
    """What jobs had, and when nodes were out of service, reserved, and about to be. By LARGEST a suspended job keeps what it had.

    needs: of all jobs; slack: trace seconds before and after an absence in which nodes may be out of service
    """
    named = [one for one in record.events.reservations if one.nodes]
    coming = [Absence(one.number, "", one.nodes, one.announced, one.begin) for one in named if one.announced < one.begin]
    spans: Mapping[str, Sequence[Absence | Reservation]] = {OUT: record.events.absences, RESERVED: named, ANNOUNCED: coming}
    away = {name: by_node(of_name) for name, of_name in spans.items()}
    away[OUT] = {name: [(begin - slack, end + slack) for begin, end in of_node] for name, of_node in away[OUT].items()}
    suspensions = record.tables.suspensions if bound is Bound.EVEN else None
    return Occupancy.of(machine, record.tables.placements, needs, bound, suspensions=suspensions, away=away)


def are_all_known(record: RunRecord, occupancy: Occupancy) -> bool:
    """Whether the nodes of all jobs are known, and taken by nothing else, as by jobs beside the workload's, or by changes of
    size."""
    started = record.jobs.drop_nulls("start")["id"]
    is_placed = bool(started.is_in(record.tables.placements["job"].implode()).all())
    return is_placed and occupancy.is_complete and record.beside is None and not record.changes_sizes
