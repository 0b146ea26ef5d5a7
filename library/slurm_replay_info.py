#!/usr/bin/python
"""Ansible module: returns the progress of a replay."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_replay_info
short_description: Gather the progress of a replay
description:
  - Reads the C(progress.json) that the replay writes once a second. Changes nothing.
  - Ends its wait when munged, slurmctld or the database ends again and again, because the replay then waits in vain.
extends_documentation_fragment: [shared, shared.run]
options:
  wait:
    description: Seconds to wait for the end of the replay. V(0) returns immediately.
    type: float
    default: 0
"""

EXAMPLES = r"""
- name: Follow the replay until it ends
  slurm_replay_info:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    wait: 5
  register: replay
  until: not replay.running
  retries: 1000000
  delay: 0
"""

RETURN = r"""
running:
  description: Whether the replay runs.
  returned: always
  type: bool
failure:
  description: Why the replay cannot go on, and what to do, if that is known; otherwise empty.
  returned: always
  type: str
  sample: no space left on /var/lib/slurm-mirage/mirage/runs (0 MiB free), free some
progress:
  description:
    - Content of C(progress.json); empty before the replay has started.
    - Its C(phase) is one of C(waiting), C(submitting), C(draining), C(finished), C(failed) and C(stopped). If RV(running) is false
      and the phase is one of the first three, the replay was killed in this phase, and C(message) says so.
  returned: always
  type: dict
  sample:
    run: first
    phase: submitting
    jobs: 200
    submitted: 150
    running: 30
    pending: 12
    done: 108
    lag: 0.008
    retries: 0
    resubmitted: 0
    elapsed: 75.2
    time_left_least: 41.0
    time_left_most: 55.5
    nodes_not_responding: 0
    message: ""
    pid: 4711
    real: 1700000000.5
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.replay_control import follow


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    return follow(Path(module.params["instance"]), module.params["run"], module.params["wait"])


if __name__ == "__main__":
    main()
