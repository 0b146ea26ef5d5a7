#!/usr/bin/python
"""Ansible module: makes sure that no job is lost when nodes leave a running instance."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node_removal
short_description: Drain the nodes that leave a running instance, if no job needs them
description:
  - To be called before a configuration with other nodes is written. slurmctld ends jobs on nodes that are no longer there after
    its restart, that have other processors or GRES than before, or that are on another host.
  - Drains the nodes that are not in O(nodes), and looks for jobs on them. If there are any, the drain is undone and the module
    fails, naming them.
  - Resumes nodes that an earlier call had drained and that are in O(nodes). It knows them by the reason of their drain.
  - Does nothing when slurmctld does not run.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  bin:
    description: Folder of scontrol and squeue, by default that of the Slurm that runs, which may be about to be replaced.
    type: path
  nodes:
    description: Classes of equal nodes that the instance will have, as M(slurm_config) takes them. Required with O(state=leaving).
    type: list
    elements: dict
    suboptions:
      prefix:
        description: Name of the nodes without their number.
        type: str
        default: n
      first:
        description:
          - Number of the first node.
          - When left out, the numbers go on where the last class with that prefix ended, or begin with 1.
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
  addresses:
    description:
      - Addresses of the compute hosts that the instance will have. A node that has another one moves. A loopback address says that
        this host is the only one.
      - When left out, nodes are not looked at for that.
    type: list
    elements: str
    default: []
  state:
    description: V(leaving) as described; V(staying) only resumes all nodes that such a call has drained, for when the change fails.
    type: str
    choices: [leaving, staying]
    default: leaving
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Let nodes go only when no job needs them
  slurm_node_removal:
    directory: /var/lib/slurm-mirage/mirage
    nodes:
      - count: 80
        cpus: 16
"""

RETURN = r"""
leaving:
  description: The nodes that are drained now, as Slurm writes lists of names.
  returned: always
  type: str
  sample: n[81-120]
resumed:
  description: The nodes that an earlier call had drained and that stay.
  returned: always
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.hostlist import compress
from ansible.module_utils.slurm_mirage.instance.instance import commands_of
from ansible.module_utils.slurm_mirage.instance.node_removal import leave, stay, wanted_hardware
from ansible.module_utils.slurm_mirage.rm.api import ResourceManagerError
from ansible.module_utils.slurm_mirage.rm.slurm.node_classes import NODE_OPTIONS, node_classes
from ansible.module_utils.slurm_mirage.rm.slurm.node_commands import NodeCommands, controller_runs


def ensure(directory: Path, parameters: dict[str, Any], write: bool) -> dict[str, Any]:
    """What the module returns."""
    wanted = wanted_hardware(node_classes(parameters["nodes"] or []))
    if not controller_runs(directory):
        return {"changed": False, "leaving": "", "resumed": ""}
    slurm = NodeCommands.of_instance(directory, parameters["bin"] or commands_of(directory))
    if parameters["state"] == "staying":
        resumed = stay(slurm, write)
        return {"changed": bool(resumed), "leaving": "", "resumed": compress(resumed)}
    change = leave(slurm, directory, wanted, write, parameters["addresses"])
    return {
        "changed": bool(change.drain or change.resume),
        "leaving": compress(change.going),
        "resumed": compress(change.resume),
    }


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "bin": {"type": "path"},
            "nodes": {"type": "list", "elements": "dict", "options": NODE_OPTIONS},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["leaving", "staying"], "default": "leaving"},
        },
        required_if=[("state", "leaving", ["nodes"])],
        supports_check_mode=True,
    )
    try:
        module.exit_json(**ensure(Path(module.params["directory"]), module.params, not module.check_mode))
    except WrongUse as error:
        module.fail_json(msg=f"wrong use: {error}")
    except ResourceManagerError as error:
        module.fail_json(msg=f"slurmctld runs, but does not say which jobs are on nodes that leave: {error}")


if __name__ == "__main__":
    main()
