"""Commands inside the network of an instance, for processes outside of it.

The daemons of an instance with a network of its own (`isolation.take_network`) are reached only from inside its namespaces.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..base import processes
from ..base.files import undamaged_json
from .farm import read_state
from .namespaces import may_enter

NAMESPACES = ("net", "mnt", "uts")


def has_network(directory: Path) -> bool:
    """Return whether the instance in `directory` has a network of its own."""
    specification = undamaged_json(directory / "etc/farm.json")
    return isinstance(specification, dict) and bool(specification.get("network"))


def command_prefix(directory: Path, *, as_root: bool = False) -> list[str]:
    """Return the words before a command that enter the network of the instance in `directory` and then become its user.

    They are for root, who stays root with `as_root`. Empty for an instance without a network of its own, for a caller that is in it
    already or is not root, and when no farm runs: the command then finds no daemon.
    """
    if os.geteuid() != 0 or not has_network(directory):
        return []
    state = read_state(directory)
    is_farm = state is not None and processes.users_of(state["pid"]) == {processes.instance_user(str(directory))}
    if state is None or not is_farm or not any(may_enter(state["pid"], name) for name in NAMESPACES):
        return []
    enter = ["nsenter", f"--target={state['pid']}", "--net", "--mount", "--uts", "--"]
    if as_root:
        return enter
    status = (directory / "run").lstat()
    return [*enter, "setpriv", f"--reuid={status.st_uid}", f"--regid={status.st_gid}", "--clear-groups", "--"]
