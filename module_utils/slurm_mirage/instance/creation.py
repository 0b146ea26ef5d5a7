"""Creates and removes an instance on a host: its folders, ports and code. For root."""

from __future__ import annotations

import grp
import os
import platform
import pwd
import secrets
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ..base import processes, user_folders
from ..base.errors import WrongUse
from ..base.files import locked_folder, write_atomically, write_json
from ..farm import isolation
from ..farm.farm import read_state
from ..rm.managers import DEFAULT, manager, traits_of
from ..rm.registry import IMPLEMENTATIONS
from ..rm.slurm import job_users
from . import capacity, sizing
from .instance import (
    OWNED_BY_ROOT,
    OWNED_BY_USER,
    Ports,
    check_name,
    claimed_blocks,
    install_package,
    is_free,
    read_instance,
    refuse_during_run,
    single_port,
)
from .placement import Block

TOKEN_KEY_SIZE = 32  # bytes: as long as the hashes of HS256
END_TIMEOUT = 5.0  # seconds between SIGTERM and SIGKILL
END_ATTEMPTS = 5


def apply(parameters: Mapping[str, Any], package: ModuleType, check_mode: bool) -> dict[str, Any]:
    """Bring the instance into the wanted state; returns what the module slurm_instance returns, by its parameters.

    package: the package slurm_mirage, which is installed on the host. Raises WrongUse.
    """
    directory = Path(parameters["root"], check_name(parameters["name"]))
    if parameters["state"] == "absent":
        result = ensure_absent(directory, parameters["user"], write=not check_mode)
    else:
        result = ensure_present(directory, parameters, package, write=False)
        if not check_mode:
            # The lock keeps two instances that are created at the same time from choosing the same ports.
            with locked_folder(directory.parent):
                result = ensure_present(directory, parameters, package, write=True)
    return {"directory": str(directory), **result}


def ensure_present(directory: Path, parameters: Mapping[str, Any], package: ModuleType, write: bool) -> dict[str, Any]:
    """Check the request, and create folders, ports and code if `write` is true; returns as `apply`. Raises WrongUse."""
    several = parameters["cluster_nodes"] is not None
    manager(parameters["rm"])  # refuses what is no resource manager
    check_address(parameters["address"], several)
    sizes = {name: parameters[name] for name in ("nodes", "wide_steps", "jobs", "front_ends", "database")}
    load = sizing.Load(**sizes, cluster=parameters["cluster_nodes"], footprint=traits_of(parameters["rm"]).footprint)
    if not write:  # checked only once, because the free memory changes all the time
        sizing.check(load, capacity.running_load(directory), capacity.look(directory))
    owner = account_of(parameters["user"], directory.name)
    kept = read_instance(directory)
    belongs_to = parameters["belongs_to"]
    if belongs_to and kept is not None and kept.get("belongs_to") != belongs_to:
        raise WrongUse(
            f"it is there already and does not belong to {belongs_to}; take another CLUSTER, or AT_ONCE=1",
            parameter="cluster",
            value=directory.name,
        )
    check_manager(directory.name, kept, parameters["rm"])
    # Daemons of a killed farm still use the instance's ports.
    in_use = (directory / "run").is_dir() and bool(processes.of_instance(str(directory)))
    claimed = claimed_blocks(directory.parent, directory.name)
    choice = Ports(parameters["address"], parameters["block_nodes"] or load.slurmd, kept, claimed, in_use, several)
    block = choice.follow(parameters["port"], parameters["ports"]) if parameters["follows"] else choice.choose(parameters["port"])
    private_hostname = can_take_hostname()
    if several and not private_hostname:
        raise WrongUse(
            "this host lets the farm have no host names of its own, which a cluster of several hosts needs", parameter="inventory"
        )
    content = {
        "name": directory.name,
        "user": parameters["user"],
        "nodes": parameters["cluster_nodes"] if several else parameters["nodes"],
        "port": block.port,
        "ports": block.ports,
        "addresses": 1 if several else addresses(block, load.slurmd, private_hostname, kept if in_use else None),
    }
    if several:
        content["here"] = parameters["nodes"]
    if belongs_to:
        content["belongs_to"] = belongs_to
    if parameters["rm"] != DEFAULT:
        content["rm"] = parameters["rm"]
    if parameters["database"]:
        content["database_port"] = single_port("database_port", block, kept, claimed, in_use)
    if parameters["users"]:
        others = [*claimed, (content.get("database_port", 0), 1)]
        content["rest_port"] = single_port("rest_port", block, kept, others, in_use)
    if kept != content or install_package(package, directory / "lib/slurm_mirage", write=False):
        refuse_during_run(directory)
    changed = make_folders(directory, owner, content.get("rest_port"), write)
    changed |= install_package(package, directory / "lib/slurm_mirage", write)
    if kept != content:
        changed = True
        if write:
            write_json(directory / "instance.json", content)
    return {
        "changed": changed,
        "port": block.port,
        "ports": block.ports,
        "database_port": content.get("database_port", 0),
        "private_hostname": private_hostname,
        "kernel_settings": sizing.kernel_settings(load),
        "host": this_host(),
        "account": {"uid": owner[0], "gid": owner[1]} if owner else None,
        "taken_ids": taken_ids(parameters["user"]) if several else [],
    }


def ensure_absent(directory: Path, user: str | None, write: bool) -> dict[str, Any]:
    """Remove the directory, if `write` is true. Raises WrongUse when the farm runs or `user` is not the instance's account."""
    account = account_of(user, directory.name) if user else None
    # In check mode the farm has not been stopped before.
    if write and read_state(directory) is not None:
        raise WrongUse(f"the farm of instance {directory.name} still runs: stop it first (slurm_farm, state=stopped)")
    present = directory.exists()
    owners = {*job_users.named_ids(directory).values(), *(account or ())[:1]}
    # Processes that hid from slurm_farm, by another environment, would keep the account from being removed, and go on as a user of
    # a later instance. They may start others meanwhile.
    for _ in range(END_ATTEMPTS if write and owners else 0):
        if not processes.end(processes.of_users(owners), END_TIMEOUT):
            break
    if write and account is not None:
        for known in IMPLEMENTATIONS.values():
            if known.tools and known.tools.remove_leftovers:
                known.tools.remove_leftovers(account[0])
    if present and write:
        user_folders.remove(directory.parent, directory.name)
    if write:
        with suppress(OSError):  # it contains other instances, or does not exist
            directory.parent.rmdir()
    return {"changed": present}


def check_address(address: str, several: bool) -> None:
    """Raise WrongUse when the daemons cannot listen on the address.

    On one host it must be the address that localhost resolves to; with several hosts, an address of this host.
    """
    if not several:
        check_loopback(address)
    elif not is_free(address, 0):
        raise WrongUse(f"mirage_address={address}: this host has no such address; name one of its own that the other hosts reach")


def check_loopback(address: str) -> None:
    """Raise WrongUse when localhost, the daemons' private host name, does not resolve to the loopback address `address`."""
    try:
        resolved = socket.gethostbyname("localhost")
    except OSError as error:
        resolved = str(error)
    if address.startswith("127.") and resolved != address:
        raise WrongUse(f"localhost resolves to {resolved}, not to {address}: /etc/hosts needs the line '{address} localhost'")


def can_take_hostname() -> bool:
    """Return whether the kernel permits a private host name, tested in a child process."""
    child = os.fork()
    if child == 0:
        permitted = False
        try:
            isolation.take_hostname("localhost")
            permitted = True
        finally:  # the child ends here in any case
            os._exit(0 if permitted else 1)
    return os.waitpid(child, 0)[1] == 0


def account_of(user: str, instance: str) -> tuple[int, int] | None:
    """Return (uid, gid) of the account `user`; None when it does not exist.

    Raises WrongUse when it was not created for this instance: the account is removed with the instance.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return None
    if account.pw_gecos.rstrip(",") != (comment := f"Slurm Mirage, instance {instance}"):
        raise WrongUse(
            f"instance_user={user}: this account is not the instance's ({comment}); name an account that does not exist yet"
        )
    return account.pw_uid, account.pw_gid


def taken_ids(user: str) -> list[int]:
    """Return the ids of system accounts and groups on this host, except those of the account `user`."""
    entries = [
        *((entry.pw_name, entry.pw_uid) for entry in pwd.getpwall()),
        *((group.gr_name, group.gr_gid) for group in grp.getgrall()),
    ]
    return sorted({number for name, number in entries if 100 <= number < 1000 and name != user})


def this_host() -> dict[str, Any]:
    """Return the description of this host for experiment.json."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"name": platform.node(), "cores": os.cpu_count(), "memory_bytes": memory, "kernel": platform.release()}


def make_folders(directory: Path, owner: tuple[int, int] | None, rest_port: int | None, write: bool) -> bool:
    """Create the folders with owner and mode, if `write` is true; returns whether any was missing or had another owner or mode.

    rest_port: of an instance that has users with names, otherwise None. They do not see slurmctld's saved state, and have a key for
    tokens. Their group reaches munged; by this port, which no other instance has, it is another one than that of others' users.
    """
    changed = False
    folders = [directory.parent, directory, *(directory / name for name in OWNED_BY_ROOT)]
    wanted: dict[Path, tuple[int, int] | None] = dict.fromkeys(folders, (0, 0))
    wanted |= dict.fromkeys((directory / name for name in OWNED_BY_USER), owner)
    modes = {}
    if rest_port is not None:
        wanted[directory / job_users.USERS] = (0, 0)
        wanted[directory / job_users.MUNGE] = owner and (owner[0], processes.NAMED_USERS[rest_port])
        modes = {directory / "state": 0o700, directory / job_users.MUNGE: 0o710}
    else:
        for name in (job_users.MUNGE, job_users.TOKEN_KEY):
            if os.path.lexists(directory / name):
                changed = True
                if write:
                    user_folders.remove(directory, name)
    for folder, ids in wanted.items():
        mode, is_owned = modes.get(folder, 0o755), False
        # The parents of all these folders are root's: no other user can replace one by a link.
        if folder.is_dir():
            status = folder.stat()
            there, is_owned = stat.S_IMODE(status.st_mode), ids in (None, (status.st_uid, status.st_gid))
            if is_owned and (there == mode if folder in modes else there & mode == mode):
                continue
        changed = True
        if write and is_owned:
            folder.chmod(mode)
        elif write:
            folder.parent.mkdir(exist_ok=True, parents=True)
            user_folders.make_folder(folder.parent, folder.name, mode, ids)
    key = directory / job_users.TOKEN_KEY
    if rest_port is not None and not _is_secret_of(key, owner):
        changed = True
        if write:
            write_atomically(key, secrets.token_bytes(TOKEN_KEY_SIZE), 0o600, owner)
    return changed


def _is_secret_of(path: Path, owner: tuple[int, int] | None) -> bool:
    """Whether the file is there, and has been for its owner only."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return stat.S_IMODE(status.st_mode) == 0o600 and owner in (None, (status.st_uid, status.st_gid))


def check_manager(name: str, kept: dict[str, Any] | None, manager: str) -> None:
    """Raise WrongUse when the instance exists with another resource manager. `kept` is the content of instance.json."""
    existing = manager if kept is None else kept.get("rm", DEFAULT)
    if existing != manager:
        raise WrongUse(
            f"cluster {name} was built with {existing}; make teardown CLUSTER={name} first, or take another CLUSTER",
            parameter="rm",
            value=manager,
        )


def addresses(block: Block, nodes: int, private_hostname: bool, running: dict[str, Any] | None) -> int:
    """Return the number of addresses of the instance. A running instance keeps its addresses. Raises WrongUse.

    `running` is the content of instance.json when the instance runs, otherwise None.
    """
    count = block.addresses(nodes)
    if count > 1 and not (private_hostname and block.address.startswith("127.")):
        raise WrongUse(
            f"more than {block.ports - 1} need further loopback addresses, and those a host that lets the farm have "
            "host names of its own",
            parameter="nodes",
            value=nodes,
        )
    if running and running["port"] == block.port:
        return max(count, int(running.get("addresses", 1)))
    return count
