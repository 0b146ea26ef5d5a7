#!/usr/bin/python
"""Ansible module: the directory, the ports and the code of an instance on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_instance
short_description: Keep the directory, the ports and the code of an emulated cluster on a host
description:
  - Creates the folders of an instance, gives it a block of free ports that it keeps, and installs the code of the farm and of the
    replay there.
  - Refuses more nodes than the host has memory, processes and files for, and says how many it has them for.
  - With O(state=absent), removes the directory. The farm must have been stopped before.
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  root:
    description: Folder that holds the directories of all instances of the host.
    type: path
    default: /var/lib/slurm-mirage
  user:
    description:
      - Unprivileged account that the daemons run as. Required with O(state=present).
      - An account that is there must have been made for this instance, which its comment says (C(Slurm Mirage, instance NAME)). It
        is removed with the instance, and its slurmstepd are taken for the instance's.
    type: str
  nodes:
    description: How many emulated nodes this host will have. Required with O(state=present).
    type: int
  cluster_nodes:
    description:
      - How many nodes all hosts of a cluster of several will have together. All of them have the same block of ports, each on an
        address of its own, O(address).
      - When left out, this host is all of the cluster.
    type: int
  block_nodes:
    description: With O(cluster_nodes), how many nodes the host with the most will have; the block has a port for each.
    type: int
  follows:
    description: With O(cluster_nodes), whether this host takes the block of the head, O(port) and O(ports), and chooses none.
    type: bool
    default: false
  ports:
    description: How many ports the head's block has.
    type: int
  front_ends:
    description: How many slurmd stand for all nodes of the cluster, as M(slurm_config) will be told. V(0) is one for each node.
    type: int
    default: 0
  jobs:
    description: How many jobs at once the host's memory shall hold beside the nodes. The default is one on each node, at most 1000.
    type: int
  wide_steps:
    description: Whether slurmd will read the whole slurm.conf, as M(slurm_config) will be told; that takes more memory.
    type: bool
    default: false
  database:
    description: Whether the instance will have accounting, whose slurmdbd needs a port, which it keeps, and memory.
    type: bool
    default: false
  port:
    description:
      - First port of the block. The instance's earlier block, or the first free one, when left out.
      - A block has a port for slurmctld and one for each node, at most 15000. Further nodes have those of further addresses.
    type: int
  address:
    description:
      - Address that the daemons will listen on. Further ones are those that follow, all of them loopback addresses.
      - With O(cluster_nodes) one of this host's that the others reach.
    type: str
    default: 127.0.0.1
  state:
    description: Whether the instance shall be there.
    type: str
    choices: [present, absent]
    default: present
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Prepare the instance
  slurm_instance:
    name: mirage
    user: slurm-mirage
    nodes: 360
  register: instance
"""

RETURN = r"""
kernel_settings:
  description: Least values of the kernel's settings for so many nodes and jobs, by their names, as M(host_settings) takes them.
  returned: when O(state=present)
  type: dict
directory:
  description: Directory of the instance.
  returned: always
  type: str
port:
  description: First port of the block; slurmctld listens there, the slurmd on those that follow.
  returned: when O(state=present)
  type: int
ports:
  description: How many ports the block has.
  returned: when O(state=present)
  type: int
database_port:
  description: Port of slurmdbd, 0 without O(database).
  returned: when O(state=present)
  type: int
private_hostname:
  description: Whether the host lets the farm have a host name of its own.
  returned: when O(state=present)
  type: bool
host:
  description: The host, with its C(name), C(cores), C(memory_bytes) and C(kernel).
  returned: when O(state=present)
  type: dict
account:
  description: C(uid) and C(gid) of O(user); null when he is not there yet.
  returned: when O(state=present)
  type: dict
taken_ids:
  description: With O(cluster_nodes), ids of system accounts and groups (100 to 999) that others have on this host.
  returned: when O(state=present)
  type: list
  elements: int
"""

import grp
import os
import platform
import pwd
import shutil
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import ansible.module_utils.slurm_mirage as package
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import processes
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import locked_folder, read_json, write_json
from ansible.module_utils.slurm_mirage.farm import isolation
from ansible.module_utils.slurm_mirage.farm.farm import read_state
from ansible.module_utils.slurm_mirage.instance import capacity, sizing
from ansible.module_utils.slurm_mirage.instance.instance import (
    OWNED_BY_ROOT,
    OWNED_BY_USER,
    Ports,
    check_name,
    claimed_blocks,
    database_port,
    install_package,
    is_free,
    refuse_during_run,
)
from ansible.module_utils.slurm_mirage.instance.placement import Block

# Not used here: the module carries the programs along, to be installed on the hosts.
from ansible.module_utils.slurm_mirage.programs import clock_answers, farm, replay  # noqa: F401


def check_loopback(address: str) -> None:
    """slurmctld and slurmd listen on what the private host name resolves to."""
    try:
        found = socket.gethostbyname("localhost")
    except OSError as error:
        found = str(error)
    if address.startswith("127.") and found != address:
        raise WrongUse(f"localhost resolves to {found}, not to {address}: /etc/hosts needs the line '{address} localhost'")


def check_address(address: str, several: bool) -> None:
    """The daemons can listen on the address: of several hosts each has it, of one it is what its private host name resolves to."""
    if not several:
        check_loopback(address)
    elif not is_free(address, 0):
        raise WrongUse(f"mirage_address={address}: this host has no such address; name one of its own that the other hosts reach")


def can_take_hostname() -> bool:
    """Try a private host name in a child process."""
    child = os.fork()
    if child == 0:
        granted = False
        try:
            isolation.take_hostname("localhost")
            granted = True
        finally:  # the child goes no further, whatever happens
            os._exit(0 if granted else 1)
    return os.waitpid(child, 0)[1] == 0


def account_of(user: str, instance: str) -> tuple[int, int] | None:
    """(uid, gid) of `user`; None when it is not there yet. Nobody else's account is used: it goes when the instance goes."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return None
    if account.pw_gecos.rstrip(",") != (comment := f"Slurm Mirage, instance {instance}"):
        raise WrongUse(
            f"instance_user={user}: this account is not the instance's ({comment}); name one that is not there, it is made"
        )
    return account.pw_uid, account.pw_gid


def taken_ids(user: str) -> list[int]:
    """Ids of system accounts and groups on this host, but for the instance's own."""
    entries = [
        *((entry.pw_name, entry.pw_uid) for entry in pwd.getpwall()),
        *((some.gr_name, some.gr_gid) for some in grp.getgrall()),
    ]
    return sorted({number for name, number in entries if 100 <= number < 1000 and name != user})


def this_host() -> dict[str, Any]:
    """What experiment.json says of a host."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"name": platform.node(), "cores": os.cpu_count(), "memory_bytes": memory, "kernel": platform.release()}


def make_folders(directory: Path, owner: tuple[int, int] | None, write: bool) -> bool:
    """Create the folders with their owners, whatever the umask; returns whether any was missing, another's or closed."""
    changed = False
    folders = [directory.parent, directory, *(directory / name for name in OWNED_BY_ROOT)]
    wanted = dict.fromkeys(folders, (0, 0)) | dict.fromkeys((directory / name for name in OWNED_BY_USER), owner)
    for folder, ids in wanted.items():
        if folder.is_dir():
            status = folder.stat()
            if ids in (None, (status.st_uid, status.st_gid)) and stat.S_IMODE(status.st_mode) & 0o755 == 0o755:
                continue
        changed = True
        if write:
            folder.mkdir(exist_ok=True, parents=True)
            folder.chmod(0o755)
            if ids is not None:
                os.chown(folder, *ids)
    return changed


def addresses(block: Block, nodes: int, private_hostname: bool, running: dict[str, Any] | None) -> int:
    """How many addresses the instance has; one that runs may have nodes on more of them than so many nodes need."""
    count = block.addresses(nodes)
    if count > 1 and not (private_hostname and block.address.startswith("127.")):
        raise WrongUse(
            f"more than {block.ports - 1} need further loopback addresses, and those a host that lets the farm have "
            "host names of its own",
            parameter="nodes",
            value=nodes,
        )
    if running and running["port"] == block.port:
        return max(count, running.get("addresses", 1))
    return count


def ensure_present(directory: Path, parameters: dict[str, Any], write: bool) -> dict[str, Any]:
    """Folders, ports, code: what the module returns."""
    several = parameters["cluster_nodes"] is not None
    check_address(parameters["address"], several)
    sizes = (parameters[name] for name in ("nodes", "wide_steps", "jobs", "front_ends", "database"))
    load = sizing.Load(*sizes, cluster=parameters["cluster_nodes"])
    if not write:  # once; what is free differs from one second to the next
        sizing.check(load, capacity.running_load(directory), capacity.look(directory))
    owner = account_of(parameters["user"], directory.name)
    kept = read_json(directory / "instance.json")
    # Daemons whose farm was killed still hold the instance's ports.
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
    if parameters["database"]:
        content["database_port"] = database_port(block, kept, claimed, in_use)
    if kept != content or install_package(package, directory / "lib/slurm_mirage", write=False):
        refuse_during_run(directory)
    changed = make_folders(directory, owner, write)
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
        "account": dict(zip(("uid", "gid"), owner, strict=True)) if owner else None,
        "taken_ids": taken_ids(parameters["user"]) if several else [],
    }


def ensure_absent(directory: Path, user: str | None, write: bool) -> dict[str, Any]:
    """Remove the directory. `user`, if given, is the account that goes next: it has to be the instance's own."""
    if user:
        account_of(user, directory.name)
    # In check mode nothing has stopped the farm that would be stopped by now.
    if write and read_state(directory) is not None:
        raise WrongUse(f"the farm of instance {directory.name} still runs: stop it first (slurm_farm, state=stopped)")
    present = directory.exists()
    if present and write:
        shutil.rmtree(directory)
    if write:
        with suppress(OSError):  # other instances are in it, or it is not there
            directory.parent.rmdir()
    return {"changed": present}


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "root": {"type": "path", "default": "/var/lib/slurm-mirage"},
            "user": {"type": "str"},
            "nodes": {"type": "int"},
            "cluster_nodes": {"type": "int"},
            "block_nodes": {"type": "int"},
            "follows": {"type": "bool", "default": False},
            "ports": {"type": "int"},
            "front_ends": {"type": "int", "default": 0},
            "jobs": {"type": "int"},
            "wide_steps": {"type": "bool", "default": False},
            "database": {"type": "bool", "default": False},
            "port": {"type": "int"},
            "address": {"type": "str", "default": "127.0.0.1"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["user", "nodes"]), ("follows", True, ["cluster_nodes", "port", "ports"])],
        supports_check_mode=True,
    )
    try:
        directory = Path(module.params["root"], check_name(module.params["name"]))
        if module.params["state"] == "present":
            result = ensure_present(directory, module.params, write=False)
            if not module.check_mode:
                # Two instances that are made at the same time may not choose the same ports.
                with locked_folder(directory.parent):
                    result = ensure_present(directory, module.params, write=True)
        else:
            result = ensure_absent(directory, module.params["user"], write=not module.check_mode)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    module.exit_json(directory=str(directory), **result)


if __name__ == "__main__":
    main()
