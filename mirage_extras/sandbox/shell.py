"""The shell of a user of a sandbox (`make shell USER=anna`)."""

from __future__ import annotations

import os
from pathlib import Path

from mirage.knobs.knobs import Knobs
from mirage_extras.sandbox.knobs import SandboxKnobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.processes import INSTANCE_VARIABLE
from slurm_mirage.extras.sandbox.addresses import rest_url
from slurm_mirage.extras.sandbox.users import check_name


def login(knobs: Knobs, directory: Path) -> list[str] | None:
    """The command of the user's shell; None if no user is named. Raises WrongUse."""
    user = knobs.part(SandboxKnobs).user
    if not user:
        return None
    if not rest_url(directory):
        raise WrongUse(f"cluster {directory.name} is no sandbox, and has no users with names: make sandbox", parameter="user")
    become = [] if os.geteuid() == 0 else ["sudo"]
    kept = {name: os.environ.get(name, default) for name, default in (("TERM", "dumb"), ("LANG", "C.UTF-8"))}
    given = {**kept, INSTANCE_VARIABLE: str(directory), "PYTHONPATH": f"{directory}/lib", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = ["env", "--ignore-environment", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *(f"{k}={v}" for k, v in given.items())]
    program = ["/usr/bin/python3", "-m", "slurm_mirage.extras.sandbox.programs.login"]
    return [*become, *environment, *program, str(directory), check_name(user)]
