"""An instance: one emulated cluster's directory on a host, its ports, and the code that runs there.

ROOT/NAME/etc     slurm.conf, common.conf, nodes/NODE.conf, munge.key, farm.json
ROOT/NAME/state   slurmctld's saved state
ROOT/NAME/spool   one folder for each slurmd
ROOT/NAME/log     the daemons' logs, jobcomp.log
ROOT/NAME/run     sockets, pid files, the farm's state
ROOT/NAME/runs    one folder for each replayed workload
ROOT/NAME/bin     sigsleep
ROOT/NAME/lib     this package, for the farm and the replay
ROOT/NAME/instance.json  {"name", "port", "ports"}: the block of ports that it keeps
"""

from __future__ import annotations

import pkgutil
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import WrongUse
from .files import differs, read_json, write_atomically
from .replay_process import lock_holder

NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,20}\Z")
OWNED_BY_USER = ("state", "spool", "log", "run", "runs")
OWNED_BY_ROOT = ("etc", "etc/nodes", "bin", "lib", "lib/slurm_mirage")
FIRST_PORT = 17000
LAST_PORT = 32767  # Linux hands out ports above this one to outgoing connections (ip_local_port_range)


def check_name(name: str) -> str:
    """The instance's name, if it may be one."""
    if not NAME_PATTERN.match(name):
        raise WrongUse(f"CLUSTER={name}: a lower-case letter, then at most 20 letters, digits or hyphens")
    return name


def claimed_blocks(root: Path, except_name: str) -> list[tuple[int, int]]:
    """Blocks of ports (first, how many) that the other instances on this host keep."""
    blocks = []
    for path in root.glob("*/instance.json"):
        content = read_json(path)
        if path.parent.name != except_name and content:
            blocks.append((content["port"], content["ports"]))
    return blocks


def is_free(address: str, port: int) -> bool:
    """Whether a daemon could listen on `port` of `address` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((address, port))
            return True
    return False


def choose_ports(
    wanted: int | None, kept: dict[str, Any] | None, ports: int, claimed: Iterable[tuple[int, int]], address: str, in_use: bool
) -> int:
    """First port of the instance's block of `ports` consecutive ones (slurmctld, then a slurmd each).

    `wanted` is the user's choice or None, `kept` the instance's earlier block; `in_use` says that the instance runs now, so that
    the ports of its own block may be taken: by itself.
    """
    claimed = list(claimed)
    own = range(kept["port"], kept["port"] + kept["ports"]) if kept and in_use else range(0)

    def trouble(first: int) -> str | None:
        for other, length in claimed:
            if first < other + length and other < first + ports:
                return f"ports {other} to {other + length - 1} belong to another instance on this host"
        for port in range(first, first + ports):
            if port not in own and not is_free(address, port):
                return f"port {port} is taken by another program"
        return None

    if wanted is not None:
        if not 1024 <= wanted <= 65536 - ports:
            raise WrongUse(f"PORT={wanted}: needs {ports} ports, so it may be 1024 to {65536 - ports}")
        reason = trouble(wanted)
        if reason:
            raise WrongUse(f"PORT={wanted}: {reason}; leave PORT out to have a free block found")
        return wanted
    candidates: list[int] = [kept["port"]] if kept else []
    candidates += range(FIRST_PORT, LAST_PORT - ports + 2, 100)
    for first in candidates:
        if trouble(first) is None:
            return first
    raise WrongUse(f"NODES: no block of {ports} free ports between {FIRST_PORT} and {LAST_PORT} on this host")


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
    """Put the sources of `package`, as they were loaded, into `destination`; returns whether anything differed.

    An Ansible module carries the parts of the package that it imports: those are what the hosts get, in one call.
    """
    changed = False
    names = ["__init__"] + [module.name for module in pkgutil.iter_modules(package.__path__)]
    for name in names:
        content = pkgutil.get_data(package.__name__, f"{name}.py") or b""
        if differs(destination / f"{name}.py", content):
            changed = True
            if write:
                write_atomically(destination / f"{name}.py", content)
    for path in destination.glob("*.py"):
        if path.stem not in names:
            changed = True
            if write:
                path.unlink()
    return changed
