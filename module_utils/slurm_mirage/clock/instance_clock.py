"""The virtual clock of an instance: where it lies, and what puts a program on it.

The farm keeps the clock file beside what slurmctld saved under that clock, so that both are there, or gone, together. An instance
without one lives in real time. Programs get on the clock by a preloaded library (files/virtual_clock); munged, the farm and the
replay stay in real time.

Of a cluster of several hosts the head's farm keeps the clock. The others have the very same line: every process computes virtual
time from it and from its host's real time, so that hosts whose real times agree agree.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from ..base.files import differs, write_atomically
from .clock import Clock

VARIABLE = "SLURM_MIRAGE_CLOCK"


def clock_file(directory: Path) -> Path:
    """The clock file of the instance in `directory`, whether it is there or not."""
    return directory / "state/clock"


def library(directory: Path) -> Path:
    """The library that puts a dynamically linked program on the clock."""
    return directory / "lib/virtual_clock.so"


def current(directory: Path) -> Clock | None:
    """The instance's clock; None in real time. Raises WrongUse if the file is damaged."""
    path = clock_file(directory)
    return Clock.read(path) if path.exists() else None


def both_times(directory: Path) -> dict[str, float] | None:
    """The instance's speed, and now on its clock and on the host's (seconds since the epoch); None in real time."""
    clock = current(directory)
    if clock is None:
        return None
    now = time.time_ns()
    return {"speed": clock.speed, "virtual": clock.virtual_at(now) / 1e9, "real": now / 1e9}


def environment(directory: Path) -> dict[str, str]:
    """What a program of the instance (slurmctld, slurmd, a command of Slurm) needs in its environment to be on the clock."""
    if not clock_file(directory).exists():
        return {}
    return {"LD_PRELOAD": str(library(directory)), VARIABLE: str(clock_file(directory))}


def keep(directory: Path, speed: float) -> None:
    """Have the clock run at `speed` from now on. To be called while nothing that is on the clock runs.

    Virtual time goes on where it is: neither slurmctld's saved state nor a record ever lies in the future. A first clock begins
    with real time, and a speed of 1 needs none.
    """
    before = current(directory)
    if math.isclose(before.speed if before else 1.0, speed, rel_tol=1e-9):
        return
    now = time.time_ns()
    Clock(now, before.virtual_at(now) if before else now, speed).write(clock_file(directory))


def take(directory: Path, line: str) -> None:
    """Have the clock of the head, whose file holds `line`; an empty one is real time. To be called as `keep` is."""
    path = clock_file(directory)
    if not line:
        path.unlink(missing_ok=True)
    elif differs(path, line):
        write_atomically(path, line)
