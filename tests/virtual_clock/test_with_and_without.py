"""Programs say the same without the library, on the host's own clock, as under it: on a constant clock and on the event clock.

Each probe runs on both, and what it says has to be equal as far as it does not depend on the time: results, errors, signals, which
files are ready, the order of events, what is left of a wait or a timer (in 100 s), and that no wait is too short.

Not compared here:
- Waits that a signal interrupts (`probe interrupt`, `signalled`): test_waits.py and test_event_waits.py compare them with the host.
- What the library is for: readings of clocks (`probe clocks`, `until`; `event_probe readers`, `watch`, `spin`, `crowd`), how exact
  waits and their ends are, times of files.
- Work that time stands for (`event_probe burn`, `workers`, `kernel_timer`, `under_way`), the page of the event clock (`forge`,
  `fill`), and the library's own function mirage_real_time (`event_probe real`): the host has no answer.
- What the library changes on purpose: Slurm's sampler (`probe named`), naps and idle polls of slurmctld, its fsync, TCP_NODELAY,
  names of loopback addresses, libmunge.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pytest

from .clocked import PATIENCE, SECOND, Builds, Under, lines
from .event_instance import PYTHON, Instance
from .test_waits import DEADLINES, WAITS
from .test_waits import PYTHON as WAITS_OF_PYTHON

SPEED = 1.5  # of the constant clock: the order of events a second apart has to remain
NEAR = 100 * SECOND
SHORT = SECOND // 50


@dataclass(frozen=True)
class Case:
    """A program, and what of its output does not depend on the time.

    command: the program, one of `Builds`, or a path or a name; and its arguments
    same: keys of its lines whose numbers have to be equal; None: all of its output, which need not be lines with keys
    near: keys whose numbers have to be equal when they are rounded to NEAR
    least: what a key has to be at least, on every clock (less a hundredth and 1 ms: the host's clocks may be adjusted)
    """

    command: tuple[object, ...]
    same: tuple[str, ...] | None = None
    near: tuple[str, ...] = ()
    least: tuple[str, int] | None = None

    def facts(self, output: str) -> list[Any]:
        """What the program has said, without times."""
        if self.same is None:
            return output.splitlines()
        return [(name, *self._of_line(values)) for name, values in lines(output)]

    def _of_line(self, values: dict[str, int]) -> list[object]:
        same = [f"{key}={values[key]}" for key in self.same or ()]
        near = [f"{key}={(values[key] + NEAR // 2) // NEAR}" for key in self.near]
        return [*same, *near, *([values[self.least[0]] >= 0.99 * self.least[1] - SECOND // 1000] if self.least else [])]


def python(way: str) -> Case:
    """A wait of Python for a second; prints what the last function returns."""
    *first, last = WAITS_OF_PYTHON[way].replace("60_000", "1000").replace("60", "1").split("; ")
    return Case((PYTHON, "-c", "; ".join(["import select, signal, subprocess, threading, time", *first, f"print({last})"])))


def wait(name: str, length: int) -> Case:
    least = None if length < 0 else ("virtual", length)
    return Case(("probe", "wait", name, length), ("result", "error", "left"), least=least)


GROUPS: dict[str, dict[str, Case]] = {
    "waits": {name: wait(name, SECOND if name in ("sleep", "alarm") else SHORT) for name in WAITS},
    "deadlines that have passed": {name: wait(name, -60 * SECOND) for name in DEADLINES},
    "answers": {
        name: Case(("answers", name))
        for name in ("ready", "woken", "masks", "signals", "threads", "order", "timers", "children", "connect")
    },
    "probes": {
        "wrong": Case(("probe", "wrong")),
        "timers": Case(("probe", "timers", 10_000 * SECOND), (), ("left",)),
        "ready": Case(("probe", "ready", 10_000 * SECOND), ("result",), ("left",)),
        "files": Case(("probe", "files", "/usr/bin/env"), ("size", "mtime")),
        "cancel": Case(("probe", "cancel", 50), ()),
        "fork": Case(("probe", "fork", 20), ()),
        "errno": Case(("event_probe", "errno")),
        "save": Case(("event_probe", "save")),
        "polls": Case(("event_probe", "polls", 2, 3, 20), ("ready",)),
        "relay": Case(("event_probe", "relay", 50), ("timeouts",)),
        "market": Case(("event_probe", "market", 10), ("timeouts", "sold")),
        "cancelled waits": Case(("event_probe", "cancel", 30)),
        "naps": Case(("event_probe", "naps", 2), ("main",), least=("virtual", SECOND // 5)),
        "created timers": Case(("event_probe", "timers", 20)),
        **{
            kind: Case(("event_probe", "ticks", kind, 5, SHORT), (), least=("late", 0)) for kind in ("setitimer", "timer", "thread")
        },
    },
    "other programs": {
        **{way: python(way) for way in WAITS_OF_PYTHON},
        "sleep": Case(("bash", "-c", "sleep 1; echo $?")),
        "timeout": Case(
            ("bash", "-c", "timeout 1 sleep 1000; echo $?; timeout 1000 sleep 1; echo $?; timeout -s0 1 sleep 2; echo $?")
        ),
        "read": Case(("bash", "-c", "read -t 1 line < <(sleep 2); echo $?")),
    },
}

ON_THE_EVENT_CLOCK = {
    "answers": [
        "timers: without sigtimedwait/setitimer result=14 error=0 signal=14 code=128 value=0, "
        "with sigtimedwait/setitimer result=14 error=0 signal=14 code=0 value=0",
        "timers: without timer overrun=1, with timer overrun=0",
        "children: without exec alarm=20 interval=30, with exec alarm=0 interval=0",
    ]
}
"""What differs on the event clock (files/virtual_clock/README.md): a thread of the program ends its timers, each time anew."""

Start = Callable[..., "subprocess.Popen[str]"]


def said(group: str, builds: object, start: Start) -> dict[str, list[Any]]:
    """What the programs of a group say, which run at the same time; each has to end with 0 and print no error."""
    found = {}
    running = {}
    for name, case in GROUPS[group].items():
        program, *arguments = case.command
        command = [str(getattr(builds, str(program), program)), *map(str, arguments)]
        running[name] = start(*command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for name, process in running.items():
        output, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, ""), name
        found[name] = GROUPS[group][name].facts(output)
        assert found[name], name
    return found


@pytest.fixture(scope="session")
def on_the_host(builds: Builds) -> Callable[[str], dict[str, list[Any]]]:
    """What the programs of a group say without the library."""
    known: dict[str, dict[str, list[Any]]] = {}

    def start(*command: str, **popen: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(command, text=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}, **popen)

    def answer(group: str) -> dict[str, list[Any]]:
        if group not in known:
            known[group] = said(group, builds, start)
        return known[group]

    return answer


HostAnswers = Callable[[str], dict[str, list[Any]]]


def differences(usual: dict[str, list[Any]], under: dict[str, list[Any]]) -> list[str]:
    """What programs say under the library and not without it, and the other way round, a line each."""
    return [
        f"{name}: without {before}, with {after}"
        for name, lines_without in usual.items()
        for before, after in zip_longest(lines_without, under[name])
        if before != after
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_a_constant_clock(under: Callable[..., Under], on_the_host: HostAnswers, group: str) -> None:
    began = time.time_ns()
    one = under(SPEED, began, began)  # so that files keep the times that they have
    assert differences(on_the_host(group), said(group, one.builds, one.start)) == []


@pytest.mark.parametrize("group", GROUPS)
def test_the_event_clock(driven: Instance, on_the_host: HostAnswers, group: str) -> None:
    assert differences(on_the_host(group), said(group, driven.builds, driven.start)) == ON_THE_EVENT_CLOCK.get(group, [])
