#!/usr/bin/python
"""Ansible module: pauses a sandbox, and resumes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_pause
short_description: Pause a sandbox, or resume it
description:
  - Stops the replay, lets no job start, and has Slurm suspend those that run. The cluster's time goes on, and all daemons answer.
  - Resumes what was paused, and nothing else.
extends_documentation_fragment: [shared, shared.directory]
options:
  user:
    description: Unprivileged account of the replay.
    type: str
    required: true
  state:
    description: Whether the sandbox is paused.
    type: str
    choices: [paused, resumed]
    required: true
"""

EXAMPLES = r"""
- name: Pause the sandbox
  slurm_pause:
    directory: /var/lib/slurm-mirage/mirage
    user: slurm-mirage
    state: paused
"""

RETURN = r"""
jobs:
  description: Number of jobs that are suspended, or were resumed.
  returned: success
  type: int
notes:
  description: The same in words, unless nothing was to be done.
  returned: changed
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.extras.sandbox.instance.pausing import apply, check
from ansible.module_utils.slurm_mirage.rm.api import ResourceManagerError


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    check(Path(module.params["directory"]))
    try:
        return apply(module.params, module.check_mode)
    except ResourceManagerError as error:
        raise RuntimeError(f"failed: {error}") from error


if __name__ == "__main__":
    main()
