"""Fits what the jobs of a log ask for to the emulated machine: features, GRES, licences, numbers of nodes and tasks.

slurmctld would refuse a request that no node can fulfil, and the run would fail. So:

- a kind of request that the machine does not have at all (no node has features, say) is left out of all jobs;
- a job that asks for more than the machine has of a kind that it has can never run there, and is left out;
- numbers of nodes and of tasks, exclusive nodes and memory for each node or GPU that do not fit are left out of the job.

What is left out of a job stays counted (`not_played`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial

import polars as pl

from mirage.traces.asked import KINDS, kinds_in
from mirage.workloads.constraints import features_in
from mirage.workloads.requests import GPU, Offer, gpu_name, processors
from slurm_mirage.jobs.request import Request, counts_of, gpus_of


@dataclass(frozen=True)
class Fitted:
    """A request as the machine can fulfil it, the kinds of requests in it, and why the job can never run there ("": it can)."""

    request: Request
    kinds: tuple[str, ...] = ()
    why: str = ""


def _changed(before: Request, after: Request) -> set[str]:
    """The kinds of requests of which a part was left out."""
    return {kind for kind, members in KINDS.items() if any(getattr(before, member) != getattr(after, member) for member in members)}


def fitted(jobs: pl.DataFrame, offered: Offer | None) -> pl.DataFrame:
    """The jobs of a log with the requests that they can have on the machine.

    jobs: SWF frame with the columns that sacct adds
    offered: what the cluster accepts; None: it takes none of these requests

    Changes `request`; adds `played` (kinds of requests, a list) and `impossible` (why the job can never run there, null: it can). A
    frame without requests stays as it is; without an offer the requests and instants are dropped.
    """
    if offered is None:
        return jobs.drop("request", "begin", "hold", strict=False)
    if "request" not in jobs.columns:
        return jobs
    fit = cache(partial(_fit, offered=offered))
    rows = jobs.select("request", processors().cast(pl.Int64).fill_null(-1)).iter_rows()
    found = [fit(text, wide) for text, wide in rows]
    return jobs.with_columns(
        request=pl.Series([one.request.words for one in found], dtype=pl.String),
        played=pl.Series([one.kinds for one in found], dtype=pl.List(pl.String)),
        impossible=pl.Series([one.why or None for one in found], dtype=pl.String),
    )


def _fit(text: str, processors: int, offered: Offer) -> Fitted:
    if not text:
        return Fitted(Request())
    wanted = Request.parse(text)
    asked = _known(wanted, offered)
    cut = _changed(wanted, asked)
    if why := _lacking(asked, offered):
        return Fitted(asked, (), why)
    if processors < 1:
        return Fitted(asked)
    for request in _shapes(asked, processors):
        if any(partition.holds(processors, 0, 0, request) for partition in offered.partitions.values()):
            if request.tasks == processors and not (request.cpus_per_task or request.exclusive):
                request = replace(request, tasks=0)
            return Fitted(request, tuple(kind for kind in kinds_in(request) if kind not in cut))
    plain = any(partition.holds(processors, 0) for partition in offered.partitions.values())
    return Fitted(asked, (), f"asks for {_named(asked)}, and no partition has enough such nodes" if plain else "")


def _known(request: Request, offered: Offer) -> Request:
    """The request without the kinds that the machine does not have."""
    nodes = [kind for partition in offered.partitions.values() for kind in partition.nodes]
    names = {name.partition(":")[0] for kind in nodes for name, _ in kind.gres}
    gres = ",".join(f"{name}:{count}" for name, count in counts_of(request.gres) if name.partition(":")[0] in names)
    if GPU not in names:
        request = replace(request, gpus="", gpus_per_task="", memory_per_gpu=0)
    if not any(kind.features for kind in nodes):
        request = replace(request, constraint="")
    if not offered.licences:
        request = replace(request, licences="")
    if not offered.memory:
        request = replace(request, memory_per_node=0, memory_per_gpu=0)
    return replace(request, gres=gres, reservation="")


def _lacking(request: Request, offered: Offer) -> str:
    """Why no node of the machine can fulfil a request; "" if one may."""
    nodes = [kind for partition in offered.partitions.values() for kind in partition.nodes]
    features = {feature for kind in nodes for feature in kind.features}
    gres = [(gpu_name(kind), 1) for kind, _ in gpus_of(request.gpus)]
    gres += [(gpu_name(kind), number) for kind, number in gpus_of(request.gpus_per_task)]
    for name, number in [*counts_of(request.gres), *gres]:
        most = max(kind.number(name) for kind in nodes)
        if most < number:
            return f"asks for {name}:{number}, and no node has more than {most}" if most else f"asks for {name}, which no node has"
    for feature in features_in(request.constraint):
        if feature not in features:
            return f"asks for the feature {feature}, which no node has"
    for name, number in counts_of(request.licences):
        if offered.licences.get(name, 0) < number:
            return f"asks for the licence {name}:{number}, and there are {offered.licences.get(name, 0)}"
    return ""


def _named(request: Request) -> str:
    words = (request.constraint, request.gres, f"{GPU}s={request.gpus}" if request.gpus else "", request.gpus_per_task)
    return " and ".join(word for word in words if word) or "nodes"


def _shapes(request: Request, processors: int) -> list[Request]:
    """The request in forms with ever fewer limits of its shape: as it is, without tasks, without memory, with neither of them nor
    nodes."""
    plain = replace(_without_tasks(request), cpus_per_task=0, tasks_per_node=0)
    own = [replace(request, tasks=tasks_of(request))] if _tasks_make(request, processors) else []
    no_memory = replace(plain, memory_per_node=0, memory_per_gpu=0)
    return list(dict.fromkeys((*own, plain, no_memory, replace(no_memory, nodes=0, most_nodes=0, exclusive=False))))


def tasks_of(request: Request) -> int:
    """The number of tasks; 0: one for each processor."""
    if request.tasks or not (request.cpus_per_task or request.tasks_per_node or request.gpus_per_task):
        return request.tasks
    return max(request.nodes, 1) * max(request.tasks_per_node, 1)


def _tasks_make(request: Request, processors: int) -> bool:
    """Whether the tasks with their processors are those that the job had; on exclusive nodes it had all others too."""
    made = tasks_of(request) * max(request.cpus_per_task, 1)
    return made in (0, processors) or (request.exclusive and made <= processors)


def _without_tasks(request: Request) -> Request:
    """The request with the GPUs of its tasks as those of the job, without tasks."""
    each, tasks = gpus_of(request.gpus_per_task), tasks_of(request)
    gpus = ",".join(f"{kind}:{number * tasks}".lstrip(":") for kind, number in each)
    return replace(request, tasks=0, gpus_per_task="", gpus=gpus or request.gpus)
