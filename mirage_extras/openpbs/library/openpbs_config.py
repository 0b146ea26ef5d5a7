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
extends_documentation_fragment: [shared, shared.directory, shared.speed, shared.nodes]
options:
  prefix:
    description: Where OpenPBS is installed.
    type: path
    required: true
  nodes:
    description: Classes of equal nodes.
    required: true
  settings:
    description:
      - Keys of C(sched_config). The value V(omit) leaves a key out, and a list stands for several lines of one key.
      - V(true) and V(false) mean prime and non-prime time.
    type: dict
    default: {}
  event_clock:
    description: Whether the daemons have the event clock.
    type: bool
    default: false
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

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.extras.openpbs.instance.configuration import configure


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    return configure(module.params, not module.check_mode)


if __name__ == "__main__":
    main()
