"""Finds jobs that certainly had room when Slurm accepted them: places on nodes that they may use, by `Bound.LARGEST`.

Each waiting job is about to take as many of the best nodes as it can have. All jobs that wait in its partition, and in those with
nodes in common, have to have room too: Slurm lets a job that has none hold those behind it back until its next backfill cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from polars import col

from mirage.occupancy.machine import Machine
from mirage.occupancy.needs import Needs
from mirage.occupancy.occupancy import Bound, Occupancy, Taken
from mirage.occupancy.room import OUT
from mirage.records.nodes_over_time import are_all_known, nodes_over_time
from mirage.records.record import RunRecord
from slurm_mirage.rm.evidence import Layout

_Job = Mapping[str, Any]


def with_room(candidates: pl.DataFrame, jobs: pl.DataFrame, record: RunRecord, layout: Layout, slack: float) -> pl.Series:
    """Ids of the candidates that certainly had room; none where the nodes of some job are not known, or where nodes were taken
    otherwise: by jobs beside the workload's, or by jobs that change their size.

    candidates: some of the jobs; jobs: columns of `record.jobs` and its evidence, with accepted and left, the instants at which
        each joined and left the queue; slack: trace seconds before and after an absence in which nodes may be out of service
    """
    asked = jobs.select("id", "processors", pl.when("whole_nodes").then("nodes"), "memory", "request")
    needs = Needs.by_job(asked.iter_rows())
    occupancy = nodes_over_time(record, Machine(layout), needs, Bound.LARGEST, slack)
    if not are_all_known(record, occupancy):
        return pl.Series("id", [], pl.Int64)
    queue = _Queue(occupancy, needs, record, slack)
    judged = candidates.sort("accepted", maintain_order=True)
    changes, ids = sorted(_joins_and_leaves(jobs), key=lambda change: change[:2]), []
    place = 0
    for job, taken in zip(judged.iter_rows(named=True), occupancy.at(judged["accepted"].to_list()), strict=True):
        while place < len(changes) and changes[place][0] <= job["accepted"]:
            _, joins, other = changes[place]
            if joins:
                queue.waiting[other["id"]] = other
            else:
                queue.waiting.pop(other["id"], None)
            place += 1
        if queue.all_have_room(job, taken):
            ids.append(job["id"])
    return pl.Series("id", ids, pl.Int64)


def _joins_and_leaves(jobs: pl.DataFrame) -> Iterator[tuple[float, bool, _Job]]:
    """When jobs could start (True), and when they left the queue (False). A dependency, an instant of begin, and a hold are over
    when the job was eligible."""
    ends = _ends_of_arrays(jobs)
    is_late = col("request").str.contains(r"(^| )(begin|hold)=")
    known = jobs.filter(col("accepted").is_not_null()).with_columns(waits=(col("dependent") | is_late) & (col("restarts") == 0))
    for job in known.iter_rows(named=True):
        joins, left = job["accepted"], math.inf if job["left"] is None else job["left"]
        if job["waits"]:
            joins = max(joins, math.inf if job["eligible"] is None else job["eligible"])
        joins = max(joins, ends.get(job["id"], joins))
        if joins < left:
            yield joins, True, job
            yield left, False, job


def _ends_of_arrays(jobs: pl.DataFrame) -> dict[int, float]:
    """Of tasks of arrays that let only L run at once, the earliest instant at which each can have started: the end L places before
    it. Not of arrays with tasks that were put back in the queue."""
    earliest = {}
    tasks = jobs.filter(col("at_once").is_not_null())
    for of_array in tasks.filter(~(col("restarts") > 0).any().over("array")).partition_by("array", maintain_order=True):
        ends = of_array["end"].sort(nulls_last=True).to_list()
        for place, (number, at_once) in enumerate(of_array.sort("left", nulls_last=True).select("id", "at_once").iter_rows()):
            if place >= at_once:
                end = ends[place - at_once]
                earliest[number] = math.inf if end is None else end
    return earliest


class _Queue:
    """The jobs that wait and can start, and whether they have room."""

    def __init__(self, occupancy: Occupancy, needs: Mapping[int, Needs], record: RunRecord, slack: float) -> None:
        machine = occupancy.machine
        self._occupancy, self._needs = occupancy, needs
        self._reserved = [
            (one.begin - slack, one.end + slack, [machine.places[name] for name in one.nodes if name in machine.places])
            for one in record.events.reservations
        ]
        self.waiting: dict[int, _Job] = {}
        """By their ids."""

    def all_have_room(self, job: _Job, taken: Taken) -> bool:
        """Whether a job has room, and all that wait for nodes of its partition have room without it: one that is looked at before
        it finds none of its nodes taken. job: id, partition, limit and accepted; taken: at the instant of its acceptance"""
        waiting, now = [other for number, other in self.waiting.items() if number != job["id"]], job["accepted"]
        beside = self._beside(job, waiting)
        return self._has_room(job, beside, taken, now) and all(
            self._has_room(one, self._beside(one, waiting), taken, now) for one in beside
        )

    def _beside(self, job: _Job, waiting: Sequence[_Job]) -> list[_Job]:
        """Those that wait for nodes of its partition, without itself."""
        overlap, partition, number = self._occupancy.machine.overlap, job["partition"], job["id"]
        return [other for other in waiting if overlap(other["partition"], partition) and other["id"] != number]

    def _has_room(self, job: _Job, beside: Sequence[_Job], taken: Taken, now: float) -> bool:
        """Whether a job has room on the nodes that are left when each job beside it has taken as many of the best as it may."""
        needs = self._needs[job["id"]]
        if not needs.is_known:
            return False
        places = self._occupancy.places(needs, taken)
        places[~self._occupancy.machine.members(job["partition"]) | (taken.values[OUT] > 0.5)] = 0.0
        limit = math.inf if job["limit"] is None else job["limit"]
        for begin, end, nodes in self._reserved:
            if end >= now and begin <= now + limit:
                places[nodes] = 0.0
        best = sum(self._needs[other["id"]].most_nodes for other in beside)
        left = np.sort(places)[: max(0, len(places) - best)].sum()
        return bool(left >= needs.places)
