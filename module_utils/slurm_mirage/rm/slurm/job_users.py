"""Users of a log as users of Slurm: a job belongs to one in slurmctld and slurmdbd, while all processes are the instance's user's.

User 12 of a log is u12, whose id is FIRST_ID + 12. The host does not know it: a preloaded library (files/job_users) answers Slurm's
questions, and lets the instance's user, who is SlurmUser, submit jobs of others (sbatch --uid).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ...base import processes
from ...base.errors import WrongUse
from ...clock import instance_clock

FIRST_ID, COUNT = 1_900_000_000, 200_000_000
"""The library has the same numbers."""
USERS, MUNGE, TOKEN_KEY = "users", "munge", "etc/jwt_hs256.key"
"""In the directory of a sandbox: the folder with those of its users, that of munged's socket, and the key of tokens."""


def name_of(user: int) -> str:
    """The user of Slurm for a user of a log; empty, which is the instance's user, for the unknown one (-1). Raises WrongUse."""
    if user >= COUNT:
        raise WrongUse(f"user {user} is above {COUNT - 1}, the last one that Slurm can know; give ACCOUNTING=no", parameter="trace")
    return f"u{user}" if user >= 0 else ""


def named_ids(directory: Path) -> dict[str, int]:
    """The ids of the users with names of the instance in `directory`, by name: they own the folders in USERS."""
    with suppress(FileNotFoundError):
        found = ((entry.name, entry.stat(follow_symlinks=False).st_uid) for entry in os.scandir(directory / USERS))
        return {name: number for name, number in found if number in processes.NAMED_USERS}
    return {}


def named_group(directory: Path) -> int:
    """The group of the users with names of the instance in `directory`: it may enter the folder MUNGE."""
    return (directory / MUNGE).stat().st_gid


def library(directory: Path) -> Path:
    """The library of the instance in `directory`. Only instances that have had accounting have one."""
    return directory / "lib/job_users.so"


def preload(directory: Path) -> dict[str, str]:
    """The environment variable with which a program knows the users of a log; empty if the instance has no library."""
    return {processes.PRELOAD: str(library(directory))} if library(directory).exists() else {}


def environment(directory: Path) -> dict[str, str]:
    """The environment variables with which a command of Slurm uses the instance's clock, and knows the users of a log."""
    return processes.with_libraries(instance_clock.environment(directory), preload(directory))
