"""Which wait counts as none: a job that had to wait for nothing is still not started at the instant of its submission.

Instants are known to a second of Slurm's time. And to start a job takes Slurm itself a moment, which is real time: to accept it, to
come to it in a pass of the scheduler, to launch it. On a clock that runs 500 times as fast that is up to 20 s.
"""

from __future__ import annotations

RECORD = 1.0
"""Seconds of Slurm's time, to which its record tells submission and start."""
START = 0.04
"""Real seconds from a submission to the start, of a job that nothing keeps waiting, on a host that keeps up: an sbatch takes 5 ms,
a launch up to 40 ms. Up to SPEED=25 that is less than what the record resolves."""


def immediate_below(speed: float, shrink: float) -> float:
    """Trace seconds below which a wait counts as none. speed: SPEED; shrink: SHRINK, in per cent."""
    return round(max(RECORD, START * speed) * 100 / shrink, 9)
