"""Reads /proc to identify processes and to find those of an instance; sends signals to them.

Process ids are reused, so a process is identified by its id and its start time. The start time is field 22 of /proc/PID/stat
(proc(5)), in clock ticks since boot.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

INSTANCE_VARIABLE = "SLURM_MIRAGE_INSTANCE"
"""Environment variable of every daemon and job of an instance; its value is the instance's directory."""


DATABASE = "pbs/datastore"
"""Folder of a resource manager's own database in an instance's directory. Its parent folder belongs to root."""
PRELOAD = "LD_PRELOAD"
NAMED_USERS = range(2_100_000_000, 2_147_000_000)
"""User and group ids of users with names, whom only a sandbox knows (extras/sandbox/users.py)."""
TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks of start times in a second."""


def python_environment(directory: Path) -> dict[str, str]:
    """Return the environment for a Python program of the instance in `directory`.

    PYTHONPATH is the instance's copy of this package, and INSTANCE_VARIABLE is set.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(directory / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        INSTANCE_VARIABLE: str(directory),
    }


def with_libraries(*environments: Mapping[str, str]) -> dict[str, str]:
    """The variables of several environments, of which the last one counts; of LD_PRELOAD the libraries of all, in order."""
    found = {name: value for one in environments for name, value in one.items()}
    libraries = [one[PRELOAD] for one in environments if PRELOAD in one]
    return {**found, PRELOAD: ":".join(libraries)} if libraries else found


def _read(pid: int, name: str) -> bytes:
    """Return the content of /proc/PID/NAME; empty when it cannot be read. pathlib would take longer than the kernel does."""
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        content = b""
        while part := os.read(descriptor, 65536):
            content += part
        return content
    except OSError:  # the process has ended
        return b""
    finally:
        os.close(descriptor)


def _stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third (the state) on; empty when there is no such process."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def start_time(pid: int) -> int | None:
    """Return the start time of process `pid` in clock ticks since boot; None when it does not exist or is a zombie."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields and fields[0] != b"Z" else None


def is_stopped(pid: int) -> bool:
    """Return whether process `pid` is stopped by a signal or by a debugger (states T and t of proc(5))."""
    return _stat_fields(pid)[:1] in ([b"T"], [b"t"])


def is_alive(pid: int, started: int) -> bool:
    """Return whether the process with id `pid` and start time `started` (clock ticks since boot) still runs."""
    return start_time(pid) == started


def parents() -> dict[int, int]:
    """Return the parent's process id of every process on the host, by process id."""
    return {pid: parent for pid, (parent, _) in _all().items()}


def _all() -> dict[int, tuple[int, int]]:
    """Return the parent's process id and the start time of every process on the host, by process id."""
    pids = (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    return {pid: (int(fields[1]), int(fields[19])) for pid in pids if (fields := _stat_fields(pid))}


def ancestors(pid: int) -> list[int]:
    """Return the ids of the parent of process `pid`, of the parent's parent, and so on."""
    pids: list[int] = []
    while (fields := _stat_fields(pids[-1] if pids else pid)) and int(fields[1]) > 0:
        pids.append(int(fields[1]))
    return pids


def environment(pid: int) -> dict[str, str]:
    """Return the initial environment of process `pid`; empty when it cannot be read or the process title has overwritten it."""
    words = _read(pid, "environ").decode(errors="replace").split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def command_line(pid: int) -> list[str]:
    """Return the arguments of the command that process `pid` runs, program first; empty when there is no such process."""
    return _read(pid, "cmdline").decode(errors="replace").split("\0")[:-1]


def users_of(pid: int) -> set[int]:
    """Return the real, effective and saved user ids of process `pid`; empty when there is no such process.

    The owner of /proc/PID is not one of them: it is root for a process that has changed its user.
    """
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"Uid:"):
            return {int(number) for number in line.split()[1:4]}
    return set()


def instance_user(directory: str) -> int:
    """Return the user id of the instance in `directory`: the owner of its folder `run`, which only root gives to a user."""
    try:
        return Path(directory, "run").lstat().st_uid
    except FileNotFoundError:
        return Path(directory).stat().st_uid


def as_user(directory: Path) -> dict[str, Any]:
    """Return the arguments of subprocess.Popen that run a program as the user of the instance in `directory`.

    The program gets a session of its own: it must not write to the terminal of root. Empty if the caller is not root, or if the
    instance does not exist.
    """
    if os.geteuid() != 0:
        return {}
    try:
        status = (directory / "run").lstat()
    except FileNotFoundError:
        return {}
    if status.st_uid == 0:
        return {}
    return {"user": status.st_uid, "group": status.st_gid, "extra_groups": [], "start_new_session": True}


def belongs(pid: int, directory: str) -> bool:
    """Return whether process `pid` belongs to the instance in `directory`.

    It does when INSTANCE_VARIABLE in its environment is `directory`, it runs as the instance's user (or as root, as the account of
    its database server, or as a user of a sandbox), and it sees the same directory there: a container on this host may have an
    instance of the same name in its own file system. slurmstepd and slurmscriptd overwrite their environment with their title; they
    are recognised by their name and their user, which no other instance shares.
    """
    mark = f"{INSTANCE_VARIABLE}={directory}".encode()
    try:
        allowed = {instance_user(directory)}
        if mark in _read(pid, "environ").split(b"\0"):
            allowed |= {0, *_owner_of_database(directory), *(user for user in users_of(pid) if user in NAMED_USERS)}
        elif _read(pid, "comm").strip() not in (b"slurmstepd", b"slurmscriptd"):
            return False
        users = users_of(pid)
        return bool(users) and users <= allowed and Path(f"/proc/{pid}/root{directory}").samefile(directory)
    except OSError:
        return False


def _owner_of_database(directory: str) -> set[int]:
    """Return the user id of the account that runs the resource manager's database server in `directory`; empty without one."""
    try:
        return {Path(directory, DATABASE).lstat().st_uid}
    except OSError:
        return set()


def of_instance(directory: str) -> dict[int, int]:
    """Return the start times of all processes of the instance in `directory` by their ids: those for which `belongs` is true, and
    their descendants.

    Descendants are needed for jobs submitted without the environment (`sbatch --export=NONE`). The caller and its ancestors are
    excluded, so that a shell of the instance can stop the instance.
    """
    all_processes = _all()
    parent = {pid: ppid for pid, (ppid, _) in all_processes.items()}
    # A process that still has its start time after the check is the one that was checked.
    members = {pid for pid, (_, started) in all_processes.items() if belongs(pid, directory) and is_alive(pid, started)}
    has_grown = True
    while has_grown:
        children = {pid for pid, ppid in parent.items() if ppid in members and pid not in members}
        members |= children
        has_grown = bool(children)
    return {pid: all_processes[pid][1] for pid in members - set(_ancestry(os.getpid(), parent))}


def of_users(users: Collection[int]) -> set[int]:
    """Return the ids of all processes of these users that see the same file system as the caller: a container may have the same."""
    pids = set()
    for pid in parents():
        with suppress(OSError):
            if not users_of(pid).isdisjoint(users) and Path(f"/proc/{pid}/root").samefile("/"):
                pids.add(pid)
    return pids


def _ancestry(pid: int, parent: dict[int, int]) -> Iterator[int]:
    while pid > 0:
        yield pid
        pid = parent.get(pid, 0)


def end(pids: Iterable[int] | Mapping[int, int], timeout: float) -> set[int]:
    """Terminate the processes `pids`: SIGTERM and, for stopped ones, SIGCONT; SIGKILL after `timeout` seconds.

    pids: their ids, or their start times by id, of which those that do not run any more are left out. Returns the ids that were
    alive at the call. A reused id gets no signal. The function waits for one process after the other, so that each is checked only
    once or twice.
    """
    running = {pid: started for pid in pids if (started := start_time(pid)) is not None}
    if isinstance(pids, Mapping):
        running = {pid: started for pid, started in running.items() if pids[pid] == started}
    known = list(running.items())
    alive = {pid for pid, _ in known}
    deadline = time.monotonic() + timeout
    killed = False
    send_all(known, (signal.SIGTERM, signal.SIGCONT))
    while known and time.monotonic() < deadline + timeout:
        if not is_alive(*known[-1]):
            known.pop()
        elif not killed and time.monotonic() > deadline:
            send_all(known, (signal.SIGKILL,))
            killed = True
        else:
            time.sleep(0.05)
    return alive


def send_all(processes: Iterable[tuple[int, int]], numbers: Iterable[signal.Signals]) -> None:
    """Send each signal of `numbers` to each (id, start time) of `processes` that still runs and that the caller may signal."""
    numbers = list(numbers)
    for pid, started in processes:
        with suppress(ProcessLookupError, PermissionError):
            _send(pid, started, numbers)


def _send(pid: int, started: int, numbers: Iterable[signal.Signals]) -> None:
    """As `send_all`, to one process. Its open descriptor prevents that the id is reused between the check and the signal."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        # A kernel before 5.3, or a container that does not allow it.
        for number in numbers:
            if is_alive(pid, started):
                os.kill(pid, number)
        return
    try:
        if is_alive(pid, started):
            for number in numbers:
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def send(pid: int, started: int, number: signal.Signals) -> None:
    """Send a signal to the process with id `pid` and start time `started`, if it still runs and the caller may signal it."""
    send_all([(pid, started)], [number])
