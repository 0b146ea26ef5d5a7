"""What a job needs of nodes: places, and what else each of them has to have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from slurm_mirage.jobs.request import Request, counts_of, gpus_of

SLOTS, NODES, WHOLE = "slots", "nodes", "whole"
"""What a job needs: `count` times `each` processors of a node; `count` nodes with `each` free processors; `count` idle nodes."""
_GPU = "gpu"


@dataclass(frozen=True)
class Needs:
    """What a job needs."""

    kind: str
    each: int
    count: int = 1
    processors: int = 0
    """In total."""
    memory: int | None = 0
    """MiB for each processor; None: not known, it may be all that a node has."""
    memory_per_node: int = 0
    gpus: tuple[tuple[str, int], ...] = ()
    """GPUs of each node by type, "" for any."""
    all_gpus: tuple[tuple[str, int], ...] = ()
    """GPUs of the whole job by type."""
    constraint: str = ""
    is_known: bool = True
    """Whether this is all that it needs."""

    @classmethod
    def of(cls, processors: int, nodes: int | None, memory: int | None, request: Request) -> Needs:
        """Parameters as in the plan, where `nodes` is the number of whole nodes, None for a job that shares them.

        Not known are the needs of jobs with GRES other than GPUs, a reservation, switches, contiguous nodes, ranges of nodes,
        memory for each GPU, constraints with numbers or brackets, and several places with GPUs in total.
        """
        kind, each, count = places_of(processors, nodes, request)
        per_node = {name.partition(":")[2]: number for name, number in counts_of(request.gres) if name.partition(":")[0] == _GPU}
        total = dict(gpus_of(request.gpus))
        for gpu, number in gpus_of(request.gpus_per_task):
            total[gpu] = total.get(gpu, 0) + number * max(1, request.tasks or processors // max(1, request.cpus_per_task))
        is_known = not (request.contiguous or request.switches or request.reservation or request.memory_per_gpu)
        is_known &= request.most_nodes in (0, request.nodes) and not set("*[]()") & set(request.constraint)
        is_known &= all(name.partition(":")[0] == _GPU for name, _ in counts_of(request.gres))
        is_known &= not (total and (count if kind != SLOTS else 1) > 1)
        memory = None if request.memory_per_gpu else memory
        gpus, all_gpus = tuple(per_node.items()), tuple(total.items())
        on_node = request.memory_per_node
        return cls(kind, each, count, processors, memory, on_node, gpus, all_gpus, request.constraint, is_known)

    @classmethod
    def by_job(cls, rows: Iterable[tuple[int, int, int | None, int | None, str]]) -> dict[int, Needs]:
        """The needs of jobs: id, processors, nodes, memory, and words of the request."""
        of = cache(lambda processors, nodes, memory, words: cls.of(processors, nodes, memory, Request.parse(words)))
        return {job: of(*asked) for job, *asked in rows}

    @property
    def places(self) -> int:
        """How many of the places that `Occupancy.places` counts."""
        return 1 if self.all_gpus else self.count

    @property
    def most_nodes(self) -> int:
        return max(self.count, sum(number for _, number in self.all_gpus))

    def gpus_on_node(self, kind: str) -> int:
        """GPUs of a type ("": of any) that it may have on one of its nodes: those of any type may be of each type."""
        return sum(number for gpu, number in (*self.gpus, *self.all_gpus) if gpu == "" or kind in ("", gpu))


def places_of(processors: int, nodes: int | None, request: Request) -> tuple[str, int, int]:
    """Kind, each and count of the places that a job needs. Parameters as of `Needs.of`."""
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
