"""What the broker of malleable jobs needs of a resource manager: a query of the queue, and commands that change the size of a job.

Sizes are whole nodes. Instants and lengths are seconds of the cluster's own (virtual) clock. Errors are those of `rm.api`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ...rm.api import JobState


@dataclass(frozen=True)
class SizedJob:
    """A job that has nodes, or has had them until a short while ago."""

    job_id: int
    name: str
    state: JobState
    nodes: int
    processors: int
    hosts: str
    """Names of its nodes, as the manager abbreviates them."""
    first_host: str
    """The node on which the job's script runs; empty: not known."""
    partition: str
    account: str
    qos: str
    start: int | None
    used: int
    """Seconds for which it has run, without those for which it was suspended."""
    limit: int | None
    """Its time limit; None: it has none."""
    left: int | None
    """Seconds until its time limit; None: it has none."""
    fixed: str = ""
    """Why its size cannot change; empty: it can."""


@dataclass(frozen=True)
class WaitingJob:
    """A job that waits for nodes, and for nothing else."""

    job_id: int
    nodes: int
    processors: int
    whole_nodes: bool
    """Whether it shares no node with other jobs."""
    partition: str


@dataclass(frozen=True)
class Overview:
    """The queue and the idle nodes at one moment."""

    jobs: Mapping[int, SizedJob]
    """Jobs with nodes, by id."""
    waiting: tuple[WaitingJob, ...]
    """Jobs that wait for nodes, the first of the queue first."""
    unmet: Mapping[int, str]
    """Names of all waiting jobs, whatever they wait for, by id."""
    idle: Mapping[str, int]
    """Nodes without any job that take one now, by partition."""
    growable: Mapping[int, int]
    """Of these, those by which a job can grow, by the job's id. Which of them it gets is the manager's choice."""
    free_processors: Mapping[str, int]
    """Processors that no job has, on nodes that take jobs, by partition."""


class Sizes(Protocol):
    """Every method raises `ResourceManagerError`."""

    def overview(self) -> Overview:
        """The queue and the idle nodes now."""
        ...

    def job(self, job_id: int) -> SizedJob | None:
        """A job with nodes, or one that ended a short while ago; None: the manager does not know it, or it waits."""
        ...

    def take_nodes(self, job: SizedJob, nodes: int, name: str, patience: int) -> int:
        """Take idle nodes for a job by a second allocation, before all jobs that wait; the id of that allocation.

        `name`: the allocation's name. Raises `Refused` when it has not got the nodes after `patience` seconds; it is gone then.
        """
        ...

    def merge(self, allocation: int) -> None:
        """Give the nodes of an allocation of `take_nodes` to its job, and end the allocation."""
        ...

    def keep_nodes(self, job_id: int, hosts: Iterable[str], limit_minutes: int | None) -> None:
        """Let a running job have these of its nodes only; with `limit_minutes` the job gets this time limit."""
        ...

    def put_first(self, job_id: int) -> None:
        """Give a waiting job the highest priority."""
        ...

    def cancel(self, job_ids: Iterable[int]) -> None:
        """Cancel jobs by their ids. A job that has ended is not an error."""
        ...

    def cancel_named(self, name: str) -> None:
        """Cancel the jobs of this name, if there are any."""
        ...

    def recount_after_shrinks(self) -> None:
        """Do what the manager needs some seconds after jobs have shrunk, so that all nodes that they gave up serve others."""
        ...

    def free_lost_nodes(self) -> None:
        """Have the manager count again which nodes are idle: nodes that a job got after its end are otherwise lost."""
        ...
