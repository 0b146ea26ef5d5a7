"""Log files of targets that are not runs: .logs in the folder of results."""

from __future__ import annotations

from pathlib import Path

from mirage import RESULTS

LOGS = RESULTS / ".logs"


def new_log(target: str, cluster: str) -> Path:
    """Path of the log for the output of the target's playbook. A log of an earlier call is removed."""
    log = LOGS / f"{target}-{cluster}.log"
    log.unlink(missing_ok=True)
    return log
