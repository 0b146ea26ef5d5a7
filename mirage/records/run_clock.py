"""Which clock a run had: one that runs SPEED times as fast as real time, or the event clock (SPEED=event).

The event clock stops while the cluster computes and jumps when all of it waits. The replay uses it as well, so all instants
of its records are those of the cluster: such a run is processed as one at SPEED=1, and its run.json has "speed": 1, "clock_kind":
"event".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_mirage.clock import event_clock

EVENT = event_clock.SPEED
"""Value of SPEED, and of clock_kind in run.json."""
_CHOSEN = "auto"
"""Value of SPEED for a clock that is chosen before the run; the member `clock` of experiment.json has it as `asked`."""


def is_event(settings: Mapping[str, Any]) -> bool:
    """Whether a run was on the event clock. settings: content of its run.json"""
    return settings.get("clock_kind") == EVENT


def may_be_event(settings: Mapping[str, Any], experiment: Mapping[str, Any]) -> bool:
    """Whether a run could have had the event clock: its cluster is one of Slurm on one host, and SPEED was a number.

    With SPEED=auto the run has the event clock wherever it can be.

    settings: content of its run.json; experiment: of experiment.json, empty for a run without one
    """
    is_chosen = (experiment.get("clock") or {}).get("asked") == _CHOSEN
    return settings.get("rm", "slurm") == "slurm" and len(settings.get("hosts") or []) == 1 and not is_chosen


def speed_of_records(experiment: Mapping[str, Any]) -> float:
    """Seconds of the cluster's time in a second between two instants of the records: SPEED, and 1 on the event clock.

    experiment: content of experiment.json
    """
    speed = (experiment.get("clock") or {}).get("speed") or 1.0
    return 1.0 if speed == EVENT else float(speed)
