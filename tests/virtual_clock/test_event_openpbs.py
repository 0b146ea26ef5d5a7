"""The event-driven clock and OpenPBS's daemons: waits that end by a signal, passes of their loops, and threads in a network."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_mirage.farm import task_fields

from .clocked import SECOND, Builds, without_clock
from .event_instance import BPF, PYTHON, EventBuilds, Instance, exactly, wait_until
from .test_event_coordinator import is_asleep
from .test_event_slurm import polls
from .test_event_waits import HOUR, INTERRUPTED
from .test_waits import WAITS, expected, only

FILE_WAITS = [name for name in WAITS if "poll" in name or "select" in name]
NODE_CYCLE, SERVER_CYCLE = 120 * SECOND, 2 * SECOND
MS = SECOND // 1000


def as_daemon(instance: Instance, name: str = "pbs_comm") -> str:
    """The probe of waits as a program with this name."""
    return str(shutil.copy(instance.builds.probe, instance.folder / name))


def probed(instance: Instance, program: str, *arguments: object) -> dict[str, int]:
    return only(instance.lines_of(instance.start(program, *map(str, arguments))))


@pytest.mark.parametrize("name_of_program", ["pbs_comm", "pbs_demux"])
def test_waits_for_files_are_exact_and_need_no_looks(driven: Instance, name_of_program: str) -> None:
    program = as_daemon(driven, name_of_program)
    assert len(FILE_WAITS) >= 9
    for name in FILE_WAITS * 2:
        looks = driven.looks()
        waited = probed(driven, program, "wait", name, HOUR)
        assert (waited["result"], waited["error"]) == expected(name), name
        assert exactly(waited, HOUR), f"{name} {waited}"
        assert driven.looks() == looks, name
    assert driven.figures()["given_up"] == 0


def test_an_interrupted_wait_for_files(driven: Instance, builds: Builds) -> None:
    """By a signal of the program after 100 s, which the wait reports."""
    program = as_daemon(driven)
    for name in set(INTERRUPTED) & set(FILE_WAITS):
        waited = probed(driven, program, "signalled", name, HOUR)
        usual = only(without_clock(builds, "interrupt", name, HOUR))
        assert (waited["result"], waited["error"]) == (usual["result"], usual["error"]), name
        assert 99 * SECOND < waited["virtual"] <= 100 * SECOND + 1000, f"{name} {waited}"


def test_threads_that_are_cancelled_and_children(instance: Instance) -> None:
    """Of a program whose waits end by signals."""
    program = as_daemon(instance)
    assert instance.lines_of(instance.start(program, "cancel", "200"))
    assert instance.lines_of(instance.start(program, "fork", "50"))


def test_slots_of_ended_daemons_are_free_again(bpf_instance: Instance) -> None:
    """A daemon keeps its slot between two waits, and needs another one when that was given back."""
    bpf_instance.kill_coordinator()
    bpf_instance.start_coordinator(bpf_instance.builds.forgetful)
    killed = polls(bpf_instance, "pbs_sched", 1, 1_000_000)
    bpf_instance.await_slots(1)
    killed.kill()
    bpf_instance.drive()
    assert probed(bpf_instance, as_daemon(bpf_instance), "wait", "poll", HOUR)["virtual"] >= HOUR
    bpf_instance.run("sleep", "1000")
    wait_until(lambda: bpf_instance.slots() == [], "free slots")


def test_the_next_owner_of_a_slot_wakes_up_although_another_thread_sleeps_there(bpf_instance: Instance) -> None:
    """A daemon that makes no further wait for long loses its slot, and the thread that has waited there for it sleeps on."""
    bpf_instance.kill_coordinator()
    bpf_instance.start_coordinator(bpf_instance.builds.forgetful)
    bpf_instance.drive()
    code = "import select, sys\nselect.epoll().poll(1)\nprint('waited', flush=True)\nsys.stdin.read()"
    daemon = bpf_instance.start("pbs_sched", "-c", code, executable=PYTHON, stdin=subprocess.PIPE)
    assert daemon.stdout is not None and daemon.stdout.readline() == "waited\n"
    wait_until(lambda: bpf_instance.slots() == [], "a free slot")
    for _ in range(3):
        bpf_instance.run("sleep", "1000")
    bpf_instance.finish(daemon)


def polled(instance: Instance, name: str, limit: int) -> str:
    """What such a poll says when it has ended by itself."""
    process = polls(instance, name, 1, limit)
    wait_until(lambda: process.poll() is not None, "the end of the limit")
    return instance.finish(process).split()[1]


@pytest.mark.parametrize(
    ("name", "limit", "cycle"),
    [("pbs_mom", 2000, NODE_CYCLE), ("pbs_server.bin", 2000, SERVER_CYCLE), ("pbs_demux", 10_000, NODE_CYCLE)],
)
def test_passes_are_at_multiples_of_their_cycle(driven: Instance, name: str, limit: int, cycle: int) -> None:
    """Of one length of waits only; others keep their limits."""
    driven.run("sleep", "0.3")
    for asked in (limit, limit, 1500):
        begun = driven.now()
        assert polled(driven, name, asked) == "ready=0"
        passed = driven.now() - begun
        if asked == limit:
            assert driven.now() % cycle < MS, (driven.now(), passed)
            assert passed <= cycle
        else:
            assert asked * MS <= passed < (asked + 1) * MS


PASSES = """
import os, select, time
polls = select.epoll()
instants = [time.time_ns()]
def passes(number, limit=2):
    for _ in range(number):
        polls.poll(limit)
        instants.append(time.time_ns())
passes(2)  # both wait
passes(1, 1)  # so does a short one
write, read = os.pipe()[::-1]
polls.register(read, select.EPOLLIN)
os.write(write, b"x")
passes(1)
os.read(read, 1)
passes(2)  # at once
passes(2, 1)  # both wait
print(*(int(after > before) for before, after in zip(instants, instants[1:])))
"""


def test_a_node_makes_two_passes_more_after_a_message(driven: Instance) -> None:
    """Without a wait, so that it tells the server at this instant what it found."""
    process = driven.start("pbs_mom", "-c", PASSES, executable=PYTHON)
    assert driven.finish(process).split() == [*"111", "0", *"00", *"11"]


POLLS = """
import select, sys
polls = select.epoll()
polls.register(0, select.EPOLLIN)
print("begins", flush=True)
while True:
    found = polls.poll(2)
    print(len(found), flush=True)
    if found:
        break
"""


@pytest.mark.parametrize(("name", "answers"), [("pbs_mom", ["0", "1"]), ("pbs_sched", ["1"])])
def test_a_message_in_another_second_comes_after_a_pass(bpf_instance: Instance, name: str, answers: list[str]) -> None:
    """In which the daemon reads the time by which it handles the message. Here time passes by itself."""
    bpf_instance.drive()
    bpf_instance.run("sleep", str((NODE_CYCLE - bpf_instance.now() % NODE_CYCLE) / SECOND + 0.1))
    bpf_instance.drive(False)
    process = bpf_instance.start(name, "-c", POLLS, executable=PYTHON, stdin=subprocess.PIPE)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "begins\n"
    begun = bpf_instance.now() // SECOND
    wait_until(lambda: is_asleep(process.pid), "the poll")
    wait_until(lambda: bpf_instance.now() // SECOND > begun, "the next second")
    process.stdin.write("x")
    process.stdin.flush()
    assert process.stdout.read().split() == answers


def test_a_database_waits_for_messages_only(driven: Instance) -> None:
    assert polled(driven, "postgres", 500) == "ready=0"
    idle = polls(driven, "postgres", 1, 5000)
    before = driven.figures()["jumps"]
    driven.run("sleep", "1000")
    assert driven.figures()["jumps"] - before < 10
    assert idle.poll() is None


class NetworkInstance(Instance):
    """An instance with a network namespace of its own, in which the coordinator runs."""

    def command(self, program: Path | None = None) -> list[str]:
        *command, fields = super().command(program)
        return ["unshare", "--net", *command, f"{fields},{task_fields.read(with_network=True).split(',', 3)[3]}"]

    def inside(self, *command: str) -> subprocess.Popen[str]:
        """Start a program in the network as root, without the clock."""
        assert self.coordinator is not None
        return subprocess.Popen(["nsenter", f"--net=/proc/{self.coordinator.pid}/ns/net", "--", *command], text=True)


@pytest.fixture
def network(event_builds: EventBuilds, event_user: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkInstance]:
    folder = event_builds.library.parent / "network"
    folder.mkdir()
    folder.chmod(0o755)
    one = NetworkInstance(folder, event_builds, event_user, BPF)
    one.start_coordinator()
    yield one
    one.close()


BURN = "import sys, time; sys.stdin.readline(); end = time.process_time() + 1\nwhile time.process_time() < end: pass"


@pytest.mark.parametrize("is_inside", [True, False])
def test_threads_in_the_instances_network_are_the_instances(network: NetworkInstance, is_inside: bool) -> None:
    """Whoever they belong to; here root's, one that was there before the coordinator, and waits, as after a restart of it."""
    words = ["python3", "-c", BURN]
    assert network.coordinator is not None
    where = ["nsenter", f"--net=/proc/{network.coordinator.pid}/ns/net", "--"] if is_inside else []
    worker = subprocess.Popen([*where, *words], stdin=subprocess.PIPE, text=True)
    assert worker.stdin is not None
    time.sleep(0.5)
    network.drive()
    worker.stdin.write("\n")
    worker.stdin.flush()
    time.sleep(0.1)
    began = time.monotonic()
    network.run("sleep", "1000000")
    took = time.monotonic() - began
    has_worked = worker.poll() is not None
    worker.communicate()
    assert has_worked == is_inside, took
