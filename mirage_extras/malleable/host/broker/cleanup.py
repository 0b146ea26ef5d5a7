"""What a killed broker, or a killed controller, leaves behind: allocations for expansions that no request waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ....rm.api import JobState, ResourceManagerError
from ..sizes import Overview, SizedJob, Sizes
from .journal import Entry
from .limits import AllowedWork
from .queue import helped_job


@dataclass
class History:
    """What the journal says of jobs. Damaged entries are left out."""

    sizes: dict[int, int] = field(default_factory=dict)
    """The size to which each job changed last."""
    allowed: dict[int, AllowedWork] = field(default_factory=dict)
    under_way: dict[int, int] = field(default_factory=dict)
    """The size to which a job was about to change, by job."""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> History:
        """The history in a journal's entries."""
        history = cls()
        for entry in entries:
            try:
                history._add(entry)
            except (KeyError, TypeError, ValueError):
                continue
        return history

    def _add(self, entry: Entry) -> None:
        if "begun" in entry:
            job, limit, nodes = int(entry["job"]), entry["limit"], int(entry["from"])
            known = self.allowed.get(job)
            if limit is not None and (known is None or known.start != entry["start"]):
                self.allowed[job] = AllowedWork(entry["start"], int(limit), nodes, nodes)
            self.under_way[job] = int(entry["to"])
        elif "outcome" in entry:
            job = int(entry["job"])
            self.under_way.pop(job, None)
            if entry["outcome"] == "done":
                self.sizes[job] = int(entry["to"])
                if job in self.allowed and entry["used"] is not None:
                    self.allowed[job].resize(float(entry["used"]), int(entry["to"]))


class Cleaner:
    """Ends allocations that the broker does not wait for, or merges them when their job believes to have their nodes.

    `sizes`: the size to which each job changed last.
    """

    def __init__(self, manager: Sizes, history: History) -> None:
        self._manager, self.sizes = manager, history.sizes
        self._under_way = set(history.under_way)
        self.found = False
        """Whether the last call of `clean` found such an allocation."""

    def clean(self, overview: Overview, busy: Collection[int]) -> None:
        """End or merge allocations that no request waits for, except those for the jobs in `busy`. Raises ResourceManagerError."""
        running = [
            job for job in overview.jobs.values() if helped_job(job.name) is not None and job.state is not JobState.COMPLETING
        ]
        names = {**overview.unmet, **{job.job_id: job.name for job in running}}
        lost = [job_id for job_id, name in names.items() if (helped := helped_job(name)) is not None and helped not in busy]
        self.found = bool(lost)
        for allocation in [job for job in running if job.job_id in lost]:
            if self._belongs_to_its_job(allocation, overview) and self._merge(allocation):
                lost.remove(allocation.job_id)
        if lost:
            self._manager.cancel(lost)
        if self._under_way:
            # The killed broker may have given nodes to a job that had ended, or taken nodes from one, and not had them freed.
            self._manager.free_lost_nodes()
        self._under_way.clear()

    def _belongs_to_its_job(self, allocation: SizedJob, overview: Overview) -> bool:
        """Whether the controller has forgotten a merge: the job believes to have the nodes."""
        job = overview.jobs.get(helped_job(allocation.name) or 0)
        if job is None or job.state is not JobState.RUNNING:
            return False
        return self.sizes.get(job.job_id) == job.nodes + allocation.nodes

    def _merge(self, allocation: SizedJob) -> bool:
        try:
            self._manager.merge(allocation.job_id)
        except ResourceManagerError:
            return False
        return True
