"""An instance: one emulated cluster's directory on a host, its ports, and the code that runs there.

ROOT/NAME/etc     slurm.conf, common.conf, nodes/NODE.conf, munge.key, farm.json
ROOT/NAME/state   slurmctld's saved state, and the clock that it was saved under
ROOT/NAME/spool   one folder for each slurmd
ROOT/NAME/log     the daemons' logs, jobcomp.log
ROOT/NAME/run     sockets, pid files, the farm's state
ROOT/NAME/runs    one folder for each replayed workload
ROOT/NAME/home    where `make shell` begins, and jobs submitted there leave their output
ROOT/NAME/bin     sigsleep
ROOT/NAME/lib     this package, for the farm and the replay; virtual_clock.so
ROOT/NAME/database  MariaDB's data, of an instance with accounting
ROOT/NAME/instance.json  {"name", "user", "nodes", "port", "ports", "addresses"}: its block of ports (placement.py), which it keeps;
                         "database_port": slurmdbd's, of an instance with accounting;
                         "here": how many of the nodes this host has, of a cluster of several hosts
"""

from __future__ import annotations

import pkgutil
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import WrongUse
from ..base.files import differs, read_json, write_atomically
from ..base.run_lock import lock_holder
from .placement import Block, following

NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,20}\Z")
OWNED_BY_USER = ("state", "spool", "log", "run", "runs", "home")
OWNED_BY_ROOT = ("etc", "etc/nodes", "bin", "lib", "lib/slurm_mirage")
FIRST_PORT = 17000
LAST_PORT = 32767  # Linux hands out ports above this one to outgoing connections (ip_local_port_range)
MOST_PORTS = 15_000  # of one instance; more nodes take more addresses
DATABASE_PORTS = range(FIRST_PORT - 1, 9999, -1)  # for slurmdbd; out of the way of blocks, which may have to grow
FEWEST_PORTS = 100  # a block that is found is not made smaller than this to find room for it: each address costs a host name


def check_name(name: str) -> str:
    """The instance's name, if it may be one."""
    if not NAME_PATTERN.match(name):
        raise WrongUse(f"CLUSTER={name}: a lower-case letter, then at most 20 letters, digits or hyphens")
    return name


def commands_of(directory: Path) -> Path:
    """Folder of squeue and the other commands, of the Slurm that the instance runs."""
    farm = read_json(directory / "etc/farm.json") or {"daemons": []}
    programs = [Path(daemon["command"][0]) for daemon in farm["daemons"] if daemon["kind"] in ("slurmctld", "slurmd")]
    return programs[0].parents[1] / "bin" if programs else Path("/usr/bin")


def claimed_blocks(root: Path, except_name: str) -> list[tuple[int, int]]:
    """Blocks of ports (first, how many) that the other instances on this host keep."""
    blocks = []
    for path in root.glob("*/instance.json"):
        content = read_json(path)
        if path.parent.name != except_name and content:
            blocks.append((content["port"], content["ports"]))
            if "database_port" in content:
                blocks.append((content["database_port"], 1))
    return blocks


def database_port(block: Block, kept: dict[str, Any] | None, claimed: Sequence[tuple[int, int]], in_use: bool) -> int:
    """slurmdbd's port: the one that the instance keeps, or the first free one. The arguments are those of `Ports`; WrongUse."""
    earlier: int | None = kept.get("database_port") if kept else None
    blocks = [*claimed, (block.port, block.ports)]

    def is_clear(port: int) -> bool:
        return not any(first <= port < first + length for first, length in blocks)

    if earlier is not None and is_clear(earlier) and (in_use or is_free(block.address, earlier)):
        return earlier
    port = next((port for port in DATABASE_PORTS if is_clear(port) and is_free(block.address, port)), None)
    if port is None:
        raise WrongUse(f"ACCOUNTING: no free port between {DATABASE_PORTS[-1]} and {DATABASE_PORTS[0]} for slurmdbd on this host")
    return port


def is_free(address: str, port: int) -> bool:
    """Whether a daemon could listen on `port` of `address` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((address, port))
            return True
    return False


def nodes_in(content: dict[str, Any]) -> int:
    """How many nodes the instance of this instance.json has; earlier ones did not say, and had a port for each."""
    nodes: int = content.get("nodes", content["ports"] - 1)
    return nodes


@dataclass(frozen=True)
class Ports:
    """Finds an instance its block of ports among what others claim and use.

    `kept` is the content of its instance.json, or None; `in_use` says that the instance runs now, so that the ports of its own
    block may be taken: by itself. The block is the same on all addresses that it takes. With `several` hosts it is the same on
    all of them, `nodes` are those of the host that has the most, and no host has a second address.
    """

    address: str
    nodes: int
    kept: dict[str, Any] | None
    claimed: Sequence[tuple[int, int]]
    in_use: bool
    several: bool = False

    def choose(self, wanted: int | None) -> Block:
        """The block; `wanted` is the user's choice of its first port, or None. Raises WrongUse."""
        ports = min(self.nodes + 1, MOST_PORTS)
        if self.several and ports <= self.nodes:
            raise WrongUse(
                f"NODES: {self.nodes} of them on one host; a cluster of several hosts has at most {MOST_PORTS - 1} on each"
            )
        if wanted is not None and not 1024 <= wanted <= 65536 - ports:
            raise WrongUse(f"PORT={wanted}: needs {ports} ports, so it may be 1024 to {65536 - ports}")
        if self.kept and self.in_use and wanted in (None, self.kept["port"]):
            return self._grown(self.kept, ports)
        if wanted is not None:
            reason = self._trouble(block := Block(self.address, wanted, ports))
            if reason:
                raise WrongUse(f"PORT={wanted}: {reason}; leave PORT out to have a free block found")
            return block
        return self._found(ports)

    def follow(self, port: int, ports: int) -> Block:
        """The block that the head has. Raises WrongUse when it is not free on this host."""
        if reason := self._trouble(block := Block(self.address, port, ports)):
            raise WrongUse(
                f"PORT={port}: {reason}, and the head has its block of {ports} ports there; name one that is free on all hosts"
            )
        return block

    def _grown(self, kept: dict[str, Any], wanted: int) -> Block:
        """The block of an instance that runs, with as many ports more as are free behind it: its nodes stay where they are."""
        port, ports = kept["port"], kept["ports"]
        last = min([LAST_PORT if port <= LAST_PORT else 65535, *(other - 1 for other, _ in self.claimed if other > port)])
        while ports < wanted and port + ports <= last and is_free(self.address, port + ports):
            ports += 1
        block = Block(self.address, port, ports)
        reason = self._trouble(block)
        if self.several and ports < wanted and not reason:
            reason = f"{wanted - ports} ports from {port + ports} on are not free"
        if reason:
            raise WrongUse(f"NODES={self.nodes}: {reason}, and a running instance's nodes stay where they are; make teardown first")
        return block

    def _found(self, ports: int) -> Block:
        """The earlier block, or the first free one; a smaller one on more addresses where there is none of `ports` ports."""
        sizes = [ports]
        while not self.several and sizes[-1] // 2 >= FEWEST_PORTS:
            sizes.append(sizes[-1] // 2 + 1)
        earlier = [self.kept["port"]] if self.kept else []
        for size in sizes:
            for first in (*earlier, *range(FIRST_PORT, LAST_PORT - size + 2, 100)):
                block = Block(self.address, first, size)
                if first + size <= 65536 and self._trouble(block) is None:
                    return block
        raise WrongUse(f"NODES: no block of {ports} free ports between {FIRST_PORT} and {LAST_PORT} on this host")

    def _trouble(self, block: Block) -> str | None:
        """Why the block cannot be had; None when it can."""
        for other, length in self.claimed:
            if block.port < other + length and other < block.port + block.ports:
                return f"ports {other} to {other + length - 1} belong to another instance on this host"
        own = range(self.kept["port"], self.kept["port"] + self.kept["ports"]) if self.kept and self.in_use else range(0)
        own_addresses = self.kept.get("addresses", 1) if self.kept else 0
        for number in range(block.addresses(self.nodes)):
            address = following(self.address, number)
            for port in range(block.port, block.port + block.ports):
                if not (number < own_addresses and port in own) and not is_free(address, port):
                    return f"port {port} of {address} is taken by another program"
        return None


def active_run(directory: Path) -> str | None:
    """Name of the run whose replay is at work in the instance now; None when there is none."""
    for path in directory.glob("runs/*/replay.lock"):
        if lock_holder(path) is not None:
            return path.parent.name
    return None


def refuse_during_run(directory: Path) -> None:
    """Raise WrongUse when a replay is at work: what it runs on may not change under it."""
    run = active_run(directory)
    if run is not None:
        raise WrongUse(
            f"NODES, CPUS, PORT, CONFIG: run {run} goes on in instance {directory.name} with other values, or another version of "
            "the code; wait for its end, or make teardown"
        )


def install_package(package: Any, destination: Path, write: bool) -> bool:
    """Copy the sources of `package` and of its subpackages, as they were loaded, to `destination`.

    An Ansible module carries those parts of the package that it imports; they are what a host gets. Python files at the destination
    that are not among them are removed. Returns whether anything differs (before writing); changes nothing unless `write`.
    """
    sources = dict(_sources(package))
    wrong = [path for path, content in sources.items() if differs(destination / path, content)]
    surplus = [path for path in destination.rglob("*.py") if str(path.relative_to(destination)) not in sources]
    if write:
        for path in wrong:
            folder = (destination / path).parent
            if not folder.is_dir():
                folder.mkdir(parents=True)
                folder.chmod(0o755)
            write_atomically(destination / path, sources[path])
        for file in surplus:
            file.unlink()
        for folder in sorted({file.parent for file in surplus} - {destination}, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
    return bool(wrong or surplus)


def _sources(package: Any) -> Iterator[tuple[str, bytes]]:
    """Path below the package and content of each source file of `package`; a package in a zip archive works as well."""
    prefix = f"{package.__name__}."
    paths = ["__init__.py"]
    for module in pkgutil.walk_packages(package.__path__, prefix):
        path = module.name[len(prefix) :].replace(".", "/")
        paths.append(f"{path}/__init__.py" if module.ispkg else f"{path}.py")
    for path in paths:
        yield path, pkgutil.get_data(package.__name__, path) or b""
