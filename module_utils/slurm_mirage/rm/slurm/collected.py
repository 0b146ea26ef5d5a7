"""Records of a run of Slurm that its hosts compute: when the processors of jobs were free again, why jobs waited, when Slurm said
that they would start, and, with accounting, sacct's lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import promised_starts, wait_reasons
from .account_commands import AccountCommands
from .accounting import lines_of_run
from .freed_processors import FREED_FILE, instants_in_log, instants_of_second, to_csv
from .shared_folder import RECORD, saved_in

ACCOUNTING_FILE = "sacct.txt"


def files(instance: Path, run: str) -> list[tuple[Path, str]]:
    """Folders and paths in them of the head's records: samples of the diagnostics, the record of ended jobs, the configuration."""
    return [(instance, f"runs/{run}/sdiag.csv"), (saved_in(instance), RECORD), (instance, "etc/slurm.conf")]


def of_other_host(instance: Path, since: float) -> dict[str, str]:
    """The content of FREED_FILE by its name, if a second slurmctld on this host has freed jobs since that instant of the cluster's
    clock."""
    freed = instants_of_second(instance / "log", since)
    return {FREED_FILE: to_csv(freed)} if freed else {}


def of_head(instance: Path, run: str, start: Mapping[str, Any], programs: str | None, has_accounting: bool) -> dict[str, str]:
    """The content of these files by name, from the start event of the run's journal. `programs`: folder of Slurm's commands.

    Without the settings SlurmctldDebug=verbose and DebugFlags=TraceJobs FREED_FILE has only its heading; without those that
    `wait_reasons` names REASONS_FILE has less. sacct is asked once, for
    all jobs since the start; its lines for the jobs of the run are kept, with their heading, in the cluster's time (UTC).

    Raises ResourceManagerError.
    """
    log, offset, since = instance / "log", start.get("controller_log_offset") or 0, float(start["virtual"])
    commands = AccountCommands(instance, programs or "/usr/bin") if has_accounting else None
    users = commands.users_of_associations() if commands else {}
    made = {
        FREED_FILE: to_csv(instants_in_log(log, offset)),
        wait_reasons.REASONS_FILE: wait_reasons.to_csv(wait_reasons.reasons_in_logs(log, offset, since, users)),
    }
    made[promised_starts.PROMISES_FILE] = promised_starts.to_csv(promised_starts.promises_in_log(log, offset, since))
    if commands:
        made[ACCOUNTING_FILE] = "".join(f"{line}\n" for line in lines_of_run(commands.record(since), run))
    return made
