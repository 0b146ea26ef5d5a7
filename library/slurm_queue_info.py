#!/usr/bin/python
"""Ansible module: the jobs of an emulated cluster that have not ended."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_queue_info
short_description: Jobs of an emulated cluster that have not ended
description:
  - Returns the jobs that C(squeue) or C(qstat) lists, of all users. Reads only.
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
- name: List the jobs that have not ended
  slurm_queue_info:
    directory: /var/lib/slurm-mirage/mirage
  register: queue
"""

RETURN = r"""
jobs:
  description: C(job_id), C(name), C(user) and C(submit) (seconds since the epoch on the cluster's clock) of each job, at most 1000.
  returned: always
  type: list
  elements: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance.manager import manager_at
from ansible.module_utils.slurm_mirage.rm.api import ResourceManagerError

MOST = 1000


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
        jobs = manager_at(directory, module.params["bin"]).queue_owners()
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except ResourceManagerError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, jobs=jobs[:MOST])


if __name__ == "__main__":
    main()
