"""Computes the use of nodes over time: rectangles of nodes and time per job, and a raster of fixed size."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.metrics.allocations import effective, holdings
from mirage.occupancy.machine import Machine

Floats = NDArray[np.float64]
Ranges = list[tuple[float, float]]


@dataclass(frozen=True)
class Boxes:
    """Rectangles, an array element each: `job` used `share` of the nodes from `first` to `last` from `begin` to `end`.

    first, last: positions among all nodes, from 0; fractions are parts of a node
    begin, end: seconds
    missing: number of jobs whose nodes are unknown
    """

    job: NDArray[np.int64]
    first: Floats
    last: Floats
    begin: Floats
    end: Floats
    share: Floats
    missing: int = 0

    @classmethod
    def of(cls, rows: Sequence[tuple[int, float, float, float, float, float]], missing: int = 0) -> Boxes:
        table = np.array(rows, np.float64).reshape(-1, 6)
        return cls(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], table[:, 3], table[:, 4], table[:, 5], missing)


def stretches(jobs: pl.DataFrame, suspensions: pl.DataFrame | None, allocations: pl.DataFrame | None = None) -> pl.DataFrame:
    """The intervals in which jobs used processors (id, processors, begin, end), in order of begin; several for jobs that were
    suspended or changed their size.

    jobs: columns id, start, end, processors of the jobs that started
    suspensions: columns job, suspend, resume; or None
    allocations: columns of `ALLOCATIONS_SCHEMA`; or None
    """
    whole = jobs.select("id", s="start", f="end", p="processors", c=pl.lit(0))
    stops = None if suspensions is None else suspensions.drop_nulls().join(whole, left_on="job", right_on="id", how="semi")
    sizes = None if allocations is None else allocations.select(id="job", time="from", p="processors", c=pl.lit(0))
    sizes = None if sizes is None else effective(whole, sizes)
    numbers = [frame[name] for frame, name in ((stops, "job"), (sizes, "id")) if frame is not None]
    is_affected = pl.col("id").is_in(pl.concat([whole["id"].head(0), *numbers]).unique().implode())
    parts = [
        whole.filter(~is_affected).select("id", begin="s", end="f", p="p"),
        holdings(whole.filter(is_affected), stops, sizes).drop("c"),
    ]
    held = pl.concat(parts).filter(pl.col("end") > pl.col("begin"))
    return held.select("id", "begin", "end", processors="p").sort("begin", "id")


def recorded(parts: pl.DataFrame, lists: pl.DataFrame, machine: Machine, *, apart: bool) -> Boxes:
    """Boxes of jobs on their recorded nodes. Only a job's total of processors is recorded; it is spread evenly over its nodes.

    parts: result of `stretches`
    lists: columns id and node_list, as `records.node_lists`
    apart: whether jobs that share a node get separate boxes, each in the lowest free part of the node (the processors of a job on
        a node are not recorded); otherwise boxes cover whole nodes
    """
    listed = parts.with_row_index("part").join(lists, on="id", how="left", maintain_order="left")
    drawn = machine.placed(listed, "node_list").with_columns(pl.col("is_known").fill_null(False))
    missing = drawn.filter(~pl.col("is_known"))["id"].n_unique()
    where, before = drawn.filter("is_known"), np.append(0, np.cumsum(machine.processors))
    own = pl.Series(before[where["last"].to_numpy()] - before[where["first"].to_numpy()])
    where = where.with_columns(cpus=own).with_columns(share=(pl.col("processors") / pl.col("cpus").sum().over("part")).clip(0, 1))
    if apart:
        return Boxes.of(list(_apart(where, machine)), missing)
    first, last, begin, end, share = (
        where[name].cast(pl.Float64).to_numpy() for name in ("first", "last", "begin", "end", "share")
    )
    return Boxes(where["id"].to_numpy(), first, last, begin, end, share, missing)


def _apart(where: pl.DataFrame, machine: Machine) -> Iterator[tuple[int, float, float, float, float, float]]:
    """Yields the rows of boxes, with separate boxes for jobs on the same node."""
    cpus = machine.processors.tolist()
    until = [np.full(count, -np.inf) for count in cpus]
    names = ("id", "processors", "nodes", "first", "last", "begin", "end", "share")
    for job, processors, nodes, first, last, begin, end, share in where.select(names).iter_rows():
        if share > 0.999:
            yield job, first, last, begin, end, share
            continue
        for place in range(first, last):
            free = np.flatnonzero(until[place] <= begin)[: max(1, round(processors / nodes))]
            until[place][free] = end
            for part in np.split(free, np.flatnonzero(np.diff(free) > 1) + 1):
                if part.size:
                    yield job, place + part[0] / cpus[place], place + (part[-1] + 1) / cpus[place], begin, end, 1.0


def lowest_first(parts: pl.DataFrame, machine: Machine) -> Boxes:
    """Boxes of jobs on the free processors with the lowest numbers, for a schedule without recorded nodes.

    A suspended job releases its processors. After a suspension or a change of its size a job may get other processors.
    """
    edges = np.concatenate([[0], np.cumsum(machine.processors)]).astype(np.float64)
    free: Ranges = [(0.0, float(edges[-1]))]
    ends: list[tuple[float, int, Ranges]] = []
    rows: list[tuple[int, float, float, float, float, float]] = []
    missing = set()
    for number, (job, processors, begin, end) in enumerate(parts.select("id", "processors", "begin", "end").iter_rows()):
        while ends and ends[0][0] <= begin:
            free = _merged(free, ends.pop(0)[2])
        taken, free = _lowest(free, processors)
        if taken is None:
            missing.add(job)
            continue
        insort(ends, (end, number, taken))
        for low, high in taken:
            first, last = np.interp([low, high], edges, np.arange(len(edges)))
            rows.append((job, float(first), float(last), begin, end, 1.0))
    return Boxes.of(rows, len(missing))


def raster(boxes: Boxes, window: tuple[float, float], nodes: int, rows: int, columns: int) -> Floats:
    """Busy share, from 0 to 1, of rows x columns equal parts of nodes and of time. Row 0 has the first nodes.

    A box is the product of a function of nodes and a function of time, each constant except at its two ends. Its differences along
    both axes therefore have four entries per axis. The entries of all boxes are added, and summed up once at the end.
    """
    begin, length = window[0], max(window[1] - window[0], 1e-9)
    scale = columns / length
    at_row, row_weight = _differences(boxes.first * rows / nodes, boxes.last * rows / nodes, rows)
    at_column, column_weight = _differences((boxes.begin - begin) * scale, (boxes.end - begin) * scale, columns)
    total = np.zeros((rows + 2, columns + 2))
    for i in range(4):
        for j in range(4):
            np.add.at(total, (at_row[i], at_column[j]), row_weight[i] * column_weight[j] * boxes.share)
    return np.asarray(total.cumsum(axis=0).cumsum(axis=1)[:rows, :columns].clip(0, 1))


def _differences(low: Floats, high: Floats, size: int) -> tuple[list[NDArray[np.int64]], list[Floats]]:
    """Differences between the shares of neighbouring cells that lie in [low, high): indices of the cells, and differences."""
    places: list[NDArray[np.int64]] = []
    weights: list[Floats] = []
    for edge, sign in ((low.clip(0, size), 1.0), (high.clip(0, size), -1.0)):
        cell = np.floor(edge).astype(np.int64)
        inside = edge - cell
        places += [cell, cell + 1]
        weights += [sign * (1 - inside), sign * inside]
    return places, weights


def _lowest(free: Ranges, needed: float) -> tuple[Ranges | None, Ranges]:
    """Takes `needed` processors from the lowest free ranges; returns the taken ranges (None if too few) and the free ones."""
    taken: Ranges = []
    for place, (low, high) in enumerate(free):
        if high - low >= needed:
            taken.append((low, low + needed))
            rest = [(low + needed, high)] if high - low > needed else []
            return taken, rest + free[place + 1 :]
        taken.append((low, high))
        needed -= high - low
    return None, free


def _merged(free: Ranges, more: Ranges) -> Ranges:
    """The union of both lists of ranges, with adjacent ranges joined."""
    merged: Ranges = []
    for low, high in sorted([*free, *more]):
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged
