"""Looks at the running farm of an instance, as root on its host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ..base import processes
from .farm import read_state

PROGRAM = "slurm_mirage.programs.farm"
REPAIR_TIMEOUT = 5.0
"""Seconds; the farm looks at its state's file once a second."""


def is_complete(state: dict[str, Any] | None) -> bool:
    """Whether all daemons of the specification are up and ready."""
    if state is None or state["phase"] != "running":
        return False
    return all(kind["ready"] == kind["wanted"] for kind in state["daemons"].values())


def running_farm(directory: Path) -> dict[str, Any] | None:
    """State of the farm; None if it does not run.

    The unprivileged user writes the state file, so its process id is checked to be one of the instance. A running farm writes the
    file again when it was changed or removed; this function waits for that.
    """
    deadline = time.monotonic() + REPAIR_TIMEOUT
    while True:
        state = read_state(directory)
        if state is not None and processes.belongs(state["pid"], str(directory)):
            return state
        if time.monotonic() > deadline or not any(map(is_farm, processes.of_instance(str(directory)))):
            return None
        time.sleep(0.1)


def is_farm(pid: int) -> bool:
    """Whether this process of the instance is its farm."""
    return processes.command_line(pid)[1:4] == ["-m", PROGRAM, "run"]
