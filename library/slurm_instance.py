#!/usr/bin/python
"""Ansible module: manages the directory, the ports and the code of an instance on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_instance
short_description: Manage the directory, the ports and the code of an instance
description:
  - Creates the folders of an instance, assigns it a permanent block of free ports, and installs the code of the farm and the
    replay.
  - Fails if the host has too little memory, or too few processes and files, for the nodes, and says how many nodes fit.
  - With O(state=absent), removes the directory. The farm must be stopped first.
extends_documentation_fragment: [shared, shared.instance, shared.state]
options:
  user:
    description:
      - Unprivileged account of the daemons. Required with O(state=present).
      - An existing account must have been created for this instance, with the comment C(Slurm Mirage, instance NAME), because it is
        removed with the instance and its slurmstepd processes are assigned to the instance.
    type: str
  nodes:
    description: Number of emulated nodes on this host. Required with O(state=present).
    type: int
  cluster_nodes:
    description:
      - Number of nodes on all hosts of a cluster of several hosts. All hosts have the same block of ports, each on its own
        O(address).
      - If omitted, the cluster is on this host only.
    type: int
  block_nodes:
    description: With O(cluster_nodes), number of nodes of the host with the most nodes; the block has a port for each.
    type: int
  follows:
    description: With O(cluster_nodes), whether this host uses the block of the head, O(port) and O(ports).
    type: bool
    default: false
  ports:
    description: Number of ports in the head's block.
    type: int
  front_ends:
    description: Number of slurmd that stand for all nodes, as in M(slurm_config). V(0) means one slurmd per node.
    type: int
    default: 0
  jobs:
    description: Number of jobs running at the same time for which the host needs memory. The default is one per node, at most 1000.
    type: int
  wide_steps:
    description: Whether each slurmd reads the whole slurm.conf, as in M(slurm_config). This needs more memory.
    type: bool
    default: false
  database:
    description: Whether the instance has accounting. Its slurmdbd needs a permanent port, and memory.
    type: bool
    default: false
  users:
    description:
      - Whether the instance has users with names, as a sandbox has (docs/sandbox.md). Its slurmrestd needs a permanent port.
      - A key for tokens is made.
    type: bool
    default: false
  belongs_to:
    description:
      - Name of the instance whose campaigns also use this one, and with which C(make teardown) removes this one. Empty for none.
      - An instance that exists and does not belong to that one is refused.
    type: str
    default: ""
  rm:
    description:
      - Resource manager of the instance. An instance that exists with another one is refused.
    type: str
    default: slurm
  port:
    description:
      - First port of the block. If omitted, the instance keeps its earlier block or gets the first free one.
      - A block has one port for slurmctld and one for each node, at most 15000. Further nodes use the ports of further addresses.
    type: int
  address:
    description:
      - Address on which the daemons listen. Further addresses follow it; all of them are loopback addresses.
      - With O(cluster_nodes), an address of this host that the other hosts can reach.
    type: str
    default: 127.0.0.1
  state:
    description: Whether the instance exists.
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
  description: Least values of kernel settings for the nodes and jobs, by name, for M(host_settings).
  returned: when O(state=present)
  type: dict
directory:
  description: Directory of the instance.
  returned: always
  type: str
port:
  description: First port of the block. slurmctld listens there, and the slurmd on the ports that follow.
  returned: when O(state=present)
  type: int
ports:
  description: Number of ports in the block.
  returned: when O(state=present)
  type: int
database_port:
  description: Port of slurmdbd; 0 without O(database).
  returned: when O(state=present)
  type: int
private_hostname:
  description: Whether the host permits a private host name for the farm.
  returned: when O(state=present)
  type: bool
host:
  description: The host, with its C(name), C(cores), C(memory_bytes) and C(kernel).
  returned: when O(state=present)
  type: dict
account:
  description: C(uid) and C(gid) of O(user); null if the account does not exist yet.
  returned: when O(state=present)
  type: dict
taken_ids:
  description: With O(cluster_nodes), ids of other system accounts and groups (100 to 999) on this host.
  returned: when O(state=present)
  type: list
  elements: int
"""

import ansible.module_utils.slurm_mirage as package
from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance import creation

# Imported only so that Ansible ships the programs with the module, which installs them on the host.
from ansible.module_utils.slurm_mirage.programs import clock_answers, farm, replay  # noqa: F401


@module_main(
    DOCUMENTATION,
    required_if=[("state", "present", ["user", "nodes"]), ("follows", True, ["cluster_nodes", "port", "ports"])],
)
def main(module: AnsibleModule) -> Result:
    return creation.apply(module.params, package, module.check_mode)


if __name__ == "__main__":
    main()
