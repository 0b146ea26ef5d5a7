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
extends_documentation_fragment: [shared, shared.directory, shared.nodes]
options:
  nodes:
    required: true
  hosts:
    description: Addresses of the compute hosts, in order.
    type: list
    elements: str
    required: true
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

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.placement import shares


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    return shares(module.params)


if __name__ == "__main__":
    main()
