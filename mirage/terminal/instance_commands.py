"""The resource manager's commands of an instance on this machine, for the screens of make."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_mirage.instance import manager
from slurm_mirage.rm.api import Commands

QUERY_TIMEOUT = 60.0
"""Real seconds after which a query ends."""


def manager_at(directory: Path, query_timeout: float = QUERY_TIMEOUT) -> Commands:
    """The commands of the instance in `directory`; queries end after `query_timeout` real seconds.

    Only root and the instance's user, who owns the folder run, reach the instance's daemons: other users' commands run through
    sudo. Daemons in a network of their own are reached by root only.
    """
    run = directory / "run"
    reaches_daemons = os.geteuid() == 0 or not run.exists() or os.geteuid() == run.stat().st_uid
    become = () if reaches_daemons else ("sudo", "--non-interactive")
    return manager.manager_at(directory, query_timeout=query_timeout, become=become)
