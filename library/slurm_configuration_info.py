#!/usr/bin/python
"""Ansible module: the configuration that is in force in an emulated cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_configuration_info
short_description: Configuration that is in force in an emulated cluster
description:
  - Returns what C(scontrol show config) prints, or the settings of an OpenPBS server and scheduler. Reads only.
options:
  directory:
    description: Directory of the instance, whose controller runs.
    type: path
    required: true
  bin:
    description: Folder of the commands, by default that of the release that the farm runs.
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
  description: The answer, with a line for each setting.
  returned: always
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.manager import manager_at
from ansible.module_utils.slurm_mirage.rm.api import ResourceManagerError


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "bin": {"type": "path"},
        },
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    try:
        text = manager_at(directory, module.params["bin"]).configuration()
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except ResourceManagerError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, text=text)


if __name__ == "__main__":
    main()
