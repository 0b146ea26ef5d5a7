"""Whether waiting jobs would have had room on the machine, from the schedule of a run: which nodes jobs had, and when nodes were
reserved or out of service.

How many processors a job had on each of its nodes is not recorded: they are spread evenly. Memory, GRES and features of nodes are
not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.records.cluster_events import Absence, ClusterEvents, Reservation, by_node
from slurm_mirage.base import hostlist
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.evidence import Layout

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]
NEVER = float("-inf")
_TINY = 1e-9
_PLACES = 20


class Room(IntEnum):
    """What a job found at an instant."""

    FREE = 0
    """Enough processors on nodes that fit."""
    FREE_UNTIL_RESERVED = 1
    """The same, but on nodes that a reservation needs which is announced."""
    SCATTERED = 2
    """Enough processors in total, not on nodes that fit."""
    RESERVED = 3
    """Not enough, without reservations in force enough."""
    ABSENT = 4
    """Not enough, with the nodes that events took out of service enough."""
    FULL = 5
    """Not enough."""


SLOTS, NODES, WHOLE = "slots", "nodes", "whole"
"""What a job needs: `count` times `each` processors of a node; `count` nodes with `each` free processors; `count` idle nodes."""
NEEDS_SCHEMA = {
    "key": pl.Int64,
    "partition": pl.String,
    "kind": pl.String,
    "each": pl.Int64,
    "count": pl.Int64,
    "processors": pl.Int64,
    "begin": pl.Float64,
    "end": pl.Float64,
}
"""What is asked of `room`, a row for each time of a job: processors is the total; begin and end of the time."""
_CHANGES = {"node": pl.Int64, "time": pl.Float64, **dict.fromkeys(("free", "out", "reserved", "announced"), pl.Float64)}


def places_of(processors: int, nodes: int | None, request: Request) -> tuple[str, int, int]:
    """The nodes that a job needs, as kind, each and count of `NEEDS_SCHEMA`.

    processors, nodes: as in the plan, where `nodes` is the number of whole nodes, None for a job that shares them
    """
    if nodes:
        return WHOLE, 0, nodes
    if request.exclusive:
        return WHOLE, 0, max(1, request.nodes)
    each = max(1, request.cpus_per_task)
    tasks = request.tasks or max(1, processors // each)
    if request.tasks_per_node:
        return NODES, each * request.tasks_per_node, max(request.nodes, -(-tasks // request.tasks_per_node))
    if request.nodes and not request.most_nodes > request.nodes:
        return NODES, -(-tasks // request.nodes) * each, request.nodes
    return SLOTS, each, tasks


def room(needs: pl.DataFrame, layout: Layout, states: pl.DataFrame, least: float) -> pl.DataFrame:
    """A row for each time at its begin, and whenever the room changes until its end: key, time, room, and where it is FREE or
    FREE_UNTIL_RESERVED since and until when it is one of these (free_since, free_until).

    Where the room changes often, what is alike in a twentieth of the time is put together: the sums stay the same.

    needs: columns of NEEDS_SCHEMA; states: result of `node_states`; least: seconds of room which differ from shorter ones
    """
    schema = {"key": pl.Int64, "time": pl.Float64, "room": pl.Int64, "free_since": pl.Float64, "free_until": pl.Float64}
    parts = [pl.DataFrame(schema=schema)]
    for rows, times, codes in _alike(needs, layout, states):
        is_free = np.concatenate([[False], codes <= Room.FREE_UNTIL_RESERVED, [False]])
        borders = np.append(times, np.inf)
        since = borders[np.flatnonzero(~is_free[:-1] & is_free[1:])]
        free = pl.DataFrame({"free_since": since, "free_until": borders[np.flatnonzero(is_free[:-1] & ~is_free[1:])]})
        part = during(rows, times, codes).sort("time").join_asof(free, left_on="time", right_on="free_since", coalesce=False)
        part = part.with_columns(is_long=col("free_until") - col("free_since") > least)
        longest = col("free_since", "free_until").sort_by(col("free_until") - col("free_since")).last()
        parts.append(condensed(part, rows, ["room", "is_long"], longest).select(schema.keys()))
    return pl.concat(parts)


def condensed(part: pl.DataFrame, rows: pl.DataFrame, same: Sequence[str], *others: pl.Expr) -> pl.DataFrame:
    """The part of `during` with the rows put together that are the same in _PLACES equal parts of a time that has many of them.

    rows: key, begin and end of the times; others: the values of other columns
    """
    is_many = pl.len().over("key") > 4 * _PLACES
    table = part.filter(is_many).join(rows.select("key", "begin", "end"), on="key").sort("key", "time")
    table = table.with_columns(
        length=col("time").shift(-1).over("key").fill_null(col("end")) - col("time"),
        place=((col("time") - col("begin")) / (col("end") - col("begin")) * _PLACES).floor(),
    )
    table = table.group_by("key", "place", *same).agg(col("length").sum(), col("begin").first(), *others)
    table = table.sort("key", "place", *same)
    table = table.with_columns(time=col("begin") + col("length").cum_sum().over("key") - col("length"))
    return pl.concat([part.filter(~is_many), table.select(part.columns)])


def _alike(needs: pl.DataFrame, layout: Layout, states: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, Floats, Codes]]:
    """The rows with the same needs, with the instants at which their room may change, and the room from then on."""
    places = {name: place for place, name in enumerate(layout.nodes)}
    for (partition,), of_partition in needs.group_by("partition", maintain_order=True):
        members = layout.partitions.get(str(partition)) or layout.nodes.keys()
        nodes = _Nodes(states.filter(col("node").is_in(sorted(places[name] for name in members if name in places))), layout)
        for (kind, each), of_kind in of_partition.group_by("kind", "each", maintain_order=True):
            courses = nodes.courses(str(kind), int(str(each)))
            for (count, processors), rows in of_kind.group_by("count", "processors", maintain_order=True):
                total = nodes.least_of(int(str(count))) if kind == WHOLE else 0
                yield rows, nodes.times, nodes.codes(courses, int(str(count)), max(total, int(str(processors))))


def node_states(layout: Layout, placements: pl.DataFrame, suspensions: pl.DataFrame, events: ClusterEvents) -> pl.DataFrame:
    """The state of each node whenever it changes, from NEVER on, in order of node and time: node (its place in the layout), time,
    free (processors), out (of service), reserved (by a reservation in force), announced (by one that will be): 0 for no.

    placements: columns of `collect.PLACEMENTS_SCHEMA`; suspensions: job, suspend, resume
    """
    places = {name: place for place, name in enumerate(layout.nodes)}
    size = pl.DataFrame(
        {"node": list(places.values()), "size": [float(node.processors) for node in layout.nodes.values()]},
        schema={"node": pl.Int64, "size": pl.Float64},
    )
    lists = placements["hosts"].drop_nulls().unique().sort().to_list()
    nodes_of = pl.DataFrame(
        [(hosts, [places[name] for name in _names(hosts) if name in places]) for hosts in lists],
        schema={"hosts": pl.String, "node": pl.List(pl.Int64)},
        orient="row",
    )
    nodes_of = nodes_of.with_columns(among=col("node").list.len()).explode("node").drop_nulls("node")
    held = placements.drop_nulls(["start", "processors"]).join(nodes_of, on="hosts", maintain_order="left")
    held = held.join(size, on="node", maintain_order="left").with_columns(
        width=pl.min_horizontal(col("processors") / col("among"), "size")
    )
    within = suspensions.drop_nulls("suspend").join(held, on="job", maintain_order="left")
    within = within.filter(col("suspend").is_between("start", col("end").fill_null(np.inf)))
    resumed = within.drop_nulls("resume").filter(col("resume") <= col("end").fill_null(np.inf))
    # A job that was suspended at its end had freed its processors before.
    left = within.filter(col("resume").is_null() | (col("resume") > col("end").fill_null(np.inf))).drop_nulls("end")
    changes = [
        size.select("node", time=pl.lit(NEVER), free="size"),
        held.select("node", time="start", free=-col("width")),
        held.drop_nulls("end").select("node", time="end", free="width"),
        within.select("node", time="suspend", free="width"),
        resumed.select("node", time="resume", free=-col("width")),
        left.select("node", time="end", free=-col("width")),
    ]
    named = [one for one in events.reservations if one.nodes]
    coming = [_until(one) for one in named if one.announced < one.begin]
    for name, spans in (("out", list(events.absences)), ("reserved", named), ("announced", coming)):
        changes.append(_spans(name, spans, places))
    table = pl.concat([change.cast({name: _CHANGES[name] for name in change.columns}) for change in changes], how="diagonal")
    table = pl.concat([pl.DataFrame(schema=_CHANGES), table], how="diagonal").with_columns(
        col("free", "out", "reserved", "announced").fill_null(0.0)
    )
    sums = table.group_by("node", "time").agg(col("free", "out", "reserved", "announced").sum()).sort("node", "time")
    return sums.with_columns(col("free", "out", "reserved", "announced").cum_sum().over("node"))


def _until(one: Reservation) -> Absence:
    """The time from the announcement of a reservation to its begin."""
    return Absence(one.number, "", one.nodes, one.announced, one.begin)


def _spans(name: str, spans: list[Absence] | list[Reservation], places: Mapping[str, int]) -> pl.DataFrame:
    rows = []
    for node, of_node in by_node(spans).items():
        if (place := places.get(node)) is not None:
            for begin, end in of_node:
                rows += [(place, begin, 1.0), (place, end, -1.0)]
    frame = pl.DataFrame(rows, schema={"node": pl.Int64, "time": pl.Float64, name: pl.Float64}, orient="row")
    return frame.filter(col("time").is_finite())


def _names(hosts: str) -> list[str]:
    try:
        return hostlist.expand(hosts)
    except ValueError:
        return []


class _Nodes:
    """The nodes of a partition over time. Courses are values at `times`, each of which holds until the next one."""

    def __init__(self, states: pl.DataFrame, layout: Layout) -> None:
        sizes = np.array([node.processors for node in layout.nodes.values()], np.float64)
        node = states["node"].to_numpy()
        self._size = sizes[node] if len(node) else sizes[:0]
        self._free = states["free"].to_numpy()
        away, reserved, announced = (states[name].to_numpy() > 0.5 for name in ("out", "reserved", "announced"))
        self._is_first = np.concatenate([[True], node[1:] != node[:-1]]) if len(node) else np.zeros(0, bool)
        time = states["time"].to_numpy()
        self._order = np.argsort(time, kind="stable")
        self.times, self._begins = np.unique(time[self._order], return_index=True)
        self._open: dict[Room, Flags] = {
            Room.FREE_UNTIL_RESERVED: ~away & ~reserved,
            Room.FREE: ~away & ~reserved & ~announced,
            Room.RESERVED: ~away,
            Room.ABSENT: np.ones(len(node), bool),
        }
        self._total = self._course(self._free.clip(0) * self._open[Room.FREE_UNTIL_RESERVED])

    def _course(self, values: Floats) -> Floats:
        """The sum of the nodes' values over time."""
        if not len(values):
            return np.zeros(0)
        steps = values.copy()
        steps[1:] -= np.where(self._is_first[1:], 0.0, values[:-1])
        return np.cumsum(np.add.reduceat(steps[self._order], self._begins))

    def courses(self, kind: str, each: int) -> dict[Room, Floats]:
        """How many such places there are: with all nodes (ABSENT), without those out of service (RESERVED), without reserved ones
        (FREE_UNTIL_RESERVED), and without those that will be reserved (FREE)."""
        if kind == SLOTS:
            places = np.floor(self._free.clip(0) / max(1, each) + _TINY)
        else:
            places = (self._free >= (self._size if kind == WHOLE else each) - _TINY).astype(np.float64)
        made: dict[bytes, Floats] = {}
        for is_open in self._open.values():
            if (key := is_open.tobytes()) not in made:
                made[key] = self._course(places * is_open)
        return {name: made[is_open.tobytes()] for name, is_open in self._open.items()}

    def least_of(self, count: int) -> int:
        """Processors of so many whole nodes, at least."""
        return count * int(self._size.min()) if len(self._size) else 0

    def codes(self, courses: Mapping[Room, Floats], count: int, processors: int) -> Codes:
        """The room over time of a job that needs `count` places, and `processors` in total."""
        enough = {name: course >= count - _TINY for name, course in courses.items()}
        cases = {
            Room.FREE: enough[Room.FREE],
            Room.FREE_UNTIL_RESERVED: enough[Room.FREE_UNTIL_RESERVED],
            Room.SCATTERED: self._total >= processors - _TINY,
            Room.RESERVED: enough[Room.RESERVED],
            Room.ABSENT: enough[Room.ABSENT],
        }
        return np.select(list(cases.values()), [int(name) for name in cases], int(Room.FULL)).astype(np.int64)


def during(rows: pl.DataFrame, times: Floats, codes: Codes) -> pl.DataFrame:
    """The codes of each row between its begin and its end, which hold from `times` on: key, time, room.

    rows: key, begin and end; times: in order
    """
    if not len(times):
        return rows.select("key", time="begin", room=pl.lit(int(Room.FULL), pl.Int64))
    changed = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    since, code = times[changed], codes[changed]
    begin = rows["begin"].to_numpy()
    first = np.searchsorted(since, begin, "right") - 1
    count = np.maximum(np.searchsorted(since, rows["end"].to_numpy(), "left") - first, 1)
    place = np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return pl.DataFrame(
        {
            "key": np.repeat(rows["key"].to_numpy(), count),
            "time": np.maximum(since[place], np.repeat(begin, count)),
            "room": code[place],
        }
    )
