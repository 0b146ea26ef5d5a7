"""How long a run takes in real time, and in words."""

from __future__ import annotations

from decimal import Decimal

from mirage.knobs.parse import Value
from mirage.records.run_clock import EVENT
from mirage.terminal.screen import about

# What the event clock takes: real seconds for each job, whose submission, launch and end the host works for, and for each second of
# the cluster's time, in which slurmctld's timers fire. Of runs on 4 processors. Backfilling of a queue takes more time, which grows
# with the numbers of waiting jobs and of nodes.
JOB, VIRTUAL_SECOND = 0.09, 0.0001


def real_seconds(speed: Value, virtual: float, jobs: int) -> float | None:
    """Real seconds that a run takes: of a number of jobs, and of so many virtual seconds. None while SPEED is `auto`."""
    if speed == EVENT:
        return JOB * jobs + VIRTUAL_SECOND * virtual
    return virtual / float(speed) if isinstance(speed, Decimal) else None


def in_words(speed: Value, virtual: float, jobs: int) -> str:
    """The length of a run: `about 9 min` in real time, else `9 h of the cluster's time: about 5 min at SPEED=100`."""
    if speed == 1:
        return f"about {about(virtual)}"
    told, real = f"{about(virtual)} of the cluster's time", real_seconds(speed, virtual, jobs)
    if real is None:
        return f"{told}, at a SPEED to be picked"
    clock = f"at SPEED={float(speed):g}" if isinstance(speed, Decimal) else "on the event clock if no job waits for others"
    return f"{told}: about {about(real)} {clock}"
