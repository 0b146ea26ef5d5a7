"""What the feeder of filler jobs needs of a resource manager: a query of the queue and the scheduler's plan, and commands for
fillers.

Fillers are known by their names. Instants and lengths are seconds of the cluster's own (virtual) clock. Errors are those of
`rm.api`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ...rm.api import JobState, Submitted

NAME = "mirage-filler-"
"""Prefix of the names of fillers; their number follows."""


def filler_name(number: int) -> str:
    """The name of the job of a filler."""
    return f"{NAME}{number}"


def filler_number(name: str) -> int | None:
    """The number of the filler whose job has this name; None for every other job's name."""
    return int(name[len(NAME) :]) if name.startswith(NAME) and name[len(NAME) :].isdecimal() else None


@dataclass(frozen=True)
class FillerJob:
    """A filler in the queue."""

    job_id: int
    number: int
    state: JobState
    limit: int | None
    """Its time limit in seconds; None: it has none."""
    start: int | None
    hosts: tuple[str, ...]
    """The names of its nodes, one as a rule; none before it starts."""


@dataclass(frozen=True)
class PlannedJob:
    """A waiting job of the workload for which the scheduler has nodes in its plan."""

    job_id: int
    start: int
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Room:
    """The queue at one moment, as the feeder sees it."""

    fillers: tuple[FillerJob, ...]
    planned: tuple[PlannedJob, ...]
    free: int
    """Processors that no job has, on nodes that take jobs."""


class Fillers(Protocol):
    """Every method raises `ResourceManagerError`."""

    def look(self) -> Room:
        """The queue, its plan and the free processors now."""
        ...

    def submit_filler(
        self, number: int, command: str, directory: str, limit_minutes: int, least_minutes: int, signalled: bool
    ) -> Submitted:
        """Submit a filler of one processor, a job that is put back in the queue when its node is wanted.

        command: a line for /bin/sh. limit_minutes: its time limit, which the scheduler may lower to `least_minutes` to start it.
        signalled: whether it gets SIGUSR1 when its node is wanted.
        """
        ...

    def ask(self, job_ids: Iterable[int]) -> None:
        """Send SIGUSR1 to the programs of running fillers. A job that has ended is not an error."""
        ...

    def set_limit(self, job_ids: Iterable[int], minutes: int) -> None:
        """Give running fillers this time limit. A job that has ended is not an error."""
        ...

    def cancel(self, job_ids: Iterable[int]) -> None:
        """Cancel jobs by their ids. A job that has ended is not an error."""
        ...
