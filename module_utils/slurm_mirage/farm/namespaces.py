"""Checks that namespaces belong to the farm before root enters them.

What root executes after entering a mount namespace comes from the mounts there. A user of the host can make namespaces in a user
namespace of his own, name any process in a file that he owns, and let it change its namespaces at any moment. So namespaces are
opened first, and what is open is checked: each has to be owned by the caller's own user namespace, which takes a capability there,
and to be one of those that the farm noted in RECORD, a file of root, when it was root.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path

from ..base.files import read_json, write_atomically

NAMES = ("net", "ipc", "mnt", "uts")
"""Kinds of namespaces that a farm with a network of its own has for itself."""
RECORD = "etc/namespaces.json"
"""In the instance's directory: device and inode of each namespace of the farm, by its kind."""
NS_GET_USERNS = 0xB701  # ioctl_ns(2)


def note_own(directory: Path) -> None:
    """Note the namespaces of the kinds NAMES of this process, the farm, in RECORD."""
    own = {name: _identity(Path(f"/proc/self/ns/{name}").stat()) for name in NAMES}
    write_atomically(directory / RECORD, json.dumps(own) + "\n")


def open_noted(directory: Path, pid: int, names: Iterable[str]) -> dict[str, int]:
    """Open the namespaces of these kinds of process `pid`; returns their descriptors, which the caller closes.

    Raises OSError if there is no such process, and PermissionError if they are not all those of the farm.
    """
    noted = read_json(directory / RECORD) or {}
    descriptors: dict[str, int] = {}
    try:
        for name in names:
            descriptors[name] = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            if _identity(os.fstat(descriptors[name])) != noted.get(name) or not is_of_own_user_namespace(descriptors[name]):
                raise PermissionError(errno.EPERM, f"its namespace {name} is not the farm's")
    except BaseException:
        for descriptor in descriptors.values():
            os.close(descriptor)
        raise
    return descriptors


def is_of_own_user_namespace(descriptor: int) -> bool:
    """Return whether an open namespace is owned by the user namespace of this process."""
    try:
        owner = fcntl.ioctl(descriptor, NS_GET_USERNS)
    except OSError:  # it is owned by one that is not below this process's own
        return False
    try:
        return os.path.samestat(os.fstat(owner), Path("/proc/self/ns/user").stat())
    finally:
        os.close(owner)


def _identity(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino]
