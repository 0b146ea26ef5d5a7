"""Finds jobs that certainly had room when Slurm accepted them: enough free processors, memory and GPUs on nodes that they may use.

What each job had on each of its nodes is not recorded. So each part of a job is taken to be as large as it can be: on any one of
its n nodes a job has all but n - 1 of its processors; a job without a request for memory has all memory of its nodes, and one of
GPUs of any type has them of each type. Each waiting job is about to take as many of the best nodes as it can have. All jobs that
wait in its partition, and in those with nodes in common, have to have room too: Slurm lets a job that has none hold those behind it
back until its next backfill cycle.

Not looked at, so that such jobs are not judged: GRES other than GPUs, reservations of jobs, switches, contiguous nodes, ranges of
nodes, memory for each GPU, constraints with numbers or brackets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.records.cluster_events import Absence, Reservation, by_node
from mirage.records.machine_room import SLOTS, WHOLE, places_of
from mirage.records.record import RunRecord
from mirage.workloads.constraints import allows
from slurm_mirage.base import hostlist
from slurm_mirage.jobs.request import Request, counts_of, gpus_of
from slurm_mirage.rm.evidence import Layout

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
_GPU = "gpu"
_ALL = 1 << 40
"""More than any node has."""


def with_room(candidates: pl.DataFrame, jobs: pl.DataFrame, record: RunRecord, layout: Layout, slack: float) -> pl.Series:
    """Ids of the candidates that certainly had room; none where the nodes of some job are not known, or where nodes were taken
    otherwise: by jobs beside the workload's, or by jobs that change their size.

    candidates: some of the jobs; jobs: columns of `record.jobs` and its evidence, with accepted and left, the instants at which
        each joined and left the queue; slack: trace seconds before and after an absence in which nodes may be out of service
    """
    none = pl.Series("id", [], pl.Int64)
    started = jobs.drop_nulls("start")["id"]
    is_known = bool(started.is_in(record.tables.placements["job"].implode()).all())
    if not is_known or record.beside is not None or record.changes_sizes:
        return none
    requests = {text: Request.parse(text) for text in jobs["request"].unique()}
    asked = {job["id"]: _Asked.of(job, requests[job["request"]]) for job in jobs.iter_rows(named=True)}
    machine = _Machine(layout, asked, jobs["partition"].unique().sort().to_list())
    if (held := machine.placements(record.tables.placements)) is None:
        return none
    events = [*held, *_queue(jobs, asked), *machine.absences(record.events.absences, slack)]
    events += [(job["accepted"], _JUDGED, job) for job in candidates.iter_rows(named=True)]
    # At the same instant, changes come before the jobs that are judged by them.
    events.sort(key=lambda event: event[:2])
    machine.reserve(record.events.reservations, slack)
    ids = []
    for instant, kind, subject in events:
        if kind == _JUDGED:
            if machine.all_have_room(subject, instant):
                ids.append(subject["id"])
        elif kind == _LEAVES:
            machine.queue.pop(subject["id"], None)
        elif kind == _JOINS:
            machine.queue[subject["id"]] = subject
        else:
            machine.change(subject)
    return pl.Series("id", ids, pl.Int64)


_CHANGED, _LEAVES, _JOINS, _JUDGED = range(4)
"""Kinds of events in the order in which those of one instant count."""
_Event = tuple[float, int, Any]


def _queue(jobs: pl.DataFrame, asked: Mapping[int, _Asked]) -> Iterator[_Event]:
    """When jobs could start, and when they left the queue. A dependency, an instant of begin, and a hold are over when the job was
    eligible."""
    ends = _ends_of_arrays(jobs)
    for job in jobs.filter(col("accepted").is_not_null()).iter_rows(named=True):
        of_job = asked[job["id"]]
        joins, left = job["accepted"], math.inf if job["left"] is None else job["left"]
        if (job["dependent"] or of_job.is_late) and not job["restarts"]:
            joins = max(joins, math.inf if job["eligible"] is None else job["eligible"])
        joins = max(joins, ends.get(job["id"], joins))
        if joins < left:
            yield joins, _JOINS, job
            yield left, _LEAVES, job


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


@dataclass(frozen=True)
class _Asked:
    """What a job asks for."""

    kind: str
    each: int
    count: int
    """Places, as `places_of` gives them."""
    processors: int
    memory: int | None
    """MiB for each processor."""
    memory_per_node: int
    gpus: Mapping[str, int]
    """GPUs of each node by type, "" for any."""
    all_gpus: Mapping[str, int]
    """GPUs of the whole job by type."""
    constraint: str
    most_nodes: int
    is_late: bool
    """Whether it could not start when it was accepted, because of an instant of begin or a hold."""
    is_judged: bool

    @classmethod
    def of(cls, job: Mapping[str, Any], request: Request) -> _Asked:
        kind, each, count = places_of(job["processors"], job["nodes"] if job["whole_nodes"] else None, request)
        per_node = {name.partition(":")[2]: number for name, number in counts_of(request.gres) if name.partition(":")[0] == _GPU}
        total = dict(gpus_of(request.gpus))
        for gpu, number in gpus_of(request.gpus_per_task):
            total[gpu] = total.get(gpu, 0) + number * max(1, request.tasks or job["processors"] // max(1, request.cpus_per_task))
        is_known = not (request.contiguous or request.switches or request.reservation or request.memory_per_gpu)
        is_known &= request.most_nodes in (0, request.nodes) and not set("*[]()") & set(request.constraint)
        is_known &= all(name.partition(":")[0] == _GPU for name, _ in counts_of(request.gres))
        is_known &= not (total and (count if kind != SLOTS else 1) > 1)
        return cls(
            kind=kind, each=each, count=count, processors=job["processors"],
            memory=None if request.memory_per_gpu else job["memory"], memory_per_node=request.memory_per_node,
            gpus=per_node, all_gpus=total, constraint=request.constraint, most_nodes=max(count, sum(total.values())),
            is_late=bool(request.begin or request.hold), is_judged=is_known,
        )  # fmt: skip


@dataclass(frozen=True)
class _Change:
    """What is taken (1) or given back (-1): of the nodes at these places so many processors, MiB and GPUs by type, and whether
    they are out of service."""

    sign: int
    nodes: Counts
    processors: Counts | int = 0
    memory: Counts | int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)
    out: int = 0


class _Machine:
    """What is free on each node at an instant, which may be less than nothing, as the parts of jobs are upper bounds."""

    def __init__(self, layout: Layout, asked: Mapping[int, _Asked], partitions: Iterable[str]) -> None:
        nodes = layout.nodes
        self._asked, self._places = asked, {name: place for place, name in enumerate(nodes)}
        self._sizes = np.array([node.usable(0) for node in nodes.values()], np.int64)
        self._memory = np.array([_ALL if node.memory is None else node.memory for node in nodes.values()], np.int64)
        types = {"", *(gpu for node in nodes.values() for gpu, _ in node.gpus)}
        self._gpus = {
            name: np.array([sum(number for gpu, number in node.gpus if name in ("", gpu)) for node in nodes.values()], np.int64)
            for name in sorted(types)
        }
        self._free, self._free_memory = self._sizes.copy(), self._memory.copy()
        self._free_gpus = {name: counts.copy() for name, counts in self._gpus.items()}
        self._out, self._jobs = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
        self._members = {name: np.array([node in names for node in nodes], np.bool_) for name, names in layout.partitions.items()}
        self._every = np.ones(len(nodes), np.bool_)
        names = {name: layout.partitions.get(name, frozenset(nodes)) for name in partitions}
        self._overlaps = {name: {other for other in names if names[other] & names[name]} for name in names}
        self._features = [node.features for node in nodes.values()]
        self._allowed: dict[str, Flags] = {"": self._every}
        self._reserved: list[tuple[float, float, Counts]] = []
        self.queue: dict[int, Mapping[str, Any]] = {}
        """Jobs that wait and can start, by their ids."""

    def placements(self, placements: pl.DataFrame) -> list[_Event] | None:
        """When executions took and gave back what they had; None if the nodes of one are not known."""
        events: list[_Event] = []
        expanded = {hosts: self._expanded(hosts) for hosts in placements["hosts"].unique()}
        for job, start, end, hosts, processors in placements.select("job", "start", "end", "hosts", "processors").iter_rows():
            places = expanded[hosts]
            if job not in self._asked or start is None or processors is None or places is None:
                return None
            taken = self._taken(self._asked[job], places, processors)
            events.append((start, _CHANGED, _Change(1, *taken)))
            if end is not None:
                events.append((end, _CHANGED, _Change(-1, *taken)))
        return events

    def _expanded(self, hosts: str | None) -> Counts | None:
        try:
            names = hostlist.expand(hosts or "")
        except ValueError:
            return None
        places = [self._places.get(name, -1) for name in names]
        return np.array(places, np.int64) if places and min(places) >= 0 else None

    def _taken(self, of: _Asked, nodes: Counts, processors: int) -> tuple[Counts, Counts, Counts, Mapping[str, int]]:
        """The nodes, and what an execution may have had on each of them."""
        sizes = self._sizes[nodes]
        parts = sizes if of.kind == WHOLE else np.minimum(sizes, processors - (len(nodes) - 1))
        if of.memory_per_node:
            memory = np.full(len(nodes), of.memory_per_node, np.int64)
        else:
            memory = self._memory[nodes] if of.memory is None else of.memory * parts
        gpus = dict(of.gpus)
        for gpu, number in of.all_gpus.items():
            gpus[gpu] = gpus.get(gpu, 0) + number
        return nodes, parts, memory, gpus

    def absences(self, absences: Sequence[Absence], slack: float) -> Iterator[_Event]:
        """When nodes were out of service."""
        for name, spans in by_node(absences).items():
            if name in self._places:
                place = np.array([self._places[name]], np.int64)
                for begin, end in spans:
                    yield begin - slack, _CHANGED, _Change(1, place, out=1)
                    yield end + slack, _CHANGED, _Change(-1, place, out=1)

    def reserve(self, reservations: Sequence[Reservation], slack: float) -> None:
        """Take the nodes of reservations from all jobs that might not have ended before."""
        for one in reservations:
            places = np.array([self._places[name] for name in sorted(one.nodes) if name in self._places], np.int64)
            self._reserved.append((one.begin - slack, one.end + slack, places))

    def change(self, change: _Change) -> None:
        nodes, sign = change.nodes, change.sign
        self._free[nodes] -= sign * change.processors
        self._free_memory[nodes] -= sign * change.memory
        for gpu, number in change.gpus.items():
            # GPUs of any type may be of each type, and those of one type are some of all.
            for name in self._free_gpus if gpu == "" else ("", gpu):
                if name in self._free_gpus:
                    self._free_gpus[name][nodes] -= sign * number
        self._out[nodes] += sign * change.out
        self._jobs[nodes] += sign * (1 - change.out)

    def all_have_room(self, job: Mapping[str, Any], now: float) -> bool:
        """Whether a job has room, and all that wait for nodes of its partition have room without it: one that is looked at before
        it finds none of its nodes taken. job: id, partition and limit, as those of the queue"""
        waiting = [other for number, other in self.queue.items() if number != job["id"]]
        beside = self._beside(job, waiting)
        return self._has_room(job, beside, now) and all(self._has_room(one, self._beside(one, waiting), now) for one in beside)

    def _beside(self, job: Mapping[str, Any], waiting: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those that wait for nodes of its partition, without itself."""
        overlaps = self._overlaps[job["partition"]]
        return [other for other in waiting if other["partition"] in overlaps and other["id"] != job["id"]]

    def _has_room(self, job: Mapping[str, Any], beside: Sequence[Mapping[str, Any]], now: float) -> bool:
        """Whether a job has room on the nodes that are left when each job beside it has taken as many of the best as it may."""
        of = self._asked[job["id"]]
        if not of.is_judged:
            return False
        usable = self._members.get(job["partition"], self._every) & (self._out == 0) & self._allows(of.constraint)
        limit = math.inf if job["limit"] is None else job["limit"]
        for begin, end, places in self._reserved:
            if end >= now and begin <= now + limit:
                usable[places] = False
        taken = sum(self._asked[other["id"]].most_nodes for other in beside)
        places = np.sort(self._places_on(of, usable))
        return int(places[: max(0, len(places) - taken)].sum()) >= (1 if of.all_gpus else of.count)

    def _places_on(self, of: _Asked, usable: Flags) -> Counts:
        """How many places of the job each node has. A job with GPUs in total has one where a node has all that it asks for."""
        each = of.each if not of.all_gpus else of.each * of.count
        if of.kind == WHOLE:
            each = max(1, -(-of.processors // of.count))
            usable = usable & (self._jobs == 0)
        free = self._free
        if of.memory_per_node:
            usable = usable & (self._free_memory >= of.memory_per_node)
        elif of.memory is None:
            # What it gets is not known, and may be all.
            usable = usable & ((self._memory == _ALL) | (self._jobs == 0))
        elif of.memory > 0:
            free = np.minimum(free, self._free_memory // of.memory)
        for gpu, number in [*of.gpus.items(), *of.all_gpus.items()]:
            usable = usable & (self._free_gpus.get(gpu, np.zeros(len(free), np.int64)) >= number)
        places = np.where(usable, free.clip(0) // each, 0)
        return places if of.kind == SLOTS and not of.all_gpus else np.minimum(places, 1)

    def _allows(self, constraint: str) -> Flags:
        if constraint not in self._allowed:
            self._allowed[constraint] = np.array([allows(constraint, features) for features in self._features], np.bool_)
        return self._allowed[constraint]
