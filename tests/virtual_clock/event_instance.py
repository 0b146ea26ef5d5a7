"""An instance on the event-driven clock, for the tests: its files, its coordinator, and programs that run under its clock.

The coordinator counts the threads of a user, so each instance has a user of its own: an id that no process has.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slurm_mirage.clock import clock_page, instance_clock
from slurm_mirage.clock.event_clock import DRIVER, HISTORY
from slurm_mirage.farm import isolation, task_fields

from .clocked import PATIENCE, SECOND, VARIABLE, Line, lines

BPF, SCAN = "bpf", "scan"
ROUNDING = 1000  # ns: setitimer and select know microseconds
NEVER = 2**63 - 1
SIGNALLED = 2  # a value of Slot.wake (page.h)
FIRST_USER, USERS = 62_100, 200
SLOT = struct.Struct("<QqIIQ")  # token, deadline, wake, kind, nothing
CAPABILITIES = "+cap_38,+cap_39"  # CAP_PERFMON and CAP_BPF, which have no names in older setpriv
PYTHON = "/usr/bin/python3"  # one that any user can run


class Slot(NamedTuple):
    index: int
    token: int
    deadline: int
    wake: int
    kind: int


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` is true; `what` describes it in the error message."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"time-out while waiting for: {what}"
        time.sleep(0.001)


@dataclass(frozen=True)
class EventBuilds:
    """Paths of the library, the coordinator and the probes, in a folder that any user can enter. All have run-time checks."""

    library: Path
    coordinator: Path
    forgetful: Path  # a coordinator that frees the slots of killed waiters after half a second
    probe: Path
    event_probe: Path
    answers: Path


def reserve_user() -> tuple[int, socket.socket]:
    """Return a user id that no process has, and no other session of these tests while the socket is open."""
    for user in range(FIRST_USER, FIRST_USER + USERS):
        reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            reservation.bind(f"\0slurm-mirage-test-user-{user}")
        except OSError:
            reservation.close()
            continue
        if not processes_of(user):
            return user, reservation
        reservation.close()
    pytest.skip("skipped: no user id without processes is free")


def processes_of(user: int) -> list[int]:
    """Return the ids of the user's processes."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and folder.stat().st_uid == user:
                found.append(int(folder.name))
    return found


def counted(*command: str | Path) -> tuple[str | Path, ...]:
    """A command that is counted from its first instruction on: a process that becomes the user's is known when it first waits."""
    return ("sh", "-c", 'sleep 0.001; exec "$@"', "sh", *command)


class Instance:
    """The clock's files in a folder that belongs to `user`, and the processes that use them. Without a driver at first."""

    def __init__(self, folder: Path, builds: EventBuilds, user: int, mode: str) -> None:
        self.folder, self.builds, self.user, self.mode = folder, builds, user, mode
        self.slowness = 20 if mode == SCAN else 1  # of jumps: divides the numbers of rounds of stress tests
        (folder / "state").mkdir()
        instance_clock.set_speed(folder, "event")
        self.file = instance_clock.clock_file(folder)
        self.history_file = folder / HISTORY
        self.driver = (folder / DRIVER).open("w")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user)
        with (folder / clock_page.FILE).open("r+b") as page:
            self.page = mmap.mmap(page.fileno(), clock_page.SIZE)
        self.started: list[subprocess.Popen[str]] = []
        self.coordinator: subprocess.Popen[str] | None = None

    # ---- the coordinator ----

    def command(self, program: Path | None = None) -> list[str]:
        """The command that starts a coordinator as the instance's user."""
        drop = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        coordinator = [str(program or self.builds.coordinator), str(self.file)]
        if self.mode == SCAN:
            return [*drop, *coordinator]
        return [*drop, f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}", *coordinator, task_fields.read()]

    def start_coordinator(self, program: Path | None = None) -> None:
        """Start a coordinator, and wait until it serves the page."""
        starts = self.figures()["starts"]
        self.coordinator = subprocess.Popen(self.command(program), text=True, stderr=subprocess.PIPE)
        if self.mode == BPF:
            with suppress(OSError):  # as the farm does; not permitted in a container
                isolation.set_real_time(self.coordinator.pid)
        wait_until(lambda: self.figures()["starts"] > starts or self.ended() is not None, "the coordinator's start")
        assert self.ended() is None, self.ended()
        if self.figures()["mode"] != {BPF: 1, SCAN: 2}[self.mode]:
            self.kill_coordinator()
            pytest.skip("skipped: the kernel refuses the coordinator's BPF programs")

    def ended(self) -> tuple[int, str] | None:
        """The exit code of the coordinator and what it has printed; None while it runs."""
        if self.coordinator is None or self.coordinator.poll() is None:
            return None
        assert self.coordinator.stderr is not None
        return self.coordinator.returncode, self.coordinator.stderr.read()

    def kill_coordinator(self) -> None:
        assert self.coordinator is not None
        self.coordinator.kill()
        self.coordinator.communicate()
        self.coordinator = None

    def drive(self, on: bool = True) -> None:
        """Begin to be the clock's driver, or cease to be."""
        fcntl.lockf(self.driver, fcntl.LOCK_EX if on else fcntl.LOCK_UN, 1)
        if self.coordinator is not None:
            wait_until(lambda: self.speed() == (0 if on else SECOND) or self.ended() is not None, "the coordinator")

    # ---- the page ----

    def now(self) -> int:
        return clock_page.now(self.folder)

    def figures(self) -> dict[str, int]:
        return clock_page.figures(self.folder)

    def looks(self) -> int:
        """How often waiters that look themselves have looked."""
        return int.from_bytes(self.page[104:112], "little")

    def speed(self) -> int:
        """The speed of the valid anchor, in billionths."""
        anchor = 64 if self.page[16] % 2 else 32
        return int.from_bytes(self.page[anchor + 16 : anchor + 24], "little", signed=True)

    def slots(self) -> list[Slot]:
        """The slots that have an owner."""
        found = []
        for index in range(clock_page.SLOTS):
            slot = Slot(index, *SLOT.unpack_from(self.page, clock_page.SLOTS_AT + index * SLOT.size)[:4])
            if slot.token:
                found.append(slot)
        return found

    def pending(self) -> list[Slot]:
        """The slots whose deadline has not been reached, and whose owner sleeps.

        One that is woken up before gives its slot back, unless its process ends first.
        """
        now = self.now()
        return [slot for slot in self.slots() if slot.deadline > now and slot.wake != SIGNALLED]

    def await_slots(self, count: int) -> list[Slot]:
        """Wait until so many slots have an owner and a deadline."""
        wait_until(lambda: len([slot for slot in self.slots() if slot.deadline != NEVER]) == count, f"{count} waits")
        return self.slots()

    def set_wake(self, slot: Slot, value: int) -> None:
        struct.pack_into("<I", self.page, clock_page.SLOTS_AT + slot.index * SLOT.size + 16, value)

    def points(self) -> list[tuple[int, int]]:
        """The whole points of the history."""
        content = self.history_file.read_bytes()
        return list(struct.iter_unpack("<qq", content[: len(content) // 16 * 16]))

    # ---- programs under the clock ----

    def start(self, *command: str | Path, **popen: Any) -> subprocess.Popen[str]:
        """Start a program as the instance's user; `environment`: further variables."""
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", VARIABLE: str(self.file), "LD_PRELOAD": str(self.builds.library)}
        environment |= popen.pop("environment", {})
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": self.folder, **popen}
        process: subprocess.Popen[str] = subprocess.Popen(
            list(map(str, command)), env=environment, user=self.user, group=self.user, extra_groups=[], **options
        )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> str:
        """Wait for the end of a program that must end with 0 and print nothing to standard error; returns its output."""
        output, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, ""), process.args
        return output

    def lines_of(self, process: subprocess.Popen[str]) -> list[Line]:
        """Wait for the end of a probe; returns its parsed lines."""
        return lines(self.finish(process))

    def run(self, *command: str | Path, **popen: Any) -> str:
        return self.finish(self.start(*command, **popen))

    def probe(self, *arguments: object) -> list[Line]:
        return lines(self.run(self.builds.probe, *map(str, arguments)))

    def event_probe(self, *arguments: object) -> list[Line]:
        return lines(self.run(self.builds.event_probe, *map(str, arguments)))

    def python(self, code: str) -> str:
        return self.run(PYTHON, "-c", code)

    def timed(self, *command: str | Path) -> tuple[int, float]:
        """Run a program; returns the virtual ns and the real seconds that have passed."""
        before, began = self.now(), time.monotonic()
        self.run(*counted(*command))
        return self.now() - before, time.monotonic() - began

    # ---- the end ----

    def end_programs(self) -> None:
        """Kill the programs that still run, and those that they have started, which may hold their output."""
        for pid in processes_of(self.user):
            if self.coordinator is None or pid != self.coordinator.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
        for process in self.started:
            process.communicate(timeout=PATIENCE)
        self.started.clear()

    def close(self) -> None:
        """End all processes; the coordinator must not have ended by itself, nor complained."""
        self.end_programs()
        self.driver.close()
        ended = self.ended()
        if self.coordinator is not None:
            self.kill_coordinator()
        self.page.close()
        shutil.rmtree(self.folder)
        assert ended is None, ended


def exactly(waited: dict[str, int], wanted: int) -> bool:
    """Whether a wait lasted `wanted` ns of virtual time, or up to ROUNDING longer."""
    return wanted <= waited["virtual"] <= wanted + ROUNDING
