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
extends_documentation_fragment: [shared, shared.directory, shared.speed, shared.nodes]
options:
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
    required: true
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
  event_clock:
    description: Whether the daemons have the event clock.
    type: bool
    default: false
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

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.extras.openpbs.instance.objects import ensure


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    lines = ensure(module.params, not module.check_mode)
    return {"changed": bool(lines), "commands": lines[:10]}


if __name__ == "__main__":
    main()
