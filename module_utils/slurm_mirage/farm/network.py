"""Commands inside the network of an instance, for processes outside of it.

The daemons of an instance with a network of its own (`isolation.take_network`) are reached only from inside its namespaces.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..base import processes
from ..base.entrance import Entrance
from ..base.files import undamaged_json
from ..rm.api import Unavailable
from . import namespaces
from .farm import read_state

PATIENCE = 10.0
"""Seconds for which the farm may be in another mount namespace: it enters one for each node that it starts."""


def has_network(directory: Path) -> bool:
    """Return whether the instance in `directory` has a network of its own."""
    specification = undamaged_json(directory / "etc/farm.json")
    return isinstance(specification, dict) and bool(specification.get("network"))


@contextmanager
def entrance(directory: Path, *, as_root: bool = False) -> Iterator[Entrance]:
    """Yield the words and descriptors with which a command enters the network of the instance in `directory` and becomes its user.

    The descriptors are closed afterwards. `open_entrance` describes argument and errors.
    """
    opened = open_entrance(directory, as_root=as_root)
    try:
        yield opened
    finally:
        for descriptor in opened.descriptors:
            os.close(descriptor)


def open_entrance(directory: Path, *, as_root: bool = False) -> Entrance:
    """As `entrance`, for a caller that closes the descriptors itself.

    With `as_root` the command stays root. The entrance is empty for an instance without a network of its own, and for a caller that
    is not root, which is inside already or cannot enter. Raises Unavailable when no farm runs, or when the process that
    run/farm.json names, which the instance's user writes, is not in the namespaces that the farm has noted; with `as_root` also if
    the instance has no network of its own.
    """
    if not has_network(directory):
        if as_root:
            raise Unavailable(f"cluster {directory.name} has no network of its own")
        return Entrance()
    if os.geteuid() != 0:
        return Entrance()
    opened = _open_farms(directory)
    enter = ["nsenter", *(f"--{_OPTIONS[name]}=/proc/self/fd/{descriptor}" for name, descriptor in opened.items()), "--"]
    if not as_root:
        status = (directory / "run").lstat()
        enter += ["setpriv", f"--reuid={status.st_uid}", f"--regid={status.st_gid}", "--clear-groups", "--"]
    return Entrance(enter, list(opened.values()))


_OPTIONS = {"net": "net", "mnt": "mount", "uts": "uts"}
"""Options of nsenter(1) by the kinds of namespaces that a command enters."""


def _open_farms(directory: Path) -> dict[str, int]:
    """Descriptors of the farm's namespaces. Raises Unavailable."""
    deadline = time.monotonic() + PATIENCE
    while True:
        state = read_state(directory)
        if state is None or processes.users_of(state["pid"]) != {processes.instance_user(str(directory))}:
            raise Unavailable(f"the farm of cluster {directory.name} does not run")
        try:
            return namespaces.open_noted(directory, state["pid"], _OPTIONS)
        except OSError as error:
            if time.monotonic() > deadline:
                raise Unavailable(f"process {state['pid']}, which run/farm.json names: {error.strerror}") from error
        time.sleep(0.01)
