"""Chooses the clock of a run or a cluster: what SPEED says, and for SPEED=auto the event clock or a constant speed."""

from __future__ import annotations

from decimal import Decimal

from mirage.experiment import preflight
from mirage.experiment.hosts import host_count
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import AUTO, OPENPBS, Speed
from mirage.records.run_clock import EVENT
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse


def chosen(knobs: Knobs, screen: Screen) -> Speed:
    """SPEED as it is played: a number, EVENT, or AUTO for a number that a calibration has yet to find.

    Of SPEED=auto a line on the screen says which, and why, and of the event clock where it is slow. Raises WrongUse for the event
    clock on several hosts or with OpenPBS, for CHARGE on a constant one, and for SAVES=memory in real time or with OpenPBS.
    """
    if knobs.clock.saves == "memory":
        _check_saves(knobs)
    speed, charges = knobs.clock.speed, knobs.clock.charge == "yes"
    if speed not in (EVENT, AUTO):
        if charges:
            raise WrongUse(f"is for SPEED=event; SPEED={speed} charges all that the host does", parameter="charge", value="yes")
        return speed
    if OPENPBS in knobs.scheduler.managers:
        if speed == EVENT or charges:
            what = "the event clock does not see the daemons of OpenPBS, which run as root; give a constant SPEED, such as SPEED=20"
            raise WrongUse(what, parameter="speed", value=str(speed))
        screen.say("clock: a constant speed, because the event clock does not see the daemons of OpenPBS")
        return AUTO
    hosts = host_count(knobs.cluster)
    if hosts == 1:
        if preflight.is_here(knobs.cluster) and (why := preflight.why_threads_are_not_counted()):
            if speed == AUTO and not charges:
                screen.say(f"clock: a constant speed, because {why}: the event clock is slow there, and inconclusive")
                return AUTO
            screen.say(f"clock: event-driven, slow and inconclusive, because {why}; give a constant SPEED, such as SPEED=20")
            return EVENT
        if speed == AUTO:
            screen.say("clock: event-driven (SPEED=event), as the cluster is on one host; SPEED=1 is real time")
        return EVENT
    if speed == EVENT or charges:
        what = "the event clock is for one host, and the cluster has several; give a constant SPEED, such as SPEED=20"
        raise WrongUse(what, parameter="speed", value=str(speed))
    screen.say(f"clock: a constant speed, because the cluster is on {hosts} hosts and the event clock is for one")
    return AUTO


def of_a_cluster(knobs: Knobs, screen: Screen) -> Speed:
    """SPEED of a cluster without a run: as `chosen`, but in real time where there is nothing to choose a constant speed for.

    On the event clock a cluster without a run is as fast as real time, and a run on it restarts no daemon.
    """
    if (speed := chosen(knobs, screen)) != AUTO:
        return speed
    screen.say("clock: real time (SPEED=1) until a run has chosen one")
    return Decimal(1)


def _check_saves(knobs: Knobs) -> None:
    """Raises WrongUse where slurmctld does not have the library of the virtual clock, which lets it go on without the disk."""
    if OPENPBS in knobs.scheduler.managers:
        raise WrongUse("is for Slurm; OpenPBS's database never waits for the disk", parameter="saves", value="memory")
    if knobs.clock.speed == 1:
        what = "is for a virtual clock; in real time (SPEED=1) a save holds nothing up"
        raise WrongUse(what, parameter="saves", value="memory")
