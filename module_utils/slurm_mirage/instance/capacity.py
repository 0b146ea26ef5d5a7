"""How much a host has left for emulated nodes, and what an instance has taken of it already. Reads only."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ..base import processes
from ..farm.farm import read_state
from ..farm.pacing import host_memory
from .sizing import PID_MAX, Capacity, Load

KSM = Path("/sys/kernel/mm/ksm/run")
UNLIMITED = 2**62


def look(folder: Path) -> Capacity:
    """The host's capacity; `folder` is the one that holds the instances, or will."""
    memory = host_memory()
    while not folder.exists():
        folder = folder.parent
    disk = os.statvfs(folder)
    return Capacity(
        memory=memory.available - memory.reserve,
        tasks=_tasks_left(),
        files=_files_left(),
        # A file system without a fixed number of inodes says that it has none (statvfs(3)).
        inodes=disk.f_favail if disk.f_files else UNLIMITED,
        disk=disk.f_bavail * disk.f_frsize / 2**20,
        merges=can_merge(),
    )


def can_merge() -> bool:
    """Whether ksmd may merge pages of the daemons: Linux 6.4, and KSM on or to be switched on."""
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 4):
        return False
    with suppress(OSError, ValueError):
        return int(KSM.read_text()) == 1 or _can_set(KSM)
    return False


def _can_set(path: Path) -> bool:
    """Whether root may write a setting; a caller who is not root has sudo, and sees whether the file system can be written."""
    if os.geteuid() == 0:
        return os.access(path, os.W_OK)
    return not os.statvfs(path).f_flag & os.ST_RDONLY


def _limit(name: str, most: int) -> int:
    """A sysctl that kernel_tuning raises as far as is needed, or what it is where the host refuses that."""
    path = Path("/proc/sys", name)
    return most if _can_set(path) else int(path.read_text())


def _tasks_left() -> int:
    """How many processes and threads more the kernel, and the container if this is one, allow."""
    there = int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    left = min(_limit("kernel/pid_max", PID_MAX), _limit("kernel/threads-max", UNLIMITED)) - there
    for group in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/pids")):
        with suppress(OSError, ValueError):  # "max", or no container
            left = min(left, int((group / "pids.max").read_text()) - int((group / "pids.current").read_text()))
    return left


def _files_left() -> int:
    taken = int(Path("/proc/sys/fs/file-nr").read_text().split()[0])
    return _limit("fs/file-max", UNLIMITED) - taken


def running_load(directory: Path) -> Load:
    """The nodes of the instance in `directory` that run now, which hold already what they need. Its jobs are not counted."""
    state = read_state(directory)
    if state is not None:
        nodes = state["daemons"].get("slurmd", {}).get("up", 0)
        database = state["daemons"].get("mariadbd", {}).get("up", 0) > 0
    elif (directory / "run").is_dir():
        names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes.of_instance(str(directory))]
        nodes, database = names.count("slurmd"), "mariadbd" in names
    else:
        nodes, database = 0, False
    return Load(nodes, wide_steps=not (directory / "etc/common.conf").exists(), jobs=0, database=database)
