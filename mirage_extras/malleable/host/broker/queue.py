"""The broker's view of the queue: the result of a query, which is reused for a short time, and the nodes that are reserved
already."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..sizes import Overview, SizedJob, Sizes, WaitingJob
from .policy import Situation, Waiting

SHORTEST_USE = 1.0
"""Virtual seconds for which the result of a query of the queue is reused."""
SHORTEST_REAL_USE = 0.05
"""The same in real seconds at least, on a clock of constant speed."""
LAST_SECONDS = 60
"""Virtual seconds before its time limit from which on a job does not grow: an allocation for it would have the time limit 0."""
HELPERS = ("mirage-resizer-", "mirage-beside-")
"""Prefix of the names of the broker's own allocations; the id of their job follows."""
BENEFIT_WITHIN = 120.0
"""Virtual seconds within which a job for which another one shrank has to start; otherwise no job shrinks for it again."""


def resizer_name(job: int) -> str:
    """The name of the allocation by which a job grows."""
    return f"{HELPERS[0]}{job}"


def helped_job(name: str) -> int | None:
    """The job that one of the broker's own allocations is for; None for every other job's name."""
    for beginning in HELPERS:
        if name.startswith(beginning) and name[len(beginning) :].isdecimal():
            return int(name[len(beginning) :])
    return None


@dataclass
class Benefit:
    """Nodes that a job gives up for a waiting one."""

    nodes: int
    """Nodes that the waiting job needs."""
    freed: int
    """Of these, the nodes that the shrinking job still has to give up."""
    until: float = math.inf


@dataclass
class Queue:
    """The broker's view of the queue. It is not thread-safe: the broker's lock is held for every call.

    `speed`: that of a constant clock, on which a result is reused for at least SHORTEST_REAL_USE.
    """

    sizes: Sizes
    speed: float
    growing: dict[int, int] = field(default_factory=dict)
    """Nodes that jobs are about to get, by job."""
    benefits: dict[int, Benefit] = field(default_factory=dict)
    """Nodes that are reserved for waiting jobs, by the waiting job."""
    hopeless: set[int] = field(default_factory=set)
    """Waiting jobs that did not start although another one shrank for them."""
    on_look: Callable[[Overview], None] = lambda _overview: None
    """Called with the result of each query."""
    _overview: Overview | None = None
    _until: float = 0.0

    def look(self) -> Overview:
        """The queue: the result of the last query if it is recent enough, otherwise that of a new one. Raises
        ResourceManagerError."""
        now = time.time()
        if self._overview is None or not self._until - self._use <= now < self._until:
            self._overview = self.sizes.overview()
            self._until = time.time() + self._use
            self._update_benefits(self._overview, now)
            self.on_look(self._overview)
        return self._overview

    def forget(self) -> None:
        """Have the next call of `look` query the manager, because the broker has changed the queue."""
        self._overview = None

    @property
    def _use(self) -> float:
        return max(SHORTEST_USE, SHORTEST_REAL_USE * self.speed)

    def situation(self, job: SizedJob) -> Situation:
        """What a decision about `job` depends on. Raises ResourceManagerError."""
        overview = self.look()
        taken = {helped_job(each.name) for each in overview.jobs.values()}
        idle = overview.idle.get(job.partition, 0)
        reserved = sum(nodes for growing, nodes in self.growing.items() if growing not in taken)
        reserved += sum(benefit.nodes - benefit.freed for benefit in self.benefits.values())
        per_node = max(1, job.processors // max(1, job.nodes))
        mixed = overview.free_processors.get(job.partition, 0) - idle * per_node
        waiting = [
            Waiting(each.job_id, _nodes_for(each, per_node, mixed))
            for each in overview.waiting
            if each.partition == job.partition
            and helped_job(overview.unmet[each.job_id]) is None
            and each.job_id not in self.benefits
            and each.job_id not in self.hopeless
        ]
        near_its_limit = job.left is not None and job.left < LAST_SECONDS
        return Situation(max(0, idle - reserved), waiting, 0 if near_its_limit else overview.growable.get(job.job_id, 0))

    def promise(self, beneficiary: int, situation: Situation, freed: int) -> None:
        """Keep the nodes for a waiting job of `situation` for which another one is to give up `freed` nodes."""
        nodes = next(job.nodes for job in situation.waiting if job.job == beneficiary)
        self.benefits[beneficiary] = Benefit(nodes, min(freed, nodes))

    def keep_promise(self, beneficiary: int) -> None:
        """Note that the shrinking job has given up its nodes."""
        if beneficiary in self.benefits:
            self.benefits[beneficiary].freed = 0
            self.benefits[beneficiary].until = time.time() + max(BENEFIT_WITHIN, self._use)

    def break_promise(self, beneficiary: int | None) -> None:
        """Note that the other job keeps its nodes after all."""
        if beneficiary is not None:
            self.benefits.pop(beneficiary, None)

    def _update_benefits(self, overview: Overview, now: float) -> None:
        for job, benefit in list(self.benefits.items()):
            if job not in overview.unmet or now > benefit.until:
                del self.benefits[job]
                if job in overview.unmet:
                    self.hopeless.add(job)
        self.hopeless &= set(overview.unmet)


def _nodes_for(job: WaitingJob, per_node: int, mixed: int) -> int:
    """Idle nodes that a waiting job needs, if it takes processors of shared nodes where it may."""
    return job.nodes if job.whole_nodes else max(0, math.ceil((job.processors - mixed) / per_node))
