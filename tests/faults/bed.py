"""A cluster on several hosts: machines of systemd-nspawn on this machine (molecule/testbed)."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import yaml

from slurm_mirage.base import processes
from testbed import beds, layout
from testbed.commands import BedError
from testbed.layout import Bed as Machines
from testbed.layout import Host

from .lane import INSTANCES, Lane
from .table import Skipped

TOOLS = ("systemd-nspawn", "debootstrap", "ip", "nft", "ssh")
NODES = 6
VARIABLES = {
    "mirage_steps": "yes",
    # Short, so that a host that does not answer counts as down within the replay.
    "slurm_controller_settings": {"SlurmdTimeout": 10},
}


class BedLane(Lane):
    """The cluster on a bed. `directory` is the instance's directory on the head, as this machine sees it."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.nodes = NODES
        self._machines: Machines | None = None
        self._why_not = ""

    @property
    def machines(self) -> Machines:
        if self._machines is None:
            raise Skipped(self._why_not)
        return self._machines

    def use(self, machines: Machines | None, why_not: str) -> None:
        self._machines, self._why_not = machines, why_not
        if machines is not None:
            self.inventory = str(machines.inventory)
            self.directory = machines.hosts[0].tree / str(INSTANCES)[1:] / self.cluster

    def begin(self, name: str) -> None:
        super().begin(name)
        _ = self.machines

    def left(self) -> list[str]:
        found = []
        for host in self._machines.hosts if self._machines else []:
            places = (
                host.tree / str(INSTANCES)[1:] / self.cluster,
                host.tree / f"etc/systemd/system/slurm-farm@{self.cluster}.service",
            )
            found += [f"{path.name} on {host.name}" for path in places if os.path.lexists(path)]
            if f"{self.user}:" in (host.tree / "etc/passwd").read_text():
                found.append(f"user {self.user} on {host.name}")
            mark = f"{processes.INSTANCE_VARIABLE}={INSTANCES / self.cluster}".encode()
            for pid in of_host(host):
                with suppress(OSError):
                    if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                        found.append(f"process {pid} on {host.name}")
        return found

    def clear(self) -> None:
        """Nothing: the machines are removed after the last fault."""


def of_host(host: Host) -> list[int]:
    """Process ids, on this machine, of a host's processes, without its systemd-nspawn."""
    parents = processes.parents()
    first = host.bed.processes[host.name][0][0]
    members, added = {first}, {first}
    while added:
        added = {pid for pid, parent in parents.items() if parent in added} - members
        members |= added
    return sorted(members - {first})


def signal_host(host: Host, number: signal.Signals) -> None:
    """Send a signal to all processes of a host: SIGSTOP freezes it, SIGCONT lets it go on."""
    known = [(pid, started) for pid in of_host(host) if (started := processes.start_time(pid)) is not None]
    processes.send_all(known, (number,))


class Bed:
    """A context with a bed of three hosts; without the tools for one, its faults are skipped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lane = BedLane(name)

    def lane(self) -> BedLane:
        return self._lane

    def __enter__(self) -> Bed:
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            self._lane.use(None, f"a test bed needs {', '.join(missing)} (make packages)")
            return self
        try:
            machines = beds.up(self._name, "bookworm", layout.HOSTS)
        except BedError as error:
            beds.down(self._name)
            self._lane.use(None, f"no test bed: {error}")
            return self
        folder = machines.inventory / "group_vars"
        folder.mkdir(exist_ok=True)
        (folder / "all.yml").write_text(yaml.safe_dump(VARIABLES))
        self._lane.use(machines, "")
        return self

    def __exit__(self, *_: object) -> None:
        beds.down(self._name)
