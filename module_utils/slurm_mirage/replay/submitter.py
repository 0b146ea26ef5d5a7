"""Submits the jobs of a plan, each until it is accepted, so that it exists once and under an id that no other job had."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..clock.clock import Clock
from ..jobs import arrays
from ..jobs.cluster_events import ClusterEvent
from ..jobs.kinds import JobKind
from ..jobs.plan import NEVER, PlanRow, targets, with_ids
from ..jobs.request import Request
from ..rm.api import (
    CompletedJob,
    CompletionReader,
    JobState,
    Refused,
    ResourceManager,
    ResourceManagerError,
    Submission,
    Submitted,
    Unclear,
)
from . import launch_cost
from .actions import ENDED, Action, Event, Release, Submit, actions_of
from .halts import Halts
from .journal import History, Journal
from .launch_cost import LaunchCost, Probe
from .monitor import Status
from .process import Failed, Settings, Waker
from .timeline import Timeline

if TYPE_CHECKING:
    from .cluster_events import EventPlayer

log = logging.getLogger("replay")
Answer = TypeVar("Answer")

FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
"""Real seconds between two attempts: doubled from the first to the longest. Submissions themselves wait some time for a controller
that is down, so this is not what limits the load."""
UNCLEAR_ATTEMPTS = 5
"""Number of unclear answers to a request after which the run fails."""
WAITING = "waiting for the resource manager: "
PLACEHOLDER_SUFFIX = ".skip"
"""Names of jobs that are submitted held and cancelled soon, only to use up job ids."""
LAUNCH_SUFFIX = ".launch"
"""Names of jobs that measure what a launch costs, before the first job of the plan."""
SOON = 1.0
"""Real seconds before its due instant from which on the submission of a job may be prepared."""
NEVER_BEGINS = 30 * 86400
"""Virtual seconds after its cancellation before which a job that is never to start may not begin."""


@dataclass
class Submitter:
    """Submits and cancels jobs, for the schedule of a replay and for its recovery."""

    folder: Path
    settings: Settings
    plan: Sequence[PlanRow]
    clock: Clock
    manager: ResourceManager
    kind: JobKind
    journal: Journal
    waker: Waker
    status: Status
    events: Sequence[ClusterEvent] = ()
    """Events of the run, in the order of their instants."""
    completed: list[CompletedJob] = field(default_factory=list)
    """Jobs of this run in the completion log, as far as it was read."""
    doubtful: bool = False
    """Whether the controller may have been restarted since the last comparison."""
    unsettled_since: float | None = None
    """Real instant since which the recovery waits for all nodes to register with the controller; None if it does not wait.

    The recovery sets it.
    """
    answered: dict[int | None, float] = field(default_factory=dict)
    """Real instant of the last answer of each controller, by its start: kept by the monitor."""

    def __post_init__(self) -> None:
        self.halts = Halts(self.waker.time)
        self.other_ids: Callable[[], int] = lambda: 0
        """Returns the highest id of the jobs that are submitted beside the plan."""
        self.indices = {row.name: row.index for row in self.plan}
        self.placeholder = f"{self.settings.run}{PLACEHOLDER_SUFFIX}"
        self._numbers = {row.id: row.index for row in self.plan}
        self._completions: CompletionReader | None = None
        self._looked_at = 0
        self._launch_cost: LaunchCost | None = None
        self._most_tasks: int | None = None
        self._plain: set[int] = set()
        """Indices of the jobs whose requests the manager has refused."""
        self._held = [row.index for row in self.plan if row.asked.hold]
        self._arrays: dict[int, list[int]] = {}
        """Indices of the tasks of each array, by the trace's number of its first task."""
        for row in self.plan:
            if row.array is not None:
                self._arrays.setdefault(row.array, []).append(row.index)
        self.timeline = Timeline(actions_of(self.plan, self.events), self.clock, self.journal, self.waker.time)
        self.player: EventPlayer | None = None
        """Carries out the events; the replay sets it."""

    @property
    def history(self) -> History:
        """The journal's history."""
        return self.journal.history

    def now(self) -> float:
        """The present instant, in real seconds since the epoch."""
        return self.waker.time.now()

    # ---- actions ----

    def carry_out(self, action: Action, ended: Set[int]) -> None:
        """Carry out an action and journal it. `ended`: indices of the jobs that have ended for good. Raises Failed or Stopped."""
        self.note(action.carry_out(self, ended))

    def note(self, events: Sequence[Event]) -> None:
        """Journal events of actions, and update the numbers of submissions in the status."""
        self.timeline.note(events)
        self.count()
        if events and events[0]["event"] == Submit.event:
            self.status.lag = round(max(0.0, events[0]["real"] - events[0]["due"]), 6)

    def play(self, event: ClusterEvent, ended: Set[int]) -> list[Event]:
        """Carry out an event of the run; what to journal. Raises Failed or Stopped."""
        assert self.player is not None
        return self.player.play(event, ended)

    def job_id(self, index: int) -> int:
        """The id that the resource manager has for a submitted job."""
        return self.history.job_ids[index]

    def may_cancel(self) -> bool:
        """Return whether a job may be cancelled now: no after a restart of the controller until all nodes have registered with it.

        That controller may have a job as waiting whose program runs. As the node registers, Slurm ends the program of a job that
        waits, but not of one that was cancelled less than MessageTimeout ago (validate_jobs_on_node in job_mgr.c, Slurm 22.05).
        Raises Failed or Stopped.
        """
        if self.retry_until_answered(self.manager.controller).boot_time != self.history.boot_time:
            self.doubtful = True
        return not self.doubtful and self.unsettled_since is None

    def held(self) -> Set[int]:
        """Ids of the jobs that were submitted held and are not released yet."""
        history = self.history
        holding = (index for index in self._held if not history.is_done(Release.event, index))
        return {history.job_ids[index] for index in holding if index in history.job_ids}

    def due(self, index: int) -> float:
        """Real instant at which a job is due: anchored to the start, or to the end of the job that it follows."""
        row = self.plan[index]
        return self.timeline.instant(Submit(row, None if row.follows is None else self._numbers[row.follows]))

    def note_ends(self, *seen: Set[int]) -> None:
        """Journal the ends of jobs that others follow: those in the manager's record, and those whose indices are among `seen`."""
        awaited = self.timeline.awaited_ends
        if not awaited:
            return
        completed, known = self.read_completed(), self.history.job_ids
        ended = {index for index in awaited if any(index in indices for indices in seen)}
        for job in completed[self._looked_at :]:
            index = self.indices[job.name]
            # A second copy that was cancelled is not the job.
            if job.ended_for_good and known.get(index) == job.job_id:
                ended.add(index)
        self._looked_at = len(completed)
        self.timeline.note([{"event": ENDED, "index": index} for index in sorted(ended & awaited)])

    # ---- retries ----

    def retry_until_answered(self, attempt: Callable[[], Answer], what: str = "") -> Answer:
        """Call `attempt` until it succeeds, with growing delays; `what` begins messages. Raises Failed for a refusal, Stopped.

        Between two attempts the event that brings the first controller back after a failover is carried out, if it is due.
        """
        delay, unclear = FIRST_DELAY, 0
        while True:
            try:
                answer = attempt()
            except Refused as error:
                raise Failed(f"{what}{error}") from error
            except ResourceManagerError as error:
                unclear += isinstance(error, Unclear)
                if unclear >= UNCLEAR_ATTEMPTS:
                    raise Failed(f"{what}{error}") from error
                log.warning("%s%s", what, error)
                self.status.message = f"{WAITING}{what}{error}"
                self.waker.sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY)
                if self.player is not None:
                    self.player.take_back_if_due()
            else:
                if self.status.message.startswith(WAITING):
                    self.status.message = ""
                return answer

    # ---- the record of ended jobs ----

    def read_completed(self) -> list[CompletedJob]:
        """Jobs of this run that have ended, as of now."""
        if self._completions is None:
            self._completions = self.completion_log()
        self.completed += (job for job in self._completions.read() if job.name in self.indices and not job.is_part)
        return self.completed

    def completion_log(self) -> CompletionReader:
        """The completion log from the start of this run on."""
        assert self.history.start is not None
        return self.manager.completions(self.history.start["completion_offset"])

    def earlier_ids(self) -> list[int]:
        """Ids of jobs of the same names that had ended when this run started, and that the manager had not forgotten then."""
        assert self.history.start is not None
        ids: list[int] = self.history.start["earlier_ids"]
        return ids

    # ---- one job ----

    def submit(self, row: PlanRow, event: str) -> list[Event]:
        """Submit a job, with the other tasks of its array; the events to journal. Raises Failed or Stopped."""
        if event == Submit.event and len(tasks := self._array_of(row)) > 1:
            return self._submit_array(tasks)
        if event == Submit.event:
            self.manager.expect(self._expected(row))
        began = self.now()
        job_id, retries, was_found = self._until_accepted(row, row.name, lambda: self._submit(row))
        self.doubtful = self.doubtful or retries > 0
        return self.submitted([(row.index, job_id)], event, began, self.now(), retries, was_found)

    def _array_of(self, row: PlanRow) -> list[PlanRow]:
        """The tasks of the job's array that are to be submitted; empty for a job of its own, and without arrays."""
        if row.array is None:
            return []
        if self._most_tasks is None:
            self._most_tasks = self.retry_until_answered(self.manager.most_tasks)
        tasks = [self.plan[index] for index in self._arrays[row.array] if index not in self.history.job_ids]
        return tasks if max(task.task for task in tasks) < self._most_tasks else []

    def _submit_array(self, tasks: Sequence[PlanRow]) -> list[Event]:
        """Submit an array; the events of its tasks, to journal at once. Raises Failed or Stopped."""
        first = self.plan[self._numbers[tasks[0].array or 0]]
        name = arrays.array_name(first.name)

        def submit() -> Submitted:
            return self._with_requests_or_without(
                tasks,
                lambda plain: self.manager.submit_array(
                    name, {row.task: self._submission(row, plain=plain) for row in tasks}, tasks[0].at_once
                ),
            )

        self.manager.expect(())
        began = self.now()
        array, retries, was_found = self._until_accepted(tasks[0], name, submit)
        self.doubtful = self.doubtful or retries > 0
        jobs = [(row.index, arrays.task_id(array, row.task)) for row in tasks]
        return self.submitted(jobs, Submit.event, began, self.now(), retries, was_found)

    def _expected(self, row: PlanRow) -> Iterator[Submission]:
        """The submissions of a job, and of those that are due next and soon, up to the first that depends on others: ids may
        change."""
        yield self._submission(row)
        soon = self.now() + SOON
        for action in self.timeline.submissions():
            following = action.row
            if following.index == row.index:
                continue
            if following.dependency or following.array is not None or self.timeline.instant(action) > soon:
                return
            yield self._submission(following)

    def submitted(
        self, jobs: Sequence[tuple[int, int]], event: str, began: float, real: float, retries: int, found: bool
    ) -> list[Event]:
        """Events that the manager has jobs that were submitted together, by index and id. The retries count once.

        found: the ids come from a search by name, not from a submission's answer
        """
        extra = {"found": True} if found else {}
        due = self.due(jobs[0][0])
        common = {"event": event, "due": due, "began": began, "real": real, **extra}
        return [
            {
                **common,
                "index": index,
                "slurm_id": job_id,
                "retries": 0 if place else retries,
                **({"plain": True} if index in self._plain else {}),
            }
            for place, (index, job_id) in enumerate(jobs)
        ]

    def count(self) -> None:
        """Update the numbers of submissions in the status from the journal."""
        self.status.submitted = len(self.history.job_ids)
        self.status.retries, self.status.resubmitted = self.history.retries, self.history.resubmitted

    def _until_accepted(self, row: PlanRow, name: str, submit: Callable[[], Submitted]) -> tuple[int, int, bool]:
        """Submit the job `row`, or the array with this first task: (number, number of retries, whether an attempt that seemed to
        fail had been accepted). `name` is that of the job or array.

        After a failed attempt the job is first looked for by its name: the controller may have taken it all the same.
        Ids only grow, unless the controller was killed: then the job is submitted again under an id that no job had.
        """
        failed = -1

        def attempt() -> tuple[int, int, bool]:
            nonlocal failed
            failed += 1
            known = self._look_up(name, row.name) if failed else None
            job = Submitted(known) if known is not None else submit()
            if job.job_id <= self.history.highest_id:
                self.doubtful = True
                self.manager.expect(())
                if self.give_up(job.job_id, name):
                    self.skip_ids(job.job_id + 1)
                    job, known = submit(), None
            return job.job_id, failed + job.retries, known is not None

        return self.retry_until_answered(attempt, f"job {row.id} (number {row.index + 1} of the plan): ")

    def _submit(self, row: PlanRow) -> Submitted:
        return self._with_requests_or_without([row], lambda plain: self.manager.submit(self._submission(row, plain=plain)))

    def _with_requests_or_without(self, rows: Sequence[PlanRow], submit: Callable[[bool], Submitted]) -> Submitted:
        """Submit jobs that ask for the same; where the manager refuses that, without it. Raises ResourceManagerError.

        submit: submits them, without requests if its argument is true
        """
        try:
            answer = self.halts.ask("submission", lambda: submit(False))
        except Refused as error:
            if not rows[0].request:
                raise
            answer = self.halts.ask("submission", lambda: submit(True))
            log.warning("job %d was submitted without %s: %s", rows[0].id, rows[0].request, error)
            self._plain.update(row.index for row in rows)
        return answer

    def give_up(self, job_id: int, name: str) -> bool:
        """Make a job, array or task whose number another job had before a placeholder, if all of it waits; returns whether it did.

        A node that has seen the id would refuse the job, and be drained. Raises ResourceManagerError.
        """
        states = [job.state for job in self.manager.queue([name]) if job_id in (job.job_id, arrays.number(job.job_id))]
        if not states or any(state is not JobState.PENDING for state in states):
            return False
        self.manager.make_placeholder(job_id, self.placeholder)
        return True

    def skip_ids(self, next_id: int) -> None:
        """Use up the ids from `next_id` on that a killed controller would give out a second time.

        The jobs that do so stay, held, until the nodes have registered: a node that reports a job which waits according to
        the controller is told to kill it, but not one which was cancelled. Raises ResourceManagerError.
        """
        while next_id <= max(self.history.highest_id, self.other_ids()):
            next_id = self.manager.use_up_id(self.placeholder) + 1

    def _look_up(self, name: str, row_name: str) -> int | None:
        """Number of the job or array of this name, if the manager knows it; `row_name`: of the job, or of a task of the array."""
        earlier = self.earlier_ids()
        queued = [arrays.number(job.job_id) for job in self.manager.queue([name], ended=True) if job.job_id not in earlier]
        if queued:
            return min(queued)
        return next((arrays.number(job.job_id) for job in self.read_completed() if job.name == row_name), None)

    def dependency(self, row: PlanRow) -> str:
        """The dependency of a job, with the ids that the other jobs have now."""
        known = self.history.job_ids
        return with_ids(row.dependency, {number: known[self._numbers[number]] for number in targets(row.dependency)})

    def waits_for(self, row: PlanRow) -> Set[int]:
        """Indices of the jobs that a job's dependency names."""
        return {self._numbers[number] for number in targets(row.dependency)}

    def _submission(self, row: PlanRow, record: Path | None = None, plain: bool = False) -> Submission:
        """The submission of a job, if `plain` without its requests except instants; `record` is where its program writes, the run's
        log by default."""
        cost, asked = self.launch_cost(), row.asked
        taken_off = self.clock.real_to_virtual(cost.seconds(cost.nodes_of(row.processors, row.nodes or asked.nodes or None)))
        runtime = max(0.0, row.runtime - taken_off)
        never = row.dependency == NEVER
        return Submission(
            name=row.name,
            command=self.kind.command_line(row, self.clock.virtual_at(self.waker.time.now_ns()) / 1e9, runtime, record),
            processors=row.processors,
            nodes=row.nodes,
            limit_minutes=row.limit_minutes,
            partition=row.partition,
            directory=self.settings.instance,
            account=row.account,
            owner=row.owner,
            qos=row.qos,
            memory=row.memory,
            dependency="" if never else self.dependency(row),
            delay=math.ceil(row.cancel_after or 0.0) + NEVER_BEGINS if never else math.ceil(asked.begin),
            request=Request(hold=asked.hold) if plain else replace(asked, begin=0.0),
        )

    def is_of_known_array(self, job_id: int) -> bool:
        """Whether another task of the array of this task is journalled."""
        known = self.history.job_ids.values()
        task = arrays.array_and_task(job_id)
        return task is not None and any(other >= arrays.task_id(task[0], 0) and arrays.number(other) == task[0] for other in known)

    # ---- what a launch costs ----

    def launch_cost(self) -> LaunchCost:
        """The cost by which the programs of this run's jobs are shortened (launch_cost.py); nothing before the run's start."""
        if self.history.start is None:
            return LaunchCost(None)
        if self._launch_cost is None:
            self._launch_cost = LaunchCost.of_record(self.history.start["launch_cost"])
        return self._launch_cost

    def measure_launch_cost(self) -> LaunchCost:
        """What a launch costs: as run.json says, or measured now. A cluster in real time needs no such figure."""
        if self.clock.speed <= 1:
            return launch_cost.REAL_TIME
        if self.settings.launch_cost is not None:
            return LaunchCost.of_record(self.settings.launch_cost)
        self.status.message = "measuring what a launch costs"
        cost = self.retry_until_answered(self._measure_launch_cost, "measuring what a launch costs: ")
        self.status.message = ""
        return cost

    def _measure_launch_cost(self) -> LaunchCost:
        machine = self.manager.nodes()
        processors = machine.processors / max(1, machine.count)
        probes = [self._probe(1, None, 1, launch_cost.NARROW_JOBS, "")]
        wide = self._wide_row(LaunchCost(None, processors=processors), machine.count // 2)
        if wide is not None:
            nodes, row = wide
            whole = None if row.nodes is None else nodes
            probes.append(self._probe(math.ceil(nodes * processors), whole, nodes, launch_cost.WIDE_JOBS, row.partition))
        completions = self.manager.completions(self.manager.completions_size())
        costs = launch_cost.measure(self.manager, completions, self.clock, probes, self.waker.sleep)
        unknown = [f"{probe.nodes}" for probe, cost in zip(probes, costs) if cost is None]
        reason = f"launches on {' and on '.join(unknown)} nodes could not be measured" if unknown else ""
        return LaunchCost(costs[0], costs[1] if wide is not None else None, processors, reason)

    def _wide_row(self, cost: LaunchCost, most: int) -> tuple[int, PlanRow] | None:
        """The number of nodes of the jobs that are taken for wide ones, and a job of the plan like them; None if none is wide.

        Nine tenths of the plan's jobs are at most as wide. It is at most `most`, so that two of them fit on the machine.
        """
        rows = sorted(self.plan, key=lambda row: cost.nodes_of(row.processors, row.nodes))
        if not rows:
            return None
        row = rows[(len(rows) - 1) * 9 // 10]
        nodes = min(cost.nodes_of(row.processors, row.nodes), most)
        return (nodes, row) if nodes > 1 else None

    def _probe(self, processors: int, whole_nodes: int | None, nodes: int, jobs: int, partition: str) -> Probe:
        limit = launch_cost.LIMIT_MINUTES

        def submission(runtime: float) -> Submission:
            name = f"{self.settings.run}{LAUNCH_SUFFIX}"
            row = PlanRow(0, 0, 0.0, processors, whole_nodes, runtime, limit, None, partition, name)
            return self._submission(row, self.folder / "launch.log")

        return Probe(nodes, jobs, submission)
