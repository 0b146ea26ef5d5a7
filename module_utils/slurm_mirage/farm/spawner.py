"""Starts daemons: isolation of the farm, then host name, PID namespace, environment and priority of each daemon."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base import processes, user_folders
from ..base.errors import WrongUse
from ..clock import clock_page, instance_clock
from ..clock.event_clock import SPEED
from ..rm.daemon_kinds import CLOCK
from . import isolation, namespaces, task_fields
from .absent import NAME_VARIABLE
from .daemons import Daemon, Spec
from .host_settings import HostSettings
from .hosts_file import HostsFile
from .pid_namespaces import PidNamespaces

IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # without a reset, its children and so every job would ignore them
DIGEST_VARIABLE = "SLURM_MIRAGE_DIGEST"  # environment variable of a daemon: the digest with which it was started
PRIORITY, NAMESPACES = "higher priority", "PID namespaces"
REAL_TIME = "real-time priority of munged, of the event clock, and of slurmctld on it"
HOST_NAMES, FIXED_ADDRESSES = "names of the other hosts", "fixed addresses"
ROOT = "root"
COUNTING = "counts of runnable threads by BPF"


USER_NAMESPACE = 9
"""Number of the descriptor by which nsenter(1) enters the user namespace."""


class NoIsolation(Exception):
    """The host refuses the network or the user namespace that the daemons need. The message says why, and what they need."""


class Spawner:
    """Starts the daemons of an instance as its user. `refused` has the reason of each isolation measure that the kernel refused."""

    def __init__(self, directory: Path, hostnames: isolation.HostNames) -> None:
        self.directory = directory
        self.refused: dict[str, str] = {}
        self._clock: dict[str, str] = {}
        self._has_event_clock = False
        self._hostnames = hostnames
        self._hosts_file = HostsFile(directory)
        self._kept_ports: list[socket.socket] = []
        self._user_namespace: int | None = None
        self._namespaces = PidNamespaces(directory, {processes.INSTANCE_VARIABLE: str(directory)})

    def isolate(self, spec: Spec) -> None:
        """Enable the kernel features that the daemons inherit, then become the instance's user. Fills `refused`."""
        measures: dict[str, Callable[[], object]] = {
            "private host name": lambda: isolation.take_hostname(spec.hostname),
            "open files": isolation.open_all_files,
            "memory merging (KSM)": isolation.merge_memory,
            FIXED_ADDRESSES: isolation.fix_addresses,
            "orphans": isolation.adopt_orphans,
            PRIORITY: isolation.raise_priority,
            REAL_TIME: isolation.try_real_time,
        }
        if spec.network:
            self._hosts_file = HostsFile(self.directory, is_roots=True)
        if spec.addresses:
            measures[HOST_NAMES] = lambda: self._hosts_file.mount(spec.addresses, spec.user)
        if os.getuid() == 0:
            measures["kernel settings"] = lambda: HostSettings(self.directory.parent / "host-settings.json").renew()
        if spec.network:
            self._take_network(spec)
        for measure, enable in measures.items():
            try:
                enable()
            except OSError as error:
                self.refused[measure] = str(error)
        if spec.network and HOST_NAMES in self.refused:
            raise NoIsolation(f"this host allows no file of host names of their own: {self.refused[HOST_NAMES]}")
        if spec.network:
            namespaces.note_own(self.directory)
        if spec.users:
            try:
                self._user_namespace = isolation.make_user_namespace(spec.user, spec.users["first"], spec.users["count"])
            except OSError as error:
                raise NoIsolation(
                    f"this host allows no user namespace to root, which users of the cluster need: {error}"
                ) from error
        if os.getuid() == 0:
            further = (isolation.CAP_KILL, *isolation.ACCOUNT_CAPABILITIES) if spec.has_accounts else ()
            isolation.become_user(spec.user, further)
        os.chdir(self.directory)
        os.umask(0o022)

    def _take_network(self, spec: Spec) -> None:
        """Enter the network namespace of the daemons that a killed farm has left, or a new one as specified.

        Raises NoIsolation: without it the daemons would listen on the host's addresses.
        """
        try:
            self._enter_network(spec)
        except OSError as error:
            needs = f"this host allows no network namespace to root: {spec.manager} needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
            raise NoIsolation(f"{needs} ({error.strerror})") from error
        if kept := spec.network.get("kept"):
            first, last = kept["ports"]
            self._kept_ports = isolation.keep_ports(kept["address"], range(first, last + 1))

    def _enter_network(self, spec: Spec) -> None:
        for pid in sorted(processes.of_instance(str(self.directory))):
            with suppress(OSError):
                for descriptor in namespaces.open_noted(self.directory, pid, ("net", "ipc")).values():
                    isolation.enter_namespace(descriptor)
                    os.close(descriptor)
                return
        isolation.take_network(spec.network["address"], spec.network["mask"], tuple(spec.network["ports"]))
        isolation.reserve_ports(spec.network["ports"][0])

    def complete(self, spec: Spec) -> None:
        """Add what only this process knows to the command of an event clock's coordinator in `spec`."""
        self._has_event_clock = CLOCK.name in spec.daemons
        for daemon in spec.daemons.values():
            if daemon.kind is CLOCK:
                try:
                    daemon.command.append(task_fields.read(with_network=bool(spec.network)))
                except OSError as error:
                    self.refused[COUNTING] = str(error)
                    if spec.network:  # the coordinator then ends with a message: scans do not see the threads of other accounts
                        daemon.command.append(task_fields.UNKNOWN_NETWORK)

    def find_namespaces(self, spec: Spec, holders: Iterable[int]) -> None:
        """Adopt the PID namespaces of the processes `holders`, and test whether the kernel permits PID namespaces."""
        self._namespaces.adopt(holders)
        first = next((daemon.pid_namespace for daemon in spec.daemons.values() if daemon.pid_namespace), None)
        try:
            if first:
                self._namespaces.enter(first)
                self._namespaces.leave()
        except OSError as error:
            self.refused[NAMESPACES] = str(error)

    def update_hosts_file(self, addresses: Mapping[str, str]) -> None:
        """Let the daemons see the host names `addresses`, by address, in their /etc/hosts.

        A file of root is written by those who change the specification.
        """
        if addresses and HOST_NAMES not in self.refused and not self._hosts_file.is_roots:
            try:
                self._hosts_file.write(addresses)
            except (OSError, WrongUse) as error:
                self.refused[HOST_NAMES] = str(error)

    def set_clock(self, clock: Mapping[str, Any]) -> None:
        """Set the virtual clock as in the specification (`Spec.clock`). Call it while no daemon with another clock runs."""
        if "line" in clock:
            instance_clock.copy_head_clock(self.directory, clock["line"])
        else:
            instance_clock.set_speed(self.directory, clock["speed"], clock.get("charge", False))
        self._clock = instance_clock.environment(self.directory)

    @property
    def namespace_holders(self) -> set[int]:
        """Process ids of the holders of the PID namespaces."""
        return self._namespaces.holders

    def end_namespaces(self) -> None:
        """Kill all processes in the PID namespaces."""
        self._namespaces.end()

    def start(self, daemon: Daemon) -> int:
        """Start a daemon; returns its process id. Raises OSError."""
        if daemon.kind is CLOCK:
            daemon.served = daemon.last_coordinator()
        elif daemon.ready_file:
            ready_file = Path(daemon.ready_file)
            ready_file.parent.mkdir(mode=0o700, exist_ok=True)  # run/private: others must not reach the sockets in it
            ready_file.unlink(missing_ok=True)
        self._enter(daemon.hostname)
        if daemon.kind is CLOCK and COUNTING not in self.refused:
            pid = self._spawn_counting(daemon)
        elif not daemon.pid_namespace or NAMESPACES in self.refused:
            pid = self._spawn(daemon)
        else:
            self._namespaces.enter(daemon.pid_namespace)
            try:
                pid = self._spawn(daemon)
            finally:
                self._namespaces.leave()
        is_real_time = daemon.kind.is_real_time or (daemon.kind.is_real_time_by_events and self._has_event_clock)
        if is_real_time and REAL_TIME not in self.refused:
            isolation.set_real_time(pid)
        if not daemon.kind.keeps_priority and PRIORITY not in self.refused:
            isolation.lower_priority(pid)
        return pid

    def restore_hostname(self) -> None:
        """Return to the farm's own host name. A shell of the instance enters the farm's UTS namespace."""
        self._enter(self._hostnames.own)

    def _enter(self, hostname: str) -> None:
        try:
            self._hostnames.enter(hostname)
        except OSError as error:
            reason = f"{error.strerror}: this host allows no private host name {hostname}, and so no second address for nodes"
            raise OSError(error.errno, reason) from error

    def _spawn_counting(self, daemon: Daemon) -> int:
        """Start a daemon with the capabilities to count runnable threads, or without them where the kernel refuses them."""
        try:
            with isolation.with_capabilities(isolation.COUNTING_CAPABILITIES):
                return self._spawn(daemon)
        except PermissionError as error:
            self.refused[COUNTING] = str(error)
            return self._spawn(daemon)

    def _spawn(self, daemon: Daemon) -> int:
        if daemon.inside is not None:
            change = [f"--setuid={daemon.inside}", f"--setgid={daemon.inside}"] if daemon.inside else ["--preserve-credentials"]
            enter = ["/usr/bin/nsenter", f"--user=/proc/self/fd/{USER_NAMESPACE}", *change, "--"]
            enter += ["/usr/bin/setpriv", "--no-new-privs", "--"]
            return self._execute(daemon, [*enter, *daemon.command])
        if not daemon.account:
            return self._execute(daemon, daemon.command)
        try:
            account = pwd.getpwnam(daemon.account)
        except KeyError as error:
            raise OSError(errno.ENOENT, f"{daemon.kind.name} runs as the account {daemon.account}, which is not there") from error
        is_root = daemon.account == ROOT
        kept = ",".join(("-all", *(f"+{name}" for name in daemon.kind.capabilities)))
        # A program that root runs has all that the bounding set leaves; others have what is ambient.
        inherited = "-all" if is_root else kept
        has_clock = self._has_clock(daemon)
        groups = "--clear-groups" if is_root or not has_clock else f"--groups={self._share_page()}"
        change = ["/usr/bin/setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", groups]
        change += [f"--inh-caps={inherited}", f"--ambient-caps={inherited}", f"--bounding-set={kept}", "--"]
        if is_root and FIXED_ADDRESSES not in self.refused:
            # The kernel randomises addresses again for a program that gets more capabilities than its parent had (credentials(7)).
            change += ["/usr/bin/setarch", "--addr-no-randomize"]
        try:
            with isolation.with_capabilities(isolation.ACCOUNT_CAPABILITIES):
                return self._execute(daemon, [*change, *daemon.command])
        except PermissionError as error:
            needed = f"{daemon.kind.manager} needs CAP_SETUID, CAP_SETGID, CAP_SETPCAP and CAP_NET_BIND_SERVICE"
            raise PermissionError(
                error.errno, f"{error.strerror}: {needed} to run {daemon.kind.name} as {daemon.account}"
            ) from error

    def _has_clock(self, daemon: Daemon) -> bool:
        return daemon.kind.has_clock(SPEED if self._has_event_clock else None)

    def _share_page(self) -> int:
        """Let the instance's group write into the page of its event clock, and return the group."""
        with suppress(FileNotFoundError):
            descriptor = user_folders.open_file(self.directory, clock_page.FILE)
            os.fchmod(descriptor, 0o660)
            os.close(descriptor)
        return os.getgid()

    def _execute(self, daemon: Daemon, command: list[str]) -> int:
        # A node's daemon has its own log file; messages of other daemons before they open theirs are kept for error reports.
        output = "/dev/null" if daemon.kind.is_node else f"log/{daemon.name}.stderr"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        identification = {
            processes.INSTANCE_VARIABLE: str(self.directory),
            DIGEST_VARIABLE: daemon.digest,
            NAME_VARIABLE: daemon.name,
        }
        clock = self._clock if self._has_clock(daemon) else {}
        variables = processes.with_libraries(clock, daemon.environment)
        opened: list[tuple[int, int, int]] = []
        if daemon.inside is not None and self._user_namespace is not None:
            opened = [(os.POSIX_SPAWN_DUP2, self._user_namespace, USER_NAMESPACE)]
        return os.posix_spawn(
            command[0],
            command,
            # UTC: Slurm's job completion log has local times without a zone, ambiguous for an hour when summer time ends.
            {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TZ": "UTC", **variables, **identification},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                *opened,
            ],
            setpgroup=0,
            setsigmask=[],
            setsigdef=IGNORED_BY_PYTHON,
        )
