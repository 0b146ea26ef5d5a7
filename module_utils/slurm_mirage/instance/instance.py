"""An instance: the directory of one emulated cluster on a host, its ports, and the code that runs there.

Folders and files of its directory ROOT/NAME:

- etc: slurm.conf, common.conf, nodes/NODE.conf, munge.key, farm.json
- state: slurmctld's saved state, and the virtual clock
- spool: one folder for each slurmd
- log: the daemons' logs, jobcomp.log
- run: sockets, pid files, the farm's state
- runs: one folder for each replayed workload
- home: working directory of `make shell`, and of the jobs submitted there
- database: MariaDB's data, with accounting
- bin: sigsleep
- lib: this package, for the farm and the replay; virtual_clock.so
- users, munge: of a sandbox, the folders of its users, and of munged's socket
- transfer: files on their way to and from the control machine
- cleared_for: the run that the instance was cleared for
- instance.json: {"name", "user", "nodes", "port", "ports", "addresses"}: the instance and its block of ports (placement.py);
  "database_port": slurmdbd's port, with accounting; "rest_port": slurmrestd's, of a sandbox;
  "here": number of nodes on this host, in a cluster of several hosts;
  "belongs_to": the instance whose campaign also uses this one, unless it is an instance of its own

The folders OWNED_BY_USER and database belong to the instance's user, all else to root.
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

from ..base import user_folders
from ..base.errors import WrongUse
from ..base.files import differs, undamaged_json, write_atomically
from ..base.run_files import PROGRESS
from ..base.run_lock import lock_holder
from ..rm.managers import DAEMON_KINDS
from .placement import Block, following

NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,20}\Z")
RUN_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
OWNED_BY_USER = ("state", "spool", "log", "run", "runs", "home")
OWNED_BY_ROOT = ("etc", "etc/nodes", "bin", "lib", "lib/slurm_mirage", "transfer")
FIRST_PORT = 17000
LAST_PORT = 32767  # Linux uses ports above this one for outgoing connections (ip_local_port_range)
MOST_PORTS = 15_000  # of one block; more nodes use further addresses
BELOW_BLOCKS = range(FIRST_PORT - 1, 9999, -1)  # for SINGLE_PORTS; below the blocks, which may have to grow
SINGLE_PORTS = {"database_port": ("slurmdbd", "accounting"), "rest_port": ("slurmrestd", "cluster")}
"""Ports besides the block: their names in instance.json, each with the daemon and the parameter by which it is asked for."""
FEWEST_PORTS = 100  # smallest block that is tried when no larger one is free: each further address needs a host name


def check_name(name: str) -> str:
    """Return `name` when it is a valid name of an instance. Raises WrongUse."""
    if not NAME_PATTERN.match(name):
        raise WrongUse("a lower-case letter, then at most 20 letters, digits or hyphens", parameter="cluster", value=name)
    return name


def commands_of(directory: Path) -> Path:
    """Return the folder of the commands (squeue, qstat) of the resource manager's release that the instance in `directory` runs."""
    farm = undamaged_json(directory / "etc/farm.json")
    daemons = farm.get("daemons", []) if isinstance(farm, dict) else []
    of_manager = [kind.name for kind in DAEMON_KINDS.values() if kind.is_controller or kind.is_node]
    programs = [Path(daemon["command"][0]) for daemon in daemons if daemon["kind"] in of_manager]
    return programs[0].parents[1] / "bin" if programs else Path("/usr/bin")


def read_instance(directory: Path) -> dict[str, Any] | None:
    """Return the content of instance.json of the instance in `directory`; None when the file does not exist or is damaged."""
    content = undamaged_json(directory / "instance.json")
    if not isinstance(content, dict) or not all(isinstance(content.get(name), int) for name in ("port", "ports")):
        return None
    return content


def belonging_to(root: Path, name: str) -> list[str]:
    """Return the names of the instances below `root` that belong to the instance `name`, sorted by number (NAME-2, NAME-10)."""
    folders = [path.parent for path in root.glob(f"{name}-*/instance.json")]
    names = [path.name for path in folders if (read_instance(path) or {}).get("belongs_to") == name]
    return sorted(names, key=lambda one: (len(one), one))


def claimed_blocks(root: Path, except_name: str) -> list[tuple[int, int]]:
    """Return the blocks of ports, as (first port, number of ports), of the instances below `root` other than `except_name`."""
    blocks = []
    for path in root.glob("*/instance.json"):
        content = read_instance(path.parent)
        if path.parent.name != except_name and content:
            blocks.append((content["port"], content["ports"]))
            blocks += [(content[name], 1) for name in SINGLE_PORTS if name in content]
    return blocks


def single_port(name: str, block: Block, kept: dict[str, Any] | None, claimed: Sequence[tuple[int, int]], in_use: bool) -> int:
    """Return the port of SINGLE_PORTS: the instance's earlier one, or the first free one. Raises WrongUse when none is free.

    block: the instance's block; kept: content of its instance.json, or None; claimed: blocks of the other instances, and other
    single ports; in_use: whether the instance runs
    """
    earlier: int | None = kept.get(name) if kept else None
    blocks = [*claimed, (block.port, block.ports)]

    def is_clear(port: int) -> bool:
        return not any(first <= port < first + length for first, length in blocks)

    if earlier is not None and is_clear(earlier) and (in_use or is_free(block.address, earlier)):
        return earlier
    port = next((port for port in BELOW_BLOCKS if is_clear(port) and is_free(block.address, port)), None)
    if port is None:
        daemon, parameter = SINGLE_PORTS[name]
        raise WrongUse(f"no free port between {BELOW_BLOCKS[-1]} and {BELOW_BLOCKS[0]} for {daemon} on this host", parameter)
    return port


def is_free(address: str, port: int) -> bool:
    """Return whether a program can listen on TCP port `port` of `address` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((address, port))
            return True
    return False


def nodes_in(content: dict[str, Any]) -> int:
    """Return the number of nodes in the content of an instance.json. Earlier versions had no "nodes", and a port for each node."""
    nodes: int = content.get("nodes", content["ports"] - 1)
    return nodes


@dataclass(frozen=True)
class Ports:
    """Chooses the block of ports of an instance.

    address: first address of the instance
    nodes: number of its nodes; with `several`, of the host with the most nodes
    kept: content of its instance.json, or None
    claimed: blocks of the other instances, as (first port, number of ports)
    in_use: whether the instance runs, so that it uses ports of its own block itself
    several: whether the cluster has several hosts; the block is the same on all of them, and each has only one address

    The block has the same ports on all addresses of the instance.
    """

    address: str
    nodes: int
    kept: dict[str, Any] | None
    claimed: Sequence[tuple[int, int]]
    in_use: bool
    several: bool = False

    def choose(self, wanted: int | None) -> Block:
        """Return the block of ports for the nodes. `wanted` is the first port that the user requests, or None. Raises WrongUse."""
        ports = min(self.nodes + 1, MOST_PORTS)
        if self.several and ports <= self.nodes:
            raise WrongUse(
                f"{self.nodes} of them on one host; a cluster of several hosts has at most {MOST_PORTS - 1} on each",
                parameter="nodes",
            )
        if wanted is not None and not 1024 <= wanted <= 65536 - ports:
            raise WrongUse(f"needs {ports} ports, so it may be 1024 to {65536 - ports}", parameter="port", value=wanted)
        if self.kept and self.in_use and wanted in (None, self.kept["port"]):
            return self._extend(self.kept, ports)
        if wanted is not None:
            reason = self._conflict(block := Block(self.address, wanted, ports))
            if reason:
                raise WrongUse(f"{reason}; leave PORT out to have a free block found", parameter="port", value=wanted)
            return block
        return self._find(ports)

    def follow(self, port: int, ports: int) -> Block:
        """Return the block of the head: `ports` ports from `port` on. Raises WrongUse when it is not free on this host."""
        if reason := self._conflict(block := Block(self.address, port, ports)):
            raise WrongUse(
                f"{reason}, and the head has its block of {ports} ports there; name one that is free on all hosts",
                parameter="port",
                value=port,
            )
        return block

    def _extend(self, kept: dict[str, Any], wanted: int) -> Block:
        """Return the block of a running instance, extended up to `wanted` ports by the free ports that follow it.

        Running nodes keep their ports. Raises WrongUse.
        """
        port, ports = kept["port"], kept["ports"]
        last = min([LAST_PORT if port <= LAST_PORT else 65535, *(other - 1 for other, _ in self.claimed if other > port)])
        while ports < wanted and port + ports <= last and is_free(self.address, port + ports):
            ports += 1
        block = Block(self.address, port, ports)
        reason = self._conflict(block)
        if self.several and ports < wanted and not reason:
            reason = f"{wanted - ports} ports from {port + ports} on are not free"
        if reason:
            raise WrongUse(
                f"{reason}, and a running instance's nodes stay where they are; make teardown first",
                parameter="nodes",
                value=self.nodes,
            )
        return block

    def _find(self, ports: int) -> Block:
        """Return the earlier block, or else the first free one: of `ports` ports, or of fewer, which are used on more addresses."""
        sizes = [ports]
        while not self.several and sizes[-1] // 2 >= FEWEST_PORTS:
            sizes.append(sizes[-1] // 2 + 1)
        earlier = [self.kept["port"]] if self.kept else []
        for size in sizes:
            for first in (*earlier, *range(FIRST_PORT, LAST_PORT - size + 2, 100)):
                block = Block(self.address, first, size)
                if first + size <= 65536 and self._conflict(block) is None:
                    return block
        raise WrongUse(f"no block of {ports} free ports between {FIRST_PORT} and {LAST_PORT} on this host", parameter="nodes")

    def _conflict(self, block: Block) -> str | None:
        """Return why the block cannot be used; None when it can."""
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
    """Return the name of the run whose replay runs in the instance in `directory`; None when no replay runs."""
    for run in user_folders.entries(directory, "runs") if directory.is_dir() else ():
        with suppress(WrongUse, OSError):  # not a run: the user may put anything there
            if RUN_PATTERN.match(run) and lock_holder(directory, run) is not None:
                return run
    return None


def read_progress(directory: Path, run: str | None) -> dict[str, Any] | None:
    """Return the content of progress.json of a run of the instance in `directory`.

    None without a run, before it has begun, and if the file, which belongs to the instance's user, is not what a replay writes.
    """
    if run is None:
        return None
    try:
        progress = user_folders.read_json(directory, f"runs/{run}/progress.json", PROGRESS)
    except (WrongUse, PermissionError):
        return None
    return progress if progress is not None and isinstance(progress.get("phase"), str) else None


def refuse_during_run(directory: Path) -> None:
    """Raise WrongUse when a replay runs in the instance in `directory`, which must not be changed meanwhile."""
    run = active_run(directory)
    if run is not None:
        raise WrongUse(
            f"run {run} goes on in instance {directory.name} with other values, or another version of the code; wait for its "
            "end, or make teardown",
            parameter="nodes, cpus, port, config",
        )


def install_package(package: Any, destination: Path, write: bool) -> bool:
    """Copy the sources of `package` and its subpackages, as they were loaded, to `destination`.

    An Ansible module contains the parts of the package that it imports; these are installed on the host. Other Python files at the
    destination are removed. Returns whether anything differs before writing; changes nothing unless `write` is true.
    """
    sources = dict(_sources(package))
    outdated = [path for path, content in sources.items() if differs(destination / path, content)]
    surplus = [path for path in destination.rglob("*.py") if str(path.relative_to(destination)) not in sources]
    if write:
        for path in outdated:
            folder = (destination / path).parent
            if not folder.is_dir():
                folder.mkdir(parents=True)
                folder.chmod(0o755)
            write_atomically(destination / path, sources[path], durable=False)  # what is damaged is installed again
        for file in surplus:
            file.unlink()
        for folder in sorted({file.parent for file in surplus} - {destination}, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
    return bool(outdated or surplus)


def _sources(package: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the path below the package and the content of each source file of `package`, which may be in a zip archive."""
    prefix = f"{package.__name__}."
    paths = ["__init__.py"]
    for module in pkgutil.walk_packages(package.__path__, prefix):
        path = module.name[len(prefix) :].replace(".", "/")
        paths.append(f"{path}/__init__.py" if module.ispkg else f"{path}.py")
    for path in paths:
        yield path, pkgutil.get_data(package.__name__, path) or b""
