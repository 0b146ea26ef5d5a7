"""Kinds of actions: what a replay does to the cluster at an instant of the trace.

A further kind is a class here, its row in KINDS, and its rows in `actions_of`; timeline.py orders, journals and recovers all kinds
in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from ..base.strict_json import COUNT, FLAG, INSTANT, TEXT, Maybe, Shape, Text
from ..jobs import arrays
from ..jobs.cluster_events import ClusterEvent
from ..jobs.plan import PlanRow
from ..rm.api import ResourceManager

Event = dict[str, Any]
"""An event of the journal."""
Answer = TypeVar("Answer")

START, SUBMITTED, ENDED = "start", "submitted", "ended"
"""Events from which the instant of an action counts: the start of the run, a job's last submission, a job's end."""
RESUBMITTED = "resubmitted"
"""A submission of a job that the controller had lost, with the members of the first one."""
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"
"""Outcomes of an event of the run: the resource manager has refused it, or the replay was killed and cannot know."""


@dataclass(frozen=True)
class When:
    """The instant of an action: seconds of the cluster's time after an event, START or one of the job with this index."""

    seconds: float
    after: str = START
    index: int = -1


class Cluster(Protocol):
    """What an action uses of the replay."""

    @property
    def manager(self) -> ResourceManager:
        """The resource manager."""
        ...

    def job_id(self, index: int) -> int:
        """The id that the resource manager has for a submitted job."""
        ...

    def submit(self, row: PlanRow, event: str) -> list[Event]:
        """Submit a job, with the other tasks of its array; the events to journal. Raises Failed or Stopped."""
        ...

    def may_cancel(self) -> bool:
        """Return whether a job may be cancelled now. If not, its cancellation is only journalled, and the recovery carries it out.

        Raises Failed or Stopped.
        """
        ...

    def retry_until_answered(self, attempt: Callable[[], Answer], what: str = "") -> Answer:
        """Call `attempt` until it succeeds; `what` begins messages. Raises Failed or Stopped."""
        ...

    def play(self, event: ClusterEvent, ended: Set[int]) -> list[Event]:
        """Carry out an event of the run; what to journal. Raises Failed or Stopped."""
        ...


class Action(Protocol):
    """One action. It is journalled after it was carried out. A replay that is killed between the two carries it out again, so that
    has to do no harm; submissions, which would, are looked up by the recovery before."""

    event: ClassVar[str]
    """Kind of its event in the journal."""
    members: ClassVar[dict[str, Shape]]
    """Members of its event in the journal, besides the instant."""
    is_of_submission: ClassVar[bool]
    """Whether it is an action on a submitted job, which has to be carried out again after another submission of the job."""

    @property
    def index(self) -> int:
        """Its number among the actions of its kind, which the journal has: for an action of a job the job's index."""
        ...

    @property
    def when(self) -> When:
        """When it is due."""
        ...

    def carry_out(self, cluster: Cluster, ended: Set[int]) -> list[Event]:
        """Do it; the events to journal, none if there is nothing to do. `ended`: indices of the jobs that have ended
        for good: the manager never runs them again by itself. Raises Failed or Stopped.
        """
        ...


@dataclass(frozen=True)
class _OfJob:
    """An action on a job of the plan."""

    row: PlanRow

    @property
    def index(self) -> int:
        """Of the job."""
        return self.row.index


@dataclass(frozen=True)
class Submit(_OfJob):
    """Submits a job. `follows`: index of the job that it follows, None for none."""

    follows: int | None = None
    event: ClassVar[str] = SUBMITTED
    members: ClassVar[dict[str, Shape]] = {
        "index": COUNT, "slurm_id": COUNT, "due": INSTANT, "began": Maybe(INSTANT), "retries": COUNT,
        "plain": Maybe(FLAG),
    }  # fmt: skip
    is_of_submission: ClassVar[bool] = False

    @property
    def when(self) -> When:
        """At its own instant, or after the end of the job that it follows."""
        return When(self.row.due) if self.follows is None else When(self.row.think, ENDED, self.follows)

    def carry_out(self, cluster: Cluster, ended: Set[int]) -> list[Event]:
        """Submit it."""
        return cluster.submit(self.row, self.event)


@dataclass(frozen=True)
class Cancel(_OfJob):
    """Cancels a job some time after its submission, unless it has ended for good."""

    event: ClassVar[str] = "cancelled"
    members: ClassVar[dict[str, Shape]] = {"index": COUNT}
    is_of_submission: ClassVar[bool] = True

    @property
    def when(self) -> When:
        """After the job's last submission: one that the controller has forgotten is submitted again."""
        return When(self.row.cancel_after or 0.0, SUBMITTED, self.row.index)

    def carry_out(self, cluster: Cluster, ended: Set[int]) -> list[Event]:
        """Cancel the job by its name, which no other job ever gets; a task of an array, which has no name of its own, by its id."""
        if self.index in ended:
            return []
        job_id = cluster.job_id(self.index)
        is_task = arrays.array_and_task(job_id) is not None
        cancel = (lambda: cluster.manager.cancel([job_id])) if is_task else (lambda: cluster.manager.cancel_named(self.row.name))
        if cluster.may_cancel():
            cluster.retry_until_answered(cancel, f"cancelling job {self.row.id}: ")
        return [{"event": self.event, "index": self.index}]


@dataclass(frozen=True)
class Release(_OfJob):
    """Releases a job that was submitted held, unless it has ended for good."""

    seconds: float
    event: ClassVar[str] = "released"
    members: ClassVar[dict[str, Shape]] = {"index": COUNT}
    is_of_submission: ClassVar[bool] = True

    @property
    def when(self) -> When:
        """After the job's last submission."""
        return When(self.seconds, SUBMITTED, self.row.index)

    def carry_out(self, cluster: Cluster, ended: Set[int]) -> list[Event]:
        """Release it."""
        if self.index in ended:
            return []
        job_id = cluster.job_id(self.index)

        def release() -> None:
            # The replay may not know yet that a job has ended, and a manager does not release that.
            if any(job.job_id == job_id and job.held for job in cluster.manager.queue([self.row.name])):
                cluster.manager.release([job_id])

        cluster.retry_until_answered(release, f"releasing job {self.row.id}: ")
        return [{"event": self.event, "index": self.index}]


@dataclass(frozen=True)
class Happen:
    """An event of the run (jobs.cluster_events)."""

    cluster_event: ClusterEvent
    event: ClassVar[str] = "event_done"
    members: ClassVar[dict[str, Shape]] = {
        "index": COUNT,
        "outcome": Text(words=(DONE, REFUSED, UNKNOWN)),
        "words": TEXT,
        "outside": Maybe(INSTANT),
    }
    is_of_submission: ClassVar[bool] = False

    @property
    def index(self) -> int:
        """Its number among the events."""
        return self.cluster_event.number

    @property
    def when(self) -> When:
        """At its instant."""
        return When(self.cluster_event.at)

    def carry_out(self, cluster: Cluster, ended: Set[int]) -> list[Event]:
        """Carry it out, and journal its outcome."""
        return cluster.play(self.cluster_event, ended)


KINDS: tuple[type[Action], ...] = (Submit, Cancel, Release, Happen)


def actions_of(plan: Sequence[PlanRow], events: Sequence[ClusterEvent] = ()) -> Iterator[Action]:
    """The actions of a plan and of the events of the run. Those whose instants count from the start of the run are in the order of
    their instants, an event before the submissions of its instant."""
    indices = {row.id: row.index for row in plan}
    due = deque(events)
    for row in plan:
        while due and row.follows is None and due[0].at <= row.due:
            yield Happen(due.popleft())
        yield Submit(row, None if row.follows is None else indices[row.follows])
        if row.cancel_after is not None:
            yield Cancel(row)
        hold = row.asked.hold
        if hold and (row.cancel_after is None or hold < row.cancel_after):
            yield Release(row, hold)
    yield from map(Happen, due)
