"""What jobs asked for beside processors and time: memory, a partition, a QOS; and what of it a cluster can be asked for.

A request that the emulated cluster cannot fulfil would be refused, or wait for ever. So each is looked at before the run: one for
which there is nothing is left out, too much memory is made less, and both are counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl

from mirage.traces.trace import Trace
from slurm_mirage.base.hostlist import expand
from slurm_mirage.rm.slurm.conf import value_of
from slurm_mirage.rm.slurm.node_classes import NodeClass
from slurm_mirage.rm.slurm.node_options import word

KIB_OF_MIB = 1024
_EPSILON = 1e-9  # as for the limits in workload.py


# ---- of a log ----


def memory() -> pl.Expr:
    """kB for each processor, of all that the job requested: a log may have given it more processors than it asked for."""
    asked = pl.when(pl.col("requested_processors") > 0).then("requested_processors").otherwise("processors")
    memory = pl.col("requested_memory")
    return pl.when(memory > 0).then(memory * asked / pl.col("processors")).alias("memory")


def names(trace: Trace) -> list[pl.Expr]:
    """Partition and QOS by the names that sacct gives them, which are the header's."""
    names: list[pl.Expr] = []
    for column, label, alias in (("partition", "Partition", "partition_name"), ("queue", "Queue", "qos_name")):
        listed = trace.header.get(label, "").splitlines() if trace.format == "sacct" else []
        by_number = {int(number): name for number, _, name in (line.partition(" ") for line in listed)}
        name = pl.col(column).replace_strict(by_number, default="", return_dtype=pl.String) if by_number else pl.lit("")
        names.append(name.alias(alias))
    return names


# ---- of a cluster ----


@dataclass(frozen=True)
class Nodes:
    """Equal nodes: how many, and the processors and memory (MiB) of each."""

    count: int
    cpus: int
    memory: int


@dataclass(frozen=True)
class Partition:
    """The nodes that a partition has, how many of them a job may have, and for how many minutes."""

    nodes: tuple[Nodes, ...]
    most_nodes: float = math.inf
    most_minutes: float = math.inf

    def holds(self, processors: int, minutes: int, memory: int = 0) -> bool:
        """Whether a job of that size, with so much memory (MiB) for each processor, can ever start in it."""
        left, room = self.most_nodes, 0.0
        each_holds = ((min(some.cpus, some.memory // memory) if memory else some.cpus, some.count) for some in self.nodes)
        for each, count in sorted(each_holds, reverse=True):
            taken = min(left, count)
            left, room = left - taken, room + each * taken
        return minutes <= self.most_minutes and processors <= room

    def most_memory(self, processors: int, memory: int) -> int:
        """As much of `memory` for each processor as the partition has for a job of that size; 0: none."""
        if self.holds(processors, 0, memory):
            return memory
        shares = {some.memory // cpus for some in self.nodes for cpus in range(1, some.cpus + 1)}
        fitting = (share for share in sorted(shares, reverse=True) if 0 < share < memory)
        return next((share for share in fitting if self.holds(processors, 0, share)), 0)


@dataclass(frozen=True)
class Offer:
    """What a cluster can be asked for. `memory`: whether it counts it; `qos`: None without accounting."""

    partitions: Mapping[str, Partition]
    default: str
    memory: bool
    qos: frozenset[str] | None


def offer(classes: Sequence[NodeClass], partitions: Sequence[Mapping[str, Any]], select: Any, qos: Sequence[str] | None) -> Offer:
    """`partitions`: mappings with `name` and words of a PartitionName line; `select`: SelectTypeParameters, empty for the project's
    own; `qos`: names, None without accounting."""
    described = any(word(some.extra, "RealMemory") for some in classes)
    found: dict[str, Partition] = {}
    default = ""
    for entry in partitions:
        words = {key.lower(): value_of(value) for key, value in entry.items()}
        nodes = _nodes_of(classes, words.get("nodes", "ALL"))
        limit = words.get("maxnodes", "")
        most = float(limit) if limit.isdecimal() else math.inf
        found[words["name"]] = Partition(nodes, most, minutes_of(words.get("maxtime", "UNLIMITED")))
        if words.get("default", "").lower() in ("yes", "true") or not default:
            default = words["name"]
    counts = described and "memory" in value_of(select or "").lower()
    return Offer(found, default, counts, None if qos is None else frozenset(qos))


def minutes_of(limit: str) -> float:
    """Minutes of slurm.conf's time limits: `90`, `30:00`, `12:30:00`, `2-12`, `2-12:00`, `2-12:00:00`, UNLIMITED."""
    match = re.match(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?\Z", limit)
    if match is None:
        return math.inf
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1]:
        return (days * 24 + first) * 60 + second + third / 60
    if match[4]:
        return first * 60 + second + third / 60
    return first + second / 60


def _nodes_of(classes: Sequence[NodeClass], listed: str) -> tuple[Nodes, ...]:
    """The nodes of a list by class; all where it says ALL, or what cannot be told here (the name of a NodeSet)."""
    counts: Counter[int] = Counter()
    if listed.upper() != "ALL":
        for match in filter(None, (re.match(r"(.*?)(\d+)\Z", name) for name in expand(listed))):
            prefix, number = match[1], int(match[2])
            counts.update(i for i, some in enumerate(classes) if prefix == some.prefix and 0 <= number - some.first < some.count)
    chosen = counts or {i: some.count for i, some in enumerate(classes)}
    return tuple(Nodes(count, classes[i].cpus, int(word(classes[i].extra, "RealMemory", "1"))) for i, count in chosen.items())


# ---- what a job is submitted with ----


@dataclass
class Requests:
    """A value a job: partition and QOS (empty: the cluster's default), MiB for each processor (None: what the cluster gives), and
    the time limit in minutes.

    counts: jobs by what was done with what the log says
    """

    partitions: list[str] = field(default_factory=list)
    qos: list[str] = field(default_factory=list)
    memory: list[int | None] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def played(jobs: pl.DataFrame, routed: pl.Series, qos: pl.Series, there: Offer, factor: float = 1.0) -> Requests:
    """What each job is submitted with. `jobs`: columns of `workload.Workload.jobs`; `routed`, `qos`: what the configuration's rules
    say, which goes over the log's own partition and QOS; `factor`: by which times are shrunk."""
    counts: Counter[str] = Counter()
    requests = Requests()
    less = cache(lambda name, processors, memory: there.partitions[name].most_memory(processors, memory))
    limit = (pl.col("requested") * factor / 60 - _EPSILON).ceil().clip(1).cast(pl.Int64)
    own = pl.when("limit_extended").then(limit).otherwise("limit_minutes").alias("own_limit")
    columns = jobs.select("processors", "limit_minutes", own, "memory", "partition_name", "qos_name")
    for (processors, minutes, own_minutes, asked, named, level), route, rule in zip(columns.iter_rows(), routed, qos, strict=True):
        partition = route or _by_name(named, processors, own_minutes, there, counts)
        requests.partitions.append(partition)
        most = min(there.partitions[name].most_minutes for name in (partition or there.default).split(","))
        # What a job is given beyond its own limit, so that its launch does not count, must not make it one that is refused.
        capped = own_minutes <= most < minutes
        counts["limits_capped"] += capped
        requests.limits.append(int(most) if capped else minutes)
        requests.qos.append(rule if there.qos is not None and rule else _level(level, there, counts))
        wanted = None if asked is None else max(1, int(asked / KIB_OF_MIB))
        if wanted is not None and not there.memory:
            counts["memory_not_played"] += 1
            wanted = None
        elif wanted is not None:
            # A job that could choose takes the first one: Slurm wants one that all of its partitions can fulfil.
            fitting = min(less(name, processors, wanted) for name in (partition or there.default).split(","))
            counts["memory_reduced"] += fitting < wanted
            counts["memory_played"] += 1
            wanted = fitting or None
        requests.memory.append(wanted)
    requests.counts = {reason: count for reason, count in sorted(counts.items()) if count}
    return requests


def _by_name(named: str, processors: int, minutes: int, there: Offer, counts: Counter[str]) -> str:
    """Those of a job's partitions that the cluster has, and that it can start in; empty: the default one."""
    wanted = [name for name in named.split(",") if name]
    known = [name for name in wanted if name in there.partitions]
    fits = [name for name in known if there.partitions[name].holds(processors, minutes)]
    if fits:
        counts["partitions_played"] += 1
    elif wanted:
        counts["partitions_too_small" if known else "partitions_not_there"] += 1
    return ",".join(fits)


def _level(name: str, there: Offer, counts: Counter[str]) -> str:
    """The job's QOS, if the cluster has it. Slurm writes their names in lower case; `normal` is what jobs have anyway."""
    level = name.lower()
    if not level or level == "normal":
        return ""
    if there.qos is None or level not in there.qos:
        counts["qos_not_there" if there.qos is not None else "qos_not_played"] += 1
        return ""
    counts["qos_played"] += 1
    return level
