"""Fillers with real signals: what they save, where they go on, and what their records say. Exact on the event clock."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from signal import SIG_BLOCK, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, Signals, pthread_sigmask

import pytest

from slurm_mirage.extras.filler.filler_log import LAYOUT, Cause, FillerRecord, pack_filler, read_fillers, scan_fillers
from slurm_mirage.extras.filler.words import EXIT_REQUEUE, Filler
from tests.sigsleep.conftest import Job
from tests.sigsleep.event_clock import NEVER, SECOND, EventClock

READY, INTERVAL, REQUEST, SLOT, END, SIGNAL = Cause
USUAL = Filler(work=(100.0,), save=2, restore=5, interval=40, slot=600)
Entry = tuple[Cause, float, float, float, float, float]


def state_bytes(progress: float = 50, number: int = 7, work: float = 100, starts: int = 0) -> bytes:
    """The record of a save."""
    after, whole = round(progress * SECOND), round(work * SECOND)
    return pack_filler(FillerRecord(number, INTERVAL, "n0", starts, 1, 2, 3, 4, 5, after, 0, after, whole, saves=3, slurm_job_id=7))


def with_version(version: int) -> bytes:
    return state_bytes()[:4] + version.to_bytes(2, "little") + state_bytes()[6:]


class Fillers:
    """Starts filler 7 of a folder again and again, as Slurm would, and reads its records."""

    def __init__(self, program: Path, folder: Path, clock: Path | None) -> None:
        self.program, self.folder, self.clock = program, folder, clock
        self.log, self.state = folder / "fillers.bin", folder / "state"
        self.starts = 0
        self.jobs: list[Job] = []

    def start(self, filler: Filler, slots: bool = False, **popen: object) -> Job:
        clock = str(self.clock) if self.clock else None
        line = filler.command_line(7, str(self.program), clock, self.log, self.state, slots)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        environment |= {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": str(self.starts), "SLURMD_NODENAME": f"n{self.starts}"}
        self.starts += 1
        command = shlex.split(line)[1:]
        self.jobs.append(Job(command, self.log, **{"env": environment, "process_group": 0, **popen}))
        return self.jobs[-1]

    def records(self) -> list[FillerRecord]:
        records, damage = read_fillers(self.log)
        assert damage == []
        return records

    def saved(self) -> float | None:
        """Seconds of progress in the state; None without one."""
        if not self.state.exists():
            return None
        ((save,), damage) = read_fillers(self.state)
        assert damage == []
        assert save.is_saved
        assert save.worked_ns > 0
        return save.after_ns / SECOND

    def close(self) -> None:
        for job in self.jobs:
            if job.process.poll() is None:
                job.process.kill()
                job.process.communicate()


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[EventClock]:
    clock = EventClock(tmp_path)  # its first instant is a multiple of 600 s
    yield clock
    clock.close()


@pytest.fixture
def fillers(program: Path, tmp_path: Path, clock: EventClock) -> Iterator[Fillers]:
    fillers = Fillers(program, tmp_path, clock.file)
    yield fillers
    fillers.close()


class Played:
    """An execution of the filler on an event clock; seconds are those after its start."""

    def __init__(self, fillers: Fillers, clock: EventClock, filler: Filler = USUAL, slots: bool = False, **popen: object) -> None:
        self.fillers, self.clock, self.begin = fillers, clock, clock.now
        self.before = len(fillers.records()) if fillers.log.exists() else 0
        self.job = fillers.start(filler, slots, **popen)

    def waits_until(self, seconds: float) -> Played:
        """Wait until the job waits for this instant."""
        self.clock.await_deadline(self.begin + round(seconds * SECOND))
        self.job.await_state("S")
        return self

    def passes(self, to: float) -> Played:
        """Let time pass until that second."""
        self.clock.advance(to - (self.clock.now - self.begin) / SECOND)
        return self

    def goes(self, *instants: float) -> Played:
        """Let time pass from each instant for which the job waits to the next."""
        for instant in instants:
            self.waits_until(instant).passes(instant)
        return self

    def gets(self, *signals: Signals) -> Played:
        self.job.send(*signals)
        return self

    def ends(self, code: int = 0, stderr: str = "") -> list[Entry]:
        """Its records: cause, begin and end of the stretch, end of the save, seconds worked, saved progress after it."""
        assert self.job.end() == (code, stderr)
        records = [record for record in self.fillers.records()[self.before :] if not record.repeated]
        for record in records:
            assert (record.id, record.cores, record.slurm_job_id) == (7, 1, 77)
            assert (record.restart, record.start) == (self.fillers.starts - 1, self.fillers.starts)
            assert (record.node, record.start_ns) == (f"n{self.fillers.starts - 1}", self.begin)
            assert record.completed == (record.cause == END)
        assert [slot for slot in self.clock.slots() if slot.owner] == []
        return [
            (
                Cause(record.cause),
                *((at - self.begin) / SECOND for at in (record.from_ns, record.to_ns, record.saved_ns)),
                record.worked_ns / SECOND,
                record.after_ns / SECOND,
            )
            for record in records
        ]


def test_work_with_periodic_saves(fillers: Fillers, clock: EventClock) -> None:
    """5 s of restore, 40 of work, 2 for a save, 40 of work, 2 for a save, and the last 20 of work."""
    played = Played(fillers, clock).goes(5, 45)
    assert fillers.saved() is None
    played.goes(47, 87)
    assert fillers.saved() == 40
    played.goes(89).waits_until(109)
    assert fillers.saved() == 80
    assert played.passes(109).ends() == [
        (READY, 5, 5, 5, 0, 0),
        (INTERVAL, 5, 45, 47, 40, 40),
        (INTERVAL, 47, 87, 89, 40, 80),
        (END, 89, 109, 109, 20, 100),
    ]
    assert fillers.saved() == 100
    records = fillers.records()
    assert [record.saves for record in records] == [0, 1, 2, 2]
    assert [record.before_ns / SECOND for record in records] == [0, 0, 40, 80]
    assert {(record.work_ns, record.speed, record.ready_ns - record.start_ns) for record in records} == {
        (100 * SECOND, SECOND, 5 * SECOND)
    }


def test_no_costs_no_saves(fillers: Fillers, clock: EventClock) -> None:
    entries = Played(fillers, clock, Filler((100,), 0, 0, 0)).goes(100).ends()
    assert entries == [(READY, 0, 0, 0, 0, 0), (END, 0, 100, 100, 100, 100)]


@pytest.mark.parametrize(("speed", "end"), [(0.8, 125), (0.3, 333.333333334), (0.000001, 100_000_000)])
def test_work_advances_with_the_speed(fillers: Fillers, clock: EventClock, speed: float, end: float) -> None:
    entries = Played(fillers, clock, Filler((100,), 0, 0, 0, speed=speed)).goes(end).ends()
    assert entries[-1] == (END, 0, end, end, end, 100)
    assert fillers.records()[-1].speed == round(speed * SECOND)


def test_a_request_saves_and_the_next_start_goes_on(fillers: Fillers, clock: EventClock) -> None:
    filler = replace(USUAL, speed=0.5, interval=0)
    first = Played(fillers, clock, filler).goes(5).waits_until(205).passes(65).gets(SIGUSR1).waits_until(67)
    assert fillers.saved() is None
    assert first.passes(67).ends(EXIT_REQUEUE) == [(READY, 5, 5, 5, 0, 0), (REQUEST, 5, 65, 67, 60, 30)]
    assert fillers.saved() == 30
    second = Played(fillers, clock, filler).goes(5).waits_until(145).passes(25).gets(SIGUSR1).goes(27)
    assert second.ends(EXIT_REQUEUE) == [(READY, 5, 5, 5, 0, 30), (REQUEST, 5, 25, 27, 20, 40)]
    assert Played(fillers, clock, filler).goes(5, 125).ends() == [(READY, 5, 5, 5, 0, 40), (END, 5, 125, 125, 120, 100)]
    assert sum(record.useful_ns for record in fillers.records()) == 200 * SECOND


def test_a_request_while_it_restores(fillers: Fillers, clock: EventClock) -> None:
    """There is nothing to save. The state stays as it was."""
    fillers.state.write_bytes(state_bytes())
    played = Played(fillers, clock).waits_until(5).passes(3).gets(SIGUSR1)
    assert played.ends(EXIT_REQUEUE) == [(REQUEST, 3, 3, 3, 0, 50)]
    assert fillers.state.read_bytes() == state_bytes()
    assert fillers.records()[-1].ready_ns == 0


def test_a_request_during_a_periodic_save(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock).goes(5, 45).waits_until(47).passes(46).gets(SIGUSR1).goes(47)
    assert played.ends(EXIT_REQUEUE) == [(READY, 5, 5, 5, 0, 0), (REQUEST, 5, 45, 47, 40, 40)]
    assert fillers.saved() == 40


def test_more_requests_change_nothing(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock).goes(5).waits_until(45).passes(15).gets(SIGUSR1).waits_until(17).passes(16).gets(SIGUSR1)
    played.goes(17)
    assert played.ends(EXIT_REQUEUE) == [(READY, 5, 5, 5, 0, 0), (REQUEST, 5, 15, 17, 10, 10)]


def test_a_request_soon_after_a_save_finds_nothing_to_save(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock).goes(5, 45, 47).waits_until(87).gets(SIGUSR1)
    assert played.ends(EXIT_REQUEUE)[-1] == (REQUEST, 47, 47, 47, 0, 40)


# ---- killed ----


def test_killed_while_it_saves_the_save_before_is_there(fillers: Fillers, clock: EventClock) -> None:
    Played(fillers, clock).goes(5, 45, 47, 87).waits_until(89).passes(88).gets(SIGKILL).job.end()
    assert fillers.saved() == 40
    assert Played(fillers, clock).goes(5, 45).waits_until(47).gets(SIGKILL).job.end()[0] == -SIGKILL
    assert fillers.saved() == 40
    entries = Played(fillers, clock).goes(5, 45, 47, 67).ends()
    assert [entry[-1] for entry in entries] == [40, 80, 100]
    assert sum(record.useful_ns for record in fillers.records()) == 100 * SECOND


def test_a_start_repeats_the_record_of_the_last_save(fillers: Fillers, clock: EventClock) -> None:
    """So that it is there if the filler was killed between the save and its record."""
    Played(fillers, clock).goes(5, 45, 47, 87).waits_until(89).gets(SIGKILL).job.end()
    whole = fillers.records()
    assert [record.cause for record in whole] == [READY, INTERVAL]
    fillers.log.write_bytes(fillers.log.read_bytes()[: -LAYOUT.size])
    Played(fillers, clock).goes(5).waits_until(45).gets(SIGKILL).job.end()
    Played(fillers, clock).goes(5).waits_until(45).gets(SIGKILL).job.end()
    records = fillers.records()
    assert [record.cause for record in records] == [READY, INTERVAL, READY, READY]
    assert replace(records[1], repeated=False) == whole[1]
    assert [record.before_ns // SECOND for record in records] == [0, 0, 40, 40]
    assert len(list(scan_fillers(fillers.log.read_bytes()))) == 5


def test_a_save_that_was_cut_short_is_not_read(fillers: Fillers, clock: EventClock) -> None:
    """Killed in the middle of the write: what was written is FILE.new."""
    fillers.state.write_bytes(state_bytes(50))
    fillers.state.with_suffix(".new").write_bytes(state_bytes(90)[:30])
    assert Played(fillers, clock).goes(5, 45, 47, 57).ends()[-1] == (END, 47, 57, 57, 10, 100)
    assert not fillers.state.with_suffix(".new").exists()


def test_started_again_after_its_end_it_does_no_work_twice(fillers: Fillers, clock: EventClock) -> None:
    Played(fillers, clock, replace(USUAL, interval=0)).goes(5, 105).ends()
    before, state = fillers.records(), fillers.state.read_bytes()
    assert Played(fillers, clock, replace(USUAL, interval=0)).ends() == []
    assert (fillers.records(), fillers.state.read_bytes()) == (before, state)


# ---- signals ----


@pytest.mark.parametrize("signal", [SIGTERM, SIGINT, SIGHUP])
def test_ended_while_it_works(fillers: Fillers, clock: EventClock, signal: Signals) -> None:
    played = Played(fillers, clock).goes(5, 45, 47).waits_until(87).passes(60).gets(signal)
    assert played.ends(128 + signal)[-1] == (SIGNAL, 47, 60, 60, 13, 40)
    assert fillers.saved() == 40


def test_ended_while_it_saves(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock).goes(5, 45).waits_until(47).passes(46).gets(SIGTERM)
    assert played.ends(143) == [(READY, 5, 5, 5, 0, 0), (SIGNAL, 5, 45, 46, 40, 0)]
    assert fillers.saved() is None


def test_ended_while_it_restores(fillers: Fillers, clock: EventClock) -> None:
    assert Played(fillers, clock).waits_until(5).passes(4).gets(SIGTERM).ends(143) == [(SIGNAL, 4, 4, 4, 0, 0)]


def test_suspended_while_it_works_and_saves(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock).goes(5).waits_until(45).passes(15)
    played.gets(SIGTSTP).job.await_state("T")
    played.passes(1000).gets(SIGCONT).goes(1030).waits_until(1032).passes(1031)
    played.gets(SIGTSTP).job.await_state("T")
    played.passes(2000).gets(SIGCONT).goes(2001, 2041, 2043, 2063)
    assert played.ends()[1:3] == [(INTERVAL, 5, 1030, 2001, 40, 40), (INTERVAL, 2001, 2041, 2043, 40, 80)]


def test_a_request_while_it_is_suspended(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock).goes(5).waits_until(45).passes(15)
    played.gets(SIGTSTP).job.await_state("T")
    clock.await_deadline(NEVER)
    played.gets(SIGUSR1).passes(500).gets(SIGCONT).goes(502)
    assert played.ends(EXIT_REQUEUE)[-1] == (REQUEST, 5, 500, 502, 10, 10)


def test_stopped_by_sigstop_while_it_works(fillers: Fillers, clock: EventClock) -> None:
    """The history of the clock tells when the stop began."""
    played = Played(fillers, clock).goes(5).waits_until(45).passes(15)
    played.gets(SIGSTOP).job.await_state("T")
    time.sleep(0.05)
    played.passes(115).gets(SIGCONT).goes(145, 147, 187, 189, 209)
    assert played.ends()[1] == (INTERVAL, 5, 145, 147, 40, 40)


def test_other_jobs_have_the_default_action_of_sigusr1(start: Callable[..., Job]) -> None:
    assert start(100).await_asleep().send(SIGUSR1).end() == (-SIGUSR1, "")


def test_other_jobs_leave_a_blocked_sigusr1_alone(start: Callable[..., Job]) -> None:
    job = start(0.5, popen={"preexec_fn": lambda: pthread_sigmask(SIG_BLOCK, {SIGUSR1})}).await_asleep()
    assert job.send(SIGUSR1).end() == (0, "")
    assert job.only_record().completed
    assert job.only_record().executed_ns >= 0.5 * SECOND


# ---- slots ----


def test_a_slot_ends_with_a_save(fillers: Fillers, clock: EventClock) -> None:
    """It starts at the 100th second of a slot of 600."""
    clock.advance(100)
    filler = replace(USUAL, work=(2000,), interval=0)
    assert Played(fillers, clock, filler, slots=True).goes(5, 498, 500).ends(EXIT_REQUEUE) == [
        (READY, 5, 5, 5, 0, 0),
        (SLOT, 5, 498, 500, 493, 493),
    ]
    assert clock.now % (600 * SECOND) == 0
    assert Played(fillers, clock, filler, slots=True).goes(5, 598, 600).ends(EXIT_REQUEUE)[-1] == (SLOT, 5, 598, 600, 593, 1086)


@pytest.mark.parametrize("left", [7, 3, 0.5])
def test_a_slot_without_room_for_work_is_idled_through(fillers: Fillers, clock: EventClock, left: float) -> None:
    """Restore and save take 7 s. With a nanosecond more there is work."""
    clock.advance(600 - left)
    assert Played(fillers, clock, slots=True).goes(left).ends(EXIT_REQUEUE) == [(SLOT, left, left, left, 0, 0)]
    assert fillers.records()[0].ready_ns == 0
    assert fillers.saved() is None


def test_the_shortest_work_in_a_slot(fillers: Fillers, clock: EventClock) -> None:
    clock.advance(592.5)
    assert Played(fillers, clock, slots=True).goes(5, 5.5, 7.5).ends(EXIT_REQUEUE)[-1] == (SLOT, 5, 5.5, 7.5, 0.5, 0.5)


@pytest.mark.parametrize(("at", "end"), [(495, 105), (496, None)])
def test_work_that_ends_in_the_slot_is_not_saved_first(fillers: Fillers, clock: EventClock, at: float, end: float | None) -> None:
    clock.advance(at)
    played = Played(fillers, clock, replace(USUAL, interval=0), slots=True)
    if end:
        assert played.goes(5, end).ends()[-1] == (END, 5, end, end, 100, 100)
    else:
        assert played.goes(5, 102, 104).ends(EXIT_REQUEUE)[-1] == (SLOT, 5, 102, 104, 97, 97)


def test_a_periodic_save_that_meets_that_of_the_slot_is_left_out(fillers: Fillers, clock: EventClock) -> None:
    """Periodic saves take 45 to 47 and 87 to 89 s, that of the slot would begin at 89 or later."""
    clock.advance(600 - 91)
    filler = replace(USUAL, work=(500,))
    entries = Played(fillers, clock, filler, slots=True).goes(5, 45, 47, 89, 91).ends(EXIT_REQUEUE)
    assert entries[1:] == [(INTERVAL, 5, 45, 47, 40, 40), (SLOT, 47, 89, 91, 42, 82)]
    clock.advance(600 - 91.5)
    entries = Played(fillers, clock, filler, slots=True).goes(5, 45, 47, 87, 89, 89.5, 91.5).ends(EXIT_REQUEUE)
    assert entries[2:] == [(INTERVAL, 47, 87, 89, 40, 162), (SLOT, 89, 89.5, 91.5, 0.5, 162.5)]


def test_a_request_in_a_slot(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock, replace(USUAL, work=(2000,), interval=0), slots=True)
    played.goes(5).waits_until(598).passes(50).gets(SIGUSR1).goes(52)
    assert played.ends(EXIT_REQUEUE)[-1] == (REQUEST, 5, 50, 52, 45, 45)


def test_a_request_during_the_save_of_a_slot(fillers: Fillers, clock: EventClock) -> None:
    played = Played(fillers, clock, replace(USUAL, work=(2000,), interval=0), slots=True)
    played.goes(5, 598).waits_until(600).passes(599).gets(SIGUSR1).goes(600)
    assert played.ends(EXIT_REQUEUE)[-1] == (SLOT, 5, 598, 600, 593, 593)


def test_a_request_in_a_slot_without_room(fillers: Fillers, clock: EventClock) -> None:
    clock.advance(594)
    played = Played(fillers, clock, slots=True).waits_until(6).passes(2).gets(SIGUSR1)
    assert played.ends(EXIT_REQUEUE) == [(REQUEST, 2, 2, 2, 0, 0)]


def test_suspended_past_the_end_of_a_slot(fillers: Fillers, clock: EventClock) -> None:
    """The slot of a suspended filler ends later, by the length of the suspension."""
    played = Played(fillers, clock, replace(USUAL, work=(2000,), interval=0), slots=True).goes(5).waits_until(598).passes(50)
    played.gets(SIGTSTP).job.await_state("T")
    played.passes(1000).gets(SIGCONT).goes(1548, 1550)
    assert played.ends(EXIT_REQUEUE)[-1] == (SLOT, 5, 1548, 1550, 593, 593)


# ---- saves that fail ----


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("skipped: mounting a small disk needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all room of a disk."""
    path = folder / "much"
    with path.open("wb", buffering=0) as much:
        try:
            while much.write(bytes(1024)) == 1024:
                pass
        except OSError:
            pass
    return path


def test_a_full_disk_while_it_saves(fillers: Fillers, clock: EventClock, small_disk: Path) -> None:
    """The save fails and is recorded, the save before stays. The next save has the work of both."""
    fillers.state = small_disk / "state"
    played = Played(fillers, clock, replace(USUAL, work=(200,))).goes(5, 45, 47).waits_until(87)
    much = fill(small_disk)
    played.goes(87, 89).waits_until(129)
    assert fillers.saved() == 40
    assert {path.name for path in small_disk.iterdir()} == {"much", "state"}
    much.unlink()
    entries = played.goes(129, 131, 171, 173, 213).ends(stderr=f"sigsleep: save failed: --state {fillers.state}: {FULL}\n")
    assert entries[1:] == [
        (INTERVAL, 5, 45, 47, 40, 40),
        (INTERVAL, 47, 87, 89, 40, 40),
        (INTERVAL, 47, 129, 131, 80, 120),
        (INTERVAL, 131, 171, 173, 40, 160),
        (END, 173, 213, 213, 40, 200),
    ]
    records = fillers.records()
    assert [record.failed for record in records] == [False, False, True, False, False, False]
    assert [record.saves for record in records] == [0, 1, 1, 2, 3, 3]
    assert sum(record.useful_ns for record in records) == 200 * SECOND


FULL = "no space left on the disk"


@pytest.mark.parametrize("slots", [False, True])
def test_the_last_save_fails_too(fillers: Fillers, clock: EventClock, small_disk: Path, slots: bool) -> None:
    """It leaves all the same; the next start goes on from the save before."""
    fillers.state = small_disk / "state"
    fillers.state.write_bytes(state_bytes(50, work=1000))
    filler = replace(USUAL, work=(1000,), interval=0)
    played = Played(fillers, clock, filler, slots).goes(5)
    fill(small_disk)
    played.goes(598, 600) if slots else played.waits_until(955).passes(15).gets(SIGUSR1).goes(17)
    played.ends(EXIT_REQUEUE, f"sigsleep: save failed: --state {fillers.state}: {FULL}\n")
    assert fillers.records()[-1].failed
    assert fillers.saved() == 50


def test_its_end_does_not_need_the_disk(fillers: Fillers, clock: EventClock, small_disk: Path) -> None:
    """The state is then that of its last save."""
    fillers.state = small_disk / "state"
    fillers.state.write_bytes(state_bytes())
    played = Played(fillers, clock, replace(USUAL, interval=0)).goes(5)
    fill(small_disk)
    entries = played.goes(55).ends(stderr=f"sigsleep: save failed: --state {fillers.state}: {FULL}\n")
    assert entries[-1] == (END, 5, 55, 55, 50, 100)
    assert fillers.saved() == 50


def test_a_folder_that_is_not_there(fillers: Fillers, clock: EventClock) -> None:
    fillers.state = fillers.folder / "none" / "state"
    message = f"sigsleep: save failed: --state {fillers.state}: no such file or directory\n"
    assert Played(fillers, clock).goes(5, 45, 47, 87, 89, 109).ends(stderr=message * 3)[-1] == (END, 5, 109, 109, 100, 100)


def test_a_log_that_is_full(fillers: Fillers, clock: EventClock) -> None:
    """The work is saved all the same. The end of the work is a failure without its record, and its state stays."""
    fillers.log = Path("/dev/full")
    line = f"sigsleep: record not written: --log /dev/full: {FULL}\n"
    job = fillers.start(USUAL)
    begin = clock.now
    for second in (5, 45, 47, 87, 89, 109):
        clock.await_deadline(begin + second * SECOND)
        clock.advance((begin - clock.now) / SECOND + second)
    assert job.end() == (1, line * 4)
    assert fillers.saved() == 100
    fillers.log = fillers.folder / "another"
    assert fillers.start(USUAL).end() == (0, "")
    (record,) = fillers.records()
    assert (record.cause, record.repeated, record.after_ns) == (END, True, 100 * SECOND)


# ---- states ----


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is torn; without it the filler starts over"),
        (state_bytes()[:-1], "is torn; without it the filler starts over"),
        (state_bytes()[:20], "is torn; without it the filler starts over"),
        (state_bytes() + b"\0", "is torn; without it the filler starts over"),
        (state_bytes()[:20] + b"\x01" + state_bytes()[21:], "is torn; without it the filler starts over"),
        (state_bytes()[:6] + b"\x01" + state_bytes()[7:], "is torn; without it the filler starts over"),
        (with_version(4), "was written by a newer sigsleep"),
        (with_version(4)[:12], "was written by a newer sigsleep"),
        (with_version(9).ljust(5000), "was written by a newer sigsleep"),
        (with_version(2), "is not the state of a filler"),
        (b"a note of somebody's\n" * 10, "is not the state of a filler"),
        (state_bytes(number=8), "is the state of another filler: --id or --runtime differs"),
        (state_bytes(work=101), "is the state of another filler: --id or --runtime differs"),
    ],
)
def test_states_that_are_refused(fillers: Fillers, content: bytes, reason: str) -> None:
    fillers.state.write_bytes(content)
    job = fillers.start(USUAL)
    assert job.end() == (2, f"sigsleep: wrong use: --state {fillers.state}: {reason}\n")
    assert fillers.state.read_bytes() == content
    assert fillers.records() == []


def test_every_changed_byte_of_a_state_is_seen(fillers: Fillers) -> None:
    whole = state_bytes()
    for place in range(LAYOUT.size):
        fillers.state.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        code, stderr = fillers.start(USUAL).end()
        assert (code, stderr.count("\n")) == (2, 1)


def test_a_folder_is_no_state(fillers: Fillers) -> None:
    fillers.state.mkdir()
    assert fillers.start(USUAL).end() == (2, f"sigsleep: wrong use: --state {fillers.state}: is a directory\n")


# ---- options ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": None, "slot": 5}, "--state: is missing, see sigsleep --help"),
        ({"state": None, "save-cost": 5}, "--state: is missing, see sigsleep --help"),
        ({"runtime": None}, "--runtime: is missing, see sigsleep --help"),
        ({"save-cost": -1}, "--save-cost -1: must be seconds such as 12 or 0.25, below 9223372036"),
        ({"restore-cost": -1}, "--restore-cost -1: must be seconds such as 12 or 0.25, below 9223372036"),
        ({"interval": "x"}, "--interval x: must be seconds such as 12 or 0.25, below 9223372036"),
        ({"slot": 0}, "--slot 0: must be more than 0 seconds"),
        ({"speed": 0}, "--speed 0: must be above 0, and up to 1"),
        ({"speed": 1.1}, "--speed 1.1: must be above 0, and up to 1"),
        ({"speed": "0.000000001", "runtime": 1000}, "--runtime: too long at the speed of the clock file and --speed"),
        ({"priority": "p"}, "--priority: is not an option of a filler (--state)"),
        ({"submit": 1}, "--submit: is not an option of a filler (--state)"),
        ({"nodes": 1}, "--nodes: is not an option of a filler (--state)"),
        ({"malleable": "1:2:2:-"}, "--malleable: is not an option of a filler (--state)"),
    ],
)
def test_wrong_use(program: Path, tmp_path: Path, options: dict[str, object], message: str) -> None:
    values = {"id": 7, "cores": 1, "runtime": 10, "log": tmp_path / "log", "state": tmp_path / "state", **options}
    words = [word for name, value in values.items() if value is not None for word in (f"--{name}", str(value))]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"sigsleep: wrong use: {message}\n")
    assert not (tmp_path / "state").exists()


def test_outside_slurm(fillers: Fillers, clock: EventClock) -> None:
    """Without a count of restarts, the state counts the starts that saved."""
    fillers.state.write_bytes(state_bytes(starts=2))
    job = fillers.start(USUAL, env={})
    clock.await_deadline(clock.now + 5 * SECOND)
    assert job.send(SIGTERM).end() == (143, "")
    _, record = fillers.records()
    assert (record.slurm_job_id, record.restart, record.node, record.start, record.saves) == (0, 0, "", 3, 3)


def test_a_long_name_of_a_node_is_cut(fillers: Fillers, clock: EventClock) -> None:
    job = fillers.start(USUAL, env={"SLURMD_NODENAME": "n" * 100})
    clock.await_deadline(clock.now + 5 * SECOND)
    job.send(SIGTERM).end()
    assert fillers.records()[0].node == "n" * 63


# ---- clocks of constant speed ----


@pytest.mark.parametrize("speed", [1, 100])
@pytest.mark.parametrize("slots", [False, True])
def test_on_a_clock_of_constant_speed(program: Path, tmp_path: Path, speed: int, slots: bool) -> None:
    """Slots or requests of some 0.5 s of real time, until the work is done."""
    line = tmp_path / "clock"
    line.write_text(f"mirage-clock 1 {time.time_ns()} {1_800_000_000 * SECOND} {speed}\n")
    fillers = Fillers(program, tmp_path, line)
    unit = 0.1 * speed
    filler = Filler((10 * unit,), unit / 5, unit / 5, 2 * unit, 5 * unit, speed=0.9)
    code = EXIT_REQUEUE
    while code != 0:
        job = fillers.start(filler, slots)
        if not slots:
            time.sleep(0.5)
            job.send(SIGUSR1)
        code = job.end()[0]
        assert code in (0, EXIT_REQUEUE)
    fillers.close()
    records = fillers.records()
    saved = [record for record in records if record.is_saved]
    assert [record.before_ns for record in saved] == [0, *(record.after_ns for record in saved[:-1])]
    assert saved[-1].after_ns == round(10 * unit * SECOND)
    assert 0 <= saved[-1].worked_ns * 9 // 10 - (saved[-1].after_ns - saved[-1].before_ns) <= speed
    for record in saved[:-1]:
        assert record.after_ns - record.before_ns == record.worked_ns * 9 // 10
        assert record.from_ns <= record.to_ns <= record.saved_ns
        assert record.saved_ns - record.to_ns >= (unit / 5 * SECOND if record.worked_ns else 0)
    slot_ns = round(5 * unit * SECOND)
    for record in records:
        assert record.start_ns <= record.ready_ns or record.ready_ns == 0
        if record.cause == SLOT:
            assert record.saved_ns // slot_ns > record.start_ns // slot_ns
