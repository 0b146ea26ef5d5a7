"""The virtual clock of an instance: its file, and the environment with which a program uses it.

The clock file is in the same folder as slurmctld's saved state, so that both exist or are removed together. An instance without a
clock file runs in real time. Programs use the clock through a preloaded library (files/virtual_clock). munged, the farm and the
replay use real time.

In a cluster of several hosts the head's farm sets the clock, and the other hosts have a copy of its file. Every process computes
virtual time from the file and its host's real time, so the hosts' virtual clocks agree if their real clocks do.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from ..base import user_folders
from ..base.files import differs, write_atomically
from .clock import Clock

FILE = "state/clock"
VARIABLE = "SLURM_MIRAGE_CLOCK"


def clock_file(directory: Path) -> Path:
    """Return the path of the clock file of the instance in `directory`. The file may not exist."""
    return directory / FILE


def library(directory: Path) -> Path:
    """Return the path of the library that, preloaded, makes a dynamically linked program use the virtual clock."""
    return directory / "lib/virtual_clock.so"


def current(directory: Path) -> Clock | None:
    """Return the instance's virtual clock; None when it runs in real time. Raises WrongUse when the file is malformed."""
    content = read_line(directory)
    return Clock.parse(content, clock_file(directory)) if content is not None else None


def read_line(directory: Path) -> bytes | None:
    """Return the content of the clock file, one line; None when there is none. Raises WrongUse when it is no regular file."""
    try:
        return user_folders.read_bytes(directory, FILE, user_folders.SMALL)
    except FileNotFoundError:
        return None


def both_times(directory: Path) -> dict[str, float] | None:
    """Return {"speed", "virtual", "real"}: the speed and the current time on both clocks; None when the instance runs in real time.

    The times are seconds since the epoch.
    """
    clock = current(directory)
    if clock is None:
        return None
    now = time.time_ns()
    return {"speed": clock.speed, "virtual": clock.virtual_at(now) / 1e9, "real": now / 1e9}


def environment(directory: Path) -> dict[str, str]:
    """Return the environment variables with which a program (a Slurm daemon or command) uses the clock; empty in real time."""
    if not clock_file(directory).exists():
        return {}
    return {"LD_PRELOAD": str(library(directory)), VARIABLE: str(clock_file(directory))}


def set_speed(directory: Path, speed: float) -> None:
    """Let the instance's clock run at `speed` from now on. Call it while no program that uses the clock runs.

    Virtual time continues without a jump, so that neither slurmctld's saved state nor a record is ever in the future. The first
    clock starts at real time. A speed of 1 needs no clock.
    """
    before = current(directory)
    if math.isclose(before.speed if before else 1.0, speed, rel_tol=1e-9):
        return
    now = time.time_ns()
    Clock(now, before.virtual_at(now) if before else now, speed).write(clock_file(directory))


def copy_head_clock(directory: Path, line: str) -> None:
    """Write `line`, the content of the head's clock file, to this host's; an empty `line` removes the clock (real time).

    Call it while no program that uses the clock runs.
    """
    path = clock_file(directory)
    if not line:
        path.unlink(missing_ok=True)
    elif differs(path, line):
        write_atomically(path, line)
