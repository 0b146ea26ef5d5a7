"""Threshold below which a job counts as started immediately.

Slurm records submissions and starts with a resolution of one second of its time. Slurm also takes some real time to accept a job,
to consider it in a scheduling cycle and to launch it; with a clock that runs 500 times as fast this is up to 20 s.
"""

from __future__ import annotations

from slurm_mirage.clock.clock import Clock

RECORD = 1.0
"""Resolution of submissions and starts in Slurm's records, in seconds of Slurm's time."""
START = 0.04
"""Real seconds from submission to start of a job that need not wait, on a host that is not overloaded: sbatch takes 5 ms, a launch
up to 40 ms. Up to SPEED=25 that is less than the resolution of the record."""


def immediate_below(speed: float, shrink: float) -> float:
    """Trace seconds; a job with a shorter wait started immediately. speed: SPEED; shrink: SHRINK, in per cent."""
    clock = Clock(speed=speed, shrink=shrink)
    return round(clock.virtual_to_trace(max(RECORD, clock.real_to_virtual(START))), 9)
