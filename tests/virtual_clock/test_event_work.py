"""The event-driven clock waits for work, and for nothing else; what it overlooks is counted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from slurm_mirage.clock import clock_page

from .clocked import PATIENCE, SECOND, lines
from .event_instance import PYTHON, Instance, counted, wait_until
from .test_event_coordinator import is_asleep
from .test_event_waits import copy_of_probe
from .test_waits import only

MILLISECOND = SECOND // 1000
TICK = MILLISECOND  # virtual ns that a measurement from outside may be wrong by

SERVER = """
import socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
def serve():
    for _ in range(5):
        one, _ = server.accept()
        one.recv(100)
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass
        one.sendall(b"done")
        one.close()
threading.Thread(target=serve).start()
before = time.time_ns()
for _ in range(5):
    client = socket.create_connection(server.getsockname())
    client.settimeout(10)
    client.sendall(b"go")
    assert client.recv(100) == b"done"
    client.close()
print(time.time_ns() - before)
"""
FSYNC = """
import os, time
before = time.time_ns()
with open("file", "wb") as file:
    for _ in range(10):
        file.write(bytes(1 << 20))
        file.flush()
        os.fsync(file.fileno())
print(time.time_ns() - before)
"""
PIPES = "b=$(date +%s%N); head -c 20000000 /dev/zero | tr '\\0' x | gzip -1 | wc -c > /dev/null; e=$(date +%s%N); echo $((e - b))"


@pytest.mark.parametrize("way", ["processor", "fsync", "request", "pipes"])
def test_work_takes_no_time(driven: Instance, way: str) -> None:
    """While another process sleeps: work that is overlooked lets time jump to its deadline.

    One of three times: on a busy host the kernel may leave a packet to its own thread (ksoftirqd), which is not the user's, and
    time jumps while it is on its way. Such a jump is counted as a false quiet.
    """
    command = {
        "processor": (driven.builds.event_probe, "burn", 100 * MILLISECOND),
        "fsync": (PYTHON, "-c", FSYNC),
        "request": (PYTHON, "-c", SERVER),
        "pipes": ("bash", "-c", PIPES),
    }[way]
    shares = []
    for _ in range(3):
        began = time.monotonic_ns()
        output = driven.run("bash", "-c", 'sleep 1000000 > /dev/null 2>&1 & "$@"', "bash", *map(str, command))
        took = only(lines(output))["virtual"] if way == "processor" else int(output)
        shares.append(took / (time.monotonic_ns() - began))
        if took == 0:
            return
        driven.end_programs()
    pytest.fail(f"virtual ns for each real one: {shares}")


def test_a_program_that_waits_by_reading_the_time_ends(driven: Instance) -> None:
    spun = only(driven.event_probe("spin", 20 * MILLISECOND))
    assert spun["virtual"] == 20 * MILLISECOND
    assert driven.figures()["reader_steps"] == 2


def test_a_program_that_waits_for_input_may_read_the_time_often(driven: Instance) -> None:
    """Such as a daemon that writes the time with each line of its log: its waits have no limit, but time passes in them."""
    readings = "import sys, time\nfor line in sys.stdin:\n    for _ in range(30_000):\n        time.time()\n"
    driven.run("bash", "-c", 'for i in {1..15}; do echo; sleep 1; done | "$0" -c "$1"', PYTHON, readings)
    assert driven.figures()["reader_steps"] == 0


# ---- killed and stopped programs ----


def test_killed_waiters_hold_nothing_up(driven: Instance) -> None:
    """Killed at any instant of their start and their waits. Time may jump to their deadlines before the measurement."""
    waits = ("sleep 1000", "read -t 1000 < <(sleep 2000)", "timeout 1000 sleep 3000")
    for number in range(30):
        process = driven.start("bash", "-c", waits[number % 3], start_new_session=True)
        time.sleep(0.002 * number)
        os.killpg(process.pid, SIGKILL)
        process.communicate()
    began = time.monotonic()
    code = "sleep 0.001; begin=${EPOCHREALTIME/./}; sleep 10000; echo $((${EPOCHREALTIME/./} - begin))"
    assert 10_000 <= int(driven.run("bash", "-c", code)) / 1e6 < 10_060
    assert time.monotonic() - began < 60


def test_slots_of_killed_waiters_are_free_again(bpf_instance: Instance) -> None:
    """Some time after their deadlines; the coordinator of this test waits for a shorter time."""
    bpf_instance.kill_coordinator()
    for name in ("nanosleep", "poll", "pthread_cond_timedwait:realtime", "setitimer"):
        bpf_instance.start(bpf_instance.builds.probe, "wait", name, 1000 * SECOND)
    bpf_instance.await_slots(4)
    bpf_instance.end_programs()
    bpf_instance.start_coordinator(bpf_instance.builds.forgetful)
    bpf_instance.drive()
    bpf_instance.run("sleep", "2000")
    wait_until(lambda: bpf_instance.slots() == [], "free slots")
    assert bpf_instance.figures()["given_up"] == 1  # the poll


def test_a_stopped_waiter_keeps_its_slot_or_ends_without(bpf_instance: Instance) -> None:
    """Its slot is taken for one of a killed process: when it continues, it ends, and takes no other's slot."""
    bpf_instance.kill_coordinator()
    stopped = [bpf_instance.start(bpf_instance.builds.probe, "wait", name, 1000 * SECOND) for name in ("nanosleep", "poll")]
    ticking = bpf_instance.start(bpf_instance.builds.event_probe, "ticks", "setitimer", "3", 1000 * SECOND)
    bpf_instance.await_slots(3)
    for process in (*stopped, ticking):
        wait_until(lambda pid=process.pid: is_asleep(pid), "its wait")  # type: ignore[misc]
        process.send_signal(SIGSTOP)
    bpf_instance.start_coordinator(bpf_instance.builds.forgetful)
    bpf_instance.drive()
    bpf_instance.run("sleep", "2000")
    wait_until(lambda: bpf_instance.slots() == [], "free slots")
    others = [bpf_instance.start("sleep", "5000") for _ in range(3)]
    bpf_instance.drive(False)
    for process in (*stopped, ticking):
        process.send_signal(SIGCONT)
    time.sleep(0.1)
    bpf_instance.drive()
    for process in (*stopped, ticking, *others):
        bpf_instance.finish(process)


@pytest.mark.parametrize("name", ["slurmtest", "pbs_test", "another"])
def test_a_stopped_thread_holds_time_up_if_it_is_a_daemons(driven: Instance, name: str) -> None:
    path = driven.folder / name
    path.write_bytes(Path("/usr/bin/sleep").read_bytes())
    path.chmod(0o755)
    driven.drive(False)
    stopped = driven.start(path, "1000000")
    driven.await_slots(1)
    stopped.send_signal(SIGSTOP)
    wait_until(lambda: Path(f"/proc/{stopped.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "its stop")
    driven.drive()
    sleeper = driven.start("sleep", "1000")
    if name != "another":
        time.sleep(0.5)
        assert sleeper.poll() is None
        stopped.send_signal(SIGCONT)
    assert sleeper.wait(timeout=PATIENCE) == 0
    stopped.send_signal(SIGCONT)
    assert stopped.wait(timeout=PATIENCE) == 0


def sleep_for_ever(probe: Path) -> tuple[Path, str, str, str]:
    """A command that waits for 285 years in one call, for which time does not jump. coreutils' sleep makes naps of 24 days."""
    return probe, "wait", "nanosleep", str(9 * 10**18)


def limit_files(instance: Instance) -> None:
    """Start a coordinator again that may keep the files of six threads open (threads.c)."""
    limited = instance.folder / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -n 76\nexec {instance.builds.coordinator} "$@"\n')
    limited.chmod(0o755)
    instance.kill_coordinator()
    instance.start_coordinator(limited)


def time_limits_on_a_busy_processor(instance: Instance) -> list[int]:
    """How long 100 programs ran, one after the other, each of which ends at a time limit of 86400 s.

    The first processor is kept busy by a program that has precedence, so the kernel preempts the others wherever they wake it up.
    """
    first = str(min(os.sched_getaffinity(0)))
    busy = subprocess.Popen(["taskset", "-c", first, "sh", "-c", "while :; do :; done"])
    try:
        code = "for i in $(seq 100); do b=$EPOCHSECONDS; timeout 86400 sleep 1000000; echo $((EPOCHSECONDS - b)); done"
        took = instance.run("taskset", "-c", first, "nice", "-n4", "bash", "-c", code).split()
    finally:
        busy.kill()
        busy.wait()
    return [int(seconds) for seconds in took]


def test_threads_that_are_preempted_on_their_way_to_sleep(driven: Instance) -> None:
    """They work, although the kernel shows them as sleeping."""
    took = time_limits_on_a_busy_processor(driven)
    assert set(took) <= {86_400, 86_401, 86_402} and len(took) == 100


def test_preempted_threads_beside_a_process_that_may_be_traced_no_more(scan_instance: Instance) -> None:
    """The kernel says no more where that one waits, whose file is kept open. Looks take long, because the others' files are not."""
    limit_files(scan_instance)
    scan_instance.drive()
    code = "import ctypes, time; time.sleep(1000); ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); time.sleep(9e9)"  # PR_SET_DUMPABLE
    other = scan_instance.start(PYTHON, "-c", code)
    wait_until(lambda: Path(f"/proc/{other.pid}/wchan").stat().st_uid == 0, "its files to be root's")
    others = [scan_instance.start(*sleep_for_ever(scan_instance.builds.probe)) for _ in range(20)]
    scan_instance.await_slots(1 + len(others))
    took = time_limits_on_a_busy_processor(scan_instance)
    assert set(took) <= {86_400, 86_401, 86_402} and len(took) == 100


def test_a_process_that_may_not_be_traced_holds_nothing_up(driven: Instance) -> None:
    """The kernel does not show where it waits: its user may run its program, but not read it.

    One that counts as working holds up each jump for a second. On a busy host it takes several tries to see a shorter one.
    """
    program = driven.folder / "unreadable"
    shutil.copy(driven.builds.probe, program)
    program.chmod(0o711)
    sleeper = driven.start(*sleep_for_ever(program))
    driven.await_slots(1)
    wait_until(lambda: Path(f"/proc/{sleeper.pid}/wchan").stat().st_uid == 0, "its files to be root's")

    def jumps_at_once() -> bool:
        driven.kill_coordinator()
        driven.start_coordinator()
        return driven.timed("sleep", "1000")[1] < 0.5

    wait_until(jumps_at_once, "a jump that nothing holds up")


def files_of(coordinator: subprocess.Popen[str] | None) -> int:
    """The number of files that are open in the coordinator."""
    assert coordinator is not None
    return sum(1 for _ in Path(f"/proc/{coordinator.pid}/fd").iterdir())


def test_files_of_threads_that_have_ended_are_closed(scan_instance: Instance) -> None:
    """At twice as many threads as at the last time and 256; each has two files."""
    scan_instance.drive()
    scan_instance.run("sh", "-c", "for i in $(seq 2000); do /bin/true; done")
    assert files_of(scan_instance.coordinator) < 2 * (256 + 2 * 10) + 20


def test_more_threads_than_files_may_be_open(scan_instance: Instance) -> None:
    """Those of six threads; the others are opened for each look."""
    limit_files(scan_instance)
    sleepers = [scan_instance.start(*sleep_for_ever(scan_instance.builds.probe)) for _ in range(20)]
    scan_instance.await_slots(len(sleepers))
    scan_instance.drive()
    code = "for i in $(seq 20); do b=$EPOCHSECONDS; timeout 86400 sleep 1000000; echo $((EPOCHSECONDS - b)); done"
    took = [int(seconds) for seconds in scan_instance.run("bash", "-c", code).split()]
    assert set(took) <= {86_400, 86_401} and len(took) == 20
    assert 64 > files_of(scan_instance.coordinator) >= 2 * 6


# ---- processes ----


def test_children_wait_exactly(driven: Instance) -> None:
    """After fork, vfork and exec (subprocess), and posix_spawn; while a thread of the parent waits."""
    code = """
import os, subprocess, sys, threading, time
threading.Thread(target=time.sleep, args=(5000,)).start()
before = time.time_ns()
if os.fork() == 0:
    time.sleep(100)
    os._exit(0)
os.wait()
subprocess.run(["sleep", "100"], check=True)
os.waitpid(os.posix_spawn("/usr/bin/sleep", ["sleep", "100"], os.environ), 0)
os.system("exec sleep 100")
print(time.time_ns() - before)
"""
    assert 400 * SECOND <= int(driven.python(code)) < 401 * SECOND
    assert driven.slots() == []


def test_forks_and_cancelled_threads_in_the_middle_of_calls(bpf_instance: Instance) -> None:
    bpf_instance.drive()
    bpf_instance.probe("fork", 50)
    bpf_instance.probe("cancel", 100)
    assert 60 * SECOND <= bpf_instance.timed("sleep", "60")[0] < 62 * SECOND


# ---- what is charged ----


@pytest.mark.parametrize("charge", [0, 1])
def test_the_schedulers_processor_time(driven: Instance, charge: int) -> None:
    """It passes on the clock when asked, and only that of a program with the name slurmctld."""
    driven.page[260] = charge
    busy = only(driven.event_probe("burn", 100 * MILLISECOND))
    assert busy["virtual"] == 0
    assert driven.figures()["charged_ns"] == 0
    busy = only(lines(driven.run(copy_of_probe(driven, "slurmctld"), "burn", str(100 * MILLISECOND))))
    charged = driven.figures()["charged_ns"]
    if charge:
        assert busy["burnt"] <= charged <= busy["used"] + 50 * MILLISECOND
        assert busy["charged"] >= busy["burnt"]
    else:
        assert charged == 0
        assert busy["virtual"] == 0


# ---- false quiets ----


@pytest.mark.parametrize("wait", [("real", "probe"), ("kernel_timer",), ("real", "mirage-observer")])
def test_what_the_clock_does_not_wait_for_is_a_false_quiet(bpf_instance: Instance, wait: tuple[str, ...]) -> None:
    """Something wakes a program up during whose wait time has jumped, but no deadline. Observers do not count."""
    bpf_instance.drive()
    program = f"{bpf_instance.builds.event_probe} {' '.join(wait)} {50 * MILLISECOND}"

    def jumps_meanwhile() -> bool:
        """On a busy host the wait may be over before time jumps."""
        before = bpf_instance.figures()
        bpf_instance.run("sh", "-c", f"sleep 1000 & {program}; wait")
        after = bpf_instance.figures()
        grown = {name: after[name] - before[name] for name in after}
        if "mirage-observer" in wait:
            return grown["jumps"] > 0 and grown["false_quiets"] == 0
        return grown["false_quiets"] >= 1 and grown["false_quiet_ns"] >= 900 * SECOND

    wait_until(jumps_meanwhile, "a jump during the wait")


@pytest.mark.parametrize(("length", "times"), [(50_000, 100), (MILLISECOND, 50), (40 * MILLISECOND, 10)])
def test_all_jumps_count_while_something_was_under_way(bpf_instance: Instance, length: int, times: int) -> None:
    """Others wake up ten times a second of the clock meanwhile, and may work when it arrives."""
    bpf_instance.drive()
    probe = bpf_instance.builds.event_probe
    bpf_instance.start(probe, "naps", "1000000000")
    before = bpf_instance.figures()["false_quiet_ns"]
    jumped = only(lines(bpf_instance.run(*counted(probe, "under_way", str(length), str(times)))))["jumped"]
    bpf_instance.run("true")  # it is counted when nothing works
    assert jumped > 0
    assert bpf_instance.figures()["false_quiet_ns"] - before >= 0.99 * jumped


def test_a_false_quiet_counts_although_others_work_when_it_is_noticed(bpf_instance: Instance) -> None:
    """Time jumps while a timer is pending, to the end of a wait of somebody who then works until after the timer."""
    bpf_instance.drive()
    probe = bpf_instance.builds.event_probe
    others = f"(sleep 1000; {probe} burn {100 * MILLISECOND} > /dev/null)"

    def counts() -> bool:
        """On a busy host the timer may expire before the jump."""
        before = bpf_instance.figures()
        bpf_instance.run("sh", "-c", f"{others} & {probe} kernel_timer {20 * MILLISECOND}; wait")
        return bpf_instance.figures()["false_quiet_ns"] - before["false_quiet_ns"] >= 900 * SECOND

    wait_until(counts, "a false quiet")


def test_an_answer_from_outside_is_late_since_its_request(bpf_instance: Instance) -> None:
    """All jumps count that are made until a process that is not the instance's has answered it."""
    bpf_instance.drive()
    bpf_instance.start(bpf_instance.builds.event_probe, "naps", "1000000000")
    code = "import time\nwhile True:\n    b = time.time_ns(); print(flush=True); input(); print(time.time_ns() - b, flush=True)"
    asker = bpf_instance.start(PYTHON, "-c", code, stdin=subprocess.PIPE)

    def counts_all() -> bool:
        """On a busy host the answer may take longer than anything is taken to be under way."""
        assert asker.stdin is not None
        assert asker.stdout is not None
        before = bpf_instance.figures()["false_quiet_ns"]
        assert asker.stdout.readline() == "\n"
        time.sleep(0.02)
        asker.stdin.write("\n")
        asker.stdin.flush()
        passed = int(asker.stdout.readline())
        bpf_instance.run("true")  # it is counted when nothing works
        return passed > SECOND and bpf_instance.figures()["false_quiet_ns"] - before >= 0.9 * passed

    wait_until(counts_all, "an answer of which all jumps count")


def test_what_nobody_has_asked_for_was_not_under_way(bpf_instance: Instance) -> None:
    """A message from outside, and a timer of a program that is not on the clock: the last jump at most of each, of 0.1 s."""
    bpf_instance.drive()
    bpf_instance.start(bpf_instance.builds.event_probe, "naps", "1000000000")
    reader = bpf_instance.start("cat", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert reader.stdin is not None

    def counts_little() -> bool:
        """On a busy host more may be false quiets, and of some of them all jumps count."""
        time.sleep(0.3)  # longer than anything is taken to be under way
        before = bpf_instance.figures()
        assert reader.stdin is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
        time.sleep(0.3)
        subprocess.run(["sleep", "0.3"], user=bpf_instance.user, group=bpf_instance.user, extra_groups=[], check=True)
        after = bpf_instance.figures()
        assert after["jumps"] - before["jumps"] > 10
        times = after["false_quiets"] - before["false_quiets"]
        return after["false_quiet_ns"] - before["false_quiet_ns"] <= times * (SECOND // 10 + TICK)

    wait_until(counts_little, "no more than the last jumps")


def test_a_look_hides_no_false_quiet(bpf_instance: Instance) -> None:
    """A waiter that looks at the clock while others work does not explain what woke them up."""
    bpf_instance.drive()
    beyond = 4000 * 86400 * SECOND  # no jump goes there, so the poll looks all the time
    bpf_instance.start(bpf_instance.builds.probe, "wait", "ppoll", str(beyond))
    work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"

    def has_false_quiet() -> bool:
        """On a busy host the timer may expire before the coordinator jumps."""
        before, looks = bpf_instance.figures(), bpf_instance.looks()
        bpf_instance.run(
            "sh", "-c", f"sleep 1000 & {bpf_instance.builds.event_probe} kernel_timer {50 * MILLISECOND}; {work}; wait"
        )
        after = bpf_instance.figures()
        if after["false_quiet_ns"] - before["false_quiet_ns"] < 900 * SECOND:
            return False
        assert bpf_instance.looks() > looks + 3
        return True

    wait_until(has_false_quiet, "a false quiet")


def processor_time(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_forged_waits_do_not_keep_the_coordinator_busy(bpf_instance: Instance) -> None:
    """It has precedence over all processes of the host. Any user of the page can write ended waits into it again and again."""
    bpf_instance.drive()
    assert bpf_instance.coordinator is not None
    bpf_instance.start(bpf_instance.builds.event_probe, "forge", bpf_instance.folder / clock_page.FILE, 20_000)
    began, used = time.monotonic(), processor_time(bpf_instance.coordinator.pid)
    time.sleep(2)
    assert processor_time(bpf_instance.coordinator.pid) - used < 0.3 * (time.monotonic() - began)


def test_waits_without_a_slot_are_counted(bpf_instance: Instance) -> None:
    bpf_instance.drive()
    filler = bpf_instance.start(bpf_instance.builds.event_probe, "fill", bpf_instance.folder / clock_page.FILE)
    assert filler.stdout is not None
    assert filler.stdout.readline() == "filled\n"
    assert bpf_instance.figures()["unlisted"] == 0
    bpf_instance.probe("wait", "nanosleep", MILLISECOND)
    assert bpf_instance.figures()["unlisted"] == 1


@pytest.mark.parametrize("within", [(), ("unshare", "--user", "--map-current-user", "--pid", "--fork")], ids=["", "in_a_node"])
def test_looks_of_waiters_are_no_false_quiets(bpf_instance: Instance, within: tuple[str, ...]) -> None:
    """A poll looks at the clock by a timer of the kernel. (A program that is started from outside is a false quiet.)

    A node has process ids of its own.
    """
    poll = f"{bpf_instance.builds.probe} wait poll 3600000000000 > /dev/null"
    found: list[int] = []
    while 0 not in found and len(found) < 3:  # on a busy host the kernel may wake something up on its own account
        before, looks = bpf_instance.figures()["false_quiets"], bpf_instance.looks()
        bpf_instance.drive()  # forgets the last jump, so the start from outside is no false quiet
        bpf_instance.run(*within, "bash", "-c", f"for i in 1 2 3 4 5 6 7 8 9 10; do {poll}; read -t 100 < <(sleep 300); done; wait")
        bpf_instance.drive(False)
        assert bpf_instance.looks() >= looks + 10
        found.append(bpf_instance.figures()["false_quiets"] - before)
    assert found[-1] == 0, found


def test_waiters_that_have_not_looked_yet_are_no_false_quiets(bpf_instance: Instance) -> None:
    """A timer of the kernel may wake one up just when the coordinator asks whether the others have only looked at the clock."""
    for _ in range(30):
        bpf_instance.start(bpf_instance.builds.probe, "wait", "ppoll", str(10**9 * SECOND))
    bpf_instance.drive()
    before = bpf_instance.figures()
    bpf_instance.python("import time\nfor _ in range(20_000): time.sleep(1)")
    after = bpf_instance.figures()
    assert bpf_instance.looks() > 1000
    passed = after["jumped_ns"] - before["jumped_ns"]
    assert passed >= 20_000 * SECOND
    # On a busy host something else may be one.
    assert after["false_quiet_ns"] - before["false_quiet_ns"] < 0.2 * passed


def test_the_signal_of_a_timer_is_no_false_quiet(bpf_instance: Instance) -> None:
    """A program waits for it while jumps for another one are made."""
    bpf_instance.start(PYTHON, "-c", "import time\nwhile True: time.sleep(0.9)")
    bpf_instance.drive()
    before = bpf_instance.figures()
    bpf_instance.run(*counted(bpf_instance.builds.event_probe, "ticks", "setitimer", "100", str(7 * SECOND)))
    after = bpf_instance.figures()
    passed = after["jumped_ns"] - before["jumped_ns"]
    assert passed >= 690 * SECOND
    # On a busy host something else may be one.
    assert after["false_quiet_ns"] - before["false_quiet_ns"] < 0.2 * passed


# ---- times of files ----


@pytest.mark.parametrize("has_file", [True, False])
def test_times_of_files_follow_the_history(driven: Instance, has_file: bool) -> None:
    """A file is not older than the time noted when it was written, and not younger than the time noted afterwards. The last points
    are in the page: for files of a short time ago the file of the history is not needed."""
    code = f"""
import os, time
notes = []
for number in range(12):
    before = time.time_ns()
    open(f"f{{number}}", "w").close()
    notes.append((before, time.time_ns()))
    time.sleep(1000)
if not {has_file}:
    os.rename({str(driven.history_file)!r}, "away")
for number, (before, after) in enumerate(notes):
    print(os.stat(f"f{{number}}").st_mtime_ns - before, after - os.stat(f"f{{number}}").st_mtime_ns)
"""
    for line in driven.python(code).splitlines():
        young, old = map(int, line.split())
        assert young >= 0
        assert old >= -13_000 * SECOND  # within the points of the history


def test_older_files_have_the_same_times_from_the_page_and_from_the_file(driven: Instance) -> None:
    """The page has the last points only: a file that was dated by it has the same time when it is dated by the history's file.

    Points are noted by real time, so the program takes processor time between files.
    """
    code = """
import os, time
def work(count, seconds, then):
    for number in range(count):
        then(number)
        time.sleep(1000)
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
work(20, 0.07, lambda number: open(f"f{number}", "w").close())
print([os.stat(f"f{number}").st_mtime_ns for number in range(20)])
work(150, 0.07, lambda number: None)
"""
    before = len(driven.points())
    recent = json.loads(driven.python(code))
    assert len(driven.points()) - before > 20 + 128  # more than the page has
    assert recent == sorted(recent) and recent[-1] - recent[0] > 10_000 * SECOND
    later = json.loads(driven.python("import os; print([os.stat(f'f{number}').st_mtime_ns for number in range(20)])"))
    assert later[:-1] == recent[:-1]


def test_a_file_from_before_the_clock_and_one_of_now(driven: Instance) -> None:
    old = driven.folder / "old"
    old.touch()
    os.utime(old, ns=(10**18, 10**18))
    code = (
        "import os, time; print(os.stat('old').st_mtime_ns); open('new', 'w').close(); "
        "print(os.stat('new').st_mtime_ns - time.time_ns())"
    )
    first, second = map(int, driven.python(code).split())
    assert first == 10**18
    assert -SECOND <= second <= 0


# Reads an element of a BPF map for a second of processor time. While bpf(2) does, the kernel skips programs at tracepoints.
READER_OF_MAPS = """
import ctypes, os, platform, struct, time
number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
call = ctypes.CDLL(None, use_errno=True).syscall
map_file = call(number, 0, struct.pack("<IIII", 2, 4, 8, 1) + bytes(112), 128)
assert map_file >= 0, os.strerror(ctypes.get_errno())
key, value = ctypes.c_uint32(0), ctypes.create_string_buffer(8)
look = struct.pack("<IIQQQ", map_file, 0, ctypes.addressof(key), ctypes.addressof(value), 0) + bytes(96)
while time.process_time() < 1:
    for _ in range(1000):
        assert call(number, 1, look, 128) == 0
"""


def test_no_program_of_the_coordinator_is_skipped_while_others_read_bpf_maps(bpf_instance: Instance) -> None:
    assert bpf_instance.coordinator is not None
    files = Path(f"/proc/{bpf_instance.coordinator.pid}/fdinfo")
    bpf_instance.drive()
    readers = [subprocess.Popen([PYTHON, "-c", READER_OF_MAPS]) for _ in range(2 * (os.cpu_count() or 1))]
    bpf_instance.run(bpf_instance.builds.event_probe, "burn", SECOND // 10)
    assert [reader.wait(PATIENCE) for reader in readers] == [0] * len(readers)
    counts = [line.split()[1] for file in files.iterdir() for line in file.read_text().splitlines() if "recursion_misses" in line]
    assert counts and set(counts) == {"0"}
