"""How many fillers are to wait, and which of them are to save themselves. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ....rm.api import JobState
from ..fillers import FillerJob, PlannedJob, Room

SPARE = 4
"""Fillers that wait beyond those for which there is room now."""
SLACK = 10
"""Further fillers that may wait before some are withdrawn. Slurm's backfill scheduler tests each waiting job in each of its
cycles."""


def wanted(room: Room, planned: bool) -> int:
    """How many further fillers the queue needs; below 0: how many of those that wait are too many.

    One filler is to wait for each free processor, and SPARE more. With slots one is also to wait for each running filler, to take
    its place at the end of the slot, because that filler starts again only some seconds later. Fillers are too many above 1.5 times
    this number and SLACK, because the number of free processors changes with each job of the workload.
    """
    waiting = sum(filler.state is JobState.PENDING for filler in room.fillers)
    running = len(room.fillers) - waiting
    level = room.free + SPARE + (0 if planned else running)
    return level - waiting if waiting < level or waiting > level * 3 // 2 + SLACK else 0


def to_ask(room: Room, now: float, ahead: float, asked: Collection[tuple[int, int]]) -> Iterator[tuple[FillerJob, PlannedJob]]:
    """The running fillers that have to be asked for their nodes, each with the job of the workload that is planned to get a node of
    it within `ahead` seconds from `now`.

    `asked`: ids and starts of fillers that were asked already. For a job whose planned instant is over no filler is asked: the job
    preempts them.
    """
    first: dict[str, PlannedJob] = {}
    for job in sorted(room.planned, key=lambda job: -job.start):
        if now < job.start <= now + ahead:
            first.update(dict.fromkeys(job.hosts, job))
    for filler in room.fillers:
        if filler.state is JobState.RUNNING and filler.start is not None and (filler.job_id, filler.start) not in asked:
            wants = next((first[host] for host in filler.hosts if host in first), None)
            if wants is not None:
                yield filler, wants
