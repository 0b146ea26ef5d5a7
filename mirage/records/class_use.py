"""How the classes of nodes of a run were used: waits of the jobs that may use them, use, backlog, and why new nodes were idle.

A class is the nodes that are alike in what they have and in their partitions; new nodes are a class of their own. All is over the
time in which jobs were submitted, so that machines with the same jobs are measured over the same time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.metrics.jobs_frame import WAITS_SCHEMA
from mirage.occupancy.machine import Machine
from mirage.occupancy.needs import Needs
from mirage.records.file_names import WAITS_FILE
from mirage.records.node_lists import node_lists
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.records.wait_causes import CAUSES, FRAGMENTATION, PRIORITY, RESOURCES, SUBMISSION
from mirage.workloads.constraints import allows
from slurm_mirage.base.hostlist import compress
from slurm_mirage.base.hostlist import place as place_of
from slurm_mirage.jobs.request import Request
from slurm_mirage.rm.evidence import Layout, Node, WaitWord

Floats = NDArray[np.float64]
_Ask = tuple[str, int, int | None, int | None, str]
"""Partitions of a job, by the plan or, without one, that in which it ran; and what `Needs.of` takes of it."""

NOBODY, WEIGHT, PARTITIONS, FEATURES, GPUS, MEMORY = "nobody", "weight", "partitions", "features", "GPUs", "memory"
IDLE_CAUSES = {
    NOBODY: "no job waited that could start",
    WEIGHT: "no job waited that could start, and Slurm fills nodes of a lower Weight first",
    PARTITIONS: "the jobs that waited were in partitions without these nodes",
    FEATURES: "the jobs that waited asked for features that these nodes do not have",
    GPUS: "the jobs that waited asked for GPUs that these nodes do not have",
    MEMORY: "the jobs that waited asked for more memory than these nodes have",
    RESOURCES: "a job that could use them waited for more than was free",
    FRAGMENTATION: "a job that could use them waited for more than was free on nodes that fit",
    PRIORITY: "jobs that could use them were behind others",
}
"""Why nodes were idle. Other causes are those of jobs that could use them (`wait_causes.CAUSES`)."""
CAPS = tuple(word.value for word in (WaitWord.USER, WaitWord.ACCOUNT, WaitWord.QOS, WaitWord.PARTITION))
_NOT_READY = (SUBMISSION, WaitWord.DEPENDENCY.value, WaitWord.BEGIN.value, WaitWord.HELD.value)
"""Causes of jobs that could not start on any node."""
_LEAST = 0.005
"""Share of the time: causes that kept nodes idle for less are left out."""
_HOUR = 3600.0


def idle_words(cause: str) -> str:
    """What a cause of idle nodes means."""
    return IDLE_CAUSES.get(cause) or f"jobs that could use them waited: {CAUSES.get(cause, cause)}"


@dataclass(frozen=True)
class NodeKind:
    """A class of nodes of a machine: what each has, its partitions, and their places."""

    node: Node
    partitions: frozenset[str]
    is_new: bool
    places: NDArray[np.int64]
    names: str


def kinds_of(layout: Layout, before: Collection[str]) -> list[NodeKind]:
    """The classes of a machine's nodes in their order. before: names of the nodes that are not new"""
    of_node: dict[str, list[str]] = {}
    for partition, nodes in layout.partitions.items():
        for name in nodes:
            of_node.setdefault(name, []).append(partition)
    found: dict[tuple[Node, frozenset[str], bool], list[tuple[int, str]]] = {}
    for place, (name, node) in enumerate(layout.nodes.items()):
        found.setdefault((node, frozenset(of_node.get(name, ())), name not in before), []).append((place, name))
    return [
        NodeKind(*key, np.array([place for place, _ in members], np.int64), compress(name for _, name in members))
        for key, members in found.items()
    ]


def of(run: RunFolder, before: Collection[str], common: Collection[int]) -> dict[str, Any]:
    """Members of `growth` for a run. before: names of the nodes that are not new; common: jobs whose waits are measured"""
    return _Use(run, before, frozenset(common)).content()


def nodes_of(run: RunFolder) -> list[str]:
    """Names of a run's nodes."""
    return [*_layout(run).nodes]


def _layout(run: RunFolder) -> Layout:
    settings = run.metrics["settings"]
    return run.machine(settings["processors"], settings["nodes"])


class _Use:
    def __init__(self, run: RunFolder, before: Collection[str], common: frozenset[int]) -> None:
        self.run, self.common, self.layout = run, common, _layout(run)
        self.machine = Machine(self.layout)
        self.kinds = kinds_of(self.layout, before)
        self.plan = {row.id: row for row in run.read_plan()}
        jobs = of_run(run).jobs.drop_nulls(["submit", "processors"]).filter(col("id").is_in([*self.plan]))
        self.begin, self.end = _span(jobs.filter(col("preset").is_null())["submit"])
        self.jobs = jobs.with_columns(until=pl.coalesce("start", "end", pl.lit(math.inf)))
        """With the instant until which each waited."""
        self.may_use = [self._against(place, self.jobs["id"]) == "" for place in range(len(self.kinds))]
        """Of each class, whether each job may use it."""

    def content(self) -> dict[str, Any]:
        clock = self.run.metrics["validity"].get("event_clock") or {}
        return {
            "nodes": len(self.layout.nodes),
            "processors": int(self.machine.processors.sum()),
            "jobs": self.jobs.height,
            "submissions": self.end - self.begin,
            **self._waited(self.jobs),
            "utilisation": self._utilisation(),
            "scheduler_seconds": clock.get("scheduler_seconds"),
            "classes": [self._of_kind(place) for place in range(len(self.kinds))],
        }

    def _of_kind(self, place: int) -> dict[str, Any]:
        kind, jobs = self.kinds[place], self.jobs.filter(self.may_use[place])
        return {
            "names": kind.names,
            "nodes": len(kind.places),
            "new": kind.is_new,
            "processors": kind.node.processors,
            "gpus": ",".join(f"{name}:{count}".lstrip(":") for name, count in kind.node.gpus),
            "features": sorted(kind.node.features),
            "partitions": sorted(kind.partitions),
            "weight": self._weight(kind),
            "jobs": jobs.height,
            **self._waited(jobs),
            **self._used(place),
        }

    # ---- the jobs ----

    def _waited(self, jobs: pl.DataFrame) -> dict[str, float | None]:
        """Waits of the common ones among these jobs, and processor hours of those that waited: in the mean, and at the end."""
        started = jobs.filter(col("id").is_in([*self.common]), col("start").is_not_null(), col("preset").is_null())
        wait = (started["start"] - started["submit"]).to_numpy()
        work = col("processors") * col("runtime").fill_null(0.0) / _HOUR
        since, until = (col(name).clip(self.begin, self.end) for name in ("submit", "until"))
        at_end = (col("submit") <= self.end) & (col("until") > self.end)
        backlog, left = jobs.select((work * (until - since)).sum(), work.filter(at_end).sum().alias("left")).row(0)
        return {
            "wait_mean": float(wait.mean()) if len(wait) else None,
            "wait_p95": float(np.quantile(wait, 0.95)) if len(wait) else None,
            "backlog": backlog / (self.end - self.begin) if self.end > self.begin else None,
            "backlog_at_end": left,
        }

    def _utilisation(self) -> float | None:
        """Share of the time of the processors that jobs could have which they had."""
        length, since, until = self.end - self.begin, *(col(name).clip(self.begin, self.end) for name in ("start", "end"))
        room = length * float(self.machine.usable.sum())
        return float(self.jobs.select((col("processors") * (until - since)).sum()).item()) / room if room > 0 else None

    @cached_property
    def _asks(self) -> tuple[list[_Ask], pl.DataFrame]:
        """What jobs ask for, each once, and a table of job and the place of its ask in the list."""
        ran = dict(self.jobs.select("id", col("partition").fill_null("")).iter_rows())
        places: dict[_Ask, int] = {}
        rows = []
        for job, row in self.plan.items():
            ask = (row.partition or ran.get(job, ""), row.processors, row.nodes, row.memory, row.request)
            rows.append((job, places.setdefault(ask, len(places))))
        return [*places], pl.DataFrame(rows, schema={"id": pl.Int64, "ask": pl.Int64}, orient="row")

    @cached_property
    def _obstacles(self) -> list[pl.Series]:
        """Of each class, by the places of asks: why such a job cannot use its nodes; empty if it can."""
        asks = [(ask[0], Needs.of(*ask[1:4], Request.parse(ask[4]))) for ask in self._asks[0]]
        return [
            pl.Series([_obstacle(kind, partition, needs, self.layout) for partition, needs in asks], dtype=pl.String)
            for kind in self.kinds
        ]

    def _against(self, place: int, jobs: pl.Series) -> pl.Series:
        """What keeps each of these jobs from the nodes of a class; empty if nothing does."""
        asks = jobs.to_frame("id").join(self._asks[1], on="id", how="left", maintain_order="left")["ask"]
        return self._obstacles[place].gather(asks)

    # ---- the nodes ----

    @cached_property
    def _held(self) -> pl.DataFrame | None:
        """What jobs had of each node while jobs were submitted: job, node (its place), begin, end, processors, gpus. Processors are
        spread evenly over a job's nodes, and so are the GPUs of the whole job. None if the nodes of jobs are not known."""
        lists = node_lists(self.run, str(self.run.experiment.get("run") or self.run.name))
        if lists is None:
            return None
        needs = [Needs.of(*ask[1:4], Request.parse(ask[4])) for ask in self._asks[0]]
        each = [(place, sum(n for _, n in one.gpus), sum(n for _, n in one.all_gpus)) for place, one in enumerate(needs)]
        gpus = pl.DataFrame(each, schema={"ask": pl.Int64, "of_node": pl.Float64, "of_job": pl.Float64}, orient="row")
        gpus = self._asks[1].join(gpus, on="ask", maintain_order="left")
        ran = (
            self.jobs.drop_nulls(["start", "end"])
            .join(lists, on="id", maintain_order="left")
            .join(gpus, on="id", maintain_order="left")
        )
        held = (
            self.machine.placed(ran, "node_list")
            .drop_nulls("first")
            .with_columns(number=(col("last") - col("first")).sum().over("id"))
        )
        held = held.with_columns(node=pl.int_ranges("first", "last")).explode("node")
        return held.select(
            "id",
            "node",
            begin=col("start").clip(self.begin, self.end),
            end=col("end").clip(self.begin, self.end),
            processors=col("processors") / col("number"),
            gpus=col("of_node") + col("of_job") / col("number"),
        ).filter(col("end") > col("begin"))

    def _used(self, place: int) -> dict[str, Any]:
        """Shares of the time of a class's processors, GPUs and nodes, and why its nodes were idle, if they are new."""
        kind, length = self.kinds[place], self.end - self.begin
        nodes, usable = len(kind.places), kind.node.usable(0)
        if self._held is None or length <= 0:
            return {"utilisation": None, "gpu_utilisation": None, "idle": None, "idle_causes": []}
        held = self._held.filter(col("node").is_in(kind.places.tolist()))
        time = col("end") - col("begin")
        processors, gpus = held.select((col(name) * time).sum() for name in ("processors", "gpus")).row(0)
        of_node = sum(count for _, count in kind.node.gpus)
        times, busy = _busy(held, self.begin, self.end)
        idle = (nodes - busy) * np.diff(times)
        return {
            "utilisation": processors / (length * nodes * usable) if usable else None,
            "gpu_utilisation": gpus / (length * nodes * of_node) if of_node else None,
            "idle": float(idle.sum()) / (length * nodes),
            "idle_causes": self._idle_causes(place, times, nodes - busy) if kind.is_new else [],
        }

    def _weight(self, kind: NodeKind) -> int:
        """Weight of the nodes of a class, as CLASSES of the run's inputs has it; Slurm's default is 1."""
        name = [*self.layout.nodes][int(kind.places[0])]
        prefix, number = place_of(name)
        return next((weight for own, first, last, weight in self._weights if own == prefix and first <= number < last), 1)

    @cached_property
    def _weights(self) -> list[tuple[str, int, int, int]]:
        """Of each class of CLASSES: prefix, first number, the number after the last one, and Weight."""
        found = []
        for one in json.loads(self.run.experiment["inputs"].get("CLASSES") or "[]"):
            words = {key.lower(): value for key, value in (one.get("extra") or {}).items()}
            weight = str(words.get("weight", ""))
            found.append((one["prefix"], one["first"], one["first"] + one["count"], int(weight) if weight.isdecimal() else 1))
        return found

    # ---- idle nodes ----

    def _idle_causes(self, place: int, times: Floats, idle: Floats) -> list[dict[str, Any]]:
        """Why the nodes of a new class were idle: causes with their shares of the time of these nodes, the largest first.

        At any time it is what kept waiting jobs that could use the nodes, but for those behind others; else that jobs were behind
        others; else why those that waited could not use the nodes; else nobody waited. Several jobs at a time count the same.

        times, idle: how many of the nodes were idle between two instants
        """
        against = self._against(place, self._waiting["job"])
        rank = pl.when(against != "").then(2).when(col("cause") == PRIORITY).then(1).otherwise(0)
        waits = self._waiting.with_columns(rank=rank, named=pl.when(against != "").then(against).otherwise("cause"))
        spans = {(int(key[0]), str(key[1])): part for key, part in waits.group_by("rank", "named", maintain_order=True)}
        edges = np.unique(np.concatenate([times, *(part[name].to_numpy() for part in spans.values() for name in ("from", "to"))]))
        edges = edges[(edges >= self.begin) & (edges <= self.end)]
        left = idle[np.searchsorted(times, edges[:-1], "right") - 1] * np.diff(edges)
        counts = {key: _count(part, edges) for key, part in spans.items()}
        found: dict[str, float] = {}
        for place_in_order in range(3):
            of_rank = {cause: number for (own, cause), number in counts.items() if own == place_in_order}
            total = np.sum([np.zeros(len(left)), *of_rank.values()], axis=0)
            for cause, number in of_rank.items():
                part = np.divide(number, total, out=np.zeros(len(left)), where=total > 0)
                found[cause] = found.get(cause, 0.0) + float((left * part).sum())
            left = np.where(total > 0, 0.0, left)
        found[WEIGHT if self._is_filled_later(place) else NOBODY] = float(left.sum())
        room = (self.end - self.begin) * len(self.kinds[place].places)
        shares = sorted(((cause, seconds / room) for cause, seconds in found.items()), key=lambda one: (-one[1], one[0]))
        able = waits.filter(col("rank") < 2)
        return [
            {"cause": cause, "share": share, "reason": _reason(able, cause), "words": idle_words(cause)}
            for cause, share in shares
            if share >= _LEAST
        ]

    @cached_property
    def _waiting(self) -> pl.DataFrame:
        """The spans of jobs that waited and could have started on some nodes, as in waits.csv."""
        spans = self.run.waits if self.run.has(WAITS_FILE) else pl.DataFrame(schema=WAITS_SCHEMA)
        return spans.filter(~col("cause").is_in(_NOT_READY), col("job").is_in([*self.plan]), col("to") > col("from"))

    def _is_filled_later(self, place: int) -> bool:
        """Whether jobs that may use a class may also use one of a lower Weight."""
        own = self.may_use[place]
        weight = self._weight(self.kinds[place])
        return any(self._weight(kind) < weight and bool((own & self.may_use[other]).any()) for other, kind in enumerate(self.kinds))


def _obstacle(kind: NodeKind, partition: str, needs: Needs, layout: Layout) -> str:
    """Why a job cannot use the nodes of a class; empty if it can. partition: names of its partitions"""
    known = [one for one in partition.split(",") if one in layout.partitions]
    if known and kind.partitions.isdisjoint(known):
        return PARTITIONS
    if not allows(needs.constraint, kind.node.features):
        return FEATURES
    own = dict(kind.node.gpus)
    every = (*needs.gpus, *((name, 1) for name, _ in needs.all_gpus))
    if any((own.get(name, 0) if name else sum(own.values())) < number for name, number in every):
        return GPUS
    wanted = max(needs.memory_per_node, needs.memory or 0)
    return MEMORY if kind.node.memory is not None and wanted > kind.node.memory else ""


def _reason(waits: pl.DataFrame, cause: str) -> str:
    """The manager's own word for a limit that kept jobs waiting for the longest time; empty for other causes."""
    if cause not in CAPS:
        return ""
    told = waits.filter(col("cause") == cause, col("reason").fill_null("") != "")
    times = told.group_by("reason").agg(time=(col("to") - col("from")).sum()).sort("time", "reason", descending=[True, False])
    return str(times["reason"][0]) if times.height else ""


def _span(submits: pl.Series) -> tuple[float, float]:
    """The first and the last submission; 0 without any."""
    known = submits.to_numpy()
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def _busy(held: pl.DataFrame, begin: float, end: float) -> tuple[Floats, Floats]:
    """How many of the nodes in `held` had a job: instants from begin to end, and the numbers between two of them."""
    ordered = held.select("node", "begin", "end").sort("node", "begin")
    before = col("end").cum_max().shift(1).over("node")
    runs = ordered.with_columns(run=(before.is_null() | (col("begin") > before)).cum_sum())
    merged = runs.group_by("run", maintain_order=True).agg(col("begin").first(), col("end").max())
    times = np.unique(np.concatenate([[begin, end], merged["begin"].to_numpy(), merged["end"].to_numpy()]))
    return times, _count(merged.rename({"begin": "from", "end": "to"}), times)


def _count(spans: pl.DataFrame, edges: Floats) -> Floats:
    """How many of the spans (from, to) hold between two edges."""
    since, until = (np.sort(spans[name].to_numpy()) for name in ("from", "to"))
    at = edges[:-1]
    return (np.searchsorted(since, at, "right") - np.searchsorted(until, at, "right")).astype(np.float64)
