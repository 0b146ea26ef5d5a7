"""Cells: PID namespaces with a /proc of their own, in each of which some neighbouring nodes run.

slurmstepd looks through all of /proc at the end of each step, for what the step may have left behind (proctrack/linuxproc, and
slurmd/common/proctrack.c before every SIGKILL). With thousands of slurmd, and jobs, on the host that is most of what a job
costs, and for a step over many nodes it grows with their square. In a cell slurmstepd sees its neighbours only. From outside,
for the farm and for ps(1), all processes are there as ever, with other process ids than they see themselves.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ..base import processes
from . import isolation

SIZE = 64
"""Nodes in a cell: few enough for a short /proc, many enough for the cell's own process to cost next to nothing."""
CELL_VARIABLE = "SLURM_MIRAGE_CELL"
"""Environment variable of a cell's first process: the cell's name."""
KEEPER = ["sleep", "infinity"]


@dataclass
class Cell:
    """The first process of a cell, which keeps it, and the open namespaces."""

    keeper: int
    started: int
    pid_namespace: int
    mount_namespace: int


class Cells:
    """The cells of one farm, made when they are first entered; needs CAP_SYS_ADMIN and CAP_SYS_CHROOT (see isolation.become).

    `marks` is the environment of each cell's keeper, by which it is known to belong to the instance.
    """

    def __init__(self, directory: Path, marks: dict[str, str]) -> None:
        self._directory = directory
        self._marks = marks
        self._cells: dict[str, Cell] = {}
        self._home = _namespaces("self")

    def take_over(self, keepers: Iterable[int]) -> None:
        """Know the cells again that a killed farm has left; `keepers` are processes that run KEEPER."""
        for pid in keepers:
            if name := processes.environment(pid).get(CELL_VARIABLE):
                self._cells[name] = _cell(pid)

    def enter(self, name: str) -> None:
        """Have what this process starts from now on begin in the cell; until `leave`, /proc is the cell's."""
        cell = self._cells.get(name)
        if cell is None or not processes.is_alive(cell.keeper, cell.started):
            if cell is not None:
                os.close(cell.pid_namespace)
                os.close(cell.mount_namespace)
            cell = self._cells[name] = _cell(self._make(name))
        self._see(cell.pid_namespace, cell.mount_namespace)

    def leave(self) -> None:
        """Be back where the farm began."""
        self._see(*self._home)

    @property
    def keepers(self) -> set[int]:
        """Process ids of the cells' first processes, which heed no SIGTERM (pid_namespaces(7))."""
        return {cell.keeper for cell in self._cells.values()}

    def end(self) -> None:
        """End all cells, and so every process in them."""
        for cell in self._cells.values():
            processes.send(cell.keeper, cell.started, signal.SIGKILL)

    def _see(self, pid_namespace: int, mount_namespace: int) -> None:
        isolation.enter_namespace(mount_namespace)
        isolation.enter_namespace(pid_namespace)
        os.chdir(self._directory)  # entering a mount namespace leads to its root

    def _make(self, name: str) -> int:
        """Start a cell's keeper; returns its process id. OSError when the kernel refuses."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._split_off(name, writer)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()  # until the keeper has become its own program
        os.waitpid(child, 0)
        number, _, error = said.partition(" ")
        if error or not number:
            raise OSError(int(error or 0), os.strerror(int(error or 0)))
        return int(number)

    def _split_off(self, name: str, writer: int) -> NoReturn:
        """In the child: become the parent of a cell's keeper, say its process id, and go."""
        try:
            isolation.split_processes()
            keeper = os.fork()
            if keeper == 0:
                self._keep(name)
            os.write(writer, b"%d" % keeper)
        except OSError as error:
            os.write(writer, b" %d" % (error.errno or 1))
        finally:
            os._exit(0)

    def _keep(self, name: str) -> NoReturn:
        """In the keeper, process 1 of the cell: have a /proc for it, and sleep.

        It ignores SIGCHLD, so that the kernel buries the processes whose parent has gone (waitpid(2)).
        """
        isolation.mount_proc()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.execve("/bin/sleep", KEEPER, {**self._marks, CELL_VARIABLE: name})


def _namespaces(pid: int | str) -> tuple[int, int]:
    """Open PID and mount namespace of a process."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    return os.open(f"/proc/{pid}/ns/pid", flags), os.open(f"/proc/{pid}/ns/mnt", flags)


def _cell(keeper: int) -> Cell:
    return Cell(keeper, processes.start_time(keeper) or 0, *_namespaces(keeper))
