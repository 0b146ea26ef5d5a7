#!/usr/bin/python
"""Ansible module: starts and stops the replay of a workload on the head."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_replay
short_description: Start or stop the replay of a workload
description:
  - Starts the program that submits the jobs in the run's C(plan.csv) at their submission times, as the instance's user and detached
    from Ansible, and returns when it has started. M(slurm_replay_info) returns its progress.
  - A replay that was stopped or killed, or has failed, is continued. A running or finished replay is not changed.
extends_documentation_fragment: [shared]
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run, a folder below C(runs) in the instance that contains C(plan.csv) and C(run.json).
    type: str
    required: true
  user:
    description: Unprivileged account of the replay. It owns the run's folder.
    type: str
    required: true
  state:
    description: Whether the replay runs. V(stopped) ends the replay but not the jobs that it has submitted.
    type: str
    choices: [started, stopped]
    default: started
  python:
    description: Python interpreter (3.9 or later) that runs the replay. The default is that of this module.
    type: path
  package_path:
    description: Folder on the host that contains the package C(slurm_mirage). The default is C(lib) in the instance.
    type: path
  timeout:
    description: Seconds to wait until the replay has started or ended.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Replay the workload
  slurm_replay:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    user: slurm-mirage

- name: Stop the replay; the task above continues it
  slurm_replay:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    user: slurm-mirage
    state: stopped
"""

RETURN = r"""
running:
  description: Whether the replay runs (in check mode, whether it would run).
  returned: success
  type: bool
pid:
  description: Process id of the replay.
  returned: when the replay runs
  type: int
  sample: 4711
"""

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.replay_control import apply
from ansible.module_utils.slurm_mirage.rm.api import Unavailable


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    try:
        return apply(module.params, module.check_mode)
    except Unavailable as error:
        raise RuntimeError(f"failed: {error}") from error


if __name__ == "__main__":
    main()
