"""PID namespaces with their own /proc, each shared by some neighbouring nodes (`daemons.NODES`).

At the end of each step slurmstepd reads all of /proc to find remaining processes of the step (proctrack/linuxproc, and
slurmd/common/proctrack.c before every SIGKILL). With thousands of slurmd and jobs on the host this is most of the cost of a job,
and for a step over many nodes it grows with the square of their number. Other node daemons read it for each job too.
In a PID namespace they see only their neighbours. The host, the farm and ps(1) still see all processes, with other process ids than
these see themselves.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..base import processes
from ..base.json_lines import JsonLines
from . import isolation
from .namespaces import is_of_own_user_namespace

NAMESPACE_VARIABLE = "SLURM_MIRAGE_CELL"
"""Environment variable of a namespace's first process; its value is the namespace's name."""
RECORD = "etc/pid_namespaces.jsonl"
"""In the instance's directory, root's: the namespaces that its farms have made. The farm opens it before it becomes its user."""
HOLDER_COMMAND = ["sleep", "infinity"]
"""Command of the first process of each namespace, which keeps the namespace alive."""


@dataclass
class Namespace:
    """A PID namespace: process id and start time of its first process, and descriptors of its PID and mount namespaces."""

    holder: int
    start_time: int
    pid_namespace: int
    mount_namespace: int

    def identity(self, name: str) -> dict[str, Any]:
        """What no other namespace has, as a line of RECORD."""
        kinds = {"pid": self.pid_namespace, "mnt": self.mount_namespace}
        inodes = {kind: os.fstat(descriptor).st_ino for kind, descriptor in kinds.items()}
        return {"name": name, "holder": self.holder, "started": self.start_time, **inodes}

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.pid_namespace)
        os.close(self.mount_namespace)


class PidNamespaces:
    """The PID namespaces of one farm, each created when it is first entered.

    Needs CAP_SYS_ADMIN and CAP_SYS_CHROOT (see `isolation.become_user`). `environment` is that of each holder process, by which it
    is recognised as part of the instance.
    """

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._environment = environment
        self._namespaces: dict[str, Namespace] = {}
        self._original: tuple[int, int] | None = None
        self._record: JsonLines | None = None
        with suppress(OSError):  # the farm has no rights to make namespaces either
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._record = JsonLines(os.open(directory / RECORD, flags, 0o600))

    def adopt(self, holders: Iterable[int]) -> None:
        """Adopt the namespaces that a killed farm has left; `holders` are processes that run HOLDER_COMMAND.

        Only what RECORD has is one of them, and not in another network: daemons may be started there by root. Those of a user
        namespace of a user's own are left alone. A holder that ends meanwhile is left out.
        """
        noted = [] if self._record is None else list(self._record.entries())
        for pid in holders:
            name = processes.environment(pid).get(NAMESPACE_VARIABLE)
            with suppress(OSError):
                if not name or not Path(f"/proc/{pid}/ns/net").samefile("/proc/self/ns/net"):
                    continue
                found = _open_namespace(pid)
                own = is_of_own_user_namespace(found.pid_namespace) and is_of_own_user_namespace(found.mount_namespace)
                if own and found.identity(name) in noted:
                    self._namespaces[name] = found
                else:
                    found.close()
        if self._record is not None:
            self._record.clear()
        for name, namespace in self._namespaces.items():
            self._note(name, namespace)

    def enter(self, name: str) -> None:
        """Let this process start its children in the namespace `name`, and see its /proc, until `leave`. Raises OSError.

        The first call keeps the namespaces that this process is in, to which `leave` returns.
        """
        if self._original is None:
            self._original = _open_namespaces("self")
        namespace = self._namespaces.get(name)
        if namespace is None or not processes.is_alive(namespace.holder, namespace.start_time):
            if namespace is not None:
                namespace.close()
            namespace = self._namespaces[name] = _open_namespace(self._create(name))
            self._note(name, namespace)
        self._switch(namespace.pid_namespace, namespace.mount_namespace)

    def leave(self) -> None:
        """Return to the namespaces before `enter`."""
        if self._original is not None:
            self._switch(*self._original)

    def _note(self, name: str, namespace: Namespace) -> None:
        if self._record is not None:
            with suppress(OSError):  # on a full disk: the next farm makes another one
                self._record.append(namespace.identity(name))

    @property
    def holders(self) -> set[int]:
        """Process ids of the namespaces' first processes. They ignore SIGTERM (pid_namespaces(7))."""
        return {namespace.holder for namespace in self._namespaces.values()}

    def end(self) -> None:
        """Kill the holders; the kernel then kills every process in their namespaces."""
        for namespace in self._namespaces.values():
            processes.send(namespace.holder, namespace.start_time, signal.SIGKILL)

    def _switch(self, pid_namespace: int, mount_namespace: int) -> None:
        isolation.enter_namespace(mount_namespace)
        isolation.enter_namespace(pid_namespace)
        os.chdir(self._directory)  # entering a mount namespace changes to its root directory

    def _create(self, name: str) -> int:
        """Start the holder of a new namespace; returns its process id. Raises OSError."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._run_child(name, writer)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = pipe.read()  # ends when the holder has executed its own program
        os.waitpid(child, 0)
        number, _, error = answer.partition(" ")
        if error or not number:
            raise OSError(int(error or 0), os.strerror(int(error or 0)))
        return int(number)

    def _run_child(self, name: str, writer: int) -> NoReturn:
        """In the child: fork the holder of a new namespace, write its process id or " ERRNO" to `writer`, and exit."""
        try:
            isolation.unshare_processes()
            holder = os.fork()
            if holder == 0:
                self._run_holder(name)
            os.write(writer, b"%d" % holder)
        except OSError as error:
            os.write(writer, b" %d" % (error.errno or 1))
        finally:
            os._exit(0)

    def _run_holder(self, name: str) -> NoReturn:
        """In the holder, process 1 of the namespace: mount /proc and execute HOLDER_COMMAND.

        SIGCHLD is ignored, so that the kernel removes orphaned processes of the namespace when they end (waitpid(2)).
        """
        isolation.mount_proc()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.execve("/bin/sleep", HOLDER_COMMAND, {**self._environment, NAMESPACE_VARIABLE: name})


def _open_namespaces(pid: int | str) -> tuple[int, int]:
    """Return descriptors of the PID and mount namespaces of a process."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    return os.open(f"/proc/{pid}/ns/pid", flags), os.open(f"/proc/{pid}/ns/mnt", flags)


def _open_namespace(holder: int) -> Namespace:
    """Open the PID namespace whose first process is `holder`. Raises OSError if that has ended."""
    return Namespace(holder, processes.start_time(holder) or 0, *_open_namespaces(holder))
