"""Answers the requests of malleable jobs: queries the queue, decides, changes the job's size, and journals it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ....rm.api import JobState, ResourceManagerError
from ..sizes import SizedJob, Sizes
from . import protocol
from .actions import ABORTED, DONE, LOST, Actions, Result, kept_nodes, node_names
from .cleanup import Cleaner, History
from .journal import Journal
from .policy import EXPAND, NONE, SHRINK, Decision, decide
from .protocol import Check, Ready, Request, Resumed
from .queue import Queue


@dataclass(frozen=True)
class Decided:
    """A decision, and when it was made."""

    decision: Decision
    at: float


@dataclass(frozen=True)
class Offer:
    """A shrink that waits until the job has ended its work on the nodes to be given up."""

    check: Check
    job: SizedJob
    decided: Decided
    asked: float


@dataclass(eq=False)
class Client:
    """A connection of a job."""

    job: int
    """The job of the process at its other end."""
    offer: Offer | None = None
    next_check: Check | None = None
    """The last answered icheck, for whose next point a decision is still to be made."""


@dataclass
class Broker:
    """The broker of a cluster. `speed`: that of a constant clock; 1 on the event clock."""

    sizes: Sizes
    journal: Journal
    speed: float = 1.0
    on_action: Callable[[], None] = lambda: None
    """Called after each change of size, done or not."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: set[int] = field(default_factory=set)
    """Jobs whose size is about to change, or of which a request is being answered."""
    _decided: dict[int, Decided] = field(default_factory=dict)
    """Decisions for the next icheck of a job, by job."""
    _has_shrunk: bool = False
    """Whether a job has shrunk since the nodes were counted."""

    def __post_init__(self) -> None:
        history = History.of(self.journal.entries())
        self._actions = Actions(self.sizes, self.journal, history.allowed)
        self._cleaner = Cleaner(self.sizes, history)
        self._queue = Queue(self.sizes, self.speed, on_look=lambda overview: self._cleaner.clean(overview, self._busy))

    # ---- requests ----

    def answer(self, client: Client, request: Request) -> str | None:
        """The answer to a request, without end of line; None: it gets none."""
        asked = time.time()
        if request.job != client.job:
            return protocol.refused(f"job {request.job} is not the job of this process")
        if isinstance(request, Resumed):
            self.journal.add({"job": request.job, "resumed": asked, "cost": request.seconds})
            return None
        if isinstance(request, Ready):
            return self._shrink(client, request)
        with self._lock:
            self.withdraw(client)
            if request.job in self._busy:
                return protocol.aborted(request.present, "another request of this job is being answered")
            self._busy.add(request.job)
        try:
            return self._check(client, request, asked)
        finally:
            if client.offer is None:
                self._busy.discard(request.job)

    def withdraw(self, client: Client) -> None:
        """Forget a shrink that was offered: the client is gone, or asks for something else."""
        if (offer := client.offer) is not None:
            client.offer = None
            self._queue.break_promise(offer.decided.decision.beneficiary)
            self._busy.discard(offer.job.job_id)
            self._note(offer.check, offer.job, offer.decided, offer.asked, ABORTED, "the job did not say that it is ready")

    def leave(self, client: Client) -> None:
        """The connection has ended."""
        with self._lock:
            self.withdraw(client)

    def prepare(self, client: Client) -> None:
        """Decide for the next point of an icheck that has been answered."""
        check, client.next_check = client.next_check, None
        if check is None:
            return
        try:
            with self._lock:
                job = self._queue.look().jobs.get(check.job)
                if job is not None and job.state is JobState.RUNNING:
                    self._decided[check.job] = Decided(
                        decide(replace(check, present=job.nodes), self._queue.situation(job)), time.time()
                    )
        except ResourceManagerError:
            pass  # the next point finds no decision

    def clean(self) -> bool:
        """Query the queue, and end allocations that no request waits for; returns whether there were any. Raises
        ResourceManagerError."""
        with self._lock:
            self._queue.forget()
            self._queue.look()
            return self._cleaner.found

    def recount(self) -> None:
        """Have the nodes counted again, if a job has shrunk since the last time. Raises ResourceManagerError."""
        if self._has_shrunk:
            self._has_shrunk = False
            try:
                self.sizes.recount_after_shrinks()
            except ResourceManagerError:
                self._has_shrunk = True
                raise

    # ---- checks ----

    def _check(self, client: Client, check: Check, asked: float) -> str:
        try:
            with self._lock:
                job = self._queue.look().jobs.get(check.job)
            if job is None or job.nodes != check.present:
                job = self.sizes.job(check.job)
            if (reason := _cannot(job, check)) or job is None:
                self._note(check, None, Decided(Decision(NONE, check.present), time.time()), asked, "refused", reason)
                return protocol.refused(reason)
            if job.nodes != check.present:
                return self._correct(check, job, asked)
            if job.state is not JobState.RUNNING:
                return self._stay(
                    client, check, job, Decided(Decision(NONE, job.nodes, reason="the job is suspended"), time.time()), asked
                )
            return self._decide_and_act(client, check, job, asked)
        except ResourceManagerError as error:
            self._note(check, None, Decided(Decision(NONE, check.present), time.time()), asked, ABORTED, str(error))
            return protocol.aborted(check.present, str(error))

    def _correct(self, check: Check, job: SizedJob, asked: float) -> str:
        """The job has another size than its process knows: an answer was lost with a client, or an action with the controller."""
        kind = EXPAND if job.nodes > check.present else SHRINK
        reason = "the job had this size already"
        self._note(check, job, Decided(Decision(kind, job.nodes, reason=reason), time.time()), asked, DONE, reason, job.used)
        tell = protocol.expanded if kind == EXPAND else protocol.shrunk
        return tell(job.nodes, node_names(job))

    def _decide_and_act(self, client: Client, check: Check, job: SizedJob, asked: float) -> str:
        with self._lock:
            situation = self._queue.situation(job)
            if check.is_async:
                decided = self._decided.pop(check.job, Decided(Decision(NONE, job.nodes), time.time()))
                client.next_check = check
            else:
                decided = Decided(decide(check, situation), time.time())
            decision = decided.decision
            if (decision.kind == EXPAND) != (decision.to > job.nodes) or (decision.kind == SHRINK) != (decision.to < job.nodes):
                # The job has changed its size since.
                decided = Decided(Decision(NONE, job.nodes), decided.at)
            elif decision.kind == EXPAND:
                self._queue.growing[job.job_id] = decision.to - job.nodes
            elif any(decision.beneficiary == each.job for each in situation.waiting):
                self._queue.promise(decision.beneficiary or 0, situation, job.nodes - decision.to)
        if decided.decision.kind == EXPAND:
            return self._expand(check, job, decided, asked)
        if decided.decision.kind == SHRINK:
            client.offer = Offer(check, job, decided, asked)
            return protocol.shrink(decided.decision.to, kept_nodes(job, decided.decision.to))
        return self._stay(client, check, job, decided, asked)

    def _stay(self, client: Client, check: Check, job: SizedJob, decided: Decided, asked: float) -> str:
        reason = decided.decision.reason
        self._note(check, job, decided, asked, NONE, reason)
        return protocol.none(job.nodes, reason)

    def _expand(self, check: Check, job: SizedJob, decided: Decided, asked: float) -> str:
        try:
            result = self._actions.expand(job, decided.decision.to, asked, decided.at)
        finally:
            with self._lock:
                self._queue.growing.pop(job.job_id, None)
                self._queue.forget()
        self._note_result(check, job, decided, asked, result)
        if result.outcome == DONE and result.job:
            return protocol.expanded(result.job.nodes, node_names(result.job))
        return protocol.aborted(result.job.nodes if result.job else job.nodes, result.reason)

    def _shrink(self, client: Client, ready: Ready) -> str:
        offer, client.offer = client.offer, None
        if offer is None or offer.decided.decision.to != ready.to:
            client.offer = offer
            with self._lock:
                self.withdraw(client)
            return protocol.refused(f"job {ready.job} was not asked to shrink to {ready.to} nodes")
        decision, job = offer.decided.decision, offer.job
        result = Result(LOST, None, "the broker failed")
        try:
            result = self._actions.shrink(job, decision.to, offer.asked, offer.decided.at, decision.beneficiary)
        finally:
            with self._lock:
                if result.outcome == DONE and decision.beneficiary is not None:
                    self._queue.keep_promise(decision.beneficiary)
                else:
                    self._queue.break_promise(decision.beneficiary)
                self._queue.forget()
                self._busy.discard(job.job_id)
        self._note_result(offer.check, job, offer.decided, offer.asked, result)
        if result.outcome == DONE and result.job:
            return protocol.shrunk(result.job.nodes, node_names(result.job))
        return protocol.none(result.job.nodes if result.job else job.nodes, result.reason)

    # ---- the journal ----

    def _note_result(self, check: Check, job: SizedJob, decided: Decided, asked: float, result: Result) -> None:
        if result.outcome == DONE:
            self._cleaner.sizes[job.job_id] = decided.decision.to
            self._has_shrunk = self._has_shrunk or decided.decision.kind == SHRINK
        self._note(check, job, decided, asked, result.outcome, result.reason, result.used)
        self.on_action()

    def _note(
        self,
        check: Check,
        job: SizedJob | None,
        decided: Decided,
        asked: float,
        outcome: str,
        reason: str,
        used: int | None = None,
    ) -> None:
        decision = decided.decision
        self.journal.add(
            {
                "job": check.job,
                "mode": check.mode,
                "kind": decision.kind,
                "from": check.present,
                "to": decision.to,
                "asked": asked,
                "decided": max(decided.at, 0.0),
                "done": time.time(),
                "outcome": outcome,
                "reason": reason,
                "way": "merge" if decision.kind != NONE else "",
                "for": decision.beneficiary,
                "used": used,
            }
        )


def _cannot(job: SizedJob | None, check: Check) -> str:
    """Why a request is refused; empty if it is not."""
    if job is None or job.state in (JobState.ENDED, JobState.COMPLETING):
        return f"job {check.job} does not run"
    return f"job {check.job} {job.fixed}" if job.fixed else ""
