#!/usr/bin/python
"""Ansible module: how many emulated nodes each host of a cluster of several gets."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_placement_info
short_description: Share of each host in the nodes of a cluster of several hosts
description:
  - Deals the nodes to the hosts as M(slurm_config) will, and returns how many each gets. Nodes that are in the instance's
    C(etc/slurm.conf) keep their hosts; of the others the hosts with the fewest get as many as make them level.
  - To be asked on the head alone. What it returns goes to all hosts, so that all come to the same.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  nodes:
    description: Classes of equal nodes, as M(slurm_config) takes them.
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
        description: Further words of the NodeName line.
        type: dict
        default: {}
  hosts:
    description: Addresses of the compute hosts, in their order.
    type: list
    elements: str
    required: true
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: See how many nodes each host gets
  slurm_placement_info:
    directory: /var/lib/slurm-mirage/mirage
    nodes:
      - count: 360
        cpus: 16
    hosts: [192.0.2.10, 192.0.2.11]
"""

RETURN = r"""
counts:
  description: Number of nodes by the host's address.
  returned: always
  type: dict
  sample: {192.0.2.10: 180, 192.0.2.11: 180}
known:
  description: The NodeName lines of the C(etc/slurm.conf) that is there, as M(slurm_config) takes them.
  returned: always
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.placement import nodes_of_hosts, placed_in
from ansible.module_utils.slurm_mirage.rm.slurm.node_classes import NODE_OPTIONS, node_classes


def known_in(directory: Path) -> str:
    """The lines of nodes of the instance's slurm.conf; empty when there is none."""
    slurm_conf = directory / "etc/slurm.conf"
    lines = slurm_conf.read_text().splitlines() if slurm_conf.exists() else []
    return "".join(f"{line}\n" for line in lines if line.startswith("NodeName="))


def shares(parameters: dict[str, Any]) -> dict[str, Any]:
    """What the module returns."""
    if not parameters["hosts"]:
        raise WrongUse("group compute is empty; it may hold the hosts that run the emulated nodes", parameter="inventory")
    known = known_in(Path(parameters["directory"]))
    return {"counts": nodes_of_hosts(node_classes(parameters["nodes"]), parameters["hosts"], placed_in(known)), "known": known}


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "dict", "required": True, "options": NODE_OPTIONS},
            "hosts": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, **shares(module.params))
    except WrongUse as error:
        module.fail_json(msg=error.module_message())


if __name__ == "__main__":
    main()
