"""What the event clock itself reports of a run: how often it jumped, and how often it did so while something still worked.

The clock stops while a process of the instance works and jumps when all wait. It does not see what is under way in the kernel,
such as a message that waits for a timer: a false quiet. It notices the thread that this wakes up, and by then time may have passed
that the thread did not have. The sum of these times is known at most, false_quiet_seconds. Waits that began while the clock's page
was full are `unlisted`: time may have jumped over their ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mirage.verdict.advice import counted
from slurm_mirage.clock.clock_page import SLOTS

COUNTS = ("jumps", "false_quiets", "coordinator_starts", "given_up", "unlisted", "reader_steps", "idle_cycles")
BUSY_ELSEWHERE = 0.05
"""Share of the cluster's time: a scheduler that computes for longer would start jobs late on another clock."""
BY_BPF = 1
"""Mode of a clock to which the kernel reports working threads (BPF). The other mode reads /proc."""
SECONDS = ("false_quiet_seconds", "real_seconds", "virtual_seconds", "busy_real_seconds", "charged_seconds", "scheduler_seconds")


def measured(result: Mapping[str, Any]) -> dict[str, Any]:
    """The figures event_clock, those that the replay wrote into result.json, and false_quiet_share; null if they are not there.

    The share is that of the run's virtual seconds. Looks at /proc do not see false quiets, so these are not known then.
    """
    figures = result.get("event_clock")
    if not isinstance(figures, Mapping):
        return {"event_clock": None, "false_quiet_share": None}
    numbers: dict[str, Any] = {name: _number(figures.get(name)) for name in (*COUNTS, *SECONDS)}
    numbers |= {name: None if numbers[name] is None else int(numbers[name]) for name in COUNTS}
    if figures.get("mode") != BY_BPF:
        numbers |= {"false_quiets": None, "false_quiet_seconds": None}
    lost, passed = numbers["false_quiet_seconds"], numbers["virtual_seconds"]
    share = None if lost is None or not passed else round(lost / passed, 6)
    return {"event_clock": {**numbers, "mode": figures.get("mode")}, "false_quiet_share": share}


def not_known(figures: Mapping[str, Any]) -> str:
    """Why the time that passed in false quiets is not known; "" if it is known. figures: those of the verdict"""
    if figures["false_quiet_share"] is not None:
        return ""
    what = "what the event clock let pass while the host worked is not known"
    clock = figures["event_clock"]
    if clock is None or clock["mode"] == BY_BPF or clock["virtual_seconds"] is None:
        return f"{what}: its figures are not in result.json"
    return f"{what}: it had no BPF here (docs/event-clock.md); a constant SPEED needs none"


def unlisted(figures: Mapping[str, Any]) -> list[str]:
    """The reason for waits that ended late, because the clock had no room for them, if any. figures: those of the verdict"""
    count = (figures.get("event_clock") or {}).get("unlisted") or 0
    if not count:
        return []
    room = f"the event clock has room for {SLOTS} at a time"
    return [f"{counted(count, 'wait')} may have ended late, because {room}: take fewer nodes, or a constant SPEED"]


def charges(figures: Mapping[str, Any]) -> bool:
    """Whether the scheduler's own processor time counted in the run. figures: those of the verdict"""
    return bool((figures.get("event_clock") or {}).get("charged_seconds"))


def is_slow_elsewhere(validity: Mapping[str, Any]) -> bool:
    """Whether starts would be late on another clock: the scheduler's processor time, which does not count here, is more than
    BUSY_ELSEWHERE of the cluster's time."""
    clock = validity.get("event_clock") or {}
    computed, passed = clock.get("scheduler_seconds"), clock.get("virtual_seconds")
    return bool(computed and passed and not charges(validity) and computed > BUSY_ELSEWHERE * passed)


def _number(value: Any) -> float | None:
    """A number from 0 on; None for anything else."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return round(float(value), 6) if is_number and math.isfinite(value) and value >= 0 else None
