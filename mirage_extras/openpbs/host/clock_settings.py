"""Settings of OpenPBS that have to grow with the speed of a virtual clock.

Under a clock of speed N OpenPBS's seconds pass N times as fast; its messages and its own computing do not get faster. Whatever
guards against slow machines, networks or computing is N times as long in OpenPBS's seconds then. Whatever is policy stays what it
is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NODE_FAIL_REQUEUE, JOB_REQUEUE_TIMEOUT = 310, 45
"""Seconds after which the jobs of a silent node are requeued, and for which qrerun waits for a job's end (server/node_manager.c,
server/req_rerun.c), at SPEED=1."""
SCHEDULER: Mapping[str, int] = {"sched_cycle_length": 1200}
"""Attributes of the scheduler in seconds, as at SPEED=1."""
HISTORY = 3600, 300
"""Seconds for which the server remembers an ended job: at least so many virtual, and so many real ones."""
HISTORY_OF_EVENTS = 36_000
"""The same on an event clock, where hours pass in some real seconds."""
_MOM: Mapping[str, int] = {
    # How long the first node of a job waits for the others to join it (resmom/mom_comm.c).
    "sister_join_job_alarm": 30,
    # How long it waits for the program of a job to begin (resmom/start_exec.c).
    "job_launch_delay": 30,
    # How long the first node of a job waits for another one that is silent (resmom/mom_comm.c).
    "max_poll_downtime": 300,
    "prologalarm": 30,
}


def _times(seconds: int, speed: float) -> int:
    return max(seconds, math.ceil(seconds * speed))


def duration(seconds: int) -> str:
    """Seconds as HH:MM:SS."""
    return f"{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}"


def server_settings(speed: float, event_clock: bool = False) -> dict[str, Any]:
    """Attributes of the server that follow the clock. speed: 1 on an event clock"""
    virtual, real = HISTORY
    history = HISTORY_OF_EVENTS if event_clock else max(virtual, _times(real, speed))
    return {
        "node_fail_requeue": _times(NODE_FAIL_REQUEUE, speed),
        "job_requeue_timeout": duration(_times(JOB_REQUEUE_TIMEOUT, speed)),
        "job_history_duration": duration(history),
    }


def scheduler_settings(speed: float) -> dict[str, Any]:
    """Attributes of the scheduler that follow the clock."""
    return {name: duration(_times(seconds, speed)) for name, seconds in SCHEDULER.items()}


def mom_settings(speed: float) -> dict[str, int]:
    """Words of mom_priv/config that follow the clock."""
    return {name: _times(seconds, speed) for name, seconds in _MOM.items()}
