"""What /proc says of an instance's processes: identity, and which of them belong to an instance.

A process id alone proves nothing, because ids are used again: here a process is always (pid, start time), the start
time being field 22 of /proc/PID/stat (proc(5)), in clock ticks since boot.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

INSTANCE_VARIABLE = "SLURM_MIRAGE_INSTANCE"
"""Environment variable that every daemon and job of an instance carries; its value is the instance's directory."""


def start_time(pid: int) -> int | None:
    """Start time of process `pid` in clock ticks since boot; None when there is no such process, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else int(fields[19])


def is_alive(pid: int, started: int) -> bool:
    """Whether the process that had id `pid` and start time `started` still runs."""
    return start_time(pid) == started


def parents() -> dict[int, int]:
    """Parent of every process on the host, by process id."""
    table: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                stat = Path(entry.path, "stat").read_text()
                table[int(entry.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    return table


def environment(pid: int) -> dict[str, str]:
    """The environment that process `pid` was started with; empty when it cannot be read (or was overwritten by its title)."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def command_line(pid: int) -> list[str]:
    """The words of the command that process `pid` runs; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _belongs(pid: int, directory: str, identity: tuple[int, int], owner: int) -> bool:
    """Whether the process is of the instance: it sees the same directory, and carries the instance's mark.

    A container on this host may have an instance of that name too, in a file system of its own. slurmstepd and slurmscriptd
    write their title over their environment: they are known by their name and by their user, which no other instance has.
    """
    try:
        if _identity(f"/proc/{pid}/root{directory}") != identity:
            return False
        if environment(pid).get(INSTANCE_VARIABLE) == directory:
            return True
        if Path(f"/proc/{pid}").stat().st_uid != owner:
            return False
        return Path(f"/proc/{pid}/comm").read_text().strip() in ("slurmstepd", "slurmscriptd")
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_dev, status.st_ino


def of_instance(directory: str) -> set[int]:
    """Ids of all processes of the instance in `directory`: those that carry its mark, and their descendants.

    Descendants are needed for jobs that were submitted with an environment of their own (`sbatch --export=NONE`).
    The caller and its ancestors are never among them, so that a shell of the instance may stop it.
    """
    owner = Path(directory, "run").stat().st_uid
    parent = parents()
    identity = _identity(directory)
    members = {pid for pid in parent if _belongs(pid, directory, identity, owner)}
    grew = True
    while grew:
        children = {pid for pid, ppid in parent.items() if ppid in members and pid not in members}
        members |= children
        grew = bool(children)
    return members - set(_ancestry(os.getpid(), parent))


def _ancestry(pid: int, parent: dict[int, int]) -> Iterator[int]:
    while pid > 0:
        yield pid
        pid = parent.get(pid, 0)


def end(pids: Iterable[int], patience: float) -> set[int]:
    """End the processes `pids`: SIGTERM (and SIGCONT, for the stopped ones), SIGKILL after `patience` seconds.

    Returns the ids that were alive when asked to end. Each is remembered with its start time, so that an id that is used
    again in between is never hit.
    """
    known = {pid: started for pid in pids if (started := start_time(pid)) is not None}
    asked = set(known)
    deadline = time.monotonic() + patience
    _signal_all(known, (signal.SIGTERM, signal.SIGCONT))
    while known and time.monotonic() < deadline + patience:
        if time.monotonic() > deadline:
            _signal_all(known, (signal.SIGKILL,))
        time.sleep(0.05)
        known = {pid: started for pid, started in known.items() if is_alive(pid, started)}
    return asked


def send(pid: int, started: int, number: signal.Signals) -> None:
    """Send a signal to the process that had id `pid` and start time `started`, if it still runs and the caller may."""
    if is_alive(pid, started):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _signal_all(known: dict[int, int], numbers: Iterable[signal.Signals]) -> None:
    for pid, started in known.items():
        for number in numbers:
            send(pid, started, number)
