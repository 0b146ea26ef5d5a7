"""Daemons that a run takes away from the cluster for a while, as the failure of their nodes: DIRECTORY/run/absent.

The replay writes the file and sends the farm SIGUSR1 (`request`). The farm ends these daemons with all that they started, or stops
them (SIGSTOP), and starts none of them until the file does not name them any more. Its state then has the digest of the file, by
which the replay knows that all of it is done. Both run as the instance's user.

A line has the name of a daemon, and STOPPED after it if the daemon is to be stopped only.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import processes, user_folders
from ..base.errors import WrongUse
from ..base.strict_json import COUNT, TEXT, IfThere, Object

FILE = "run/absent"
STOPPED = "stopped"
STATE_KEY = "absent"
"""Key of the farm's state with the digest of the file that it has read."""
STANDBY_KEY = "standby_pid"
"""Key of the farm's state with the process id of a second controller that is not in charge."""
NAME_VARIABLE = "SLURM_MIRAGE_DAEMON"
"""Environment variable of a daemon, and of the programs that it starts itself: its name in the farm's specification."""
LARGEST = 4 << 20
_STATE = Object({"pid": COUNT, "start_time": COUNT, "controller_pid": COUNT, STANDBY_KEY: IfThere(COUNT), STATE_KEY: IfThere(TEXT)})


class NoFarm(Exception):
    """No farm runs that could take daemons away."""


def text_of(gone: Iterable[str], stopped: Iterable[str] = ()) -> str:
    """The content of the file for daemons that are gone, and for those that are stopped."""
    return "".join([*(f"{name}\n" for name in sorted(gone)), *(f"{name} {STOPPED}\n" for name in sorted(stopped))])


def digest_of(text: str) -> str:
    """Digest of the file's content; empty for an empty file."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def read(directory: Path) -> str:
    """The content of the file in an instance's directory; empty without one, and for one that is not a small text file."""
    with suppress(OSError, WrongUse, UnicodeDecodeError):
        return user_folders.read_bytes(directory, FILE, LARGEST).decode()
    return ""


def parse(text: str) -> tuple[set[str], set[str]]:
    """The names of the daemons that are gone, and of those that are stopped. Words that are neither are ignored."""
    words = [line.split() for line in text.splitlines()]
    gone = {line[0] for line in words if len(line) == 1}
    return gone, {line[0] for line in words if line[1:] == [STOPPED]} - gone


def farm_of(directory: Path) -> dict[str, Any] | None:
    """The state of the running farm in an instance's directory, with pid, start_time and controller_pid; None if none runs."""
    with suppress(OSError, WrongUse):
        state = user_folders.read_json(directory, "run/farm.json", _STATE)
        if state is not None and processes.is_alive(state["pid"], state["start_time"]):
            return state
    return None


def signal_standby(directory: Path, number: signal.Signals) -> None:
    """Send a signal to the instance's second controller, if there is one that is not in charge."""
    farm = farm_of(directory)
    pid = farm.get(STANDBY_KEY, 0) if farm is not None else 0
    if pid and (started := processes.start_time(pid)) is not None and processes.belongs(pid, str(directory)):
        processes.send(pid, started, number)


def request(directory: Path, farm: Mapping[str, object], text: str) -> None:
    """Write the file, or remove it if `text` is empty, and tell the farm, whose state is `farm`.

    Raises OSError, WrongUse and NoFarm.
    """
    if text:
        user_folders.write_atomically(directory, FILE, text)
    else:
        user_folders.remove(directory, FILE)
    pid, started = farm["pid"], farm["start_time"]
    assert isinstance(pid, int) and isinstance(started, int)
    if not processes.is_alive(pid, started):
        raise NoFarm
    processes.send(pid, started, signal.SIGUSR1)


def processes_of(logs: Mapping[str, Path], members: Iterable[int]) -> dict[int, int]:
    """Process ids, with start times, of daemons and of all that they have started.

    logs: their log files by their names. A program that outlives the daemon which has started it, as slurmstepd does, keeps this
    file open, and may have overwritten its environment. members: the processes of the instance
    """
    own, files = set(members), {str(path) for path in logs.values()}
    name_of = {pid: processes.environment(pid).get(NAME_VARIABLE) for pid in own}
    chosen = {pid for pid, name in name_of.items() if name in logs or (name is None and files & _open_files(pid))}
    parent = processes.parents()
    children: dict[int, list[int]] = {}
    for pid, of in parent.items():
        children.setdefault(of, []).append(pid)
    waiting = list(chosen)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in chosen:
                chosen.add(child)
                waiting.append(child)
    started = {pid: processes.start_time(pid) for pid in chosen}
    return {pid: instant for pid, instant in started.items() if instant is not None}


def _open_files(pid: int) -> set[str]:
    """Paths of the files that a process has open; none if it has ended, or belongs to another user."""
    paths = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                paths.add(str(Path(entry.path).readlink()))
    return paths
