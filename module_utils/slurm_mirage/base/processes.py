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


def python_environment(directory: Path) -> dict[str, str]:
    """Environment of a Python program of the instance in `directory`: it finds this package there, and carries the mark."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(directory / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        INSTANCE_VARIABLE: str(directory),
    }


def _read(pid: int, name: str) -> bytes:
    """Content of /proc/PID/NAME; empty when it cannot be read. Not by pathlib, which takes longer than the kernel."""
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = b""
        while part := os.read(descriptor, 65536):
            content += part
        return content
    except OSError:  # it has ended meanwhile
        return b""
    finally:
        os.close(descriptor)


def _fields(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the third on, which is the state; empty when there is no such process."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def start_time(pid: int) -> int | None:
    """Start time of process `pid` in clock ticks since boot; None when there is no such process, or only a zombie."""
    fields = _fields(pid)
    return int(fields[19]) if fields and fields[0] != b"Z" else None


def is_alive(pid: int, started: int) -> bool:
    """Whether the process that had id `pid` and start time `started` still runs."""
    return start_time(pid) == started


def parents() -> dict[int, int]:
    """Parent of every process on the host, by process id."""
    pids = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    return {pid: int(fields[1]) for pid in pids if (fields := _fields(pid))}


def environment(pid: int) -> dict[str, str]:
    """The environment that process `pid` was started with; empty when it cannot be read (or was overwritten by its title)."""
    words = _read(pid, "environ").decode(errors="replace").split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def command_line(pid: int) -> list[str]:
    """The words of the command that process `pid` runs; empty when it is gone."""
    return _read(pid, "cmdline").decode(errors="replace").split("\0")[:-1]


def belongs(pid: int, directory: str) -> bool:
    """Whether the process is of the instance in `directory`: it sees the same directory, and carries the instance's mark.

    A container on this host may have an instance of that name too, in a file system of its own. slurmstepd and slurmscriptd
    write their title over their environment: they are known by their name and by their user, which no other instance has.
    """
    mark = f"{INSTANCE_VARIABLE}={directory}".encode()
    try:
        if mark not in _read(pid, "environ").split(b"\0"):
            if _read(pid, "comm").strip() not in (b"slurmstepd", b"slurmscriptd"):
                return False
            if Path(f"/proc/{pid}").stat().st_uid != Path(directory, "run").stat().st_uid:
                return False
        return Path(f"/proc/{pid}/root{directory}").samefile(directory)
    except OSError:
        return False


def of_instance(directory: str) -> set[int]:
    """Ids of all processes of the instance in `directory`: those that carry its mark, and their descendants.

    Descendants are needed for jobs that were submitted with an environment of their own (`sbatch --export=NONE`).
    The caller and its ancestors are never among them, so that a shell of the instance may stop it.
    """
    parent = parents()
    members = {pid for pid in parent if belongs(pid, directory)}
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
    again in between is never hit. They are waited for one after the other, so that each is looked at once or twice only.
    """
    known = [(pid, started) for pid in pids if (started := start_time(pid)) is not None]
    asked = {pid for pid, _ in known}
    deadline = time.monotonic() + patience
    killed = False
    send_all(known, (signal.SIGTERM, signal.SIGCONT))
    while known and time.monotonic() < deadline + patience:
        if not is_alive(*known[-1]):
            known.pop()
        elif not killed and time.monotonic() > deadline:
            send_all(known, (signal.SIGKILL,))
            killed = True
        else:
            time.sleep(0.05)
    return asked


def send_all(processes: Iterable[tuple[int, int]], numbers: Iterable[signal.Signals]) -> None:
    """Send signals to processes, given by id and start time, as far as they still run and the caller may."""
    for pid, started in processes:
        if is_alive(pid, started):
            with suppress(ProcessLookupError, PermissionError):
                for number in numbers:
                    os.kill(pid, number)


def send(pid: int, started: int, number: signal.Signals) -> None:
    """Send a signal to the process that had id `pid` and start time `started`, if it still runs and the caller may."""
    send_all([(pid, started)], [number])
