"""Random fillers, requests and kills on the event clock: the program agrees with a model of it to the nanosecond."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM, SIGUSR1

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_mirage.extras.filler.words import EXIT_REQUEUE, Filler
from tests.sigsleep.conftest import Job, wait_until
from tests.sigsleep.event_clock import SECOND, EventClock

from .test_fillers import Fillers

FAR = 2**63
Step = tuple[str, float]
"""What happens to the filler, and after which part of the time for which it waits."""


@dataclass
class Model:
    """A filler in whole nanoseconds. `code` is the exit code when it has ended."""

    filler: Filler
    slots: bool
    progress: int = 0
    phase: str = ""
    deadline: int = 0
    code: int | None = None

    def _ns(self, name: str) -> int:
        return round(getattr(self.filler, name) * SECOND)

    def start(self, now: int) -> None:
        self.code = None
        slot = self._ns("slot")
        self.slot_end = (now // slot + 1) * slot if self.slots else FAR
        if self.progress == round(self.filler.work[0] * SECOND):
            self.code = 0
        elif self.slot_end - now <= self._ns("restore") + self._ns("save"):
            self.phase, self.deadline = "idle", self.slot_end
        else:
            self.phase, self.deadline = "restoring", now + self._ns("restore")

    def _work(self, now: int) -> None:
        save, interval, speed = self._ns("save"), self._ns("interval"), self._ns("speed")
        end = now + -((self.progress - round(self.filler.work[0] * SECOND)) * SECOND // speed)
        leaves = self.slot_end - save
        saves = now + interval if interval else FAR
        if saves + save >= leaves:
            saves = FAR
        if end <= self.slot_end:
            leaves = FAR
        self.phase, self.since, self.deadline = "working", now, min(end, saves, leaves)
        self.cause = "end" if self.deadline == end else "leave" if self.deadline == leaves else "go on"

    def _save(self, now: int, cause: str) -> None:
        worked = (now - self.since) * self._ns("speed") // SECOND
        if now == self.since:
            self.code = EXIT_REQUEUE
        else:
            self.phase, self.cause, self.next_progress = "saving", cause, self.progress + worked
            self.deadline = now + self._ns("save")

    def pass_deadline(self) -> None:
        now = self.deadline
        if self.phase == "idle":
            self.code = EXIT_REQUEUE
        elif self.phase == "restoring":
            self._work(now)
        elif self.phase == "saving":
            self.progress = self.next_progress
            if self.cause == "go on":
                self._work(now)
            else:
                self.code = EXIT_REQUEUE
        elif self.cause == "end":
            self.progress, self.code = round(self.filler.work[0] * SECOND), 0
        else:
            self._save(now, self.cause)

    def ask(self, now: int) -> None:
        if self.phase == "saving":
            self.cause = "leave"
        elif self.phase == "working":
            self._save(now, "leave")
        else:
            self.code = EXIT_REQUEUE


FILLERS = st.builds(
    Filler,
    work=st.tuples(st.integers(50, 500).map(float)),
    save=st.integers(1, 10).map(float),
    restore=st.integers(1, 10).map(float),
    interval=st.sampled_from([0.0, 20.0, 70.5]),
    slot=st.sampled_from([30.0, 60.0, 1000.0]),
    speed=st.sampled_from([1.0, 0.9, 0.333333333]),
)
STEPS = st.lists(st.tuples(st.sampled_from(["wait", "wait", "wait", "ask", "kill", "end"]), st.floats(0.1, 0.9)), max_size=25)


def play(model: Model, fillers: Fillers, clock: EventClock, steps: list[Step]) -> None:
    """Do the steps, and start the filler again whenever it has ended, until its work is done."""
    job: Job | None = None
    for what, part in steps:
        if job is None:
            job = fillers.start(model.filler, model.slots)
            model.start(clock.now)
        if model.code is None:
            settle(job, model, clock)
            if what == "wait":
                clock.advance((model.deadline - clock.now) / SECOND)
                model.pass_deadline()
            else:
                clock.advance(round((model.deadline - clock.now) * part) / SECOND)
                job.send({"ask": SIGUSR1, "kill": SIGKILL, "end": SIGTERM}[what])
                if what == "ask":
                    model.ask(clock.now)
                else:
                    model.code = {"kill": -SIGKILL, "end": 128 + SIGTERM}[what]
        if what == "ask" and model.phase == "saving" and model.code is None:
            settle_request(job)  # which may come during a save, whose deadline stays
        if model.code is not None:
            assert job.end() == (model.code, "")
            assert fillers.saved() == (model.progress / SECOND if model.progress else None)
            job = None
    if job is not None:
        settle(job, model, clock)
        job.send(SIGKILL).end()


def settle(job: Job, model: Model, clock: EventClock) -> None:
    """Wait until the filler waits for the model's deadline."""
    waits = (job.process.pid, model.deadline)
    wait_until(lambda: waits in [(slot.owner, slot.deadline) for slot in clock.slots()], "the model's deadline")
    job.await_state("S")


def settle_request(job: Job) -> None:
    wait_until(lambda: not int(job.status("ShdPnd"), 16) >> (SIGUSR1 - 1) & 1, "the request to be taken")


@pytest.mark.parametrize("slots", [False, True])
def test_it_is_what_the_model_says(program: Path, tmp_path_factory: pytest.TempPathFactory, slots: bool) -> None:
    @settings(max_examples=25, deadline=None)
    @given(filler=FILLERS, steps=STEPS, first=st.integers(0, 100))
    def agrees(filler: Filler, steps: list[Step], first: int) -> None:
        folder = tmp_path_factory.mktemp("random")
        clock = EventClock(folder)
        clock.advance(first)
        fillers = Fillers(program, folder, clock.file)
        model = Model(filler, slots)
        try:
            play(model, fillers, clock, steps)
        finally:
            fillers.close()
            clock.close()
        if fillers.log.exists():
            records = fillers.records()
            assert sum(record.after_ns - record.before_ns for record in records) == model.progress

    agrees()
