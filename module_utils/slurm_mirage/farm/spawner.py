"""How a daemon comes to be: what the kernel is asked for first, the host name that it sees, its environment, its priority."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..base import processes
from ..clock import instance_clock
from . import isolation
from .daemons import ON_THE_CLOCK, Daemon, Spec
from .host_settings import HostSettings
from .hosts_file import HostsFile
from .pid_namespaces import Cells

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # its children, and so every job, would ignore them too
DIGEST_VARIABLE = "SLURM_MIRAGE_DIGEST"  # in a daemon's environment: the digest that it was started with
PREFERRED = ("munged", "slurmctld")  # kinds that keep the farm's priority
PRIORITY, REAL_TIME, CELLS = "higher priority", "real-time priority of munged", "cells (PID namespaces)"
NAMES = "names of the other hosts"


class Spawner:
    """Starts the daemons of an instance as its user. It begins as root, where it can."""

    def __init__(self, directory: Path, hostnames: isolation.HostNames) -> None:
        self.directory = directory
        self.refused: dict[str, str] = {}
        self._clock: dict[str, str] = {}
        self._hostnames = hostnames
        self._hosts_file = HostsFile(directory / "state/hosts")
        self._cells = Cells(directory, {processes.INSTANCE_VARIABLE: str(directory)})

    def isolate(self, spec: Spec) -> None:
        """Ask the kernel for what the daemons inherit, then become the instance's user; `refused` has what was not granted."""
        wishes: dict[str, Callable[[], object]] = {
            "private host name": lambda: isolation.take_hostname(spec.hostname),
            "open files": isolation.open_all_files,
            "memory merging (KSM)": isolation.merge_memory,
            "fixed addresses": isolation.fix_addresses,
            "orphans": isolation.adopt_orphans,
            PRIORITY: isolation.raise_priority,
            REAL_TIME: isolation.try_real_time,
        }
        if spec.addresses:
            wishes[NAMES] = lambda: self._hosts_file.lay_over(spec.addresses, spec.user)
        if os.getuid() == 0:
            wishes["kernel settings"] = lambda: HostSettings(self.directory.parent / "host-settings.json").renew()
        for wish, ask in wishes.items():
            try:
                ask()
            except OSError as error:
                self.refused[wish] = str(error)
        if os.getuid() == 0:
            isolation.become(spec.user)
        os.chdir(self.directory)
        os.umask(0o022)

    def find_cells(self, spec: Spec, keepers: Iterable[int]) -> None:
        """Know the cells that are there, by their `keepers`, and whether the kernel lets a daemon into one."""
        self._cells.take_over(keepers)
        first = next((daemon.cell for daemon in spec.daemons.values() if daemon.cell), None)
        try:
            if first:
                self._cells.enter(first)
                self._cells.leave()
        except OSError as error:
            self.refused[CELLS] = str(error)

    def keep_names(self, addresses: Mapping[str, str]) -> None:
        """Have the daemons see these names of the cluster's `addresses`, where they see any."""
        if addresses and NAMES not in self.refused:
            self._hosts_file.write(addresses)

    def keep_clock(self, clock: Mapping[str, Any]) -> None:
        """Have the `clock` of the specification run; to be called while no daemon runs that is to have another one."""
        if "line" in clock:
            instance_clock.take(self.directory, clock["line"])
        else:
            instance_clock.keep(self.directory, clock["speed"])
        self._clock = instance_clock.environment(self.directory)

    @property
    def keepers(self) -> set[int]:
        """Process ids of the cells' keepers."""
        return self._cells.keepers

    def end_cells(self) -> None:
        """End the cells, with all that may still run in them."""
        self._cells.end()

    def start(self, daemon: Daemon) -> int:
        """Start a daemon; returns its process id. OSError when the kernel refuses."""
        Path(daemon.ready_file).unlink(missing_ok=True)
        self._enter(daemon.hostname)
        if not daemon.cell or CELLS in self.refused:
            pid = self._spawn(daemon)
        else:
            self._cells.enter(daemon.cell)
            try:
                pid = self._spawn(daemon)
            finally:
                self._cells.leave()
        if daemon.kind == "munged" and REAL_TIME not in self.refused:
            isolation.put_first(pid)
        if daemon.kind not in PREFERRED and PRIORITY not in self.refused:
            isolation.lower_priority(pid)
        return pid

    def come_home(self) -> None:
        """See the farm's own host name again: a shell of the instance takes it from here."""
        self._enter(self._hostnames.own)

    def _enter(self, hostname: str) -> None:
        try:
            self._hostnames.enter(hostname)
        except OSError as error:
            why = f"{error.strerror}: this host allows no private host name {hostname}, and so no second address for nodes"
            raise OSError(error.errno, why) from error

    def _spawn(self, daemon: Daemon) -> int:
        # A slurmd has a log file of its own; what the others say before they have one is kept for the error report.
        output = "/dev/null" if daemon.kind == "slurmd" else f"log/{daemon.name}.stderr"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        marks = {processes.INSTANCE_VARIABLE: str(self.directory), DIGEST_VARIABLE: daemon.digest}
        clock = self._clock if daemon.kind in ON_THE_CLOCK else {}
        return os.posix_spawn(
            daemon.command[0],
            daemon.command,
            # UTC: Slurm's record has local times without a zone, which would be ambiguous for an hour in autumn.
            {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TZ": "UTC", **daemon.environment, **clock, **marks},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setpgroup=0,
            setsigmask=[],
            setsigdef=IGNORED_BY_PYTHON,
        )
