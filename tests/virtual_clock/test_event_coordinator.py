"""The coordinator of the event-driven clock may be killed and halted at any instant: time never goes back, nor jumps alone."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from signal import SIGCONT, SIGSTOP, SIGTERM

import pytest

from slurm_mirage.clock import clock_page

from .clocked import PATIENCE, SECOND
from .event_instance import NEVER, PYTHON, ROUNDING, Instance, wait_until
from .test_waits import only

HOUR = 3600 * SECOND
DAY = 24 * HOUR
LEASE = SECOND // 10


def is_asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def stop_file(instance: Instance) -> Path:
    return instance.folder / "stop"


# ---- without a driver ----


def test_without_a_driver_a_second_lasts_a_second(instance: Instance) -> None:
    waited = only(instance.probe("wait", "nanosleep", SECOND))
    assert SECOND <= waited["virtual"] <= waited["real"] + ROUNDING
    assert instance.figures()["jumps"] == 0


def test_time_jumps_only_while_there_is_a_driver(instance: Instance) -> None:
    process = instance.start("sleep", "300")
    time.sleep(0.2)
    assert process.poll() is None
    instance.drive()
    assert instance.finish(process) == ""
    instance.drive(False)
    process = instance.start("sleep", "300")
    time.sleep(0.2)
    assert process.poll() is None
    assert instance.figures()["jumped_ns"] <= 300 * SECOND


def test_time_never_goes_back_when_drivers_come_and_go(instance: Instance) -> None:
    """A program that reads the clock all the time, while it changes from fast to slow."""
    watch = instance.start(instance.builds.event_probe, "watch", stop_file(instance))
    assert watch.stdout is not None
    assert watch.stdout.readline() == "watching\n"
    for number in range(100):
        instance.drive()
        time.sleep(0.001 * (number % 5))
        instance.drive(False)
        time.sleep(0.001 * (number % 7))
    stop_file(instance).touch()
    answer = only(instance.lines_of(watch))
    assert answer["back"] <= 0
    assert answer["read"] > 1000


# ---- leaps ----


def test_the_driver_sets_the_clock_though_a_program_works(driven: Instance) -> None:
    """All waits that end before the instant end; the leap is no jump, and the clock is set forward only."""
    worker = driven.start("sh", "-c", "echo; while :; do :; done")
    assert worker.stdout is not None and worker.stdout.readline() == "\n"
    early, late = driven.start("sleep", str(86400)), driven.start("sleep", str(20 * 86400))
    driven.await_slots(2)
    before, figures = driven.now(), driven.figures()
    for instant in (before + 7 * DAY, before + 6 * DAY):
        clock_page.leap(driven.folder, instant)
        wait_until(lambda: driven.page[296:304] == bytes(8), "the coordinator")
        assert driven.now() == before + 7 * DAY
    assert all(driven.figures()[name] == figures[name] for name in ("jumps", "jumped_ns", "driven_ns"))
    worker.kill()
    assert driven.finish(early) == ""
    assert driven.finish(late) == ""
    assert 20 * DAY <= driven.now() - before <= 20 * DAY + SECOND


def test_no_leap_without_a_driver_and_none_too_far(instance: Instance) -> None:
    before = instance.now()
    clock_page.leap(instance.folder, before + DAY)
    time.sleep(0.05)
    assert instance.now() < before + HOUR
    clock_page.leap(instance.folder, NEVER)
    instance.drive()
    wait_until(lambda: instance.page[296:304] == bytes(8), "the coordinator")
    assert instance.now() < before + HOUR


# ---- monotonic ----


def test_time_never_goes_back_for_any_process(driven: Instance) -> None:
    """Processes that sleep and read, while time jumps, drivers come and go, and the coordinator is killed and halted."""
    chance = random.Random(1)
    readers = driven.start(driven.builds.event_probe, "readers", "8", stop_file(driven))
    for _ in range(12):
        time.sleep(chance.random() * 0.05)
        driven.kill_coordinator()
        driven.start_coordinator()
        time.sleep(chance.random() * 0.05)
        assert driven.coordinator is not None
        driven.coordinator.send_signal(SIGSTOP)
        time.sleep(chance.random() * 0.02)
        driven.coordinator.send_signal(SIGCONT)
        driven.drive(False)
        time.sleep(chance.random() * 0.01)
        driven.drive()
    stop_file(driven).touch()
    answer = only(driven.lines_of(readers))
    assert answer["back"] <= 0
    assert answer["read"] > 1000
    points = driven.points()
    assert points == sorted(points)
    assert all(early[1] <= late[1] for early, late in pairwise(points))


# ---- killed and halted ----


def test_time_stands_without_a_coordinator(driven: Instance) -> None:
    driven.drive(False)  # otherwise time may jump to the end of the wait at once
    waiter = driven.start("sleep", "1e6", stdin=subprocess.DEVNULL)
    driven.await_slots(1)
    driven.kill_coordinator()
    time.sleep(0.15)
    before = driven.now()
    time.sleep(0.2)
    assert driven.now() == before
    assert waiter.poll() is None
    driven.drive()
    driven.start_coordinator()
    assert driven.finish(waiter) == ""
    assert driven.now() - before >= 999_000 * SECOND


def test_a_coordinator_that_is_killed_again_and_again(driven: Instance) -> None:
    """All waits end, none of them early, and time jumps to no other instants than their deadlines."""
    chance = random.Random(2)
    code = "import time; b = time.time_ns(); time.sleep({0}); print(time.time_ns() - b)"
    waiters = {length: driven.start(PYTHON, "-c", code.format(length)) for length in range(1000, 40_001, 1000)}
    for _ in range(15):
        time.sleep(chance.random() * 0.03)
        driven.kill_coordinator()
        driven.start_coordinator()
    for length, process in waiters.items():
        assert length * SECOND <= int(driven.finish(process)) <= length * SECOND + 60 * SECOND
    assert driven.slots() == []


def test_a_waiter_that_the_killed_coordinator_was_about_to_wake_up(driven: Instance) -> None:
    """Killed between the change of `wake` and the system call."""
    driven.kill_coordinator()
    process = driven.start("sleep", "300")
    (slot,) = driven.await_slots(1)
    wait_until(lambda: is_asleep(process.pid), "its sleep")
    driven.set_wake(slot, 1)
    driven.start_coordinator()
    assert driven.finish(process) == ""


def test_a_halted_coordinator(driven: Instance) -> None:
    """Time stands within a tenth of a second, and goes on without a jump over what nobody waits for."""
    assert driven.coordinator is not None
    driven.drive(False)
    time.sleep(0.05)
    driven.coordinator.send_signal(SIGSTOP)
    before = driven.now()
    time.sleep(0.5)
    assert driven.now() - before <= 2 * LEASE
    driven.coordinator.send_signal(SIGCONT)
    wait_until(lambda: driven.now() - before >= 3 * LEASE, "the time")
    assert driven.figures()["jumps"] == 0


def test_sigterm_does_not_end_it(instance: Instance) -> None:
    """A service manager sends it to all processes at the same time: daemons that end still need the clock."""
    assert instance.coordinator is not None
    instance.coordinator.send_signal(SIGTERM)
    instance.drive()
    assert instance.timed("sleep", "600")[0] >= 600 * SECOND
    assert instance.ended() is None


# ---- two of them ----


def test_a_second_coordinator_ends_with_one_line(driven: Instance) -> None:
    second = subprocess.run(driven.command(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (second.returncode, second.stderr) == (
        1,
        f"clock coordinator: {driven.file}: another coordinator serves this clock\n",
    )
    assert driven.figures()["starts"] == 1
    assert driven.timed("sleep", "60")[0] >= 60 * SECOND


# ---- containers ----


def test_a_coordinator_with_process_ids_of_its_own_reads_proc(bpf_instance: Instance) -> None:
    """BPF programs see the kernel's process ids, which are not those of a process id namespace."""
    bpf_instance.kill_coordinator()
    command = ["unshare", "--pid", "--fork", "--mount-proc", *bpf_instance.command()]
    inside = subprocess.Popen(command, text=True, stderr=subprocess.PIPE)
    wait_until(lambda: bpf_instance.figures()["starts"] == 2 or inside.poll() is not None, "the coordinator's start")
    mode = bpf_instance.figures()["mode"]
    bpf_instance.end_programs()
    _, said = inside.communicate(timeout=PATIENCE)
    assert mode == 2, said
    assert "reads /proc: this process is in a process id namespace" in said


# ---- the page and the history ----


@pytest.mark.parametrize("damage", ["missing", "short", "foreign", "link"])
def test_a_page_that_is_none(bpf_instance: Instance, damage: str) -> None:
    """Neither the coordinator nor a program starts."""
    bpf_instance.kill_coordinator()
    page = bpf_instance.folder / clock_page.FILE
    content = page.read_bytes()
    page.unlink()
    if damage == "short":
        page.write_bytes(content[:-4096])
    elif damage == "foreign":
        page.write_bytes(b"anything" + content[8:])
    elif damage == "link":
        (bpf_instance.folder / "elsewhere").write_bytes(content)
        page.symlink_to(bpf_instance.folder / "elsewhere")
    if page.exists():
        os.chown(page, bpf_instance.user, bpf_instance.user, follow_symlinks=True)
    started = subprocess.run(bpf_instance.command(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert started.returncode == 1
    assert started.stderr.startswith(f"clock coordinator: {bpf_instance.file}: page: ")
    assert started.stderr.count("\n") == 1
    if damage == "link":
        return
    program = bpf_instance.start("date")
    _, errors = program.communicate(timeout=PATIENCE)
    assert program.returncode == 127
    assert errors.startswith("virtual clock: ")
    assert errors.count("\n") == 1


def test_a_page_whose_deadlines_are_garbage(bpf_instance: Instance) -> None:
    """Any process of the instance may write anything to its slots: others still wait exactly."""
    chance = random.Random(3)
    bpf_instance.drive()
    for index in range(0, clock_page.SLOTS, 97):
        slot = struct.pack(
            "<QqII", chance.getrandbits(64), chance.choice((-NEVER, -1, 0, NEVER - 1, NEVER)), *chance.choices(range(5), k=2)
        )
        at = clock_page.SLOTS_AT + index * 32
        bpf_instance.page[at : at + len(slot)] = slot
        at = clock_page.SLOTS_AT + clock_page.SLOTS * 32 + index // 64 * 4
        bpf_instance.page[at : at + 4] = struct.pack("<I", chance.getrandbits(32))
    assert 60 * SECOND <= bpf_instance.timed("sleep", "60")[0] < 62 * SECOND


def test_the_end_of_time(bpf_instance: Instance) -> None:
    """Time jumps from nap to nap of 24 days, which is how coreutils' sleep waits, and ends a year before its numbers do."""
    bpf_instance.drive()
    bpf_instance.start("sleep", "9000000000")
    end = 2**63 - 366 * 86400 * SECOND
    wait_until(lambda: bpf_instance.now() > end - 25 * 86400 * SECOND, "the end of time")
    time.sleep(0.5)
    assert bpf_instance.ended() is None
    assert bpf_instance.now() < 2**63 - 364 * 86400 * SECOND


def test_a_history_whose_last_point_was_cut_off(bpf_instance: Instance) -> None:
    """The next points are read as they were written."""
    bpf_instance.kill_coordinator()
    with bpf_instance.history_file.open("ab") as history:
        history.write(b"12345")
    bpf_instance.start_coordinator()
    bpf_instance.drive()
    bpf_instance.run("sleep", "1000")
    now = bpf_instance.now()
    assert all(abs(real - time.time_ns()) < HOUR and abs(virtual - now) < HOUR for real, virtual in bpf_instance.points())


# ---- more waiters than slots ----


def test_more_waiters_than_slots(bpf_instance: Instance) -> None:
    """A wait without a slot ends, never early."""
    for index in range(clock_page.SLOTS):
        at = clock_page.SLOTS_AT + index * 32
        bpf_instance.page[at : at + 16] = struct.pack("<Qq", index + 10**9, NEVER)
    bpf_instance.drive()
    timer = bpf_instance.start("sleep", "0.01")
    bpf_instance.drive(False)
    waited = only(bpf_instance.probe("wait", "nanosleep", SECOND // 10))
    assert SECOND // 10 <= waited["virtual"] < 2 * SECOND
    for name in ("poll", "setitimer", "sem_timedwait:"):
        waited = only(bpf_instance.probe("wait", name, SECOND // 10))
        assert SECOND // 10 <= waited["virtual"] < 2 * SECOND, name
    assert bpf_instance.finish(timer) == ""
    assert len(bpf_instance.slots()) == clock_page.SLOTS
