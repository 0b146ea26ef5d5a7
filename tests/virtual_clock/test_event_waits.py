"""Waits on the event-driven clock: exact, never early, in little real time, with the results that they have without the library."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from .clocked import PATIENCE, SECOND, Builds, without_clock
from .event_instance import PYTHON, ROUNDING, Instance, exactly
from .test_waits import DEADLINES, EINTR, WAITS, expected, only
from .test_waits import PYTHON as WAITS_OF_PYTHON

HOUR = 3600 * SECOND
DAY = 24 * HOUR
INTERRUPTED = [name for name in WAITS if not name.startswith(("pthread", "alarm", "setitimer", "timer"))]


def test_every_wait_is_exact(driven: Instance) -> None:
    """Twice: a wait might leave a slot that the next one stumbles over."""
    for name in WAITS * 2:
        waited = only(driven.probe("wait", name, HOUR))
        assert (waited["result"], waited["error"]) == expected(name), name
        assert exactly(waited, HOUR), f"{name} {waited}"
        assert waited["real"] < 60 * SECOND, name
    assert driven.pending() == []
    assert driven.figures()["given_up"] == 0


def test_deadlines_that_have_passed(driven: Instance) -> None:
    for name in DEADLINES:
        waited = only(driven.probe("wait", name, -60 * SECOND))
        assert (waited["result"], waited["error"]) == expected(name), name
        assert exactly(waited, 0), f"{name} {waited}"
    assert driven.pending() == []


def test_short_waits_are_exact(driven: Instance) -> None:
    for name in ("nanosleep", "ppoll", "pthread_cond_timedwait:monotonic", "timer_settime"):
        for length in (1, 1000, SECOND // 1000):
            waited = only(driven.probe("wait", name, length))
            assert exactly(waited, length), (name, length, waited)


def test_a_crowd_sleeps_exactly(driven: Instance) -> None:
    """Many threads that end at one deadline, and register the next one while the others are being woken up."""
    crowd = only(driven.event_probe("crowd", 100 // driven.slowness, 400 // driven.slowness))
    assert crowd["early"] <= 0
    assert crowd["beyond"] <= ROUNDING


def test_an_interrupted_wait(driven: Instance, builds: Builds) -> None:
    """A signal after 100 s: what is left is the rest. A signal just between two looks at the clock ends no wait."""
    for name in INTERRUPTED:
        for _ in range(10):
            waited = only(driven.probe("signalled", name, HOUR))
            if waited["virtual"] < HOUR:
                break
        usual = only(without_clock(builds, "interrupt", name, HOUR))
        assert (waited["result"], waited["error"]) == (usual["result"], usual["error"]), name
        assert (waited["left"] > 0) == (usual["left"] > 0)
        # The thread that sends the signal begins a little earlier than the wait, or later.
        assert 99 * SECOND < waited["virtual"] <= 100 * SECOND + ROUNDING, f"{name} {waited}"
        if waited["left"]:
            assert HOUR - waited["virtual"] - (SECOND if name == "sleep" else 0) <= waited["left"] <= HOUR, name
    assert driven.pending() == []


def test_a_wait_interrupted_in_real_time(instance: Instance) -> None:
    """Without a driver: by a signal that the clock does not know of. One that comes between two looks of a wait does not end it
    (README.md), so those waits are short and made again."""
    for name, attempts in (("nanosleep", 1), ("sigtimedwait", 5), ("ppoll", 5), ("sem_timedwait:", 5)):
        errors = (only(instance.probe("interrupt", name, 2 * SECOND))["error"] for _ in range(attempts))
        assert EINTR in errors, name
    assert instance.slots() == []


def test_timers_report_the_remaining_time(driven: Instance) -> None:
    wanted = 10_000 * SECOND
    for name, answer in driven.probe("timers", wanted):
        if "stopped" in name:
            assert answer["left"] == 0, name
            continue
        slack = SECOND // 2 if name == "alarm" else ROUNDING
        assert wanted - answer["virtual"] - slack <= answer["left"] <= wanted + slack, name
        if name != "alarm":
            assert answer["interval"] == wanted, name
    assert driven.pending() == []


@pytest.mark.parametrize("kind", ["setitimer", "timer", "thread"])
def test_ticks_of_a_periodic_timer(driven: Instance, kind: str) -> None:
    """Each at its instant, however long the handling of the one before took."""
    answers = driven.event_probe("ticks", kind, 20, HOUR)
    assert len(answers) == 20
    for _, tick in answers:
        assert 0 <= tick["late"] <= ROUNDING, tick


def test_more_timers_than_there_is_room_for_at_a_time(bpf_instance: Instance) -> None:
    """Timers that have ended or were deleted leave room for others."""
    bpf_instance.drive()
    assert only(bpf_instance.event_probe("timers", 300)) == {"refused": 0}


def test_both_clocks_show_the_same_time(driven: Instance) -> None:
    """Uptime and calendar differ by a constant, before and after a jump."""
    code = (
        "import time\nfor _ in range(5):\n  a = time.monotonic_ns(); b = time.time_ns(); c = time.monotonic_ns()\n"
        "  print(b - c, b - a)\n  time.sleep(1e5)"
    )
    answers = [tuple(map(int, line.split())) for line in driven.python(code).splitlines()]
    assert max(low for low, _ in answers) <= min(high for _, high in answers)


# ---- programs of others ----


def test_programs_of_coreutils(driven: Instance) -> None:
    for command in ("sleep 86400.5", "timeout -s0 90000 sleep 86400", "timeout 86400 sleep 1000000"):
        took = int(driven.run("bash", "-c", f"b=$EPOCHSECONDS; {command}; echo $((EPOCHSECONDS - b))"))
        assert 86_400 <= took <= 86_402, command


def test_an_endless_sleep_is_no_deadline(driven: Instance) -> None:
    """Time does not jump to the end of all time, but to the next deadline, and the coordinator stands still meanwhile."""
    driven.start(PYTHON, "-c", "import time; time.sleep(9e9)")
    driven.await_slots(1)
    before = driven.now()
    time.sleep(0.2)
    assert driven.now() - before < SECOND
    virtual, _ = driven.timed("sleep", "60")
    assert 60 * SECOND <= virtual < 62 * SECOND


@pytest.mark.parametrize("way", WAITS_OF_PYTHON)
def test_waits_of_python(driven: Instance, way: str) -> None:
    code = (
        f"import select, signal, subprocess, threading, time; b = time.time_ns(); {WAITS_OF_PYTHON[way]}; print(time.time_ns() - b)"
    )
    assert 60 * SECOND <= int(driven.python(code)) < 62 * SECOND


def test_a_shell_reads_with_a_timeout(driven: Instance) -> None:
    process = driven.start("bash", "-c", "b=$EPOCHSECONDS; read -t 600 line; echo $? $((EPOCHSECONDS - b))", stdin=subprocess.PIPE)
    assert process.stdout is not None
    code, took = process.stdout.read().split()
    assert int(code) > 128
    assert 600 <= int(took) + 1 <= 602


# ---- condition variables ----


def test_no_wake_up_is_lost(driven: Instance) -> None:
    """A timed wait that nobody ends makes time jump to its deadline."""
    relay = only(driven.event_probe("relay", 3000 // driven.slowness))
    assert relay["timeouts"] == 0
    assert relay["virtual"] < 60 * SECOND
    goods = 3000 // driven.slowness
    assert only(driven.event_probe("market", goods)) == {"timeouts": 0, "sold": goods}


def test_cancelled_threads(driven: Instance) -> None:
    """Cleanup handlers have the mutex, and the slots are free."""
    assert only(driven.event_probe("cancel", 300 // driven.slowness)) == {"wrong": 0, "timeouts": 0}
    assert driven.slots() == []


# ---- slurmctld ----


def copy_of_probe(instance: Instance, name: str) -> str:
    path = instance.folder / name
    path.write_bytes(instance.builds.event_probe.read_bytes())
    path.chmod(0o755)
    return str(path)


def test_ten_naps_of_slurmctld_are_one(driven: Instance) -> None:
    """Only of its main thread, and only of a program with this name."""
    for name, merged in (("slurmctld", True), ("slurmd", False)):
        before = driven.figures()["jumps"]
        output = driven.run(copy_of_probe(driven, name), "naps", "40").splitlines()
        assert [line.split()[2] for line in output] == ["main=1", "main=0"]
        for line in output:
            assert 4 * SECOND <= int(line.split()[1].removeprefix("virtual=")) < 5 * SECOND
        jumps = driven.figures()["jumps"] - before
        assert (44 <= jumps < 60) if merged else (80 <= jumps < 100)


def test_a_slurmctld_that_is_told_to_end_in_its_naps(driven: Instance) -> None:
    process = driven.start(copy_of_probe(driven, "slurmctld"), "naps", "1000000000")
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == -signal.SIGTERM


def test_waits_that_end_at_the_same_instant_are_served_by_number(driven: Instance) -> None:
    """Of the nodes, then of the jobs; each when what the one before caused has come to rest."""
    nodes = "for n in 3 10 1 2; do SLURM_MIRAGE_DAEMON=slurmd.n$n sh -c 'sleep 100; sh -c \"echo n$0\"' $n & done"
    jobs = "for j in 8 7; do SLURM_JOB_ID=$j SLURM_MIRAGE_DAEMON=slurmd.n1 sh -c 'sleep 100; sh -c \"echo j$0\"' $j & done"
    for _ in range(5):
        assert driven.run("bash", "-c", f"{jobs}; {nodes}; wait").split() == ["n1", "n2", "n3", "n10", "j7", "j8"]
