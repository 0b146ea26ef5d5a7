#!/usr/bin/python
"""Ansible module: whether a cluster in Slurm's front-end mode can be built."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_front_end_info
short_description: Check that Slurm has the front-end mode, and that the cluster has had it
description:
  - Fails when the Slurm that is there, or would be built, has no front-end mode or one that does not work.
  - Fails when the instance was built with another number of front ends, or when nodes cannot be without a slurmd of their own.
  - Reads only.
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
  front_ends:
    description: How many slurmd stand for all nodes. V(0) is a slurmd for each node, which every Slurm can do.
    type: int
    required: true
  nodes:
    description: Classes of equal nodes, as M(slurm_config) takes them.
    type: list
    elements: dict
    default: []
    suboptions:
      prefix:
        description: Name of the nodes without their number.
        type: str
        default: n
      first:
        description: Number of the first node.
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
  bin:
    description: Folder of scontrol.
    type: path
    default: /usr/bin
  version:
    description: Release that will be built with C(--enable-front-end) if there is no scontrol. V() is the distribution's packages.
    type: str
    default: ''
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Check that one slurmd can stand for all nodes
  slurm_front_end_info:
    directory: /var/lib/slurm-mirage/mirage
    front_ends: 1
    bin: /opt/slurm-mirage/slurm-24.11.5/bin
"""

RETURN = r"""
release:
  description: The release that was looked at. Empty without front ends.
  returned: always
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage import front_end
from ansible.module_utils.slurm_mirage.errors import WrongUse
from ansible.module_utils.slurm_mirage.placement import NODE_OPTIONS, node_classes


def check(parameters: dict[str, Any]) -> str:
    """Check all; returns the release. WrongUse."""
    directory, count = Path(parameters["directory"]), parameters["front_ends"]
    slurm_conf = directory / "etc/slurm.conf"
    front_end.check_change(slurm_conf.read_text() if slurm_conf.exists() else "", count, directory.name)
    if not count:
        return ""
    front_end.check_nodes(node_classes(parameters["nodes"]))
    scontrol = Path(parameters["bin"], "scontrol")
    if scontrol.exists():
        release = front_end.release_of(scontrol)
        front_end.check_release(release, count)
        front_end.check_build(scontrol, count)
        return release
    front_end.check_release(parameters["version"], count)
    return str(parameters["version"])


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "front_ends": {"type": "int", "required": True},
            "nodes": {"type": "list", "elements": "dict", "default": [], "options": NODE_OPTIONS},
            "bin": {"type": "path", "default": "/usr/bin"},
            "version": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, release=check(module.params))
    except WrongUse as error:
        module.fail_json(msg=f"wrong use: {error}")


if __name__ == "__main__":
    main()
