"""Which clock a cluster can have: a constant one, or the event clock, and what each of them excludes."""

from __future__ import annotations

from decimal import Decimal

from ..base.errors import WrongUse
from . import event_clock

CONSTANT, EVENT = "constant", event_clock.SPEED
"""Kinds of clocks: a number of times as fast as real time, or driven by events."""
DISK, MEMORY = "disk", "memory"
"""Where slurmctld's saved state has to be before slurmctld goes on."""


def speed_of(event_clock: bool, speed: float) -> float | str:
    """The speed of a cluster's clock, as `check` takes it. Raises WrongUse for an event clock with a speed."""
    if event_clock and speed != 1:
        raise WrongUse("the event clock has none; leave it out, or take a constant clock", parameter="speed", value=f"{speed:.12g}")
    return EVENT if event_clock else speed


def check(
    speed: float | Decimal | str,
    *,
    charges: bool = False,
    saves: str = DISK,
    several_hosts: bool = False,
    needs_no_saves: str = "",
    seen_by_bpf: str = "",
) -> None:
    """Check that a cluster can have a clock. Raises WrongUse.

    speed: a number; EVENT, or another word for a clock that is chosen later. charges: whether slurmctld's own time is charged.
    needs_no_saves, seen_by_bpf: as in rm.traits.Traits of the cluster's resource manager
    """
    if charges and seen_by_bpf:
        raise WrongUse(f"is for Slurm; the clock does not charge the time of {seen_by_bpf}", parameter="charge", value="yes")
    if saves == MEMORY and needs_no_saves:
        raise WrongUse(f"is for Slurm; {needs_no_saves}", parameter="saves", value=saves)
    if saves == MEMORY and speed == 1:
        what = "is for a virtual clock; in real time (SPEED=1) a save holds nothing up"
        raise WrongUse(what, parameter="saves", value=saves)
    if not isinstance(speed, str):
        if not speed > 0:
            raise WrongUse("must be a number above 0, or event", parameter="speed", value=f"{speed:.12g}")
        if charges:
            raise WrongUse(
                f"is for SPEED=event; SPEED={speed:.12g} charges all that the host does", parameter="charge", value="yes"
            )
        return
    if not (speed == EVENT or charges):
        return
    if several_hosts:
        what = "the event clock is for one host, and the cluster has several; give a constant SPEED, such as SPEED=20"
        raise WrongUse(what, parameter="speed", value=speed)
