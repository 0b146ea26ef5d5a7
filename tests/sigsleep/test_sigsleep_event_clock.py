"""sigsleep on the event clock: lengths and instants are exact, because time passes only when the test says so."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGALRM, SIGCONT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP, Signals

import pytest

from benchmarks.sigsleep_vs_sleep import measure

from .conftest import SOURCE, Job, wait_until
from .event_clock import ANCHORS, FIRST_SLOT, GETS_SIGALRM, LATCH, MAGIC, NEVER, SECOND, SLOTS, TICKETS, EventClock

RUNTIME = 1000  # virtual seconds
STOPPED, RUNNING = "T", "S"
Start = Callable[..., Job]


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[EventClock]:
    clock = EventClock(tmp_path)
    yield clock
    clock.close()


@dataclass(frozen=True)
class Passes:
    """A step: this many virtual seconds pass in one jump."""

    seconds: float


@dataclass(frozen=True)
class Ends:
    """A step: wait until the registered deadline is so many virtual seconds after the start; None: until there is no deadline."""

    after: float | None


@dataclass(frozen=True)
class Case:
    """Steps, the expected exit code, and what the record has: seconds of execution and suspensions (seconds after the start)."""

    name: str
    steps: tuple[Signals | str | Passes | Ends, ...]
    executed: float
    suspensions: tuple[tuple[float, float], ...] = ()
    code: int = 0
    inferred: bool = False


SUSPENDED = (SIGTSTP, STOPPED, Ends(None), Passes(5000), SIGCONT)
BARE_STOP = (SIGSTOP, STOPPED, Passes(300), SIGCONT)
CASES = [
    Case("undisturbed", (Ends(1000), Passes(400), Passes(600)), 1000),
    Case("passed its end", (Ends(1000), Passes(1200)), 1200),
    Case("suspended", (Passes(400), *SUSPENDED, Ends(6000), Passes(600)), 1000, ((400, 5400),)),
    Case(
        "suspended twice",
        (Passes(400), *SUSPENDED, Ends(6000), Passes(100), *SUSPENDED, Ends(11000), Passes(500)),
        1000,
        ((400, 5400), (5500, 10500)),
    ),
    Case(
        "suspended by Slurm",
        (Passes(400), SIGTSTP, STOPPED, Passes(2), SIGSTOP, Passes(98), SIGCONT, Ends(1100), Passes(600)),
        1000,
        ((400, 500),),
    ),
    Case("suspended while no time passes", (Passes(400), SIGTSTP, STOPPED, SIGCONT, Ends(1000), Passes(600)), 1000, ((400, 400),)),
    Case("stopped", (Passes(400), *BARE_STOP, Ends(1300), Passes(600)), 1000, ((400, 700),), inferred=True),
    Case(
        "stopped past its end",
        (SIGSTOP, STOPPED, Passes(1500), SIGCONT, Ends(2500), Passes(1000)),
        1000,
        ((0, 1500),),
        inferred=True,
    ),
    Case("cancelled", (Passes(250), SIGTERM), 250, code=143),
    Case("cancelled while suspended", (Passes(250), SIGTSTP, STOPPED, SIGTERM, Passes(50), SIGCONT), 250, ((250, 300),), 143),
    Case("alarms of others", (Passes(400), SIGALRM, Ends(1000), Passes(599), SIGALRM, Ends(1000), Passes(1)), 1000),
]


def play(case: Case, job: Job, clock: EventClock, begin: int) -> None:
    for step in case.steps:
        if isinstance(step, Signals):
            job.send(step)
        elif isinstance(step, str):
            job.await_state(step)
            time.sleep(0.05 if step == STOPPED else 0)  # longer than the shortest stop that counts
        elif isinstance(step, Ends):
            clock.await_deadline(NEVER if step.after is None else begin + round(step.after * SECOND))
            if step.after is not None:
                job.await_state(RUNNING)
        else:
            clock.advance(step.seconds)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(start: Start, clock: EventClock, case: Case) -> None:
    begin = clock.now
    job = start(RUNTIME, clock=clock.file)
    clock.await_deadline(begin + RUNTIME * SECOND)
    job.await_state(RUNNING)
    play(case, job, clock, begin)
    assert job.end() == (case.code, "")
    record = job.only_record()
    assert (record.start_ns, record.end_ns) == (begin, clock.now)
    assert record.executed_ns == round(case.executed * SECOND)
    assert record.completed == (case.code == 0)
    assert record.inferred == case.inferred
    assert [((one.suspend_ns - begin) / SECOND, (one.resume_ns - begin) / SECOND) for one in record.suspensions] == list(
        case.suspensions
    )
    assert clock.slots() == []


# ---- the end ----


def test_it_does_not_end_while_time_stands(start: Start, clock: EventClock) -> None:
    job = start(0.01, clock=clock.file)
    clock.await_deadline(clock.now + SECOND // 100)
    for _ in range(20):
        job.send(SIGALRM)
        time.sleep(0.01)
    assert job.process.poll() is None
    clock.advance(0.01)
    assert job.end() == (0, "")


def test_an_alarm_that_comes_while_the_job_looks_is_not_missed(start: Start, clock: EventClock) -> None:
    """The job takes all alarms before it sets its deadline again: also the one of that deadline, if it comes just then."""
    for number in range(400):
        job = start(1, clock=clock.file, popen={"preexec_fn": None})
        clock.await_deadline(clock.now + SECOND)
        job.await_state(RUNNING)
        pid = job.process.pid
        os.kill(pid, SIGALRM)
        meet = time.perf_counter_ns() + number % 80 * 1000
        while time.perf_counter_ns() < meet:
            pass
        clock.advance(1, alarms=False)
        os.kill(pid, SIGALRM)
        assert job.end() == (0, "")


def test_no_run_time_at_all(start: Start, clock: EventClock) -> None:
    job = start(0, clock=clock.file)
    assert job.end() == (0, "")
    assert job.only_record().end_ns == clock.now
    assert clock.slots() == []


def test_the_longest_run_time_does_not_overflow(start: Start, clock: EventClock) -> None:
    job = start(9_223_372_034, clock=clock.file)
    clock.await_deadline(NEVER)
    assert job.send(SIGTERM).end() == (143, "")


# ---- the slot ----


def test_the_slot_belongs_to_the_process_and_each_change_changes_its_version(start: Start, clock: EventClock) -> None:
    job = start(RUNTIME, clock=clock.file)
    slot = clock.await_deadline(clock.now + RUNTIME * SECOND)
    assert (slot.kind, slot.owner) == (GETS_SIGALRM, job.process.pid)
    assert slot.token == struct.unpack_from("<Q", clock.page, TICKETS)[0] == 1
    versions = [clock.version(slot.index)]
    job.send(SIGTSTP).await_state(STOPPED)
    assert clock.slots() == [slot._replace(deadline=NEVER)]
    versions.append(clock.version(slot.index))
    job.send(SIGCONT)
    clock.await_deadline(slot.deadline)
    wait_until(lambda: clock.version(slot.index) != versions[-1], "another version")
    versions.append(clock.version(slot.index))
    assert job.send(SIGTERM).end() == (143, "")
    versions.append(clock.version(slot.index))
    assert sorted(set(versions)) == versions


def test_a_killed_job_leaves_a_slot_without_a_lock(start: Start, clock: EventClock) -> None:
    job = start(RUNTIME, clock=clock.file)
    slot = clock.await_deadline(clock.now + RUNTIME * SECOND)
    assert job.send(SIGKILL).end()[0] == -SIGKILL
    assert clock.slots() == [slot._replace(owner=0)]
    other = start(RUNTIME, clock=clock.file)
    wait_until(lambda: len(clock.slots()) == 2, "a slot of the other job")
    assert {one.owner for one in clock.slots()} == {0, other.process.pid}


def test_many_jobs_have_a_slot_each(start: Start, clock: EventClock) -> None:
    jobs = [start(RUNTIME + number, clock=clock.file, id=number, popen={"preexec_fn": None}) for number in range(40)]
    for number in range(len(jobs)):
        clock.await_deadline(clock.now + (RUNTIME + number) * SECOND)
    slots = clock.slots()
    assert len({slot.token for slot in slots}) == len(slots) == len(jobs)
    assert {slot.owner for slot in slots} == {job.process.pid for job in jobs}
    clock.advance(RUNTIME + len(jobs))
    assert {job.end() for job in jobs} == {(0, "")}
    assert clock.slots() == []


def test_the_last_free_slot_is_found(start: Start, clock: EventClock) -> None:
    clock.occupy((index for index in range(SLOTS) if index != 5), 7, NEVER)
    job = start(RUNTIME, clock=clock.file)
    assert clock.await_deadline(clock.now + RUNTIME * SECOND).index == 5
    refused = start(RUNTIME, clock=clock.file)
    assert refused.end() == (2, f"sigsleep: wrong use: page (FILE.page) of --clock {clock.file}: all its wait slots are taken\n")
    assert job.process.poll() is None


@pytest.mark.parametrize("is_full", [False, True], ids=["another slot", "no slot"])
def test_a_slot_that_was_given_to_others_while_the_job_was_stopped(start: Start, clock: EventClock, is_full: bool) -> None:
    """The coordinator cannot know a stopped process from a killed one for ever."""
    job = start(RUNTIME, clock=clock.file)
    slot = clock.await_deadline(clock.now + RUNTIME * SECOND)
    job.send(SIGSTOP).await_state(STOPPED)
    time.sleep(0.05)
    clock.advance(RUNTIME)
    clock.occupy(range(SLOTS) if is_full else [slot.index], 77, 5)
    job.send(SIGCONT).await_state(RUNNING)
    if is_full:
        clock.advance(RUNTIME)
    else:
        other = clock.await_deadline(clock.now + RUNTIME * SECOND)
        assert other.index != slot.index
        assert (other.kind, other.owner) == (GETS_SIGALRM, job.process.pid)
        clock.advance(RUNTIME)
    assert job.end() == (0, "")
    assert job.only_record().executed_ns == RUNTIME * SECOND
    (left,) = [one for one in clock.slots() if one.index == slot.index]
    assert (left.token, left.deadline) == (77, 5)


# ---- the page ----


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file or directory"),
        (b"", "not the page of a virtual clock"),
        (MAGIC, "not the page of a virtual clock"),
        (b"mirageP2".ljust(4_000_000, b"\0"), "not the page of a virtual clock"),
    ],
    ids=["missing", "empty", "short", "another magic"],
)
def test_a_wrong_page(start: Start, tmp_path: Path, content: bytes | None, reason: str) -> None:
    (tmp_path / "clock").write_text("mirage-clock 1 1 1 event\n")
    if content is not None:
        (tmp_path / "clock.page").write_bytes(content)
    job = start(RUNTIME, clock=tmp_path / "clock")
    assert job.end() == (2, f"sigsleep: wrong use: page (FILE.page) of --clock {tmp_path}/clock: {reason}\n")
    assert not job.log.exists()


@pytest.mark.parametrize("text", ["mirage-clock 1 1 1 events\n", "mirage-clock 1 1 1 event 1\n", "mirage-clock 1 1 event\n"])
def test_a_malformed_clock_file(start: Start, clock: EventClock, text: str) -> None:
    clock.file.write_text(text)
    code, stderr = start(RUNTIME, clock=clock.file).end()
    assert code == 2
    assert "must be one line" in stderr


def test_the_double_has_the_layout_of_the_header() -> None:
    """What cannot be included from C is compared as text."""
    header = (SOURCE / "page.h").read_text()
    assert f'#define PAGE_MAGIC "{MAGIC.decode()}"' in header
    assert f"SLOTS = {SLOTS}," in header
    assert f"GETS_SIGALRM = {GETS_SIGALRM}," in header
    assert f"offsetof(struct page, latch) == {LATCH} && offsetof(struct page, anchors) == {ANCHORS[0]}" in header
    assert f"offsetof(struct page, slots) == {FIRST_SLOT}" in header


# ---- stops without SIGTSTP ----


@pytest.mark.parametrize("history", [b"", b"torn"], ids=["empty", "torn"])
def test_a_stop_without_a_history_is_at_most_all_the_time_that_passed(start: Start, clock: EventClock, history: bytes) -> None:
    """Before the first point the clock counts as one of speed 1: the stop seems to begin where the job looked last."""
    begin = clock.now
    job = start(RUNTIME, clock=clock.file)
    clock.await_deadline(begin + RUNTIME * SECOND)
    clock.advance(400)
    job.send(SIGSTOP).await_state(STOPPED)
    time.sleep(0.05)
    clock.advance(300)
    clock.history_file.write_bytes(history)
    job.send(SIGCONT)
    wait_until(lambda: clock.slots()[0].deadline != begin + RUNTIME * SECOND, "another deadline")
    (slot,) = clock.slots()
    clock.advance((slot.deadline - clock.now) / SECOND + 1e-3)
    assert job.end() == (0, "")
    record = job.only_record()
    ((suspend, resume),) = record.suspensions
    assert begin <= suspend <= begin + 60 * SECOND
    assert resume == begin + 700 * SECOND
    assert record.executed_ns >= RUNTIME * SECOND


# ---- resources ----


def test_its_memory_is_not_that_of_the_page(builds: dict[str, Path], clock: EventClock) -> None:
    """The page has 2 MiB. Its parts that a job uses are shared with the others."""
    alone = measure(builds["static"], count=5, seconds=0.3)["sigsleep"]
    on_page = measure(builds["static"], count=5, seconds=0.3, clock=clock.file)["sigsleep"]
    assert on_page["pss_kib"] <= alone["pss_kib"] + 8
    assert on_page["private_kib"] <= alone["private_kib"] + 4
    assert on_page["wake_ups"] == 0
    assert clock.page_file.stat().st_size > 2 << 20
