"""Chooses the clock of a run or a cluster: what SPEED says, and for SPEED=auto the event clock or a constant speed."""

from __future__ import annotations

from decimal import Decimal

from mirage.experiment import preflight
from mirage.experiment.hosts import host_count
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import AUTO, Speed
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock import clock_rules
from slurm_mirage.clock.clock_rules import EVENT
from slurm_mirage.rm.managers import traits_of


def chosen(knobs: Knobs, screen: Screen) -> Speed:
    """The SPEED of the run: a number, EVENT, or AUTO for a number that a calibration is still to choose.

    For SPEED=auto a line on the screen says which one it is, and why; for the event clock, where it is slow. Raises WrongUse for
    the event clock on several hosts, or without BPF with a resource manager whose daemons it sees by that only, for CHARGE on a
    constant one or with such a resource manager, and for SAVES=memory in real time or with a resource manager that does not need
    it.
    """
    speed, charges = knobs.clock.speed, knobs.clock.charge == "yes"
    traits = [traits_of(manager) for manager in knobs.scheduler.managers]
    seen_by_bpf = next((one.seen_by_bpf for one in traits if one.seen_by_bpf), "")
    needs_no_saves = next((one.needs_no_saves for one in traits if one.needs_no_saves), "")
    is_constant = isinstance(speed, Decimal)
    hosts = 1 if is_constant else host_count(knobs.cluster)
    own = {"needs_no_saves": needs_no_saves, "seen_by_bpf": seen_by_bpf}
    clock_rules.check(speed, charges=charges, saves=knobs.clock.saves, several_hosts=hosts > 1, **own)
    if is_constant:
        return speed
    if hosts > 1:
        screen.say(f"clock: a constant speed, because the cluster is on {hosts} hosts and the event clock is for one")
        return AUTO
    if preflight.is_here(knobs.cluster) and (why := preflight.why_threads_are_not_counted()):
        if seen_by_bpf and speed == EVENT:
            what = f"{why}, and the event clock sees {seen_by_bpf} by BPF only; give a constant SPEED, such as SPEED=20"
            raise WrongUse(what, parameter="speed", value=EVENT)
        if speed == AUTO and not charges:
            screen.say(f"clock: a constant speed, because {why}: the event clock is slow there, and inconclusive")
            return AUTO
        screen.say(f"clock: event-driven, slow and inconclusive, because {why}; give a constant SPEED, such as SPEED=20")
        return EVENT
    if speed == AUTO:
        screen.say("clock: event-driven (SPEED=event), as the cluster is on one host; SPEED=1 is real time")
    return EVENT


def of_a_cluster(knobs: Knobs, screen: Screen) -> Speed:
    """SPEED of a cluster without a run: as `chosen`, but real time instead of a constant speed, which depends on the run.

    On the event clock a cluster without a run is as fast as real time, and a run on it restarts no daemon.
    """
    if (speed := chosen(knobs, screen)) != AUTO:
        return speed
    screen.say("clock: real time (SPEED=1) until a run has chosen one")
    return Decimal(1)
