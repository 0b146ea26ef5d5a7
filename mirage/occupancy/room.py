"""What room waiting jobs would have had over time, from what was taken of the nodes, reserved, or out of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.occupancy.machine import Flags
from mirage.occupancy.needs import WHOLE, Needs
from mirage.occupancy.occupancy import NEVER, Bound, Floats, Occupancy, Taken

Codes = NDArray[np.int64]
OUT, RESERVED, ANNOUNCED = "out", "reserved", "announced"
"""Times of nodes: out of service, reserved by a reservation in force, by one that will be."""
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


ASKED_SCHEMA = {"key": pl.Int64, "job": pl.Int64, "partition": pl.String, "begin": pl.Float64, "end": pl.Float64}
"""What is asked of `room`, a row for each time of a job."""
ROOM_SCHEMA = {"key": pl.Int64, "time": pl.Float64, "room": pl.Int64, "free_since": pl.Float64, "free_until": pl.Float64}


def room(asked: pl.DataFrame, needs: Mapping[int, Needs], occupancy: Occupancy, least: float) -> pl.DataFrame:
    """A row for each time at its begin, and whenever the room changes until its end: key, time, room, and where it is FREE or
    FREE_UNTIL_RESERVED since and until when it is one of these (free_since, free_until).

    Where the room changes often, what is alike in a twentieth of the time is put together: the sums stay the same.

    asked: columns of ASKED_SCHEMA; needs: of the jobs; occupancy: with OUT, RESERVED and ANNOUNCED; least: seconds of room that
        differ from shorter ones
    """
    parts: list[dict[str, NDArray[Any]]] = []
    answers = _alike if occupancy.bound is Bound.EVEN else _one_by_one
    for rows, times, codes in answers(asked, needs, occupancy):
        is_free = np.concatenate([[False], codes <= Room.FREE_UNTIL_RESERVED, [False]])
        borders, begins = np.append(times, np.inf), ~is_free[:-1] & is_free[1:]
        # The last time with room that began before each instant.
        last = np.cumsum(begins[:-1])
        since, until = (np.append(np.nan, borders[edges])[last] for edges in (begins, is_free[:-1] & ~is_free[1:]))
        parts.append(during(rows, times, codes, free_since=since, free_until=until))
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) if parts else [] for name in ROOM_SCHEMA}
    free_since, free_until = col("free_since").fill_nan(None), col("free_until").fill_nan(None)
    part = (
        pl.DataFrame(columns, ROOM_SCHEMA)
        .with_columns(free_since, free_until)
        .with_columns(is_long=free_until - free_since > least)
    )
    longest = col("free_since", "free_until").sort_by(col("free_until") - col("free_since")).last()
    return condensed(part, asked, ["room", "is_long"], longest).select(ROOM_SCHEMA.keys())


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


def _alike(asked: pl.DataFrame, needs: Mapping[int, Needs], occupancy: Occupancy) -> Iterator[tuple[pl.DataFrame, Floats, Codes]]:
    """The rows with the same needs, with the instants at which their room may change, and the room from then on."""
    about = [(job, one.kind, one.each, one.count, one.processors) for job in asked["job"].unique() for one in (needs[job],)]
    numbers = dict.fromkeys(("each", "count", "processors"), pl.Int64)
    schema = {"job": pl.Int64, "kind": pl.String, **numbers}
    table = asked.join(pl.DataFrame(about, schema, orient="row"), on="job", maintain_order="left")
    for (partition,), of_partition in table.group_by("partition", maintain_order=True):
        states, is_member = occupancy.states, occupancy.machine.members(str(partition))
        nodes = _Nodes(occupancy, states.where(is_member[states.node]))
        for (kind, each), of_kind in of_partition.group_by("kind", "each", maintain_order=True):
            courses = nodes.courses(Needs(str(kind), int(str(each))))
            for (count, processors), rows in of_kind.group_by("count", "processors", maintain_order=True):
                one = Needs(str(kind), int(str(each)), int(str(count)), int(str(processors)))
                yield rows, nodes.times, nodes.codes(courses, one)


def _one_by_one(
    asked: pl.DataFrame, needs: Mapping[int, Needs], occupancy: Occupancy
) -> Iterator[tuple[pl.DataFrame, Floats, Codes]]:
    """The same for needs of which few are alike, a row at a time."""
    ordered = asked.sort("begin")
    of_rows = zip(ordered["job"], ordered["partition"], occupancy.between(ordered.select("begin", "end").rows()), strict=True)
    for place, (job, partition, states) in enumerate(of_rows):
        nodes = _Nodes(occupancy, states.where(occupancy.machine.members(partition)[states.node]))
        yield ordered[place : place + 1], nodes.times, nodes.codes(nodes.courses(needs[job]), needs[job])


class _Nodes:
    """The nodes of a partition over time. Courses are values at `times`, each of which holds until the next one."""

    def __init__(self, occupancy: Occupancy, taken: Taken) -> None:
        self._occupancy, self._taken = occupancy, taken
        node, time = self._taken.node, self._taken.values["time"]
        away, reserved, announced = (self._taken.values[name] > 0.5 for name in (OUT, RESERVED, ANNOUNCED))
        self._is_first = np.concatenate([[True], node[1:] != node[:-1]]) if len(node) else np.zeros(0, bool)
        self._order = np.argsort(time, kind="stable")
        self.times, self._begins = np.unique(time[self._order], return_index=True)
        self._open: dict[Room, Flags] = {
            Room.FREE_UNTIL_RESERVED: ~away & ~reserved,
            Room.FREE: ~away & ~reserved & ~announced,
            Room.RESERVED: ~away,
            Room.ABSENT: np.ones(len(node), bool),
        }
        self._total = self._course(occupancy.free(self._taken) * self._open[Room.FREE_UNTIL_RESERVED])

    def _course(self, values: Floats) -> Floats:
        """The sum of the nodes' values over time."""
        if not len(values):
            return np.zeros(0)
        steps = values.copy()
        steps[1:] -= np.where(self._is_first[1:], 0.0, values[:-1])
        return np.cumsum(np.add.reduceat(steps[self._order], self._begins))

    def courses(self, needs: Needs) -> dict[Room, Floats]:
        """How many such places there are: with all nodes (ABSENT), without those out of service (RESERVED), without reserved ones
        (FREE_UNTIL_RESERVED), and without those that will be reserved (FREE)."""
        places = self._occupancy.places(needs, self._taken)
        made: dict[bytes, Floats] = {}
        for is_open in self._open.values():
            if (key := is_open.tobytes()) not in made:
                made[key] = self._course(places * is_open)
        return {name: made[is_open.tobytes()] for name, is_open in self._open.items()}

    def codes(self, courses: Mapping[Room, Floats], needs: Needs) -> Codes:
        """The room over time of a job, from the courses of its places."""
        sizes = self._occupancy.machine.usable[self._taken.node]
        least = needs.count * int(sizes.min()) if needs.kind == WHOLE and len(sizes) else 0
        enough = {name: course >= needs.places - _TINY for name, course in courses.items()}
        cases = {
            Room.FREE: enough[Room.FREE],
            Room.FREE_UNTIL_RESERVED: enough[Room.FREE_UNTIL_RESERVED],
            Room.SCATTERED: self._total >= max(least, needs.processors) - _TINY,
            Room.RESERVED: enough[Room.RESERVED],
            Room.ABSENT: enough[Room.ABSENT],
        }
        return np.select(list(cases.values()), [int(name) for name in cases], int(Room.FULL)).astype(np.int64)


def during(rows: pl.DataFrame, times: Floats, codes: Codes, **others: Floats) -> dict[str, NDArray[Any]]:
    """The codes of each row between its begin and its end, which hold from `times` on: key, time, room, and others when it changes,
    by name.

    rows: key, begin and end; times: in order; others: values by name, as codes
    """
    if not len(times):
        return during(rows, np.array([NEVER]), np.array([int(Room.FULL)]), **dict.fromkeys(others, np.array([np.nan])))
    changed = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    since, code = times[changed], codes[changed]
    begin = rows["begin"].to_numpy()
    first = np.searchsorted(since, begin, "right") - 1
    count = np.maximum(np.searchsorted(since, rows["end"].to_numpy(), "left") - first, 1)
    place = np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return {
        "key": np.repeat(rows["key"].to_numpy(), count),
        "time": np.maximum(since[place], np.repeat(begin, count)),
        "room": code[place],
        **{name: values[changed][place] for name, values in others.items()},
    }
