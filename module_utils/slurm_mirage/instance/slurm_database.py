"""Writes the configuration of slurmdbd and of its database server into an instance's directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.files import is_as_wanted, owner_of, write_atomically
from ..rm.slurm.database import Database
from .instance import refuse_during_run

SECRET = 0o600  # slurmdbd accepts no other mode


def ensure(parameters: Mapping[str, Any], write: bool) -> list[Path]:
    """Write the files that differ, if `write` is true, and return them. Raises WrongUse while a replay runs."""
    directory = Path(parameters["directory"])
    owner = owner_of(parameters["user"])
    database = Database(directory, *(parameters[name] for name in ("user", "address", "hostname", "port", "buffer")))
    wanted = {
        directory / "etc/mariadb.cnf": (database.mariadb_cnf(), 0o644, None),
        directory / "etc/slurmdbd.conf": (database.slurmdbd_conf(parameters["speed"], parameters["version"]), SECRET, owner),
    }
    touched = [path for path, (text, mode, file_owner) in wanted.items() if not is_as_wanted(path, text, mode, file_owner)]
    if touched:
        refuse_during_run(directory)
    if write:
        for path in touched:
            text, mode, file_owner = wanted[path]
            write_atomically(path, text, mode, file_owner)
    return touched
