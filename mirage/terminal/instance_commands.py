"""Slurm's commands of an instance on this machine, for the screens of make."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_mirage.instance.instance import commands_of
from slurm_mirage.rm.slurm.commands import QUERY_TIMEOUT, Slurm


def slurm_of(directory: Path, query_timeout: float = QUERY_TIMEOUT) -> Slurm:
    """The commands of the instance in `directory`; queries end after `query_timeout` real seconds.

    Only root and the instance's user, who owns the folder run, reach the instance's munged: other users' commands run through sudo.
    """
    run = directory / "run"
    reaches_munged = os.geteuid() == 0 or not run.exists() or os.geteuid() == run.stat().st_uid
    become = () if reaches_munged else ("sudo", "--non-interactive")
    return Slurm.of_instance(directory, commands_of(directory), query_timeout, become)
