"""States of a farm, as it writes them into run/farm.json."""

from __future__ import annotations

import os
from typing import Any

from slurm_mirage.base import processes


def farm_state(**more: Any) -> dict[str, Any]:
    """The state of a farm that is this process and has no daemons, with the changes `more`."""
    return {
        "pid": os.getpid(),
        "start_time": processes.start_time(os.getpid()),
        "identity": "",
        "specification": "",
        "phase": "running",
        "daemons": {},
        "leaving": 0,
        "rate": None,
        "waiting_for_memory": None,
        "controller_pid": 0,
        "restarts": 0,
        "failing": {},
        "failing_count": 0,
        "refused": {},
        **more,
    }
