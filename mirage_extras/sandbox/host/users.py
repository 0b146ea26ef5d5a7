"""Users with names: their ids and their folders.

Each user owns a folder of his name in the folder `users` of the instance's directory, which is root's. By these folders the library
files/job_users knows the names and ids; no file of the host is changed.
"""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress
from pathlib import Path

from ...base.errors import WrongUse
from ...base.files import locked_folder
from ...base.processes import NAMED_USERS
from ...rm.slurm.job_users import USERS, named_group, named_ids

REST = NAMED_USERS.start + 1
"""User and group of slurmrestd."""
FIRST = NAMED_USERS.start + 10
"""First id of a user with a name."""
NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}\Z")
_OF_LOG = re.compile(r"u(0|[1-9][0-9]*)\Z")


def check_name(name: str) -> str:
    """The name of a user, which the host and a workload do not have. Raises WrongUse."""
    if not NAME.match(name):
        raise WrongUse(f"{name!r}: a lower-case letter, then at most 30 lower-case letters, digits, '-' or '_'", parameter="user")
    if _OF_LOG.match(name):
        raise WrongUse(f"{name}: u and a number is a user of a workload, whose jobs only sleep; another name", parameter="user")
    with suppress(KeyError):
        number = pwd.getpwnam(name).pw_uid
        raise WrongUse(f"{name}: is an account of this host ({number}); another name", parameter="user")
    return name


def ensure(directory: Path, name: str) -> int:
    """Make the user's folder, if it is not there, and return his id. For root. Raises WrongUse for a name, OSError.

    The users of all instances beside it have different ids: they are users of one host.
    """
    check_name(name)
    with locked_folder(directory.parent):
        known, group = named_ids(directory), named_group(directory)
        if name in known:
            os.chown(directory / USERS / name, -1, group, follow_symlinks=False)
            return known[name]
        taken = [number for folder in directory.parent.glob(f"*/{USERS}") for number in named_ids(folder.parent).values()]
        number = max([FIRST - 1, *taken]) + 1
        new = directory / USERS / f".{name}"
        with suppress(FileNotFoundError):
            new.rmdir()  # of a call that was killed
        new.mkdir(mode=0o700)
        os.chown(new, number, group, follow_symlinks=False)
        new.rename(directory / USERS / name)
        return number
