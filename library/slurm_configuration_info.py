#!/usr/bin/python
"""Ansible module: the configuration that is in force in an emulated cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_configuration_info
short_description: Configuration that is in force in an emulated cluster
description:
  - Returns what C(scontrol show config) prints. Reads only.
options:
  directory:
    description: Directory of the instance, whose slurmctld runs.
    type: path
    required: true
  bin:
    description: Folder of scontrol, by default that of the Slurm that the farm runs.
    type: path
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Get the configuration in force
  slurm_configuration_info:
    directory: /var/lib/slurm-mirage/mirage
  register: configuration
"""

RETURN = r"""
text:
  description: The answer of scontrol, with a line for each setting.
  returned: always
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.instance import commands_of
from ansible.module_utils.slurm_mirage.rm.api import ResourceManagerError
from ansible.module_utils.slurm_mirage.rm.slurm.commands import Slurm


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={"directory": {"type": "path", "required": True}, "bin": {"type": "path"}},
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    try:
        text = Slurm.of_instance(directory, module.params["bin"] or commands_of(directory)).configuration()
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except ResourceManagerError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, text=text)


if __name__ == "__main__":
    main()
