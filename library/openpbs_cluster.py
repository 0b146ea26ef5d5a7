#!/usr/bin/python
"""Ansible module: gives a running OpenPBS server its nodes, queues and attributes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openpbs_cluster
short_description: Create the nodes and queues of a running OpenPBS server, and set its attributes
description:
  - Compares the server's nodes, queues and attributes with what is wanted, and changes what differs by one call of qmgr.
  - Nodes and queues that are not wanted are deleted. Attributes that are not wanted keep their values.
  - qmgr runs in the network of the instance's farm, which has to run. In check mode without a farm everything is a change.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  user:
    description: Account that submits the jobs. It becomes operator, which may requeue jobs and stop queues.
    type: str
    required: true
  bin:
    description: Folder of qmgr.
    type: path
    required: true
  nodes:
    description: Classes of equal nodes, as for M(openpbs_config).
    type: list
    elements: dict
    required: true
    suboptions:
      prefix:
        description: Prefix of the nodes' names, before the number.
        type: str
        default: n
      first:
        description: Number of the first node. The default follows the last class, or is 1.
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
  server:
    description: Attributes of the server by their names in pbs_server_attributes(7B).
    type: dict
    default: {}
  partitions:
    description:
      - Queues, each a mapping with C(name), C(Default) and further attributes by their names in pbs_queue_attributes(7B).
      - Without any there is one queue, V(batch).
    type: list
    elements: dict
    default: []
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
- name: Create 166 nodes and one queue
  openpbs_cluster:
    directory: /var/lib/slurm-mirage/mirage
    user: slurm-mirage
    bin: /opt/slurm-mirage/openpbs-23.06.06-0123abcd/bin
    nodes:
      - count: 166
        cpus: 8
    server:
      backfill_depth: 0
"""

RETURN = r"""
commands:
  description: The lines that qmgr was given, at most ten.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.openpbs_objects import ensure
from ansible.module_utils.slurm_mirage.rm.openpbs.node_classes import NODE_OPTIONS


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "user": {"type": "str", "required": True},
            "bin": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "dict", "required": True, "options": NODE_OPTIONS},
            "server": {"type": "dict", "default": {}},
            "partitions": {"type": "list", "elements": "dict", "default": []},
            "speed": {"type": "float", "default": 1.0},
        },
        supports_check_mode=True,
    )
    try:
        lines = ensure(module.params, not module.check_mode)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except RuntimeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(lines), commands=lines[:10])


if __name__ == "__main__":
    main()
