"""Agreement between the journal and the resource manager after either was killed: a comparison by the jobs' names.

What was seen of Slurm 22.05 when slurmctld is killed and started again, and what is done about it:
* Jobs that it accepted in its last 5 s are gone, but those that had started go on on their nodes ("orphans") until the nodes
  register, some 3 s later, and are killed then. So forgotten jobs are submitted again only when the nodes have registered:
  an orphan that ended before that was played, and is not.
* Jobs that it remembers as waiting may have started, or even ended, already, and would be played a second time, beside
  their orphan: nothing may start until the nodes have registered, and what has ended by then is cancelled.
* It hands out ids a second time, and a node that has seen an id refuses it and is drained. Ids are skipped up to the
  highest, by held jobs that are cancelled when the nodes have registered.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..jobs.sigsleep_log import Record, scan
from ..rm.slurm.commands import ENDED_FOR_GOOD, CompletedJob, QueuedJob
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


@dataclass(frozen=True)
class Comparison:
    """Where the journal and the resource manager disagree, by index of the plan or id of the manager."""

    missing: list[int]
    """Journalled, and nobody knows of them: to be submitted again, in this order."""
    found: dict[int, int]
    """Known to the resource manager, not journalled under that id: index to id."""
    surplus: list[tuple[int, int]]
    """Second copies of a job that are still active, (index, id): to be cancelled."""
    stale: list[tuple[int, int]]
    """The same of active jobs that had ended before the manager forgot it: to be cancelled, or they would be played twice."""
    unrecorded: list[int]
    """Played to the end according to their own record only: the manager forgot them, and will never say that they ended."""

    @property
    def clean(self) -> bool:
        """Whether there is nothing to put right."""
        return not (self.missing or self.found or self.surplus or self.stale)


def compare(
    journalled: Mapping[int, int],
    indices: Mapping[str, int],
    ended_before: Iterable[CompletedJob],
    queue: Sequence[QueuedJob],
    ended_after: Iterable[CompletedJob],
    played: Mapping[int, float],
) -> Comparison:
    """Compare the journal with the resource manager, by the jobs' names.

    `journalled`: the id of each submitted job by index; `indices`: index by name, of the whole plan. The completion log is
    read before the queue (`ended_before`: what is in it and active all the same had ended once) and after it (`ended_after`:
    whoever left the queue is in it). `played`: virtual second at which a job's program recorded that it was done, by index.
    """
    over = {indices[job.name] for job in ended_before if job.name in indices and job.state in ENDED_FOR_GOOD}
    known: dict[int, int] = {indices[job.name]: job.slurm_id for job in ended_after if job.name in indices}
    active: dict[int, list[QueuedJob]] = {}
    for job in queue:
        if job.name not in indices:
            continue
        known[indices[job.name]] = job.slurm_id
        if job.active and job.state != "CG":
            active.setdefault(indices[job.name], []).append(job)

    stale: list[tuple[int, int]] = []
    surplus: list[tuple[int, int]] = []
    found: dict[int, int] = {}
    for index, copies in sorted(active.items()):
        done = [job for job in copies if index in over or _began_after(job, played.get(index))]
        stale += [(index, job.slurm_id) for job in done]
        alive = sorted(job.slurm_id for job in copies if job not in done)
        if alive:
            keep = journalled[index] if journalled.get(index) in alive else alive[0]
            surplus += [(index, slurm_id) for slurm_id in alive if slurm_id != keep]
            known[index] = keep
    for index, slurm_id in sorted(known.items()):
        moved = index in active and slurm_id != journalled.get(index) and (index, slurm_id) not in stale
        if index not in journalled or moved:
            found[index] = slurm_id
    unknown = [index for index in sorted(journalled) if index not in known]
    missing = [index for index in unknown if index not in played]
    unrecorded = [index for index in unknown if index in played]
    return Comparison(missing, found, surplus, stale, unrecorded)


def _began_after(job: QueuedJob, played_at: float | None) -> bool:
    """Whether this is a new run of a job that had been played to its end: it waits, or started later than that."""
    if played_at is None:
        return False
    return job.state == "PD" or (job.start is not None and job.start > played_at)


class PlayedJobs:
    """The jobs whose program recorded on this host that it was done, from sigsleep.log as it grows."""

    def __init__(self, path: Path, numbers: Mapping[int, int]) -> None:
        self._path, self._numbers, self._offset = path, numbers, 0
        self._ends: dict[int, float] = {}
        self.twice: set[int] = set()
        """Indices of those that recorded it more than once: Slurm itself ran them again before anybody could prevent it."""

    def read(self) -> dict[int, float]:
        """Virtual second of the end of each, by index in the plan (`numbers`: index by the job's number)."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return self._ends
        found = list(scan(data))
        # Bytes at the end that are no record yet may become one.
        torn = 0 if not found or isinstance(found[-1], Record) else found[-1].length
        self._offset += len(data) - torn
        for job in found:
            if isinstance(job, Record) and job.completed and job.id in self._numbers:
                index = self._numbers[job.id]
                if index in self._ends:
                    self.twice.add(index)
                self._ends.setdefault(index, job.end_ns / 1e9)
        return self._ends


class Recovery:
    """Notices that the controller was restarted, and puts right what differs then, or after the replay itself was."""

    def __init__(self, submitter: Submitter) -> None:
        self._all = submitter
        numbers = {row.id: row.index for row in submitter.plan}
        self.played = PlayedJobs(Path(submitter.settings.sigsleep_log), numbers)
        self._unsettled_since: float | None = None
        self._registered_at = math.inf
        self.again_at = math.inf
        """Real instant of the next comparison."""
        self.compared_at = 0.0
        """Real instant at which the last comparison began."""
        self.unrecorded: frozenset[int] = frozenset()
        """Indices of jobs that have ended according to their own record only."""

    def unsettle(self) -> None:
        """Something was killed: wait for the nodes before jobs are submitted again."""
        self._unsettled_since, self._registered_at = time.time(), math.inf

    def compare(self) -> bool:
        """Compare, and put right what differs; whether nothing did and nothing is being waited for.

        Raises Failed or Stopped.
        """
        began = time.time()
        self._all.doubtful = False
        self._notice_restart()
        settled = self._settled()
        found = self._all.patiently(self._look)
        self._adopt(found.found)
        removed = [slurm_id for _, slurm_id in found.surplus + found.stale]
        if removed:
            self._all.patiently(lambda: self._all.slurm.cancel(removed))
        missing = found.missing if settled else []
        if settled and self._unsettled_since is not None:
            self._all.patiently(lambda: self._all.slurm.cancel_named(self._all.placeholder))
        for index in missing:
            self._all.waker.check()
            self._all.submit(self._all.plan[index], "resubmitted")
        if missing or found.found or removed:
            log.warning(
                "compared: %d submitted again, %d found, %d second copies and %d new runs of ended jobs cancelled",
                *(len(jobs) for jobs in (missing, found.found, found.surplus, found.stale)),
            )
            self._all.journal.append(
                "compared",
                real=time.time(),
                resubmitted=missing,
                found=sorted(found.found),
                surplus=found.surplus,
                stale=found.stale,
            )
        if settled:
            self._all.patiently(self._renew_dependencies)
            self._all.patiently(self.open_partitions)
        self.unrecorded = frozenset(found.unrecorded)
        self.compared_at = began
        self._plan_next(settled, found.clean)
        return settled and found.clean

    def _notice_restart(self) -> None:
        submitter = self._all
        controller = submitter.patiently(submitter.slurm.controller)
        if controller.boot_time != submitter.history.boot_time:
            self._close_partitions()
            submitter.patiently(lambda: submitter.skip_ids(controller.next_id))
            now = time.time()
            since = submitter.answered.get(submitter.history.boot_time, now)
            submitter.journal.append("restarted", real=now, since=since, boot_time=controller.boot_time)
            log.warning("the controller was restarted")
            self.unsettle()

    def _close_partitions(self) -> None:
        """Let no job start. The journal comes first, so that whoever goes on with the run opens them again."""
        submitter = self._all
        if not submitter.history.closed:
            partitions = submitter.patiently(submitter.slurm.open_partitions)
            submitter.journal.append("closed", partitions=partitions, real=time.time())
        submitter.patiently(lambda: submitter.slurm.set_partitions(submitter.history.closed, "DOWN"))

    def _renew_dependencies(self) -> None:
        """Jobs that were submitted while others were lost wait for ids that nobody has, which is for nothing: tell those that still
        wait the new ids, before anything may start. Raises SlurmError."""
        submitter, history = self._all, self._all.history
        if not history.closed or not history.moved:
            return
        waiting = {job.slurm_id for job in submitter.slurm.queue() if job.state == "PD"}
        for row in submitter.plan:
            slurm_id = history.slurm_ids.get(row.index)
            if slurm_id in waiting and submitter.waits_for(row) & history.moved:
                submitter.slurm.set_dependency(slurm_id, submitter.dependency(row))

    def open_partitions(self) -> None:
        """Let jobs start again, if they may not. Raises SlurmError."""
        submitter = self._all
        if submitter.history.closed:
            submitter.slurm.set_partitions(submitter.history.closed, "UP")
            submitter.journal.append("opened", real=time.time())

    def _settled(self) -> bool:
        """Whether all nodes have registered with the controller a moment ago, if that matters now."""
        if self._unsettled_since is None:
            return True
        nodes = self._all.patiently(self._all.slurm.nodes)
        now = time.time()
        if not nodes.groups["unknown"] or now > self._unsettled_since + REGISTRATION_TIMEOUT:
            self._registered_at = min(self._registered_at, now)
        return now >= self._registered_at + KILLING

    def _plan_next(self, settled: bool, clean: bool) -> None:
        now = time.time()
        if not settled:
            self.again_at = now + LOOK_INTERVAL
        elif self._unsettled_since is not None or not clean:
            self._unsettled_since = None
            self.again_at = now + SETTLE
        else:
            self.again_at = math.inf

    def _look(self) -> Comparison:
        """Read everything that the comparison needs, in the order that it needs. Raises SlurmError."""
        submitter = self._all
        ended_before = list(submitter.read_completed())
        earlier = submitter.earlier_ids()
        queue = [job for job in submitter.slurm.queue(ended=True) if job.slurm_id not in earlier]
        return compare(
            submitter.history.slurm_ids,
            submitter.indices,
            ended_before,
            queue,
            submitter.read_completed(),
            self.played.read(),
        )

    def _adopt(self, found: Mapping[int, int]) -> None:
        """Journal jobs that Slurm has and the journal has not, or not under this id."""
        submitter = self._all
        history = submitter.history
        for index, slurm_id in found.items():
            if index != submitter.next_index() and index not in history.slurm_ids:
                name = submitter.plan[index].name
                raise Failed(f"Slurm knows {name}, which this run has not come to: is RUN used twice?")
            if slurm_id <= history.highest_id and self._give_up(index, slurm_id):
                continue  # it is submitted anew, as the next one or as a missing one
            # It was accepted at about the last instant at which the replay is known to have been alive.
            real = history.submitted_at.get(index, history.last_sign)
            submitter.record("submitted", index, slurm_id, real, real, 0, found=True)

    def _give_up(self, index: int, slurm_id: int) -> bool:
        name = self._all.plan[index].name
        return self._all.patiently(lambda: self._all.give_up(slurm_id, name))
