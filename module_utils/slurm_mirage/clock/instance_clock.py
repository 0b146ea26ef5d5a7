"""The virtual clock of an instance: its file, and the environment with which a program uses it.

The clock file is in the same folder as slurmctld's saved state, so that both exist or are removed together. An instance without a
clock file runs in real time. Programs use the clock through a preloaded library (files/virtual_clock). munged and the farm use
real time, and so does the replay, unless it is an event clock.

A clock runs at a constant speed (`Clock`), or it is an event clock (`EventClock`), which has more files in that folder.

In a cluster of several hosts, which have a constant speed, the head's farm sets the clock, and the other hosts have a copy of its
file. Every process computes virtual time from the file and its host's real time, so the hosts' virtual clocks agree if their real
clocks do.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import user_folders
from ..base.errors import WrongUse
from ..base.files import differs, write_atomically
from . import clock_page
from .clock import Clock
from .event_clock import DRIVER, HISTORY, SPEED, EventClock

FILE = "state/clock"
COPY = "users/.clock"
"""In a sandbox, root's: for those who do not see slurmctld's folder."""
VARIABLE = "SLURM_MIRAGE_CLOCK"


def clock_file(directory: Path) -> Path:
    """Return the path of the clock file of the instance in `directory`. The file may not exist."""
    return directory / FILE


def library(directory: Path) -> Path:
    """Return the path of the library that, preloaded, makes a dynamically linked program use the virtual clock."""
    return directory / "lib/virtual_clock.so"


def coordinator(directory: Path) -> Path:
    """Return the path of the program that keeps the time of an event clock."""
    return directory / "lib/clock_coordinator"


def current(directory: Path) -> Clock | EventClock | None:
    """Return the instance's virtual clock; None when it runs in real time. Raises WrongUse when the file is malformed."""
    content = read_line(directory)
    if content is None:
        return None
    return EventClock.parse(content, directory) or Clock.parse(content, clock_file(directory))


def read_line(directory: Path) -> bytes | None:
    """Return the content of the clock file, one line; None when there is none. Raises WrongUse when it is not a regular file."""
    try:
        return user_folders.read_bytes(directory, FILE, user_folders.SMALL)
    except FileNotFoundError:
        return None
    except PermissionError:
        with suppress(FileNotFoundError):
            return (directory / COPY).read_bytes()
        return None


def share(directory: Path) -> None:
    """Copy the clock file to COPY, if the instance has users with names; without a clock file remove it. For root."""
    copy, content = directory / COPY, read_line(directory)
    if not copy.parent.is_dir():
        return
    if content is None:
        copy.unlink(missing_ok=True)
    elif differs(copy, content):
        write_atomically(copy, content)


def both_times(directory: Path) -> dict[str, Any] | None:
    """Return {"speed", "virtual", "real", "pace"}; None when the instance runs in real time. Raises WrongUse for damaged files.

    virtual, real: the current time on both clocks, in seconds since the epoch; speed: a number, or "event"; pace: virtual seconds
    that pass in a real second, lately
    """
    clock = current(directory)
    if clock is None:
        return None
    now = time.time_ns()
    if isinstance(clock, Clock):
        return {"speed": clock.speed, "virtual": clock.virtual_at(now) / 1e9, "real": now / 1e9, "pace": clock.speed}
    return {"speed": SPEED, "virtual": clock.virtual_now() / 1e9, "real": now / 1e9, "pace": clock.pace()}


def environment(directory: Path) -> dict[str, str]:
    """Return the environment variables with which a program (a Slurm daemon or command) uses the clock; empty in real time."""
    if not clock_file(directory).exists():
        return {}
    return {"LD_PRELOAD": str(library(directory)), VARIABLE: str(clock_file(directory))}


def set_speed(directory: Path, speed: float | str, charge: bool = False) -> None:
    """Let the instance's clock run at `speed` from now on, a number or "event". Call it while no program that uses the clock runs.

    Virtual time continues without a jump, so that neither slurmctld's saved state nor a record is ever in the future. The first
    clock starts at real time. A speed of 1 needs no clock. On an event clock time stops until its coordinator runs; `charge`:
    whether slurmctld's processor time counts in its time.

    It may be killed at any moment: the clock is then the one before or the new one, and the next call puts the rest in order.
    """
    before = current(directory)
    if speed == SPEED:
        if isinstance(before, EventClock):
            _renew_page(before, charge)
        else:
            _begin_event_clock(directory, before, charge)
        return
    if isinstance(before, EventClock):
        now, reached = time.time_ns(), before.reached()
        Clock(now, reached, float(speed)).write(clock_file(directory))
    elif not math.isclose(before.speed if before else 1.0, float(speed), rel_tol=1e-9):
        now = time.time_ns()
        Clock(now, before.virtual_at(now) if before else now, float(speed)).write(clock_file(directory))
    _remove_event_files(directory)


def _begin_event_clock(directory: Path, before: Clock | None, charge: bool) -> None:
    # Files of an event clock that was left for a constant speed would be taken for the new one's.
    _remove_event_files(directory)
    now = time.time_ns()
    clock = EventClock(directory, now, before.virtual_at(now) if before else now)
    clock_page.create(directory, clock.virtual_ns, charge)
    write_atomically(clock_file(directory), clock.line())


def _renew_page(clock: EventClock, charge: bool) -> None:
    """Keep the page of an event clock, or create it again where it is missing or damaged."""
    try:
        clock.virtual_now()
        clock_page.set_charge(clock.directory, charge)
    except WrongUse:
        clock_page.create(clock.directory, clock.reached(), charge)


def _remove_event_files(directory: Path) -> None:
    for name in (clock_page.FILE, HISTORY, DRIVER):
        user_folders.remove(directory, name)


def copy_head_clock(directory: Path, line: str) -> None:
    """Write `line`, the content of the head's clock file, to this host's; an empty `line` removes the clock (real time).

    Call it while no program that uses the clock runs.
    """
    path = clock_file(directory)
    if not line:
        path.unlink(missing_ok=True)
    elif differs(path, line):
        write_atomically(path, line)
