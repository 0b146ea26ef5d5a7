#!/usr/bin/python
"""Ansible module: whether the Slurm of a host can run the cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_release_info
short_description: Check that the Slurm that is there, or would be built, can run the cluster
description:
  - Fails when the instance was built with a release whose jobs this one cannot read.
  - Fails when front ends are asked for, and the Slurm that is there, or would be built, has no front-end mode, or one that does not
    work.
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
  accounting:
    description: Whether slurmdbd will run. Fails when the release's cannot.
    type: bool
    default: false
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
    description:
      - Release that is built, or will be if there is no scontrol, with C(--enable-front-end) where there are front ends.
      - V() is the distribution's packages, whose release scontrol tells.
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
  slurm_release_info:
    directory: /var/lib/slurm-mirage/mirage
    front_ends: 1
    bin: /opt/slurm-mirage/slurm-24.11.5/bin
"""

RETURN = r"""
release:
  description: The release that was looked at. Empty where packages would bring one.
  returned: always
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.rm.slurm import database, front_end, release_change
from ansible.module_utils.slurm_mirage.rm.slurm.node_classes import NODE_OPTIONS, node_classes


def check(parameters: dict[str, Any]) -> str:
    """Check all; returns the release. WrongUse."""
    directory, count = Path(parameters["directory"]), parameters["front_ends"]
    slurm_conf = directory / "etc/slurm.conf"
    before = slurm_conf.read_text() if slurm_conf.exists() else ""
    commands = Path(parameters["bin"])
    is_installed = front_end.has_commands(commands)
    release = str(parameters["version"])
    if not release and is_installed:
        release = front_end.release_of(commands)
    if parameters["accounting"]:
        database.check_release(release)
    release_change.check(before, release, directory.name)
    front_end.check_change(before, count, directory.name)
    if count:
        front_end.check_nodes(node_classes(parameters["nodes"]))
        front_end.check_release(release, count)
        if is_installed:
            front_end.check_build(commands, release, count)
    return release


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "front_ends": {"type": "int", "required": True},
            "accounting": {"type": "bool", "default": False},
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
