"""Changes the size of jobs, and notes in the journal what was done."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ....base.hostlist import expand
from ....rm.api import JobState, ResourceManagerError, Unavailable
from ..sizes import SizedJob, Sizes
from .journal import Journal
from .limits import AllowedWork
from .policy import EXPAND, SHRINK
from .queue import LAST_SECONDS, resizer_name

THRESHOLD = 40
"""Virtual seconds after which an expansion without its nodes is aborted; the longest one of the paper takes 40.4 s."""
DONE, ABORTED, LOST = "done", "aborted", "lost"
RETRY_AFTER, RETRY_FOR = 5.0, 1800.0
"""Virtual seconds between two questions to a controller that does not answer, and after which it is given up."""


@dataclass(frozen=True)
class Result:
    """How a change of size went: the job afterwards (None: it has ended), and why it was not done."""

    outcome: str
    job: SizedJob | None
    reason: str = ""
    used: int | None = None


class Actions:
    """Changes sizes in one cluster. Several threads may change different jobs at once."""

    def __init__(self, sizes: Sizes, journal: Journal, allowed: dict[int, AllowedWork]) -> None:
        self._sizes, self._journal, self._allowed = sizes, journal, allowed

    def expand(self, job: SizedJob, to: int, asked: float, decided: float) -> Result:
        """Let a job have `to` nodes."""
        if job.left is not None and job.left < LAST_SECONDS:
            return Result(ABORTED, job, "the job is near its time limit")
        allowed = self._begin(EXPAND, job, to, asked, decided)
        name, reason = resizer_name(job.job_id), ""
        try:
            allocation = self._sizes.take_nodes(job, to - job.nodes, name, THRESHOLD)
            if self._is_running(job.job_id):
                self._sizes.merge(allocation)
            else:
                reason = "the job has ended"
        except ResourceManagerError as error:
            reason = str(error)
        return self._conclude(job, to, reason, allowed, name)

    def shrink(self, job: SizedJob, to: int, asked: float, decided: float, beneficiary: int | None) -> Result:
        """Let a job have only `to` of its nodes, `kept_nodes` of it, and give a waiting job the highest priority."""
        allowed = self._begin(SHRINK, job, to, asked, decided)
        reason = ""
        try:
            if beneficiary is not None:
                self._put_first(beneficiary)
            limit = allowed.new_limit(job.used, to, job.limit) if allowed and job.limit is not None else None
            self._sizes.keep_nodes(job.job_id, kept_nodes(job, to), limit)
        except ResourceManagerError as error:
            reason = str(error)
        return self._conclude(job, to, reason, allowed, "")

    def job(self, job_id: int) -> SizedJob | None:
        """The job now; a controller that does not answer is asked again. None: it is unknown. Raises ResourceManagerError."""
        until = time.time() + RETRY_FOR
        while True:
            try:
                return self._sizes.job(job_id)
            except Unavailable:
                if time.time() > until:
                    raise
            time.sleep(RETRY_AFTER)

    def _begin(self, kind: str, job: SizedJob, to: int, asked: float, decided: float) -> AllowedWork | None:
        allowed = self._allowed.get(job.job_id)
        if job.limit is not None and (allowed is None or allowed.start != job.start):
            allowed = self._allowed[job.job_id] = AllowedWork(job.start, job.limit, job.nodes, job.nodes)
        entry = {"begun": kind, "job": job.job_id, "from": job.nodes, "to": to, "asked": asked, "decided": decided}
        self._journal.add({**entry, "start": job.start, "limit": job.limit})
        return allowed if job.limit is not None else None

    def _conclude(self, job: SizedJob, to: int, reason: str, allowed: AllowedWork | None, helper: str) -> Result:
        """The result of the change. The job in the resource manager decides it, not the answer of a command."""
        try:
            now = self.job(job.job_id)
            is_there = now is not None and now.state in (JobState.RUNNING, JobState.SUSPENDED)
            if now is None or not is_there or now.nodes != to:
                if helper:
                    self._sizes.cancel_named(helper)
                if not is_there and helper:
                    self._sizes.free_lost_nodes()
        except ResourceManagerError as error:
            return Result(LOST, None, str(error))
        if now is None or not is_there:
            return Result(LOST, None, reason or "the job has ended")
        if now.nodes != to:
            return Result(ABORTED, now, reason or f"the job has {now.nodes} nodes")
        if allowed:
            allowed.resize(now.used, to)
        return Result(DONE, now, used=now.used)

    def _is_running(self, job_id: int) -> bool:
        job = self._sizes.job(job_id)
        return job is not None and job.state is JobState.RUNNING

    def _put_first(self, job_id: int) -> None:
        try:
            self._sizes.put_first(job_id)
        except Unavailable:
            raise
        except ResourceManagerError:
            pass  # it has started, or was cancelled


def kept_nodes(job: SizedJob, to: int) -> list[str]:
    """The nodes that a job keeps when it shrinks: the one of its script, and those with the lowest numbers."""
    names = node_names(job)
    first = [job.first_host] if job.first_host in names else []
    return [*first, *(name for name in names if name not in first)][:to]


def node_names(job: SizedJob) -> list[str]:
    """The names of a job's nodes."""
    return list(expand(job.hosts)) if job.hosts else []
