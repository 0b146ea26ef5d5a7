"""Reads what a host has left for emulated nodes, and how many nodes of an instance run already."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

from ..base import processes
from ..farm.farm import read_state
from ..farm.pacing import host_memory
from ..rm.managers import DAEMON_KINDS, NODE_KINDS, manager_of, traits_of
from .sizing import PID_MAX, Capacity, Load

KSM = Path("/sys/kernel/mm/ksm/run")
UNLIMITED = 2**62


def look(folder: Path) -> Capacity:
    """Return the host's free capacity. `folder` is the folder of all instances; it may not exist yet."""
    memory = host_memory()
    while not folder.exists():
        folder = folder.parent
    disk = os.statvfs(folder)
    return Capacity(
        memory=memory.available - memory.reserve,
        tasks=_tasks_left(),
        files=_files_left(),
        # A file system without a fixed number of inodes reports zero (statvfs(3)).
        inodes=disk.f_favail if disk.f_files else UNLIMITED,
        disk=disk.f_bavail * disk.f_frsize / 2**20,
        merges=can_merge(),
    )


def can_merge() -> bool:
    """Return whether ksmd can merge the daemons' pages: Linux 6.4 or later, and KSM is enabled or can be enabled."""
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 4):
        return False
    with suppress(OSError, ValueError):
        return int(KSM.read_text()) == 1 or _can_set(KSM)
    return False


def _can_set(path: Path) -> bool:
    """Return whether root may write a setting. Without root, only a read-only file system is detected; sudo is assumed."""
    if os.geteuid() == 0:
        return os.access(path, os.W_OK)
    return not os.statvfs(path).f_flag & os.ST_RDONLY


def _limit(name: str, most: int) -> int:
    """Return `most` when the role kernel_tuning can raise the sysctl `name` (a path below /proc/sys), or its current value."""
    path = Path("/proc/sys", name)
    return most if _can_set(path) else int(path.read_text())


def _tasks_left() -> int:
    """Return how many more processes and threads the kernel and the control group of a container allow."""
    existing = int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    left = min(_limit("kernel/pid_max", PID_MAX), _limit("kernel/threads-max", UNLIMITED)) - existing
    for group in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/pids")):
        with suppress(OSError, ValueError):  # the limit is "max", or there is no such file outside a container
            left = min(left, int((group / "pids.max").read_text()) - int((group / "pids.current").read_text()))
    return left


def _files_left() -> int:
    open_files = int(Path("/proc/sys/fs/file-nr").read_text().split()[0])
    return _limit("fs/file-max", UNLIMITED) - open_files


def running_load(directory: Path) -> Load:
    """Return the load of the running nodes of the instance in `directory`, which already use what they need; without jobs."""
    state = read_state(directory)
    if state is not None:
        up = {kind: counts["up"] for kind, counts in state["daemons"].items()}
    elif (directory / "run").is_dir():
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes.of_instance(str(directory))]
        up = Counter(names)
    else:
        up = {}
    nodes = sum(up.get(kind, 0) for kind in NODE_KINDS)
    database = any(up.get(kind.name, 0) > 0 for kind in DAEMON_KINDS.values() if kind.is_database)
    if (footprint := traits_of(manager_of(directory)).footprint) is not None:
        return Load(nodes, jobs=0, footprint=footprint)
    return Load(nodes, wide_steps=not (directory / "etc/common.conf").exists(), jobs=0, database=database)
