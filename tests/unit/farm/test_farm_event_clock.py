"""The farm and the coordinator of an event clock, here a small program that writes into the page as the real one does."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from test_farm import Bed, bed, until

from slurm_mirage.base import processes
from slurm_mirage.clock import clock_page, instance_clock
from slurm_mirage.clock.clock import Clock
from slurm_mirage.clock.event_clock import DRIVER, EventClock
from slurm_mirage.farm import clock_hold, isolation, task_fields
from slurm_mirage.farm.clock_hold import ClockHold
from slurm_mirage.farm.farm import read_state
from slurm_mirage.farm.spawner import REAL_TIME

__all__ = ["bed"]
COORDINATOR = """
import os, struct, sys, time
page = os.open(sys.argv[1] + ".page", os.O_RDWR)
while os.path.exists(sys.argv[1] + ".wait"):
    time.sleep(0.01)
starts, = struct.unpack("<q", os.pread(page, 8, 200))
os.pwrite(page, struct.pack("<qq", time.time_ns(), starts + 1), 192)
time.sleep(300)
"""
STEADFAST = """
echo $$ > "$2"
trap 'test -d /proc/$(cat {directory}/state/coordinator) && touch {directory}/state/$1.ended; exit' TERM
sleep 300 &
wait
"""


def test_the_clock_waits_while_a_daemon_is_down_but_not_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir()
    hold = ClockHold(tmp_path)

    def is_held() -> bool:
        """Another process asks, as the coordinator does: the locks of this one do not disturb it."""
        ask = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)"
        return subprocess.run([sys.executable, "-c", ask, str(tmp_path / DRIVER)], capture_output=True).returncode != 0

    hold.update(True)
    hold.update(True)
    assert is_held()
    hold.update(False)
    assert not is_held()
    hold.update(True)
    assert is_held()
    monkeypatch.setattr(clock_hold, "LONGEST", 0.0)
    hold.update(True)
    assert not is_held()


class EventBed(Bed):
    """An instance's directory and its farm, with the event clock."""

    def coordinator_entry(self) -> dict:
        program = self.directory / "coordinator.py"
        program.write_text(COORDINATOR)
        command = ["/usr/bin/python3", str(program), str(self.directory / "state/clock")]
        page = str(self.directory / clock_page.FILE)
        return {"kind": "clock", "name": "clock", "digest": "1", "ready_file": page, "command": command}

    def specify_event(self, count: int = 2, charge: bool = False) -> None:
        munged = self.entry(1, name="munged", kind="munged")
        controller = self.entry(1, name="slurmctld", kind="slurmctld")
        daemons = (munged, self.coordinator_entry(), controller, self.entry(count))
        self.specify_all(*daemons, clock={"speed": "event", "charge": charge})

    def specify_constant(self, speed: float, count: int = 2) -> None:
        self.specify_all(self.entry(1, name="munged", kind="munged"), self.entry(count), speed=speed)

    @property
    def coordinator(self) -> int:
        """Its process id; 0 while it does not run."""
        name = str(self.directory / "coordinator.py")
        found = [pid for pid in processes.of_instance(str(self.directory)) if processes.command_line(pid)[1:2] == [name]]
        return found[0] if found else 0

    def is_served(self) -> bool:
        return self.is_up(2) and self.state()["daemons"]["clock"] == {"wanted": 1, "up": 1, "ready": 1}


@pytest.fixture
def event_bed(bed: Bed) -> EventBed:
    bed.__class__ = EventBed
    assert isinstance(bed, EventBed)
    return bed


def started(bed: EventBed) -> EventBed:
    bed.specify_event()
    bed.start()
    until(bed.is_served)
    return bed


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to give a real-time priority")
def test_the_controller_has_a_real_time_priority_on_this_clock_only(event_bed: EventBed) -> None:
    def controller() -> int:
        return event_bed.daemons()["slurmctld"]

    started(event_bed)
    if REAL_TIME in event_bed.state()["refused"]:
        pytest.skip("skipped: this host refuses real-time priorities")
    first = controller()
    assert os.sched_getscheduler(first) == os.SCHED_RR
    assert os.sched_getscheduler(event_bed.daemons()["n1"]) == os.SCHED_OTHER
    others = (event_bed.entry(1, name="munged", kind="munged"), event_bed.entry(1, name="slurmctld", kind="slurmctld"))
    event_bed.specify_all(*others, event_bed.entry(2), speed=20)
    event_bed.farm.send_signal(signal.SIGHUP)
    until(lambda: event_bed.is_up(2) and controller() != first)
    assert os.sched_getscheduler(controller()) == os.SCHED_OTHER


def test_nothing_that_uses_the_clock_starts_before_it_is_served(event_bed: EventBed) -> None:
    (event_bed.directory / "state/clock.wait").touch()
    event_bed.specify_event()
    event_bed.start()
    until(lambda: bool(event_bed.coordinator) and event_bed.state()["phase"] == "starting")
    until(lambda: event_bed.state()["daemons"]["clock"] == {"wanted": 1, "up": 1, "ready": 0})
    assert event_bed.daemons().keys() == {"munged"}
    (event_bed.directory / "state/clock.wait").unlink()
    until(event_bed.is_served)
    environment = processes.environment(event_bed.coordinator)
    assert environment[processes.INSTANCE_VARIABLE] == str(event_bed.directory)
    assert "LD_PRELOAD" not in environment
    assert processes.environment(event_bed.daemons()["n1"])["LD_PRELOAD"].endswith("virtual_clock.so")
    assert processes.users_of(event_bed.coordinator) == processes.users_of(event_bed.daemons()["n1"])


def test_a_killed_coordinator_is_replaced_each_time_without_a_growing_delay(event_bed: EventBed) -> None:
    """With a delay that doubles, up to 30 s, this would take minutes."""
    started(event_bed)
    daemons = event_bed.daemons()
    for number in range(2, 10):
        victim = event_bed.coordinator
        os.kill(victim, signal.SIGKILL)
        until(lambda victim=victim: event_bed.coordinator not in (0, victim), 15)
        until(lambda number=number: clock_page.figures(event_bed.directory)["starts"] == number, 15)
    until(event_bed.is_served)
    assert event_bed.daemons() == daemons


def test_a_stopped_coordinator_is_replaced(event_bed: EventBed) -> None:
    started(event_bed)
    victim = event_bed.coordinator
    os.kill(victim, signal.SIGSTOP)
    until(lambda: event_bed.coordinator not in (0, victim))
    until(event_bed.is_served)


def test_the_next_farm_adopts_the_coordinator_and_replaces_it_when_it_dies(event_bed: EventBed) -> None:
    started(event_bed)
    coordinator, daemons = event_bed.coordinator, event_bed.daemons()
    assert event_bed.farm is not None
    event_bed.farm.kill()
    event_bed.farm.wait()
    event_bed.start()
    until(event_bed.is_served)
    assert (event_bed.coordinator, event_bed.daemons()) == (coordinator, daemons)
    os.kill(coordinator, signal.SIGKILL)
    until(lambda: event_bed.coordinator not in (0, coordinator))
    until(event_bed.is_served)


def test_from_constant_to_event_and_back_time_goes_on(event_bed: EventBed) -> None:
    event_bed.specify_constant(1000)
    event_bed.start()
    until(lambda: event_bed.is_up(2))
    fast, before = Clock.read(event_bed.directory / "state/clock"), event_bed.daemons()
    event_bed.specify_event(charge=True)
    assert event_bed.farm is not None
    event_bed.farm.send_signal(signal.SIGHUP)
    until(event_bed.is_served)
    event = instance_clock.current(event_bed.directory)
    assert isinstance(event, EventClock)
    assert event.virtual_ns == fast.virtual_at(event.real_ns)
    assert (event_bed.directory / clock_page.FILE).read_bytes()[260] == 1
    middle = event_bed.daemons()
    assert {name for name in before if before[name] == middle[name]} == {"munged"}

    reached = event.virtual_now() + 10**15
    with (event_bed.directory / clock_page.FILE).open("r+b") as page:
        page.seek(32)
        page.write(struct.pack("<qqqq", 0, reached, 0, reached))
    event_bed.specify_constant(1)
    event_bed.farm.send_signal(signal.SIGHUP)
    until(lambda: event_bed.is_up(2) and not event_bed.coordinator)
    slow, after = Clock.read(event_bed.directory / "state/clock"), event_bed.daemons()
    assert (slow.virtual_ns, slow.speed) == (reached, 1)
    assert {name for name in middle if middle[name] == after.get(name)} == {"munged"}
    assert not (event_bed.directory / clock_page.FILE).exists()


def test_the_others_have_a_clock_until_they_have_ended(event_bed: EventBed) -> None:
    """The coordinator ends last: at their end the other daemons may wait for an instant of the virtual clock."""
    event_bed.program.write_text(STEADFAST.format(directory=event_bed.directory))
    started(event_bed)
    for ended in ("reload", "stop"):
        coordinator = event_bed.coordinator
        (event_bed.directory / "state/coordinator").write_text(str(coordinator))
        noted = event_bed.directory / "state/slurmctld.ended"
        noted.unlink(missing_ok=True)
        assert event_bed.farm is not None
        if ended == "reload":
            event_bed.specify_event(charge=True)
            event_bed.farm.send_signal(signal.SIGHUP)
            until(lambda coordinator=coordinator: event_bed.is_served() and event_bed.coordinator != coordinator)
        else:
            event_bed.farm.terminate()
            assert event_bed.farm.wait(60) == 0
            assert not event_bed.coordinator
        assert noted.exists(), ended


def capabilities(pid: int, kind: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(kind)).split()[1], 16)


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root, whose capabilities are passed on")
def test_only_the_coordinator_may_count_by_bpf(event_bed: EventBed) -> None:
    started(event_bed)
    state = read_state(event_bed.directory)
    assert state is not None
    words = processes.command_line(event_bed.coordinator)
    if "counts of runnable threads by BPF" in state["refused"]:
        pytest.skip("skipped: this kernel does not describe its types (BTF)")
    assert words[-1] == task_fields.read()
    wanted = 1 << isolation.CAP_PERFMON | 1 << isolation.CAP_BPF
    for kind in ("CapAmb", "CapPrm", "CapEff", "CapInh"):
        assert capabilities(event_bed.coordinator, kind) == wanted
    for pid in event_bed.daemons().values():
        assert [capabilities(pid, kind) for kind in ("CapAmb", "CapPrm", "CapInh")] == [0, 0, 0]


def btf(*fields: tuple[str, int], has_bit_fields: bool = False, **others: dict[str, int]) -> bytes:
    """BTF with an integer, a function with two arguments, a struct of that name that is only declared, other structs with their
    fields' offsets, and task_struct."""
    structs = {**others, "task_struct": dict(fields)}
    words = ["", "int", "f", *structs, *(name for one in structs.values() for name in one)]
    text = b"".join(word.encode() + b"\0" for word in words)
    at = {word: text.index(b"\0" + word.encode() + b"\0") + 1 for word in words[1:]}
    types = struct.pack("<IIII", at["int"], 1 << 24, 4, 32)
    types += struct.pack("<IIIIIII", 0, 13 << 24 | 2, 1, 0, 1, 0, 1) + struct.pack("<III", at["task_struct"], 7 << 24, 0)
    size = 32 << 24 if has_bit_fields else 0
    for name, members in structs.items():
        types += struct.pack("<III", at[name], has_bit_fields << 31 | 4 << 24 | len(members), 9000)
        types += b"".join(struct.pack("<III", at[member], 1, size | offset * 8) for member, offset in members.items())
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(text)) + types + text


@pytest.mark.parametrize("has_bit_fields", [False, True])
@pytest.mark.parametrize("state", ["state", "__state"])
def test_fields_of_tasks_are_told_by_their_offsets(state: str, has_bit_fields: bool) -> None:
    data = btf(("flags", 4), (state, 24), ("pid", 1264), ("comm", 1752), has_bit_fields=has_bit_fields)
    assert task_fields.of_btf(data) == "pid=1264,comm=1752,state=24"
    with pytest.raises(OSError, match="task_struct has no field nsproxy"):
        task_fields.of_btf(data, with_network=True)


@pytest.mark.parametrize("has_bit_fields", [False, True])
def test_the_way_to_the_network_namespace_is_told_for_instances_with_one(has_bit_fields: bool) -> None:
    """The number is in a struct of its own, which is a field of the namespace."""
    task = (("state", 24), ("pid", 1264), ("nsproxy", 1840), ("comm", 1752))
    others = {"ns_common": {"inum": 16}, "net": {"passive": 0, "ns": 160}, "nsproxy": {"uts_ns": 8, "net_ns": 40}}
    data = btf(*task, has_bit_fields=has_bit_fields, **others)
    assert task_fields.of_btf(data) == "pid=1264,comm=1752,state=24"
    wanted = "pid=1264,comm=1752,state=24,namespaces=1840,network=40,number=176"
    assert task_fields.of_btf(data, with_network=True) == wanted
    del others["ns_common"]
    with pytest.raises(OSError, match="ns_common has no field inum"):
        task_fields.of_btf(btf(*task, **others), with_network=True)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (btf(("pid", 8), ("comm", 16)), "task_struct has no field state"),
        (btf(("pid", 8), ("comm", 16), ("state", 4))[:60], "pid|unpack"),
        (b"\x7fELF" + bytes(60), "is no BTF"),
        (b"", "unpack"),
    ],
)
def test_a_kernel_whose_types_are_not_as_expected_is_an_error(data: bytes, words: str) -> None:
    with pytest.raises(OSError, match=words):
        task_fields.of_btf(data)
