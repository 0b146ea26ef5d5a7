#!/usr/bin/python
"""Ansible module: computes how many emulated nodes each host of a cluster of several hosts gets."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_placement_info
short_description: Compute the distribution of nodes to hosts
description:
  - Distributes the nodes to the hosts as M(slurm_config) will, and returns the number of nodes of each host. Nodes in the
    instance's C(etc/slurm.conf) keep their hosts; the other nodes fill the hosts with the fewest nodes up to an equal number.
  - Run it on the head only and pass its result to all hosts, so that they compute the same distribution.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  nodes:
    description: Classes of equal nodes, as in M(slurm_config).
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
        description: Further options of the NodeName line.
        type: dict
        default: {}
  hosts:
    description: Addresses of the compute hosts, in order.
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
- name: Compute the number of nodes of each host
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
  description: The NodeName lines of the existing C(etc/slurm.conf), for the option C(known) of M(slurm_config).
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.placement import shares
from ansible.module_utils.slurm_mirage.rm.slurm.node_classes import NODE_OPTIONS


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
