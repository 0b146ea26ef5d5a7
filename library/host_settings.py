#!/usr/bin/python
"""Ansible module: claims and releases kernel settings for an instance."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_settings
short_description: Claim or release kernel settings for an instance
description:
  - A setting is a number in a file below C(/proc/sys) or C(/sys). Each instance claims the least value that it needs.
  - The setting gets the maximum of all claims and its original value. The last release restores the original value.
  - A setting that the host refuses to change, for instance in a container, is reported but is not an error.
extends_documentation_fragment: [shared]
options:
  instance:
    description: Name of the instance.
    type: str
    required: true
  settings:
    description:
      - Least value by name of a setting, a dotted sysctl name or an absolute path below C(/sys).
      - An empty mapping releases all claims of the instance.
    type: dict
    default: {}
  register_file:
    description: File with the claims of all instances of the host.
    type: path
    default: /var/lib/slurm-mirage/host-settings.json
"""

EXAMPLES = r"""
- name: Let ksmd merge the daemons' memory
  host_settings:
    instance: mirage
    settings:
      kernel.pid_max: 65536
      /sys/kernel/mm/ksm/run: 1
"""

RETURN = r"""
set:
  description: Names of the settings whose value on the host was changed.
  returned: always
  type: list
  elements: str
refused:
  description: Reason by name, for the settings that the host refused to change.
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.farm.host_settings import HostSettings


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    try:
        wanted = {name: int(value) for name, value in module.params["settings"].items()}
    except (TypeError, ValueError):
        raise WrongUse(f"settings: whole numbers by name, not {module.params['settings']}") from None
    host = HostSettings(Path(module.params["register_file"]))
    result = host.claim(module.params["instance"], wanted, write=not module.check_mode)
    return {"changed": bool(result["changed"]) or result["noted"], "set": result["changed"], "refused": result["refused"]}


if __name__ == "__main__":
    main()
