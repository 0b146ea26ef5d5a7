#!/usr/bin/python
"""Ansible module: says which instances of a host belong to an instance."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_instance_info
short_description: Tell which instances belong to an instance
description:
  - Returns the instances that the campaigns of an instance use beside it (C(belongs_to) of M(slurm_instance)). Reads only.
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  root:
    description: Folder with the directories of all instances of the host.
    type: path
    default: /var/lib/slurm-mirage
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: List the instances that belong to mirage
  slurm_instance_info:
    name: mirage
  register: instance
"""

RETURN = r"""
belonging:
  description: Names of the instances that belong to it, by their numbers.
  returned: always
  type: list
  elements: str
  sample: [mirage-2, mirage-3]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.instance import belonging_to, check_name


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "root": {"type": "path", "default": "/var/lib/slurm-mirage"},
        },
        supports_check_mode=True,
    )
    try:
        belonging = belonging_to(Path(module.params["root"]), check_name(module.params["name"]))
    except (WrongUse, OSError) as error:
        module.fail_json(msg=f"failed: {error}")
    module.exit_json(changed=False, belonging=belonging)


if __name__ == "__main__":
    main()
