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

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.openpbs_configuration import configure
from ansible.module_utils.slurm_mirage.rm.openpbs.node_classes import NODE_OPTIONS


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
    try:
        result = configure(module.params, not module.check_mode)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
