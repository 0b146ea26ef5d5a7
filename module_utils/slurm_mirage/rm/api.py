"""What a replay needs of a resource manager, and what the collection needs of its records, independent of a particular manager.

`ResourceManager` speaks to a running one, `Records` reads what it left in the folder of a run. Instants are whole seconds since
the epoch on the cluster's own (virtual) clock, unless said otherwise. A job id is a number; a manager whose ids are other words
maps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from ..jobs.request import NO_REQUEST, Request
from .evidence import Layout, Names, Scheduling, WaitWord

SUBMIT_TIMEOUT = 300.0
"""Real seconds after which an implementation ends a submission that has no answer."""


class ResourceManagerError(RuntimeError):
    """The resource manager did not do what it was asked for. The message is its own, on one line."""


class Unavailable(ResourceManagerError):
    """The resource manager did not answer, or cannot answer now. It may have done what it was asked for all the same."""


class Refused(ResourceManagerError):
    """The resource manager will never do what it was asked for."""


class Unclear(ResourceManagerError):
    """An answer that is neither known as `Unavailable` nor as `Refused`: worth a few attempts, not an unlimited number."""


# ---- jobs that the manager knows ----


class JobState(str, Enum):
    """State of a job in the queue."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETING = "completing"
    CONFIGURING = "configuring"
    OTHER = "other"
    """The job has not ended, and its state is none of the above."""
    ENDED = "ended"


@dataclass(frozen=True)
class Submission:
    """A job to submit."""

    name: str
    command: str
    """A line for /bin/sh."""
    processors: int
    nodes: int | None
    """Whole nodes; None: `processors` on shared nodes."""
    limit_minutes: int
    partition: str
    """Queue of the manager; empty: the default one."""
    directory: str
    account: str = ""
    qos: str = ""
    memory: int | None = None
    """MiB for each processor."""
    dependency: str = ""
    """Like afterany:12:14,after:15+2, with ids of the manager; empty: none."""
    delay: int = 0
    """Virtual seconds after the submission before which the job may not start."""
    request: Request = NO_REQUEST
    """What else it asks for; its instant `begin` is in `delay`."""
    owner: str = ""
    """User whom the job belongs to; empty: the one who submits it."""


@dataclass(frozen=True)
class Submitted:
    """A job that the manager accepted."""

    job_id: int
    retries: int = 0
    """How often the manager's own program had to try again."""


@dataclass(frozen=True)
class QueuedJob:
    """A job that the manager knows now."""

    job_id: int
    state: JobState
    start: int | None
    """None before the job has one."""
    name: str
    reason: str = ""
    """Why the job waits, in the manager's own words, for messages."""
    held: bool = False
    """Whether the job waits until it is released."""
    processors: int = 0
    """Processors that the job has, or waits for."""
    number: int = 0
    """The manager's own number for the job, which `job_id` of the task of an array does not have; 0: it is `job_id`."""

    @property
    def active(self) -> bool:
        """Whether the job has not ended."""
        return self.state is not JobState.ENDED


# ---- jobs that have ended ----

RESIZING = "RESIZING"
NOT_ENDED = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", RESIZING)
"""States in records of jobs that have not ended. A run of a job that ended in a requeue has the state PENDING, the part of a run
before a change of size has RESIZING."""


@dataclass(frozen=True)
class CompletedJob:
    """One run of a job in the manager's lasting record; a job that was put back in the queue has several.

    Instants are in the time zone of the manager, which the record does not name, and None where the record has none.
    """

    job_id: int
    name: str
    state: str
    """As in jobs.csv: COMPLETED, CANCELLED, TIMEOUT, FAILED, NODE_FAIL, one of NOT_ENDED, or another word of the manager."""
    ended_for_good: bool
    """Whether the manager itself never runs the job again. After a node failure or a preemption it may."""
    ran: bool = True
    """False: the job was cancelled while it waited, and never started."""
    partition: str | None = None
    nodes: int | None = None
    processors: int | None = None
    submit: int | None = None
    eligible: int | None = None
    start: int | None = None
    end: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether this is the part of a run before a change of the job's size, and not the end of a run."""
        return self.state == RESIZING

    user: str = ""
    """Account on the hosts."""
    hosts: str = ""
    """Names of its nodes, as the manager writes lists of them."""
    exit_code: int | None = None


@dataclass(frozen=True)
class JobDetails:
    """What the manager still knows of a job some time after its end. None is unknown."""

    job_id: int
    name: str
    state: str
    """As in `CompletedJob`."""
    eligible: int | None
    start: int | None
    end: int | None
    suspended: int | None
    """Seconds for which the job was suspended since its last start; of a job that has not ended it may be anything."""
    record: Mapping[str, str | int | None]
    """A line of suspended.jsonl, of which `Records.details` makes this object again."""


@dataclass(frozen=True)
class Freed:
    """When the processors of jobs were free again: instants of the cluster's clock, seconds since the epoch with fractions."""

    instants: Mapping[int, tuple[float, float]]
    """By job id, of its last run: its end as the manager recorded it, and when other jobs could have its processors."""
    reason: str
    """Why the instants are not known; empty if they are."""


NEVER_TOLD = "the resource manager does not tell when the processors of a job were free again"
"""Reason of `Freed` for a resource manager that has no such record."""

# ---- the cluster ----

NODE_GROUPS = ("idle", "allocated", "down", "drained", "unknown", "reserved")
"""Nodes by what jobs may expect of them: allocated also in part; unknown: not heard of since the controller's start."""


@dataclass(frozen=True)
class Nodes:
    """The nodes, counted."""

    states: Mapping[str, int]
    """Number of nodes by the manager's own name of their state."""
    groups: Mapping[str, int]
    """Number of nodes by NODE_GROUPS."""
    not_responding: int
    """How many of all nodes do not respond."""
    ready: int
    """How many of all nodes respond and take jobs, now or when the scheduler or a reservation lets them."""
    processors: int
    allocated: int
    """Processors of all nodes, and those that jobs have."""

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return sum(self.groups.values())

    @property
    def all_ready(self) -> bool:
        """Whether there are nodes, and all of them take jobs."""
        return 0 < self.ready == self.count


@dataclass(frozen=True)
class Registered:
    """The nodes as they register after a start: number by the manager's own name of their state, how many of them take jobs, and
    whether there are any and all of them do."""

    states: Mapping[str, int]
    ready: int
    all_ready: bool


SECOND_CONTROLLER = 10**11


@dataclass(frozen=True)
class Controller:
    """The running controller: since when it runs, the id that it gives to the next job, and its version.

    boot_time: s since the epoch; of a second controller SECOND_CONTROLLER more, as both may have been started in the same second
    """

    boot_time: int
    next_id: int
    version: str
    has_fair_share: bool = False
    """Whether fair share is part of the jobs' priorities. `ResourceManager.account_shares` then returns the accounts' shares."""


@dataclass(frozen=True)
class AccountShare:
    """An account that has users: its promised share of the machine, the share of the usage that it had lately, and the mean
    fair-share factor of its users, each from 0 to 1."""

    account: str
    share: float
    usage: float
    factor: float


BACKFILL_DIAGNOSTICS = ("backfill_last_cycle_us", "backfill_max_cycle_us", "backfill_last_depth", "backfill_queue_length")
"""Diagnostics that the verdict, the calibration and the reports use where a manager has them: length of the last and of the longest
backfill cycle in virtual microseconds, jobs that the last one looked at, and jobs that waited when it began."""


@dataclass(frozen=True)
class DiagnosticMetric:
    """A diagnostic in metrics.prom: name without prefix, help, its key among the diagnostics, and the value of 1 in the
    base unit that the name says."""

    name: str
    help: str
    key: str
    unit: float = 1.0


# ---- the two sides of a resource manager ----

NO_EVENTS = "this resource manager has no events of runs"
"""Refusal of a manager that cannot carry out events."""
NAMELESS = Names("the resource manager", "its controller", "its node daemon", "its record", "its record")


class Records(Protocol):
    """Reads the records of a resource manager. They are files of a run's folder."""

    @property
    def completions_file(self) -> str:
        """Name of the lasting record of ended jobs."""
        ...

    @property
    def diagnostics_file(self) -> str:
        """Name of the CSV file of the diagnostics: columns real, virtual, and one for each diagnostic."""
        ...

    @property
    def diagnostic_names(self) -> Mapping[str, str]:
        """Names of BACKFILL_DIAGNOSTICS by the manager's own names of these diagnostics."""
        ...

    @property
    def diagnostic_metrics(self) -> Sequence[DiagnosticMetric]:
        """Diagnostics that metrics.prom has, in its order."""
        ...

    def completions(self, text: str) -> list[CompletedJob]:
        """The runs in the content of `completions_file`, in its order. Incomplete lines are left out."""
        ...

    def details(self, record: Mapping[str, Any]) -> JobDetails:
        """The details of a line of suspended.jsonl. Raises KeyError or TypeError for anything else."""
        ...

    def freed(self, folder: Path) -> Freed:
        """When the processors of the jobs of the run in `folder` were free again; by default not known."""
        return Freed({}, NEVER_TOLD)

    @property
    def frees_at_end(self) -> bool:
        """Whether the end of a job in the record is the instant at which its processors are free again; by default it is not."""
        return False

    @property
    def end_delay(self) -> float:
        """Virtual seconds by which the manager by its design may record an end late at a constant speed; by default none."""
        return 0.0

    @property
    def starts_when_accepted(self) -> bool:
        """Whether the record has, as the start of a job, the instant at which its node's answer reaches the controller.

        The program may have begun before that instant. The default is no: the record has the instant of the controller's decision.
        """
        return False

    def wait_word(self, reason: str) -> WaitWord:
        """What the reason of a waiting job in reasons.csv means; by default nothing is known."""
        return WaitWord.UNKNOWN

    # ---- what the verdict needs beside the jobs (rm.evidence) ----

    @property
    def names(self) -> Names:
        """What the manager and its daemons are called."""
        return NAMELESS

    @property
    def configuration_file(self) -> str:
        """Name of the manager's main configuration file among the records; empty for none."""
        return ""

    def configuration(self, folder: Path) -> str:
        """The configuration in force during the run in `folder`; empty if it was not collected."""
        return ""

    def scheduling(self, configuration: str) -> Scheduling:
        """What the manager does by itself, according to the text of `configuration`."""
        return Scheduling()

    def over_limit(self, configuration: str, speed: float) -> float:
        """Seconds of the cluster's time beyond its time limit within which a job has been killed, at a clock of that speed."""
        return 0.0

    def layout(self, folder: Path) -> Layout | None:
        """The machine as the records in `folder` describe it; None if they do not."""
        return None


class CompletionReader(Protocol):
    """Reads the lasting record of ended jobs as it grows."""

    def read(self) -> list[CompletedJob]:
        """The runs that were recorded since the last call."""
        ...


class ResourceManager(Protocol):
    """A running resource manager. Every method raises `ResourceManagerError`, unless said otherwise."""

    @property
    def records(self) -> Records:
        """Reads the records of this manager."""
        ...

    # ---- the controller ----

    def controller(self) -> Controller:
        """The controller that answers now."""
        ...

    def diagnostics(self) -> Mapping[str, int | None]:
        """The scheduler's statistics: always the same names in the same order; None: not known. Instants are as all others."""
        ...

    def account_shares(self) -> Sequence[AccountShare]:
        """The accounts that have users, in the order of the manager; none without fair share."""
        return ()

    def log_size(self) -> int:
        """Bytes of the controller's log now. Raises nothing."""
        ...

    def complaints(self, real: float, virtual: float, log_offset: int) -> Mapping[str, int]:
        """How often the daemons of this host complained, by kind, since an instant that is given in real and in virtual seconds.

        `log_offset`: `log_size` at that instant. Raises OSError.
        """
        ...

    # ---- jobs ----

    def submit(self, job: Submission) -> Submitted:
        """Submit one job."""
        ...

    def expect(self, jobs: Iterable[Submission]) -> None:
        """These jobs, in this order, are likely to be submitted next, by the thread that calls this; jobs of earlier calls are not.

        A manager may prepare their submissions, for as many of them as it takes from `jobs`. It ends what it has prepared for other
        jobs, and all of it after a failed submission. A job's command may be another one when it is submitted. By default nothing
        is prepared. Raises nothing.
        """

    def submit_many(self, jobs: Iterable[Submission]) -> list[Submitted]:
        """Submit jobs in this order; by default one after the other. On an error the jobs before it are submitted."""
        return [self.submit(job) for job in jobs]

    def most_tasks(self) -> int:
        """Bound that the numbers of the tasks of an array have to be below; 0, the default: there are no arrays."""
        return 0

    def submit_array(self, name: str, tasks: Mapping[int, Submission], at_once: int | None = None) -> Submitted:
        """Submit an array of this name; its jobs, by the numbers of the tasks, differ in their names and commands only.

        at_once: the most of them that may run at a time, None for all. The number in the answer is the array's. The ids and names
        of its tasks are those of `jobs.arrays`.
        """
        raise Refused("there are no arrays")

    def use_up_id(self, name: str) -> int:
        """Use up one job id by a held job of this name that never starts, until `cancel_named` removes it; the id.

        A controller that was killed may give out ids again that nodes have seen.
        """
        ...

    def make_placeholder(self, job_id: int, name: str) -> None:
        """Hold a waiting job and rename it, so that its end is not taken for that of a job of the replay."""
        ...

    def cancel(self, job_ids: Iterable[int]) -> None:
        """Cancel jobs by their ids. A job that has ended is not an error."""
        ...

    def cancel_named(self, name: str) -> None:
        """Cancel the jobs of this name, if there are any.

        Unlike an id, a name never gets another job after the controller was killed.
        """
        ...

    def hold(self, job_ids: Iterable[int]) -> None:
        """Keep waiting jobs from starting until they are released."""
        ...

    def release(self, job_ids: Iterable[int]) -> None:
        """Let held jobs start again."""
        ...

    def requeue(self, job_ids: Iterable[int]) -> None:
        """Put running jobs back in the queue."""
        ...

    def end_overdue(self, job_ids: Sequence[int], seconds: float) -> Sequence[int]:
        """End those of these running jobs that the manager has let run for more than `seconds` of the cluster's time over their
        limits: their ids. By default there are none, as the manager ends jobs at their limits, whatever happens to its daemons.
        """
        return ()

    def resize(self, job_id: int, nodes: int) -> None:
        """Let a running job have this number of nodes. A manager may refuse more nodes than the job has."""
        ...

    def set_dependency(self, job_id: int, dependency: str) -> None:
        """Replace the dependency of a waiting job."""
        ...

    def queue(self, names: Sequence[str] = (), ended: bool = False) -> list[QueuedJob]:
        """Jobs that have not ended, and with `ended` also those that ended not long ago; with `names` only jobs of these names."""
        ...

    def jobs_by_state(self) -> Mapping[str, int]:
        """Number of jobs that have not ended by the manager's own name of their state: cheaper than `queue`."""
        ...

    def details(self, job_ids: Sequence[int], everything: bool = False) -> list[JobDetails]:
        """What the manager still knows of these jobs, in no order; jobs that it has forgotten are left out.

        With `everything` it is asked for all jobs at once, which is cheaper for many.
        """
        ...

    def ended(self, job_ids: Sequence[int]) -> list[JobDetails]:
        """The details of these jobs, as far as they have ended, also from other records that the manager keeps for longer.

        By default there are none. Jobs that no record has are left out.
        """
        return [job for job in self.details(job_ids) if job.state not in NOT_ENDED]

    def keeps_its_phase(self) -> bool:
        """Whether its daemons do on an event clock what they do by time at multiples of a length since the epoch, so that they need
        no restart for the same instants in each run."""
        return False

    def saved_by_runs(self) -> Sequence[Path]:
        """The files without which the controller knows nothing of earlier runs at its next start: neither the usage of fair share,
        nor jobs, which it then numbers from the first number on, unless another record keeps the numbers."""
        return ()

    def completions_size(self) -> int:
        """Present size in bytes of the lasting record of ended jobs. Raises nothing."""
        ...

    def completions(self, offset: int) -> CompletionReader:
        """Reads the lasting record of ended jobs from this number of bytes on. Raises nothing."""
        ...

    def requeues(self, job_id: int) -> int:
        """How often a job was put back in the queue."""
        raise Refused(NO_EVENTS)

    # ---- events of a run (jobs.cluster_events) ----

    def environment(self) -> Mapping[str, str]:
        """The environment in which the manager's commands find the cluster. Raises nothing."""
        return {}

    def set_nodes(self, nodes: str, state: str, reason: str) -> None:
        """Take the nodes of a host list out of service, `down` or `drain`, or return them, `resume`."""
        raise Refused(NO_EVENTS)

    def reserve(self, name: str, words: str, zero: float) -> None:
        """Make a reservation; `words` as those of the event, `zero` is the virtual second from which its StartTime counts."""
        raise Refused(NO_EVENTS)

    def release_reservation(self, name: str) -> None:
        """End a reservation."""
        raise Refused(NO_EVENTS)

    def change(self, kind: str, name: str, words: str) -> None:
        """Change settings, words NAME=VALUE, of a `partition`, `node`, `job` (with its id), `account`, `user` or `qos`."""
        raise Refused(NO_EVENTS)

    def change_configuration(self, name: str) -> bool:
        """Have the controller read the configuration `name`, or the cluster's own one for an empty name, at its next start or when
        it is told to (`reconfigure`). Returns whether it would have read another one."""
        raise Refused(NO_EVENTS)

    def reconfigure(self) -> None:
        """Let the controller read its configuration now."""
        raise Refused(NO_EVENTS)

    # ---- nodes and partitions ----

    def nodes(self) -> Nodes:
        """The nodes and their processors."""
        ...

    def resume_nodes(self) -> str:
        """Return nodes to service that the manager took out by itself; which ones, empty for none.

        That happens when a killed controller restores a job as waiting that had run already, and starts it on the same node, and
        when a job's processes end too late because the host is held up. Nodes that an administrator has drained stay as they are.
        """
        ...

    def open_partitions(self) -> list[str]:
        """Partitions whose jobs may start."""
        ...

    def set_partitions(self, names: Iterable[str], *, are_open: bool) -> None:
        """Let the jobs of partitions start, or only wait."""
        ...

    def forgets_runs(self) -> bool:
        """Return True if a cluster without jobs keeps nothing of earlier runs that changes schedules, such as the usage of fair
        share; by default False."""
        return False


class Commands(ResourceManager, Protocol):
    """A running resource manager as the host's tools see it: also what the collection asks after a run."""

    def registered(self) -> Registered:
        """The nodes as they register: cheaper than `nodes` where the manager has such a query."""
        nodes = self.nodes()
        return Registered(nodes.states, nodes.ready, nodes.all_ready)

    def ask_nodes(self) -> str:
        """Have the controller ask the nodes that have not registered with it since its start; which ones, empty for none."""
        return ""

    def return_nodes(self) -> str:
        """Return all nodes to service that are drained or down, whoever took them out; which ones, empty for none."""
        return ""

    def configuration(self) -> str:
        """The configuration in force, as text."""
        ...

    def queue_owners(self) -> list[dict[str, str | int | None]]:
        """The jobs that have not ended: job_id, user, submit (virtual seconds) and name of each."""
        ...
