"""Compares the journal with the resource manager, by the jobs' names, after either was killed, and corrects the differences.

A killed controller may come back with a state that is some seconds old. The rules follow from what Slurm 22.05 does then:
* It has forgotten the jobs that it accepted in its last 5 s. Those of them that had started run on ("orphans") until their nodes
  register, some 3 s later, and are killed then. Forgotten jobs are submitted again only when the nodes have registered, and only
  if they had not ended by themselves before.
* Jobs that it remembers as waiting may have started, or even ended, and would be run a second time beside their orphan. So no
  job may start until the nodes have registered, and jobs that have ended by then are cancelled.
* It has forgotten cancellations of that time: such jobs wait or run as before, and are cancelled again. Those that wait are
  cancelled when the nodes have registered, as all waiting jobs: an orphan goes on if its job was cancelled just before.
* It gives out ids a second time. A node that has seen an id refuses it and is drained. So ids up to the highest one are used up by
  held jobs, which are cancelled when the nodes have registered.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from ..jobs import arrays
from ..jobs.kinds import JobKind
from ..rm.api import NOT_ENDED, CompletedJob, JobState, QueuedJob
from .actions import RESUBMITTED, Submit
from .details import keep_details, kept_details
from .process import Failed
from .submitter import Submitter

log = logging.getLogger("replay")

REGISTRATION_TIMEOUT = 60.0
"""Real seconds after which nodes that have not registered with a new controller are no longer waited for."""
KILLING = 1.0
"""Real seconds from the last registration until a job that its node was told to kill has surely ended, or left its record."""
SETTLE = 10.0
"""Real seconds from then until everything is compared once more: jobs that were being killed have ended."""
LOOK_INTERVAL = 0.5
"""Real seconds between two comparisons while the nodes register."""
UNRECORDED, LOST = "UNRECORDED", "LOST"


@dataclass(frozen=True)
class Comparison:
    """Differences between the journal and the resource manager, by index of the plan or id of the manager."""

    missing: list[int]
    """Journalled, but in no record: to be submitted again, in this order."""
    unjournalled: dict[int, int]
    """Known to the resource manager, not journalled under that id: index to id."""
    surplus: list[tuple[int, int]]
    """Second copies of a job that are still active, (index, id): to be cancelled."""
    stale: list[tuple[int, int]]
    """Active jobs that had ended before the manager forgot it, (index, id): to be cancelled, or they would run twice."""
    unrecorded: list[int]
    """Ended, but without a line in the completion log: the queue has them as ended, or only their own record has their end."""
    revived: list[tuple[int, int]] = field(default_factory=list)
    """Active jobs whose cancellation the journal has, (index, id): to be cancelled, or cancelled again."""
    waiting: Set[int] = frozenset()
    """Ids of those of them, and of the second copies and new runs, that wait."""

    @property
    def clean(self) -> bool:
        """Whether there is nothing to correct."""
        return not (self.missing or self.unjournalled or self.surplus or self.stale or self.revived)

    def without_waiting(self) -> Comparison:
        """Return this comparison without the jobs to cancel that wait."""
        lists = (self.surplus, self.stale, self.revived)
        surplus, stale, revived = ([job for job in jobs if job[1] not in self.waiting] for jobs in lists)
        return replace(self, surplus=surplus, stale=stale, revived=revived)


def compare(
    journalled: Mapping[int, int],
    indices: Mapping[str, int],
    ended_before: Iterable[CompletedJob],
    queue: Sequence[QueuedJob],
    ended_after: Iterable[CompletedJob],
    played: Mapping[int, float],
    cancelled: Set[int] = frozenset(),
) -> Comparison:
    """Compare the journal with the resource manager, by the jobs' names.

    `journalled`: the id of each submitted job, by index. `indices`: the index of each job of the plan, by name. The completion log
    is read before and after the queue: a job of `ended_before` that is active in the queue had ended and runs again; `ended_after`
    has all jobs that have left the queue. `played`: the virtual second at which a job's program recorded its end, by index.
    `cancelled`: indices of the jobs whose cancellation the journal has since their last submission.
    """
    over = {indices[job.name] for job in ended_before if job.name in indices and job.ended_for_good}
    known: dict[int, int] = {indices[job.name]: job.job_id for job in ended_after if job.name in indices}
    recorded, active_indices, ended_in_queue = known.keys() | set(), set(), set()
    active: dict[int, list[QueuedJob]] = {}
    for job in queue:
        if job.name not in indices:
            continue
        known[indices[job.name]] = job.job_id
        if job.active:
            active_indices.add(indices[job.name])
        elif job.job_id == journalled.get(indices[job.name]):
            ended_in_queue.add(indices[job.name])
        if job.active and job.state is not JobState.COMPLETING:
            active.setdefault(indices[job.name], []).append(job)

    stale: list[tuple[int, int]] = []
    surplus: list[tuple[int, int]] = []
    revived: list[tuple[int, int]] = []
    unjournalled: dict[int, int] = {}
    for index, copies in sorted(active.items()):
        done = [job for job in copies if index in over or _began_after(job, played.get(index))]
        stale += [(index, job.job_id) for job in done]
        alive = sorted(job.job_id for job in copies if job not in done)
        if alive:
            keep = journalled[index] if journalled.get(index) in alive else alive[0]
            surplus += [(index, job_id) for job_id in alive if job_id != keep]
            revived += [(index, keep)] if index in cancelled else []
            known[index] = keep
    for index, job_id in sorted(known.items()):
        moved = index in active and job_id != journalled.get(index) and (index, job_id) not in stale
        if index not in journalled or moved:
            unjournalled[index] = job_id
    unknown = [index for index in sorted(journalled) if index not in known]
    missing = [index for index in unknown if index not in played]
    unrecorded = sorted({*(index for index in unknown if index in played), *(ended_in_queue - recorded - active_indices)})
    pending = {job.job_id for copies in active.values() for job in copies if job.state is JobState.PENDING}
    waiting = pending & {job_id for _, job_id in surplus + stale + revived}
    return Comparison(missing, unjournalled, surplus, stale, unrecorded, revived, waiting)


def _began_after(job: QueuedJob, played_at: float | None) -> bool:
    """Whether this is a new run of a job whose program had run to its end: it waits, or started later than that."""
    if played_at is None:
        return False
    return job.state is JobState.PENDING or (job.start is not None and job.start > played_at)


class PlayedJobs:
    """The jobs that ran to their ends on this host, from the record of their programs as it grows."""

    def __init__(self, kind: JobKind, numbers: Mapping[int, int]) -> None:
        self._kind, self._numbers, self._offset = kind, numbers, 0
        self._ends: dict[int, float] = {}
        self.twice: set[int] = set()
        """Indices of those that recorded it more than once: the manager ran them again before the recovery could prevent it."""

    def read(self) -> dict[int, float]:
        """Virtual second of the end of each, by index in the plan (`numbers`: index by the job's number)."""
        try:
            with self._kind.record.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return self._ends
        played, length = self._kind.played(data)
        self._offset += length
        for job in played:
            if job.number in self._numbers:
                index = self._numbers[job.number]
                if index in self._ends:
                    self.twice.add(index)
                self._ends.setdefault(index, job.end)
        return self._ends


class Recovery:
    """Notices a restart of the controller, and corrects what differs after it or after a restart of the replay."""

    def __init__(self, submitter: Submitter) -> None:
        self._all = submitter
        numbers = {row.id: row.index for row in submitter.plan}
        self.played = PlayedJobs(submitter.kind, numbers)
        self._registered_at = math.inf
        self.again_at = math.inf
        """Real instant of the next comparison."""
        self.compared_at = 0.0
        """Real instant at which the last comparison began."""
        self.unrecorded: dict[int, str] = {}
        """State of the jobs that have ended without a line in the completion log, by index: what the manager says otherwise, or
        UNRECORDED where only their own record has their end, or LOST where no record has it."""

    def unsettle(self) -> None:
        """The controller or the replay was killed: wait for the nodes before jobs are submitted again."""
        self._all.unsettled_since, self._registered_at = self._all.now(), math.inf

    def compare(self) -> bool:
        """Compare, and correct what differs; returns whether nothing did and no node is waited for.

        Raises Failed or Stopped.
        """
        began = self._all.now()
        self._all.manager.expect(())
        self._all.doubtful = False
        self._notice_restart()
        settled = self._settled()
        comparison = self._all.retry_until_answered(self._look)
        if not settled:
            comparison = comparison.without_waiting()
        lost = [index for index in comparison.missing if not self._may_be_forgotten(index)]
        comparison = replace(comparison, missing=[index for index in comparison.missing if index not in lost])
        self._adopt(comparison.unjournalled)
        removed = [job_id for _, job_id in comparison.surplus + comparison.stale]
        if removed:
            # Before they are cancelled: a replay that is killed meanwhile knows whose ends these are.
            self._all.journal.append("removing", real=self._all.now(), surplus=comparison.surplus, stale=comparison.stale)
            self._all.retry_until_answered(lambda: self._all.manager.cancel(removed))
        revived = [job_id for _, job_id in comparison.revived]
        if revived:
            log.warning("cancelling %d jobs whose cancellation was forgotten or put off", len(revived))
            self._all.retry_until_answered(lambda: self._all.manager.cancel(revived))
        missing = comparison.missing if settled else []
        if settled and self._all.unsettled_since is not None:
            self._all.retry_until_answered(lambda: self._all.manager.cancel_named(self._all.placeholder))
        for index in missing:
            self._all.waker.check()
            self._all.note(self._all.submit(self._all.plan[index], RESUBMITTED))
        if missing or comparison.unjournalled or removed:
            log.warning(
                "compared: %d submitted again, %d found, %d second copies and %d new runs of ended jobs cancelled",
                *(len(jobs) for jobs in (missing, comparison.unjournalled, comparison.surplus, comparison.stale)),
            )
            self._all.journal.append(
                "compared",
                real=self._all.now(),
                resubmitted=missing,
                found=sorted(comparison.unjournalled),
                surplus=comparison.surplus,
                stale=comparison.stale,
            )
        if settled:
            self._all.retry_until_answered(self._renew_dependencies)
            self._all.retry_until_answered(self.open_partitions)
        self._account_for(comparison.unrecorded, lost)
        self.compared_at = began
        self._plan_next(settled, comparison.clean)
        return settled and comparison.clean

    def _may_be_forgotten(self, index: int) -> bool:
        """Whether the controller was restarted after the submission of a job, or at the same instant, as an event clock stands
        between the two: else it forgets the job only after its end."""
        submitted_at = self._all.history.submitted_at[index]
        return any(restart["real"] >= submitted_at for restart in self._all.history.restarts)

    def _account_for(self, unrecorded: Sequence[int], lost: Sequence[int]) -> None:
        """Determine the final states of jobs without a line in the completion log, and save the manager's details of these jobs."""
        states = {**dict.fromkeys(unrecorded, UNRECORDED), **dict.fromkeys(lost, LOST)}
        states.update((index, state) for index, state in self.unrecorded.items() if index in states)
        new = {self._all.history.job_ids[index]: index for index in states if index not in self.unrecorded}
        if new:
            manager, folder = self._all.manager, self._all.folder
            asked = self._all.retry_until_answered(lambda: manager.ended(sorted(new)))
            keep_details(folder, [job for job in asked if job.job_id in new])
            for job in kept_details(folder, manager.records):
                index = new.get(job.job_id)
                if index is not None and job.name == self._all.plan[index].name and job.state not in NOT_ENDED:
                    states[index] = job.state
            for index in new.values():
                log.warning("job %d has no line in the completion log: %s", self._all.plan[index].id, states[index])
        self.unrecorded = states

    def _notice_restart(self) -> None:
        submitter = self._all
        controller = submitter.retry_until_answered(submitter.manager.controller)
        if controller.boot_time != submitter.history.boot_time:
            self._close_partitions()
            submitter.retry_until_answered(lambda: submitter.skip_ids(controller.next_id))
            now = self._all.now()
            since = submitter.answered.get(submitter.history.boot_time, now)
            by_event = None
            if submitter.player is not None:
                by_event, ended_at = submitter.player.controller_ended()
                # The last answer is older, or one of the new controller.
                since = since if by_event is None else ended_at
                submitter.player.repeat_forgotten(since)
            submitter.journal.append("restarted", real=now, since=since, boot_time=controller.boot_time, by_event=by_event)
            log.warning("the controller was restarted")
            self.unsettle()

    def _close_partitions(self) -> None:
        """Close the partitions, so that no job starts. The journal has it first: a replay that goes on with the run opens them."""
        submitter = self._all
        if not submitter.history.closed:
            partitions = submitter.retry_until_answered(submitter.manager.open_partitions)
            submitter.journal.append("closed", partitions=partitions, real=submitter.now())
        submitter.retry_until_answered(lambda: submitter.manager.set_partitions(submitter.history.closed, are_open=False))

    def _renew_dependencies(self) -> None:
        """Give waiting jobs the present ids of the jobs that they depend on, before any job may start: jobs that were submitted
        while others were lost wait for ids that no job has. Raises ResourceManagerError."""
        submitter, history = self._all, self._all.history
        if not history.closed or not history.moved:
            return
        waiting = {job.job_id for job in submitter.manager.queue() if job.state is JobState.PENDING}
        for row in submitter.plan:
            job_id = history.job_ids.get(row.index)
            if job_id in waiting and submitter.waits_for(row) & history.moved:
                submitter.manager.set_dependency(job_id, submitter.dependency(row))

    def open_partitions(self) -> None:
        """Open the partitions again, if the replay has closed them. Raises ResourceManagerError."""
        submitter = self._all
        if submitter.history.closed:
            submitter.manager.set_partitions(submitter.history.closed, are_open=True)
            submitter.journal.append("opened", real=submitter.now())

    def _settled(self) -> bool:
        """Whether all nodes have registered with the controller a moment ago, if that matters now."""
        if self._all.unsettled_since is None:
            return True
        nodes = self._all.retry_until_answered(self._all.manager.nodes)
        now = self._all.now()
        if not nodes.groups["unknown"] or now > self._all.unsettled_since + REGISTRATION_TIMEOUT:
            self._registered_at = min(self._registered_at, now)
        return now >= self._registered_at + KILLING

    def _plan_next(self, settled: bool, clean: bool) -> None:
        now = self._all.now()
        if not settled:
            self.again_at = now + LOOK_INTERVAL
        elif self._all.unsettled_since is not None or not clean:
            self._all.unsettled_since = None
            self.again_at = now + SETTLE
        else:
            self.again_at = math.inf

    def _look(self) -> Comparison:
        """Read everything that the comparison needs, in the order that it needs. Raises ResourceManagerError."""
        submitter = self._all
        copies = submitter.history.copies
        ended_before = [job for job in submitter.read_completed() if job.job_id not in copies]
        earlier = submitter.earlier_ids()
        queue = [job for job in submitter.manager.queue(ended=True) if job.job_id not in earlier]
        return compare(
            submitter.history.job_ids,
            submitter.indices,
            ended_before,
            queue,
            submitter.read_completed(),
            self.played.read(),
            submitter.history.cancelled,
        )

    def _adopt(self, unjournalled: Mapping[int, int]) -> None:
        """Journal jobs that the manager has and the journal has not, or not under this id."""
        submitter = self._all
        history = submitter.history
        for index, job_id in unjournalled.items():
            is_of_known_array = submitter.is_of_known_array(job_id)
            following = submitter.timeline.next_submission()
            is_next = following is not None and following.index == index
            if not is_next and index not in history.job_ids and not is_of_known_array:
                name = submitter.plan[index].name
                raise Failed(f"the resource manager knows {name}, which this run has not submitted yet: is RUN used twice?")
            is_reused = arrays.number(job_id) <= history.highest_id and not is_of_known_array
            if is_reused and self._give_up(index, job_id):
                continue  # it is submitted again, as the next one or as a missing one
            # It was accepted at about the last instant at which the replay is known to have been alive.
            real = history.submitted_at.get(index, history.last_sign)
            submitter.note(submitter.submitted([(index, job_id)], Submit.event, real, real, 0, found=True))

    def _give_up(self, index: int, job_id: int) -> bool:
        row = self._all.plan[index]
        is_task = arrays.array_and_task(job_id) is not None
        name = arrays.array_name(f"{self._all.settings.run}.{row.array}") if is_task else row.name
        return self._all.retry_until_answered(lambda: self._all.give_up(job_id, name))
