#!/usr/bin/python
"""Ansible module: drains the nodes to be removed from a running instance, if no job uses them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node_removal
short_description: Drain the nodes to be removed from a running instance
description:
  - Run it before a configuration with other nodes is written. After its restart, slurmctld ends jobs on nodes that no longer exist,
    that have other processors or GRES than before, or that are on another host.
  - Drains the nodes that are not in O(nodes) and checks them for jobs. If there are any, it resumes the nodes and fails with a
    message that names the jobs.
  - Resumes nodes in O(nodes) that an earlier call has drained. It recognises them by the reason of their drain.
  - Does nothing if slurmctld does not run. Does nothing either if slurmctld does not answer, as without munged, and no node in the
    instance's slurm.conf is to be removed or changed.
extends_documentation_fragment: [shared, shared.directory, shared.nodes]
options:
  bin:
    description: Folder with scontrol and squeue. The default is that of the running release, which may be about to be replaced.
    type: path
  nodes:
    description: Classes of equal nodes that the instance will have, as in M(slurm_config). Required with O(state=leaving).
  addresses:
    description:
      - Addresses of the compute hosts that the instance will have. Nodes with other addresses will move. A loopback address means
        that this host is the only one.
      - If omitted, addresses are not checked.
    type: list
    elements: str
    default: []
  state:
    description:
      - V(leaving) drains nodes as described.
      - V(staying) only resumes all nodes that such a call has drained, for use after a failed change.
    type: str
    choices: [leaving, staying]
    default: leaving
"""

EXAMPLES = r"""
- name: Drain the nodes to be removed
  slurm_node_removal:
    directory: /var/lib/slurm-mirage/mirage
    nodes:
      - count: 80
        cpus: 16
"""

RETURN = r"""
leaving:
  description: The drained nodes, as a Slurm host list.
  returned: always
  type: str
  sample: n[81-120]
resumed:
  description: The resumed nodes, as a Slurm host list.
  returned: always
  type: str
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.node_removal import ensure
from ansible.module_utils.slurm_mirage.rm.api import ResourceManagerError


@module_main(DOCUMENTATION, required_if=[("state", "leaving", ["nodes"])])
def main(module: AnsibleModule) -> Result:
    try:
        return ensure(Path(module.params["directory"]), module.params, not module.check_mode)
    except ResourceManagerError as error:
        words = f"slurmctld runs, but does not say which jobs are on nodes that leave: {error}"
        raise RuntimeError(f"{words}; run `make cluster` with the present NODES first, which mends what it can") from error


if __name__ == "__main__":
    main()
