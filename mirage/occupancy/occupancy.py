"""What jobs have of each node over time, and how many places of a job that leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.occupancy.machine import ALL, Flags, Machine
from mirage.occupancy.needs import SLOTS, WHOLE, Needs

Floats = NDArray[np.float64]
Spans = Mapping[str, Sequence[tuple[float, float]]]
"""Times (begin, end) by name of a node."""
NEVER = float("-inf")
_PROCESSORS, _MEMORY, _JOBS, _GPUS = "processors", "memory", "jobs", "gpus "
_TINY = 1e-9


class Bound(Enum):
    """What is taken to be so where it is not recorded how many processors a job had on each of its nodes.

    It is known of jobs on one node, of those with whole nodes, and of those with all processors of their nodes: of these both say
    the same. Room by LARGEST is room by EVEN, too.
    """

    EVEN = "even"
    """They are spread evenly, as far as the nodes have so many. Only processors are looked at."""
    LARGEST = "largest"
    """On any of its nodes a job has all of its processors but one for each other node, if the node has so many. Without a request
    for memory it has all memory of its nodes, and GPUs of any type may be of each. Memory, GPUs and features of nodes count: a
    place that is free then was certainly free."""


@dataclass(frozen=True)
class Taken:
    """What is taken of nodes. A row is a node, or one at a time. node: its place; values: by what is taken, an element per row"""

    node: NDArray[np.int64]
    values: Mapping[str, Floats]

    def where(self, flags: Flags) -> Taken:
        """The rows with the flag."""
        rows = np.flatnonzero(flags)
        return Taken(self.node[rows], {name: values[rows] for name, values in self.values.items()})


@dataclass(frozen=True)
class Occupancy:
    """What is taken of the nodes of a machine over time, by a bound."""

    machine: Machine
    bound: Bound
    changes: pl.DataFrame
    """In order of time: node (its place), time, and for each thing how much more of it is taken from then on."""
    is_complete: bool
    """Whether all nodes of all placements are known, and what their jobs need."""

    @classmethod
    def of(
        cls,
        machine: Machine,
        placements: pl.DataFrame,
        needs: Mapping[int, Needs],
        bound: Bound,
        *,
        suspensions: pl.DataFrame | None = None,
        away: Mapping[str, Spans] | None = None,
    ) -> Occupancy:
        """placements: job, start, end (null: not known), hosts and processors of executions; needs: by job; suspensions: job,
        suspend and resume of those in which processors were free; away: times of nodes by a name, such as out of service"""
        placed = machine.placed(placements.with_row_index("execution"), "hosts")
        placed = placed.join(_asked(needs, machine, bound), on="job", how="left", maintain_order="left")
        unknown = pl.any_horizontal(col("start", "processors", "asks_whole").is_null(), ~col("is_known").fill_null(False))
        held = placed.drop_nulls(["start", "processors", "first"]).with_columns(node=pl.int_ranges("first", "last")).explode("node")
        held = held.join(_nodes(machine), on="node", maintain_order="left").with_columns(processors=_part(bound))
        things = [_PROCESSORS]
        if bound is Bound.LARGEST:
            held = held.with_columns(memory=_memory(), jobs=1)
            things += [_MEMORY, _JOBS, *(f"{_GPUS}{kind}" for kind in machine.gpus)]
        changes = _steps(held, "start", "end", things)
        if suspensions is not None:
            changes += _suspended(held, suspensions)
        for name, spans in (away or {}).items():
            rows = [(machine.places[node], *span, 1.0) for node in spans.keys() & machine.places.keys() for span in spans[node]]
            schema = {"node": pl.Int64, "begin": pl.Float64, "end": pl.Float64, name: pl.Float64}
            changes += _steps(pl.DataFrame(rows, schema=schema, orient="row"), "begin", "end", [name])
        table = pl.concat(changes, how="diagonal").with_columns(pl.exclude("node", "time").fill_null(0.0)).sort("time")
        return cls(machine, bound, table, not placed.select(unknown.any()).item())

    @cached_property
    def states(self) -> Taken:
        """What is taken of each node between changes, from NEVER on, in order of node and time; values has the time, too."""
        idle = _nodes(self.machine).select("node", time=pl.lit(NEVER))
        sums = pl.concat([self.changes, idle], how="diagonal").group_by("node", "time").agg(pl.all().sum()).sort("node", "time")
        sums = sums.with_columns(pl.exclude("node", "time").cum_sum().over("node"))
        return Taken(sums["node"].to_numpy(), {name: sums[name].to_numpy() for name in sums.columns if name != "node"})

    def at(self, instants: Sequence[float]) -> Iterator[Taken]:
        """What is taken of each node at each of the instants, which are in order. The arrays are the same each time."""
        node, time, amounts = self._arrays
        sums, done = np.zeros((len(amounts), len(self.machine.usable))), 0
        taken = Taken(np.arange(len(self.machine.usable)), dict(zip(self._things, sums, strict=True)))
        for until in np.searchsorted(time, instants, "right"):
            for of_thing, more in zip(sums, amounts, strict=True):
                np.add.at(of_thing, node[done:until], more[done:until])
            done = until
            yield taken

    def between(self, spans: Sequence[tuple[float, float]]) -> Iterator[Taken]:
        """The states, as `states`, from the begin to the end of each span; spans are in order of begins, amounts integers."""
        node, time, amounts = self._arrays
        every, never = np.arange(len(self.machine.usable)), np.full(len(self.machine.usable), NEVER)
        for (begin, end), taken in zip(spans, self.at([begin for begin, _ in spans]), strict=True):
            these = slice(np.searchsorted(time, begin, "right"), np.searchsorted(time, end))
            nodes = np.append(every, node[these])
            order = np.argsort(nodes, kind="stable")
            steps = np.hstack([np.stack([*taken.values.values()]), amounts[:, these]])[:, order].cumsum(axis=1)
            before = np.append(0, np.cumsum(np.bincount(nodes)))[nodes[order]]
            sums = steps - np.hstack([np.zeros((len(steps), 1)), steps])[:, before]
            yield Taken(nodes[order], {"time": np.append(never, time[these])[order], **dict(zip(self._things, sums, strict=True))})

    @property
    def _things(self) -> list[str]:
        return [name for name in self.changes.columns if name not in ("node", "time")]

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Node and time of the changes, and the amounts, a row for each thing."""
        amounts = np.stack([self.changes[name].to_numpy() for name in self._things])
        return self.changes["node"].to_numpy(), self.changes["time"].to_numpy(), amounts

    def free(self, taken: Taken) -> Floats:
        """Processors that no job has."""
        free: Floats = (self.machine.usable[taken.node] - taken.values[_PROCESSORS]).clip(0)
        return free

    def places(self, needs: Needs, taken: Taken) -> Floats:
        """How many places of a job each node has left, whether it is out of service or not; of a job that needs nodes, or GPUs in
        total, 0 or 1."""
        free, is_certain = self.free(taken), self.bound is Bound.LARGEST
        each: Floats | int = max(1, needs.each * (needs.count if needs.all_gpus else 1))
        if needs.kind == WHOLE:
            # How a job spreads its processors over whole nodes is not known.
            each = max(1, -(-needs.processors // needs.count)) if is_certain else self.machine.usable[taken.node].clip(1)
        if is_certain:
            if needs.memory and not needs.memory_per_node:
                free = np.minimum(free, (self.machine.memory[taken.node] - taken.values[_MEMORY]) // needs.memory)
            free = np.where(self._may_have(needs, taken), free, 0.0)
        places: Floats = np.floor(free.clip(0) / each + _TINY)
        return places if needs.kind == SLOTS and not needs.all_gpus else np.minimum(places, 1.0)

    def _may_have(self, needs: Needs, taken: Taken) -> Flags:
        """Whether nodes have what a job needs beside processors, and memory for each of these."""
        values, machine, node = taken.values, self.machine, taken.node
        is_idle, may_have = values[_JOBS] < 0.5, machine.allowing(needs.constraint)[node]
        if needs.kind == WHOLE:
            may_have &= is_idle
        if needs.memory_per_node:
            may_have &= machine.memory[node] - values[_MEMORY] >= needs.memory_per_node
        elif needs.memory is None:
            # What it gets is not known, and may be all.
            may_have &= (machine.memory[node] == ALL) | is_idle
        for gpu, number in (*needs.gpus, *needs.all_gpus):
            has = gpu in machine.gpus
            may_have &= (machine.gpus[gpu][node] - values[f"{_GPUS}{gpu}"] >= number) if has else np.bool_(False)
        return may_have


def _nodes(machine: Machine) -> pl.DataFrame:
    return pl.DataFrame({"node": np.arange(len(machine.usable)), "size": machine.usable, "has": machine.memory})


def _asked(needs: Mapping[int, Needs], machine: Machine, bound: Bound) -> pl.DataFrame:
    """What jobs ask of each of their nodes: job, asks_whole, and by LARGEST asks_memory (MiB of each processor, or null),
    asks_on_node (MiB), and GPUs by type."""
    whole = [one.kind == WHOLE for one in needs.values()]
    table = pl.DataFrame({"job": list(needs), "asks_whole": whole}, {"job": pl.Int64, "asks_whole": pl.Boolean})
    if bound is Bound.EVEN:
        return table
    return table.with_columns(
        pl.Series("asks_memory", [one.memory for one in needs.values()], pl.Float64),
        pl.Series("asks_on_node", [one.memory_per_node for one in needs.values()], pl.Float64),
        *(pl.Series(f"{_GPUS}{kind}", [one.gpus_on_node(kind) for one in needs.values()], pl.Float64) for kind in machine.gpus),
    )


def _part(bound: Bound) -> pl.Expr:
    """Processors of a job on each of its nodes. Of a node it has all that the others do not have."""
    rest = col("size").sum().over("execution") - col("size")
    part = pl.max_horizontal(col("processors") / col("nodes"), col("processors") - rest)
    if bound is Bound.LARGEST:
        part = pl.max_horizontal(part, col("processors") - (col("nodes") - 1))
    return pl.when(col("asks_whole").fill_null(False)).then("size").otherwise(pl.min_horizontal(part, "size")).cast(pl.Float64)


def _memory() -> pl.Expr:
    """MiB that a job has on each of its nodes."""
    by_processors = (col("asks_memory") * col("processors")).fill_null(col("has"))
    return pl.when(col("asks_on_node") > 0).then("asks_on_node").otherwise(by_processors)


def _steps(table: pl.DataFrame, begin: str, end: str, things: Sequence[str]) -> list[pl.DataFrame]:
    """The changes at the begins, and at the ends that are known."""

    def at(time: str, sign: int) -> pl.DataFrame:
        known = table.filter(col(time).is_finite())
        return known.select(
            col("node").cast(pl.Int64), col(time).alias("time"), *(col(name).cast(pl.Float64) * sign for name in things)
        )

    return [at(begin, 1), at(end, -1)]


def _suspended(held: pl.DataFrame, suspensions: pl.DataFrame) -> list[pl.DataFrame]:
    """The changes by suspensions, for which processors are free. A job that was suspended at its end had freed them before."""
    within = suspensions.drop_nulls("suspend").join(held, on="job", maintain_order="left")
    over = col("end").fill_null(np.inf)
    within = within.filter(col("suspend").is_between("start", over)).with_columns(back=pl.min_horizontal(col("resume"), over))
    return _steps(within.with_columns(-col(_PROCESSORS)), "suspend", "back", [_PROCESSORS])
