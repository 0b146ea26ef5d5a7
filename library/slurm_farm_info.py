#!/usr/bin/python
"""Ansible module: gathers the state of an instance from its farm and its controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_farm_info
short_description: Gather the state of an emulated cluster
description:
  - Returns the farm's state and, on the head, nodes, processors and jobs by state as the resource manager tells them, the
    scheduler's statistics, and the progress of a running replay.
  - With O(wait) greater than 0, waits until every node has registered and none is down, drained or unknown. Fails if the farm does
    not run, if a daemon ends again and again, or if no further node has registered for this time.
extends_documentation_fragment: [shared, shared.directory]
options:
  bin:
    description: Folder with the resource manager's commands. The default is that of the release that the farm runs.
    type: path
  controller:
    description: Whether to query the controller as well. On hosts other than the head, only the farm's state is of interest.
    type: bool
    default: true
  wait:
    description: Seconds to wait for the next node to register.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Wait for the nodes
  slurm_farm_info:
    directory: /var/lib/slurm-mirage/mirage
    wait: 120
"""

RETURN = r"""
farm:
  description: State of the farm; its phase is C(stopped) when it does not run.
  returned: always
  type: dict
nodes:
  description: Number of nodes by state.
  returned: always
  type: dict
jobs:
  description: Number of jobs by state.
  returned: always
  type: dict
processors:
  description: Processors of all nodes, C(all), and processors allocated to jobs, C(busy). Null when the controller does not answer.
  returned: always
  type: dict
scheduler:
  description: Statistics of the scheduler, such as those of sdiag; empty when the controller does not answer.
  returned: always
  type: dict
progress:
  description: Content of C(progress.json) of the running replay. Null when none runs.
  returned: always
  type: dict
clock:
  description: Speed of the virtual clock, and the current virtual and real time (seconds since the epoch). Null in real time.
  returned: always
  type: dict
memory:
  description: Available memory of the host in MiB.
  returned: always
  type: int
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.overview import overview


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    params = module.params
    return overview(Path(params["directory"]), params["bin"], params["controller"], params["wait"])


if __name__ == "__main__":
    main()
