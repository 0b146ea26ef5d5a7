#!/usr/bin/python
"""Ansible module: slurm.conf and the slim files of the emulated nodes, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config
short_description: Write slurm.conf and a slim configuration for each emulated node
description:
  - Writes C(etc/slurm.conf) (all nodes and partitions, for slurmctld and the commands), C(etc/common.conf) (the settings alone)
    and C(etc/nodes/NODE.conf) (that node's line and an Include of C(common.conf)) below the instance's directory.
  - A slurmd needs no more than its own line, as long as no step runs on more than one node. With the whole cluster in its file its
    memory and its start grow with the cluster; see O(wide_steps).
  - The nodes are placed over the block's ports, and over further loopback addresses when those are used up. Nodes that are in the
    C(etc/slurm.conf) that is there already keep their places.
  - With O(hosts) the nodes are dealt to several hosts, one after the other. C(etc/slurm.conf) holds all of them; the slim files are
    those of this host's nodes, and so is what is returned.
  - With O(front_ends) that many slurmd, which have the places, stand for all nodes, which have neither ports nor files.
    All slurmd then read C(etc/slurm.conf).
  - Where nodes have GRES (word C(Gres) of O(nodes[].extra)), C(GresTypes) is set unless O(settings) has it, and C(gres.conf) is
    written beside the file that slurmd reads. The device files that it wants of GPUs are links to C(/dev/null), C(etc/gpu0) and
    so on.
  - Files of nodes that are gone are removed.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  settings:
    description: Settings by their names in slurm.conf(5). The value V(omit) leaves one out.
    type: dict
    required: true
  nodes:
    description: Classes of equal nodes.
    type: list
    elements: dict
    required: true
    suboptions:
      prefix:
        description: Name of the nodes without their number.
        type: str
        default: n
      first:
        description: Number of the first node. The default goes on where the last class with that prefix ended, or begins with 1.
        type: int
      count:
        description: How many.
        type: int
        required: true
      cpus:
        description: Processors of each.
        type: int
        required: true
      extra:
        description: Further words of the NodeName line (RealMemory, Feature, Gres, Sockets).
        type: dict
        default: {}
  port:
    description: First port of the instance's block, as M(slurm_instance) returned it. It is slurmctld's; the nodes have the others.
    type: int
    required: true
  ports:
    description: How many ports the block has.
    type: int
    required: true
  address:
    description:
      - Address that the daemons listen on. Where its ports are used up, nodes have those of the addresses that follow, but with
        O(hosts) not.
    type: str
    default: 127.0.0.1
  hostname:
    description:
      - Host name that resolves to O(address). On a further address the host name is that address, and with O(hosts) on each.
    type: str
    default: localhost
  hosts:
    description:
      - Addresses of the compute hosts of a cluster of several, in their order. All of them have the same block of ports.
      - Empty for a cluster on this host alone.
    type: list
    elements: str
    default: []
  known:
    description:
      - With O(hosts), the lines of nodes that the head's C(etc/slurm.conf) had, as M(slurm_placement_info) returned them. These
        nodes keep their places.
    type: str
    default: ''
  front_ends:
    description:
      - How many slurmd, C(frontend1) and so on, stand for all nodes. It needs a Slurm with the front-end mode; see
        M(slurm_release_info).
      - V(0) is a slurmd for each node.
    type: int
    default: 0
  wide_steps:
    description:
      - Whether steps (srun) shall run on several nodes. All slurmd then read C(etc/slurm.conf), and no other file is written.
      - A slurmstepd reports its end to that of another node, whose address its slurmd has to know.
    type: bool
    default: false
  partitions:
    description: Partitions, mappings of C(name) and further words of a PartitionName line.
    type: list
    elements: dict
    required: true
  speed:
    description:
      - Speed of the clock that the daemons live by. Above 1 the time-outs of O(settings), and those that Slurm has by default, are
        multiplied by it, so that they stay what they are in real time.
    type: float
    default: 1.0
  version:
    description:
      - Release of Slurm that reads the files, as C(slurmctld -V) tells it. Settings get the names that they have in it, and
        C(cgroup.conf) is written where it is wanted.
      - Without it they are written as Slurm 22.05 has them.
    type: str
    default: ''
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Configure 360 nodes
  slurm_config:
    directory: /var/lib/slurm-mirage/mirage
    settings:
      ClusterName: mirage
      SchedulerType: sched/backfill
    nodes:
      - count: 360
        cpus: 16
    port: 17000
    ports: 361
    partitions:
      - name: batch
        Default: true
"""

RETURN = r"""
files:
  description: Files that were written or removed (at most ten are named).
  returned: always
  type: list
  elements: str
slurmctld_digest:
  description: Stands for all that slurmctld reads.
  returned: always
  type: str
nodes:
  description: The nodes of this host, or front ends, as M(slurm_farm) takes them, an entry for each range of consecutive ports of
    one address.
  returned: always
  type: list
  elements: dict
  contains:
    prefix:
      description: Name of the nodes without their number.
      type: str
    first:
      description: Number of the first node.
      type: int
    count:
      description: How many.
      type: int
    hostname:
      description: Host name that their slurmd see, which resolves to their address.
      type: str
    digest:
      description: Stands for what their slurmd read.
      type: str
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically
from ansible.module_utils.slurm_mirage.instance.instance import refuse_during_run
from ansible.module_utils.slurm_mirage.instance.placement import Block, place, place_on_hosts, placed_in
from ansible.module_utils.slurm_mirage.rm.slurm import front_end, release_change
from ansible.module_utils.slurm_mirage.rm.slurm.clock_settings import follow
from ansible.module_utils.slurm_mirage.rm.slurm.conf import HEADER, Nodes, merge, render, render_settings, slim_files
from ansible.module_utils.slurm_mirage.rm.slurm.node_classes import NODE_OPTIONS, NodeClass, check_partitions, node_classes
from ansible.module_utils.slurm_mirage.rm.slurm.node_options import GPU, gpus, gres_lines, gres_of, gres_types
from ansible.module_utils.slurm_mirage.rm.slurm.setting_names import files_beside, translated


def digest(*parts: str) -> str:
    """A short digest of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def wanted_files(
    directory: Path, parameters: dict[str, Any], classes: Sequence[NodeClass], nodes: Sequence[Nodes], here: Sequence[Nodes]
) -> dict[Path, str]:
    """Content of every file that shall be there. `here` are the `nodes` of this host."""
    types = gres_types(some.extra for some in classes)
    settings = follow(merge({"GresTypes": types} if types else {}, parameters["settings"]), parameters["speed"])
    settings = translated(settings, parameters["version"])
    common = directory / "etc/common.conf"
    lines = front_end.lines(nodes, classes) if parameters["front_ends"] else nodes
    built_for = release_change.line(parameters["version"])
    files = {directory / "etc/slurm.conf": render(settings, lines, parameters["partitions"], built_for)}
    # Every daemon looks for other files beside its slurm.conf (common/read_config.c, get_extra_conf_path).
    folder = directory / ("etc" if parameters["wide_steps"] else "etc/nodes")
    for name, text in files_beside(parameters["version"]).items():
        files |= dict.fromkeys((directory / "etc" / name, folder / name), HEADER + text)
    if types:
        lines = (gres_lines(some.names, some.extra, directory / "etc") for some in classes)
        files[folder / "gres.conf"] = HEADER + "".join(lines)
    if parameters["wide_steps"]:
        return files
    files[common] = HEADER + render_settings(settings)
    files |= {directory / "etc/nodes" / name: text for name, text in slim_files(here, str(common))}
    return files


def node_digest(directory: Path, wanted: dict[Path, str], nodes: Nodes) -> str:
    """Stands for what each slurmd of `nodes` read: the whole file, or the settings and its line.

    It does not depend on which of them is the first, so that nodes beside them change nothing for them.
    """
    common = wanted.get(directory / "etc/common.conf")
    if common is None:
        return digest(wanted[directory / "etc/slurm.conf"])
    return digest(common, replace(nodes, first=0, count=1, port=nodes.port - nodes.first).line())


def for_the_farm(directory: Path, parameters: dict[str, Any], wanted: dict[Path, str], nodes: Nodes) -> dict[str, Any]:
    """An entry of the returned `nodes`."""
    own_name = nodes.address == parameters["address"] and not parameters["hosts"]
    return {
        "prefix": nodes.prefix,
        "first": nodes.first,
        "count": nodes.count,
        "hostname": parameters["hostname"] if own_name else nodes.address,
        "digest": node_digest(directory, wanted, nodes),
    }


def placed(parameters: dict[str, Any], classes: Sequence[NodeClass], before: str) -> tuple[list[Nodes], list[Nodes]]:
    """All nodes with their places, and those of this host. `before` is the slurm.conf that it has."""
    block = Block(*(parameters[name] for name in ("address", "port", "ports")))
    if not parameters["hosts"]:
        nodes = place(classes, block, [*placed_in(before), *front_end.placed_in(before)])
        return nodes, nodes
    nodes = place_on_hosts(classes, parameters["hosts"], block, placed_in(parameters["known"]))
    return nodes, [some for some in nodes if some.address == parameters["address"]]


def device_files(directory: Path, classes: Sequence[NodeClass]) -> list[Path]:
    """Files that stand for GPUs: as many as the node with the most has."""
    most = max(gpus(gres_of(some.extra)) for some in classes)
    return [directory / f"etc/{GPU}{number}" for number in range(most)]


def update(directory: Path, wanted: dict[Path, str], devices: Sequence[Path], write: bool) -> list[Path]:
    """Write what differs and remove nodes' files that are not wanted; returns the files touched."""
    touched = [path for path, text in wanted.items() if differs(path, text)]
    missing = [path for path in devices if not path.is_symlink()]
    etc = directory / "etc"
    ours = [etc / "common.conf", etc / "gres.conf", etc / "cgroup.conf", *(etc / "nodes").glob("*.conf"), *etc.glob(f"{GPU}[0-9]*")]
    gone = [path for path in ours if path not in wanted and path not in devices and path.exists()]
    if touched or missing or gone:
        refuse_during_run(directory)
    if write:
        for path in missing:
            path.symlink_to("/dev/null")
        for path in touched:
            write_atomically(path, wanted[path])
        for path in gone:
            path.unlink()
    return touched + missing + gone


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "settings": {"type": "dict", "required": True},
            "nodes": {"type": "list", "elements": "dict", "required": True, "options": NODE_OPTIONS},
            "port": {"type": "int", "required": True},
            "ports": {"type": "int", "required": True},
            "address": {"type": "str", "default": "127.0.0.1"},
            "hostname": {"type": "str", "default": "localhost"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "known": {"type": "str", "default": ""},
            "front_ends": {"type": "int", "default": 0},
            "wide_steps": {"type": "bool", "default": False},
            "partitions": {"type": "list", "elements": "dict", "required": True},
            "speed": {"type": "float", "default": 1.0},
            "version": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    try:
        slurm_conf = directory / "etc/slurm.conf"
        before = slurm_conf.read_text() if slurm_conf.exists() else ""
        classes = node_classes(module.params["nodes"])
        check_partitions(module.params["partitions"], classes)
        front_ends = front_end.classes(module.params["front_ends"])
        module.params["wide_steps"] |= bool(front_ends)
        nodes, here = placed(module.params, front_ends or classes, before)
        wanted = wanted_files(directory, module.params, classes, nodes, here)
        touched = update(directory, wanted, device_files(directory, classes), not module.check_mode)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    module.exit_json(
        changed=bool(touched),
        files=[str(path) for path in touched[:10]],
        diff={"before": before, "after": wanted[slurm_conf], "before_header": "slurm.conf", "after_header": "slurm.conf"},
        slurmctld_digest=digest(wanted[slurm_conf]),
        nodes=[for_the_farm(directory, module.params, wanted, some) for some in here],
    )


if __name__ == "__main__":
    main()
