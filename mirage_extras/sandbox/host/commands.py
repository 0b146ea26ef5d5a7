"""Calls of Slurm's commands in a sandbox, as the instance's user, who is Slurm's administrator there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ...base import processes
from ...rm.api import ResourceManagerError
from ...rm.slurm import job_users

PATIENCE = 60.0
"""Real seconds after which a command is ended."""


def ask(directory: Path, programs: Path, program: str, *words: str) -> str:
    """The output of one of Slurm's commands, in the folder `programs`. Raises ResourceManagerError."""
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "SLURM_CONF": f"{directory}/etc/slurm.conf",
        processes.INSTANCE_VARIABLE: str(directory),
        **job_users.environment(directory),
    }
    try:
        result = subprocess.run(
            [str(programs / program), *words],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=PATIENCE,
            **processes.as_user(directory),
        )
    except subprocess.TimeoutExpired:
        raise ResourceManagerError(f"{program}: no answer within {PATIENCE:.0f} s") from None
    except OSError as error:
        raise ResourceManagerError(f"{program}: cannot be started: {error.strerror}") from error
    if result.returncode != 0:
        raise ResourceManagerError(f"{program}: {' '.join(result.stderr.split())[:200]}")
    output: str = result.stdout
    return output
