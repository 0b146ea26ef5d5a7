"""Computes the partition, QOS, memory and time limit with which jobs are submitted, from the log and the emulated cluster.

slurmctld would refuse a request that the cluster cannot fulfil, or never start the job. Requests are therefore checked before the
run: a partition or QOS that the cluster does not have is dropped, too large a memory request is reduced, and both are counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import polars as pl

from mirage.traces.trace import Trace
from mirage.workloads.constraints import allows
from slurm_mirage.base.hostlist import expand
from slurm_mirage.jobs.plan import NEVER
from slurm_mirage.jobs.request import NO_REQUEST, Request, counts_of, gpus_of
from slurm_mirage.rm.slurm.conf import value_of
from slurm_mirage.rm.slurm.node_classes import NodeClass
from slurm_mirage.rm.slurm.node_options import Words, arrangement, gres_of, word

KIB_OF_MIB = 1024
GPU = "gpu"
_EPSILON = 1e-9  # tolerance for rounding errors when limits are rounded up to whole minutes


# ---- requests in a log ----


def memory() -> pl.Expr:
    """Expression for the memory in kB per processor that a job is given (column `processors`); null if unknown.

    The job's total memory is that of its requested processors; it may have been given more processors than it requested.
    """
    requested = pl.when(pl.col("requested_processors") > 0).then("requested_processors").otherwise("processors")
    memory = pl.col("requested_memory")
    return pl.when(memory > 0).then(memory * requested / pl.col("processors")).alias("memory")


def names(trace: Trace) -> list[pl.Expr]:
    """Expressions for `partition_name` and `qos_name`: those of the header, if it has them (`Trace.has_names`), else ""."""
    names: list[pl.Expr] = []
    for column, label, alias in (("partition", "Partition", "partition_name"), ("queue", "Queue", "qos_name")):
        # Not splitlines: a name may contain characters that it takes for line breaks.
        listed = trace.header[label].split("\n") if trace.has_names and label in trace.header else []
        by_number = {int(number): name for number, _, name in (line.partition(" ") for line in listed)}
        name = pl.col(column).replace_strict(by_number, default="", return_dtype=pl.String) if by_number else pl.lit("")
        names.append(name.alias(alias))
    return names


def processors() -> pl.Expr:
    """The processors that a job of a log had, else those that it asked for."""
    return pl.when(pl.col("allocated_processors") > 0).then("allocated_processors").otherwise("requested_processors")


# ---- what a cluster accepts ----


def gpu_name(kind: str) -> str:
    """The name of a GRES with the type of GPUs; "": of any type."""
    return f"{GPU}:{kind}" if kind else GPU


def _most_of(amounts: Iterable[tuple[int, int]], nodes: float) -> float:
    """The most that so many nodes have together; amounts: of each node, and how many of them there are."""
    total = 0.0
    for each, count in sorted(amounts, reverse=True):
        taken = min(nodes, count)
        nodes, total = nodes - taken, total + each * taken
    return total


@dataclass(frozen=True)
class Nodes:
    """A number of equal nodes, and the processors, memory (MiB), features and GRES (`gpu:a100` or `nvme`, with numbers) of each."""

    count: int
    cpus: int
    memory: int
    features: frozenset[str] = frozenset()
    gres: tuple[tuple[str, int], ...] = ()

    def number(self, name: str) -> int:
        """How many GRES of a name, which may have a type, each node has."""
        return sum(count for own, count in self.gres if name in (own, own.partition(":")[0]))

    def usable(self, memory: int, request: Request) -> int:
        """Processors of a node that a job can have, with `memory` MiB for each; 0 if the node cannot be one of the job's."""
        # A node of a job with GPUs of several types has some of each.
        needs = [*counts_of(request.gres), *((gpu_name(kind), 1) for kind, _ in gpus_of(request.gpus))]
        if not allows(request.constraint, self.features) or any(self.number(name) < count for name, count in needs):
            return 0
        of_gpus = request.memory_per_gpu * sum(count for name, count in counts_of(request.gres) if name.startswith(GPU))
        if self.memory < max(request.memory_per_node, of_gpus):
            return 0
        cpus = min(self.cpus, self.memory // memory) if memory and not request.memory_per_node else self.cpus
        each = max(request.cpus_per_task, 1)
        by_gpus = [self.number(gpu_name(kind)) // number for kind, number in gpus_of(request.gpus_per_task)]
        tasks = min([cpus // each, *by_gpus])
        return 0 if tasks < request.tasks_per_node else (request.tasks_per_node or tasks) * each

    def gpus(self, request: Request) -> int:
        """GPUs of each node that can be among those of the whole job."""
        return sum(self.number(gpu_name(kind)) for kind, _ in gpus_of(request.gpus))


@dataclass(frozen=True)
class Partition:
    """The nodes of a partition, and its limits MaxNodes and MaxTime (minutes)."""

    nodes: tuple[Nodes, ...]
    most_nodes: float = math.inf
    most_minutes: float = math.inf

    def holds(self, processors: int, minutes: int, memory: int = 0, request: Request = NO_REQUEST) -> bool:
        """Whether a job with that many processors, `memory` MiB per processor and a limit of `minutes` can start on empty nodes."""
        fewest, most = request.sizes
        most_nodes = min(self.most_nodes, most or math.inf)
        usable = [(cpus, kind) for kind in self.nodes if (cpus := kind.usable(memory, request))]
        wanted = processors
        if request.exclusive and fewest:
            wanted = request.tasks * max(request.cpus_per_task, 1) or fewest
        if minutes > self.most_minutes or fewest > min(most_nodes, wanted, sum(kind.count for _, kind in usable)):
            return False
        gpus = sum(number for _, number in gpus_of(request.gpus))
        return wanted <= _most_of(((cpus, kind.count) for cpus, kind in usable), most_nodes) and (
            not gpus or gpus <= _most_of(((kind.gpus(request), kind.count) for _, kind in usable), min(most_nodes, wanted))
        )

    def most_memory(self, processors: int, memory: int, request: Request = NO_REQUEST) -> int:
        """The largest memory per processor (MiB) up to `memory` with which a job of that size can start; 0 if there is none."""
        if self.holds(processors, 0, memory, request):
            return memory
        shares = {kind.memory // cpus for kind in self.nodes for cpus in range(1, kind.cpus + 1)}
        fitting = (share for share in sorted(shares, reverse=True) if 0 < share < memory)
        return next((share for share in fitting if self.holds(processors, 0, share, request)), 0)


@dataclass(frozen=True)
class Offer:
    """What jobs can request from a cluster.

    partitions: by name
    default: name of the default partition
    memory: whether memory is a consumable resource
    qos: names; None without accounting
    several: whether a job may name several partitions
    licences: numbers by name
    """

    partitions: Mapping[str, Partition]
    default: str
    memory: bool
    qos: frozenset[str] | None
    several: bool = True
    licences: Mapping[str, int] = field(default_factory=dict)


def offer(
    classes: Sequence[NodeClass],
    partitions: Sequence[Mapping[str, Any]],
    select: Any,
    qos: Sequence[str] | None,
    licences: Any = None,
) -> Offer:
    """Builds the offer of a cluster.

    classes: classes of equal nodes
    partitions: mappings with `name` and options of a PartitionName line
    select: SelectTypeParameters; empty for the default of this project
    qos: names of QOS; None without accounting
    licences: Licenses
    """
    has_memory = any(word(node_class.extra, "RealMemory") for node_class in classes)
    offered: dict[str, Partition] = {}
    default = ""
    for entry in partitions:
        options = {key.lower(): value_of(value) for key, value in entry.items()}
        nodes = _nodes_of(classes, options.get("nodes", "ALL"))
        limit = options.get("maxnodes", "")
        most = float(limit) if limit.isdecimal() else math.inf
        offered[options["name"]] = Partition(nodes, most, minutes_of(options.get("maxtime", "UNLIMITED")))
        if options.get("default", "").lower() in ("yes", "true") or not default:
            default = options["name"]
    consumable = has_memory and "memory" in value_of(select or "").lower()
    numbers = dict(counts_of(re.sub(r"[;\s]+", ",", value_of(licences or ""))))
    return Offer(offered, default, consumable, None if qos is None else frozenset(qos), licences=numbers)


def offer_of_queues(classes: Sequence[NodeClass], limits: Mapping[str, float | None], default: str) -> Offer:
    """Builds the offer of a cluster whose queues all have all nodes. A job is in one queue, and asks for no memory.

    classes: classes of equal nodes
    limits: the queues' longest times in minutes (None: no limit), by name
    default: the queue of a job that asks for none
    """
    nodes = _nodes_of(classes, "ALL")
    partitions = {name: Partition(nodes, most_minutes=math.inf if most is None else most) for name, most in limits.items()}
    return Offer(partitions, default, memory=False, qos=None, several=False)


def minutes_of(limit: str) -> float:
    """Minutes of a time limit in slurm.conf: `90`, `30:00`, `12:30:00`, `2-12`, `2-12:00`, `2-12:00:00`; else infinity."""
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
    """The nodes of a node list by class. ALL, and names that match no class (such as a NodeSet), mean all nodes."""
    counts: Counter[int] = Counter()
    if listed.upper() != "ALL":
        for match in filter(None, (re.match(r"(.*?)(\d+)\Z", name) for name in expand(listed))):
            prefix, number = match[1], int(match[2])
            counts.update(i for i, kind in enumerate(classes) if prefix == kind.prefix and 0 <= number - kind.first < kind.count)
    chosen = counts or {i: kind.count for i, kind in enumerate(classes)}
    return tuple(_nodes(count, classes[i].cpus, classes[i].extra) for i, count in chosen.items())


def _nodes(count: int, cpus: int, words: Words) -> Nodes:
    features = frozenset(name for key in ("Feature", "Features") for name in word(words, key).split(",") if name)
    units = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
    gres = tuple(
        (f"{one.name}:{one.type}".rstrip(":"), int(one.count.rstrip("KMGTP")) * units.get(one.count[-1], 1))
        for one in gres_of(words)
    )
    sockets, cores, threads = arrangement(cpus, words)
    reserved = int(word(words, "CoreSpecCount", "0")) * (threads if sockets * cores < cpus else 1)
    memory = int(word(words, "RealMemory", "1")) - int(word(words, "MemSpecLimit", "0"))
    return Nodes(count, cpus - reserved, memory, features, gres)


# ---- requests of the submitted jobs ----


@dataclass
class Requests:
    """The requests of the jobs, a list entry per job.

    partitions, qos: names; empty: the cluster's default
    memory: MiB per processor; None: the cluster's default
    limits: time limits in minutes
    asked: words of what each asks for beside them (`jobs.request.Request`)
    played: kinds of requests in it, separated by blanks
    counts: number of jobs by what was done with the log's requests
    """

    partitions: list[str] = field(default_factory=list)
    qos: list[str] = field(default_factory=list)
    memory: list[int | None] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    played: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def own_limit(factor: float) -> pl.Expr:
    """The limit in minutes that a job asks for itself, without the slack that is added to it. factor: as for `requests_of`"""
    limit = (pl.col("requested") * factor / 60 - _EPSILON).ceil().clip(1).cast(pl.Int64)
    return pl.when("limit_extended").then(limit).otherwise("limit_minutes").alias("own_limit")


def requests_of(jobs: pl.DataFrame, routed: pl.Series, qos: pl.Series, offered: Offer, factor: float = 1.0) -> Requests:
    """The requests with which the jobs are submitted.

    jobs: columns of `workload.Workload.jobs`
    routed, qos: partition and QOS by the configuration's routing rules, "" for none; they override those of the log
    offered: what the cluster accepts
    factor: virtual seconds per trace second
    """
    counts: Counter[str] = Counter()
    requests = Requests()
    most_memory = cache(
        lambda name, processors, memory, asked: offered.partitions[name].most_memory(processors, memory, _parsed(asked))
    )
    instead_of_default = cache(lambda processors, minutes, asked: _instead_of_default(processors, minutes, offered, _parsed(asked)))
    holds = cache(lambda name, processors, asked: offered.partitions[name].holds(processors, 0, 0, _parsed(asked)))
    asks = [pl.col(name) if name in jobs.columns else pl.lit("").alias(name) for name in ("request", "played", "dependency")]
    instants = [pl.col(name) if name in jobs.columns else pl.lit(None).alias(name) for name in ("begin_virtual", "hold_virtual")]
    columns = jobs.select(
        "processors", "limit_minutes", own_limit(factor), "memory", "partition_name", "qos_name", *asks, *instants
    )
    for (processors, minutes, own_minutes, kilobytes, named, level, asked, kinds, waits, begin, hold), route, rule in zip(
        columns.iter_rows(), routed, qos, strict=True
    ):
        partition = route or _by_name(named, processors, own_minutes, offered, counts, _parsed(asked))
        if not partition:
            partition = instead_of_default(processors, own_minutes, asked)
            counts["partitions_instead_of_default"] += bool(partition)
        if asked and not all(holds(name, processors, asked) for name in (partition or offered.default).split(",")):
            asked = kinds = ""
            counts["requests_not_in_partition"] += 1
        words = asked if waits == NEVER else replace(_parsed(asked), begin=begin or 0.0, hold=hold or 0.0).words
        counts["requests_played"] += bool(words)
        requests.asked.append(words)
        requests.played.append(" ".join(filter(None, (kinds, "begin" if begin or hold else ""))))
        requests.partitions.append(partition)
        most = min(offered.partitions[name].most_minutes for name in (partition or offered.default).split(","))
        # The slack that is added to a job's own limit must not exceed the limit of the partition: Slurm would refuse the job.
        capped = own_minutes <= most < minutes
        counts["limits_capped"] += capped
        requests.limits.append(int(most) if capped else minutes)
        requests.qos.append(rule if offered.qos is not None and rule else _qos_by_name(level, offered, counts))
        memory = None if kilobytes is None else max(1, int(kilobytes / KIB_OF_MIB))
        if memory is not None and not offered.memory:
            counts["memory_not_played"] += 1
            memory = None
        elif memory is not None:
            # Slurm requires of a job with several partitions that each of them can fulfil the request.
            fitting = min(most_memory(name, processors, memory, asked) for name in (partition or offered.default).split(","))
            counts["memory_reduced"] += fitting < memory
            counts["memory_played"] += 1
            memory = fitting or None
        requests.memory.append(memory)
    requests.counts = {reason: count for reason, count in sorted(counts.items()) if count}
    return requests


_parsed = lru_cache(maxsize=1 << 16)(Request.parse)


def _by_name(named: str, processors: int, minutes: int, offered: Offer, counts: Counter[str], request: Request) -> str:
    """Those of a job's partitions that the cluster has and in which the job can start; "": the default partition."""
    requested = [name for name in named.split(",") if name]
    known = [name for name in requested if name in offered.partitions]
    fits = [name for name in known if offered.partitions[name].holds(processors, minutes, 0, request)]
    if fits:
        counts["partitions_played"] += 1
    elif requested:
        counts["partitions_too_small" if known else "partitions_not_there"] += 1
    return ",".join(fits if offered.several else fits[:1])


def _instead_of_default(processors: int, minutes: int, offered: Offer, request: Request) -> str:
    """The smallest partition in which a job can start that the default one cannot hold; "" where that one can, or none."""
    if offered.partitions[offered.default].holds(processors, minutes, 0, request):
        return ""
    sizes = {name: sum(kind.count * kind.cpus for kind in partition.nodes) for name, partition in offered.partitions.items()}
    fits = [name for name, partition in offered.partitions.items() if partition.holds(processors, minutes, 0, request)]
    return min(fits, key=sizes.__getitem__, default="")


def _qos_by_name(name: str, offered: Offer, counts: Counter[str]) -> str:
    """The job's QOS if the cluster has it, else "". Slurm stores the names in lower case; `normal` is the default QOS."""
    qos = name.lower()
    if not qos or qos == "normal":
        return ""
    if offered.qos is None or qos not in offered.qos:
        counts["qos_not_there" if offered.qos is not None else "qos_not_played"] += 1
        return ""
    counts["qos_played"] += 1
    return qos
