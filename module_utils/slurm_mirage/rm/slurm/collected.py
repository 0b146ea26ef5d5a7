"""What the head makes for the records of a run of Slurm: when processors were free again, and with accounting sacct's record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .account_commands import AccountCommands
from .accounting import lines_of_run
from .freed_processors import FREED_FILE, instants_in_log, to_csv

FILES = ("runs/{run}/sdiag.csv", "log/jobcomp.log", "etc/slurm.conf")
"""Records in the instance's directory: samples of the diagnostics, the record of ended jobs, the configuration."""
ACCOUNTING_FILE = "sacct.txt"


def of_head(instance: Path, run: str, start: Mapping[str, Any], programs: str | None, has_accounting: bool) -> dict[str, str]:
    """The content of these files by name, from the start event of the run's journal. `programs`: folder of Slurm's commands.

    Without the settings SlurmctldDebug=verbose and DebugFlags=TraceJobs FREED_FILE has only its heading. sacct is asked once, for
    all jobs since the start; its lines for the jobs of the run are kept, with their heading, in the cluster's time (UTC).

    Raises ResourceManagerError.
    """
    made = {FREED_FILE: to_csv(instants_in_log(instance / "log", start.get("controller_log_offset") or 0))}
    if has_accounting:
        record = AccountCommands(instance, programs or "/usr/bin").record(float(start["virtual"]))
        made[ACCOUNTING_FILE] = "".join(f"{line}\n" for line in lines_of_run(record, run))
    return made
