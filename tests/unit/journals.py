"""Events of a replay's journal."""

from __future__ import annotations

from typing import Any

from slurm_mirage.replay.launch_cost import REAL_TIME


def start_event(**members: Any) -> dict[str, Any]:
    """The first event of a journal, with all that it must have. members: take the place of those given here."""
    start = {"event": "start", "real": 1.0, "virtual": 1.0, "boot_time": 1, "next_id": 1, "plan_sha256": ""}
    start |= {"completion_offset": 0, "controller_log_offset": 0, "earlier_ids": [], "launch_cost": REAL_TIME.record()}
    return {**start, **members}
