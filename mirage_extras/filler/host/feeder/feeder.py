"""Feeds a cluster with filler jobs beside the replay of a workload (mirage_extras/filler/README.md).

A thread of the replay's process looks at the queue every few virtual seconds, and submits fillers, has them save themselves, and
gives them back the time limit that the scheduler lowered. It is killed with the replay, and goes on with it: it knows its fillers
by their names, by its journal and by their own record. A filler keeps its number for as long as its work lasts; a job that ended
without it, or was lost by a killed controller, is replaced by another job of the same number, which goes on from the last save.
"""

from __future__ import annotations

import logging
import math
import shutil
import threading
from collections import Counter
from collections.abc import Callable

from ....clock.clock import Clock
from ....rm.api import JobState, ResourceManagerError
from ..fillers import FillerJob, Fillers, Room
from .journal import FeederJournal
from .policy import to_ask, wanted
from .progress import Progress
from .settings import STATES, FeederSettings

log = logging.getLogger("replay")

LOOK_INTERVAL, SLOTS_LOOK_INTERVAL = 5.0, 15.0
"""Virtual seconds between two looks at the queue, at least; in variant slots no filler has to be asked in time."""
REAL_LOOK_INTERVAL = 1.0
"""The same in real seconds, on a clock of constant speed."""
LIMIT_MINUTES = 525_600
"""The time limit of fillers: a year. The scheduler lowers it to what its plan has room for."""
ATTEMPTS = 3
"""How many jobs of a filler may end in a row without a save."""
DRAIN_LONGEST = 120.0
"""Virtual seconds beyond a restore and a save after which fillers that still run at the end are cancelled."""
GONE_LOOKS = 2
"""In how many successive queries a job has to be missing before another one takes its number."""


class Feeder:
    """Feeds the cluster of one run. `may_submit`: whether the controller is known to have all jobs that it had."""

    def __init__(self, settings: FeederSettings, manager: Fillers, clock: Clock, may_submit: Callable[[], bool]) -> None:
        self.settings, self._manager, self._clock, self._may_submit = settings, manager, clock, may_submit
        self.failure: Exception | None = None
        """What ended the thread before its time."""
        self.highest_id = 0
        """The highest id that a filler's job had."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        interval = LOOK_INTERVAL if settings.planned else SLOTS_LOOK_INTERVAL
        self.interval = max(interval, REAL_LOOK_INTERVAL * clock.speed)
        self.progress = Progress(settings.record)
        self._jobs: dict[int, int] = {}
        """The id of the last submitted job of each filler, by the filler's number."""
        self._last = 0
        """The highest number of a filler."""
        self._given_up: set[int] = set()
        self._withdrawn: set[int] = set()
        """Numbers of fillers that this feeder cancelled while they waited."""
        self._asked: set[tuple[int, int]] = set()
        self._attempts: Counter[int] = Counter()
        self._saves: dict[int, int] = {}
        self._missing: Counter[int] = Counter()
        (settings.folder / STATES).mkdir(exist_ok=True)
        self._journal = FeederJournal(settings.folder)
        self._is_new, self._is_draining = True, False
        for entry in self._journal.entries():
            self._is_new = False
            self._apply_entry(entry.get("event"), entry.get("number"), entry.get("job"))

    def _apply_entry(self, event: object, number: object, job: object) -> None:
        self._is_draining |= event == "draining"
        if isinstance(number, int) and isinstance(job, int):
            if event == "submitted":
                self._jobs[number], self._last = job, max(self._last, number)
                self.highest_id = max(self.highest_id, job)
                self._withdrawn.discard(number)
            elif event == "cancelled":
                self._withdrawn.add(number)
            elif event == "given up":
                self._given_up.add(number)

    # ---- the thread ----

    def start(self) -> None:
        """Start the thread, unless the fillers of this run are being ended already."""
        if not self._is_draining:
            self._thread.start()

    def stop(self) -> None:
        """End the thread after its present look, and leave the fillers as they are."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._try(self.look)
                self._over.wait(self._clock.virtual_to_real(self.interval))
        except Exception as error:  # unexpected: without the feeder the run would go on with fewer fillers than it is to have
            log.exception("feeder: %s", error)
            self.failure = error

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ResourceManagerError as error:
            log.warning("feeder: %s", error)

    def look(self) -> None:
        """Query the queue once, and submit, ask and cancel fillers accordingly. Raises ResourceManagerError."""
        self.progress.read()
        room = self._manager.look()
        if self._is_new:
            self._cancel_strangers(room)
            return
        self._note(room)
        if self.settings.planned:
            self._ask_for_planned(room)
        self._extend(room)
        count = wanted(room, self.settings.planned)
        if count < 0:
            self._withdraw(room, -count)
        elif self._may_submit():
            self._submit(count)

    @property
    def _now(self) -> float:
        return self._clock.virtual_now() / 1e9

    # ---- what a look does ----

    def _cancel_strangers(self, room: Room) -> None:
        """Before the first submission: cancel fillers of an earlier run."""
        if room.fillers:
            self._manager.cancel([filler.job_id for filler in room.fillers])
        else:
            self._is_new = False

    def _note(self, room: Room) -> None:
        """Cancel jobs of fillers that have done their work, or have a second job; note the fillers that have none."""
        jobs = {filler.job_id: filler for filler in room.fillers}
        self.highest_id = max([self.highest_id, *jobs])
        surplus = []
        for filler in room.fillers:
            known = self._jobs.get(filler.number)
            if known != filler.job_id and known in jobs:
                surplus.append(filler)
            elif known != filler.job_id:  # submitted by a replay that was killed before it could note it
                self._submitted(filler.number, filler.job_id)
            elif filler.number in self.progress.completed and filler.state is JobState.PENDING:
                surplus.append(filler)
        self._cancel(surplus)
        queued = {filler.number for filler in room.fillers}
        gone = self._jobs.keys() - queued - self.progress.completed - self._given_up
        self._missing = Counter({number: self._missing[number] + 1 for number in gone})

    def _cancel(self, fillers: list[FillerJob]) -> None:
        if fillers:
            self._manager.cancel([filler.job_id for filler in fillers])
        for filler in fillers:
            self._journal.add("cancelled", self._now, number=filler.number, job=filler.job_id)

    def _ask_for_planned(self, room: Room) -> None:
        ahead = self.settings.filler.save + self.interval + 2.0
        self._ask([(filler, job.job_id) for filler, job in to_ask(room, self._now, ahead, self._asked)])

    def _ask(self, fillers: list[tuple[FillerJob, int | None]]) -> None:
        if fillers:
            self._manager.ask([filler.job_id for filler, _ in fillers])
        for filler, wants in fillers:
            self._asked.add((filler.job_id, filler.start or 0))
            self._journal.add("asked", self._now, number=filler.number, job=filler.job_id, **{"for": wants})

    def _extend(self, room: Room) -> None:
        """Give fillers back the time limit that the scheduler lowered for its plan: they leave a node only when a job needs it."""
        lowered = [
            filler.job_id
            for filler in room.fillers
            if filler.state in (JobState.RUNNING, JobState.PENDING)
            and filler.limit is not None
            and filler.limit < 60 * LIMIT_MINUTES
        ]
        if lowered:
            self._manager.set_limit(lowered, LIMIT_MINUTES)
            self._journal.add("extended", self._now, jobs=lowered)

    def _withdraw(self, room: Room, count: int) -> None:
        """Cancel waiting fillers that are too many, those with the highest numbers, which are used again when there is room."""
        waiting = sorted((filler for filler in room.fillers if filler.state is JobState.PENDING), key=lambda filler: filler.number)
        self._cancel(waiting[-count:])
        self._withdrawn.update(filler.number for filler in waiting[-count:])

    def _submit(self, count: int) -> None:
        for _ in range(count):
            number = self._next()
            if number is None or self._over.is_set():
                return
            least = max(1, math.ceil(3 * self.interval / 60))
            folder = str(self.settings.folder)
            command = self.settings.command(number)
            job = self._manager.submit_filler(number, command, folder, LIMIT_MINUTES, least, self.settings.grace > 0).job_id
            self._submitted(number, job)

    def _submitted(self, number: int, job: int) -> None:
        self._journal.add("submitted", self._now, number=number, job=job)
        self._jobs[number] = job
        self._missing.pop(number, None)
        self._withdrawn.discard(number)
        self._last = max(self._last, number)
        self.highest_id = max(self.highest_id, job)

    def _next(self) -> int | None:
        """The number of the next filler to submit: one whose job is gone before its work is done, or a new one. None: no more."""
        for number in sorted(number for number, looks in self._missing.items() if looks >= GONE_LOOKS or number in self._withdrawn):
            if number in self._withdrawn:
                return number
            saves = self.progress.saves.get(number, 0)
            self._attempts[number] = 1 if saves > self._saves.get(number, 0) else self._attempts[number] + 1
            self._saves[number] = saves
            if self._attempts[number] <= ATTEMPTS:
                return number
            del self._missing[number]
            self._given_up.add(number)
            self._journal.add("given up", self._now, number=number, job=self._jobs[number])
            log.warning("feeder: filler %d is given up: its jobs end without a save", number)
        number = self._last + 1
        return number if self.settings.filler.work_of(number) is not None else None

    # ---- the end ----

    def finish(self, sleep: Callable[[float], None]) -> None:
        """All jobs of the workload have ended: end the fillers, with their work saved.

        `sleep` waits for real seconds, and may raise what ends the replay; the next one does the rest.
        """
        self.stop()
        self._journal.add("draining", self._now)
        longest = self.settings.filler.save + self.settings.filler.restore + DRAIN_LONGEST
        until = self._now + longest
        while not self._drained(until):
            sleep(self._clock.virtual_to_real(self.interval))
        self._journal.add("finished", self._now)
        shutil.rmtree(self.settings.folder / STATES, ignore_errors=True)

    def _drained(self, until: float) -> bool:
        try:
            room = self._manager.look()
            late = self._now > until
            self._cancel([filler for filler in room.fillers if filler.state is JobState.PENDING or late])
            running = [filler for filler in room.fillers if filler.state is JobState.RUNNING and not late]
            self._ask([(filler, None) for filler in running if (filler.job_id, filler.start or 0) not in self._asked])
        except ResourceManagerError as error:
            log.warning("feeder: %s", error)
            return False
        return not room.fillers

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()
