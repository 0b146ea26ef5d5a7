#!/usr/bin/python
"""Ansible module: writes the configuration and the PBS_HOME folders of OpenPBS's daemons."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openpbs_config
short_description: Write the configuration and the PBS_HOME folders of OpenPBS's daemons
description:
  - Writes C(etc/pbs.conf) (server, communication daemon, scheduler and commands), C(etc/nodes/NODE.conf) and C(etc/pbs_environment)
    below the instance's directory, and the PBS_HOME folders in C(pbs/server) and C(pbs/moms/NODE), with the owners and modes that
    OpenPBS insists on.
  - OpenPBS's own hooks are left out. They would be copied to every node.
  - Files and folders of removed nodes are deleted. A node with a job is not removed; the module fails then.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  prefix:
    description: Where OpenPBS is installed.
    type: path
    required: true
  nodes:
    description: Classes of equal nodes.
    type: list
    elements: dict
    required: true
    suboptions:
      prefix:
        description: Prefix of the nodes' names, before the number.
        type: str
        default: n
      first:
        description: Number of the first node. The default follows the last class with the same prefix, or is 1.
        type: int
      count:
        description: Number of nodes.
        type: int
        required: true
      cpus:
        description: Processors of each node.
        type: int
        required: true
      extra:
        description: Further options of the nodes. OpenPBS takes none.
        type: dict
        default: {}
  settings:
    description:
      - Keys of C(sched_config). The value V(omit) leaves a key out, and a list stands for several lines of one key.
      - V(true) and V(false) mean prime and non-prime time.
    type: dict
    default: {}
  speed:
    description: Speed of the virtual clock. Above 1, time-outs that guard against slow machines are multiplied by it.
    type: float
    default: 1.0
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Configure 166 nodes in strict order of submission
  openpbs_config:
    directory: /var/lib/slurm-mirage/mirage
    prefix: /opt/slurm-mirage/openpbs-23.06.06-0123abcd
    nodes:
      - count: 166
        cpus: 8
    settings:
      strict_ordering: true
"""

RETURN = r"""
files:
  description: Files and folders that were written or removed, at most ten.
  returned: always
  type: list
  elements: str
server_digest:
  description: Digest of everything that server and communication daemon read.
  returned: always
  type: str
scheduler_digest:
  description: Digest of everything that the scheduler reads.
  returned: always
  type: str
nodes:
  description: The nodes, for M(slurm_farm).
  returned: always
  type: list
  elements: dict
  contains:
    prefix:
      description: Prefix of the nodes' names, before the number.
      type: str
    first:
      description: Number of the first node.
      type: int
    count:
      description: Number of nodes.
      type: int
    digest:
      description: Digest of everything that their pbs_mom read.
      type: str
"""

import hashlib
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.instance import refuse_during_run
from ansible.module_utils.slurm_mirage.rm.openpbs import conf, home
from ansible.module_utils.slurm_mirage.rm.openpbs.node_classes import NODE_OPTIONS, Nodes, node_classes


def digest(*parts: str) -> str:
    """Return a short digest of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def wanted_homes(parameters: dict[str, Any], nodes: list[Nodes]) -> home.Homes:
    """Return all folders and files of the instance with the `nodes`."""
    directory, prefix = Path(parameters["directory"]), parameters["prefix"]
    homes = home.Homes(folders={directory / "etc/nodes": 0o755})
    homes.add_server(directory, Path(prefix), conf.sched_config(parameters["settings"]))
    homes.files[directory / "etc/pbs.conf"] = conf.server_conf(directory, prefix), 0o644
    homes.files[directory / conf.ENVIRONMENT] = conf.environment(directory, parameters["speed"] != 1), 0o644
    for item in nodes:
        for name, number in item.numbered():
            homes.add_node(directory, name, parameters["speed"])
            homes.files[directory / f"etc/nodes/{name}.conf"] = conf.node_conf(directory, prefix, name, number), 0o644
    return homes


def update(directory: Path, homes: home.Homes, nodes: list[Nodes], write: bool) -> list[Path]:
    """Make what is missing or different and delete what belongs to removed nodes, if `write` is true. Returns all these paths.

    Raises WrongUse when there is any and a replay runs, or when a node to be removed has jobs.
    """
    names = {name for item in nodes for name, _ in item.numbered()}
    removed = home.surplus_nodes(directory, names)
    for path in removed:
        if jobs := home.jobs_of(path):
            raise WrongUse(
                f"node {path.name} is to be removed and runs job {jobs[0]}; wait for its end, or make teardown",
                parameter="nodes",
                value=len(names),
            )
    outdated = homes.outdated()
    surplus = [path for path in (directory / "etc/nodes").glob("*.conf") if path not in homes.files]
    if outdated or removed or surplus:
        refuse_during_run(directory)
    if write:
        homes.make(outdated)
        for path in removed:
            home.remove_node(directory, path.name)
        for path in surplus:
            path.unlink()
    return outdated + removed + surplus


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "prefix": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "dict", "required": True, "options": NODE_OPTIONS},
            "settings": {"type": "dict", "default": {}},
            "speed": {"type": "float", "default": 1.0},
        },
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    try:
        nodes = node_classes(module.params["nodes"])
        homes = wanted_homes(module.params, nodes)
        touched = update(directory, homes, nodes, not module.check_mode)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    server = conf.server_conf(directory, module.params["prefix"])
    environment = homes.files[directory / conf.ENVIRONMENT][0]
    scheduler = conf.sched_config(module.params["settings"])
    # The same text for each node, so that a change of the number of nodes changes no digest.
    node = conf.node_conf(directory, module.params["prefix"], "NODE", 0) + conf.mom_config(Path("NODE"), module.params["speed"])
    module.exit_json(
        changed=bool(touched),
        files=[str(path) for path in touched[:10]],
        server_digest=digest(server, environment),
        scheduler_digest=digest(server, environment, scheduler),
        nodes=[{**item.entry(), "digest": digest(node, environment)} for item in nodes],
    )


if __name__ == "__main__":
    main()
