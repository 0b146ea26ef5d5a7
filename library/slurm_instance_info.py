#!/usr/bin/python
"""Ansible module: says which instances of a host belong to an instance."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_instance_info
short_description: Tell which instances belong to an instance
description:
  - Returns the instances that the campaigns of an instance use beside it (C(belongs_to) of M(slurm_instance)). Reads only.
extends_documentation_fragment: [shared, shared.instance]
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

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.instance import belonging_to, check_name


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    return {"belonging": belonging_to(Path(module.params["root"]), check_name(module.params["name"]))}


if __name__ == "__main__":
    main()
