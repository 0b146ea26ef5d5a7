"""Other configurations of slurmctld during a run (events `configure`): their files, and what may differ in them.

`etc` belongs to root, and the replay, which chooses the file that slurmctld reads, runs as the instance's user. Root reads nothing
that this user could have written. So a cluster with other configurations has these files for each of CONTROLLER_FILES:

etc/slurm.conf: the cluster's own configuration, root's, which slurmd, the commands and root read
etc/slurm.conf.NAME: a complete file for each other configuration, root's
run/slurm.conf: a copy of one of them, the user's
etc/active-slurm.conf: a link of root's to this copy, which only slurmctld reads; it finds its further files in etc
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base import user_folders
from ...jobs.cluster_events import RECONFIGURE, RESTART
from ..api import Refused
from . import second_controller
from .conf import CONTROLLER_ONLY, merge, value_of

CONTROLLER_FILES = ("slurm.conf", second_controller.FILE)
"""Names of the files in etc that slurmctld read: the first, and the second where there is one."""
LARGEST = 64 << 20
"""Bytes of a file."""
AT_START = ("AccountingStorageEnforce", "MaxJobCount", "PriorityType", "SchedulerType")
"""Settings that slurmctld reads when it starts. slurm.conf(5) says so, but for PriorityType: the plugin is loaded once
(slurm_priority.c, priority_g_init). `scontrol reconfigure` applies the others of CONTROLLER_ONLY (slurmctld/read_config.c,
read_slurm_conf; since 23.11 it starts slurmctld again, and applies all)."""
KEPT = ("FirstJobId", "MinJobAge", "OverTimeLimit", "SlurmctldDebug")
"""Settings of slurmctld on which the replay or the verdict relies throughout a run."""


def link(file: str) -> str:
    """The link to the copy that slurmctld reads, in the instance's directory; `file` is one of CONTROLLER_FILES."""
    return f"etc/active-{file}"


def copy(file: str) -> str:
    """The copy that slurmctld reads."""
    return f"run/{file}"


def other(file: str, name: str) -> str:
    """The file of another configuration."""
    return f"etc/{file}.{name}"


def read_by_controller(directory: Path, file: str = CONTROLLER_FILES[0]) -> Path:
    """The path that slurmctld gets for a file: the link, if the cluster has other configurations."""
    path = directory / link(file)
    return path if path.is_symlink() else directory / "etc" / file


def choose(directory: Path, name: str) -> bool:
    """Have slurmctld read the configuration `name`, or the cluster's own one for an empty name; returns whether anything changed.

    Raises Refused if the cluster does not have this configuration.
    """
    changed = False
    for file in CONTROLLER_FILES:
        if not (directory / link(file)).is_symlink():
            if name and file == CONTROLLER_FILES[0]:
                raise Refused(f"the cluster has no other configurations: {directory / link(file)} is not there")
            continue
        source = directory / (other(file, name) if name else f"etc/{file}")
        try:
            text = source.read_bytes()
        except FileNotFoundError:
            raise Refused(f"the cluster has no configuration {name}: {source} is not there") from None
        if _present(directory, file) != text:
            user_folders.write_atomically(directory, copy(file), text)
            changed = True
    return changed


def _present(directory: Path, file: str) -> bytes | None:
    try:
        return user_folders.read_bytes(directory, copy(file), LARGEST)
    except FileNotFoundError:
        return None


def way_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How slurmctld takes over the settings `after` in place of those `before`: RESTART or RECONFIGURE.

    Raises ValueError for a setting that cannot change while the daemons run.
    """
    way = RECONFIGURE
    for key in _different(before, after):
        if key.lower() in map(str.lower, KEPT):
            raise ValueError(f"it changes {key}, on which the replay relies throughout a run")
        if key.lower() in map(str.lower, AT_START):
            way = RESTART
        elif not CONTROLLER_ONLY.match(f"{key}="):
            raise ValueError(f"it changes {key}, which slurmd or the commands may read, too: they keep theirs during a run")
    return way


def _different(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The keys whose values are not the same, as `after` or else `before` writes them."""
    old, new = ({key.lower(): (key, value_of(value)) for key, value in merge(one).items()} for one in (before, after))
    return [new.get(key, old.get(key, ("", "")))[0] for key in sorted({*old, *new}) if old.get(key, "")[1:] != new.get(key, "")[1:]]
