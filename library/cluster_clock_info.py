#!/usr/bin/python
"""Ansible module: checks that a cluster can have a clock."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_clock_info
short_description: Check that a cluster can have a clock
description:
  - Fails for the event clock on several hosts, and for settings that the kind of the clock excludes.
  - Changes nothing.
extends_documentation_fragment: [shared]
options:
  speed:
    description: Speed of a constant clock, as a multiple of real time.
    type: float
    default: 1.0
  event_clock:
    description: Whether the clock is the event clock.
    type: bool
    default: false
  charge:
    description: Whether slurmctld's own processor time counts in the time of the event clock.
    type: bool
    default: false
  saves:
    description: Where slurmctld's saved state has to be before it goes on.
    type: str
    choices: [disk, memory]
    default: disk
  several_hosts:
    description: Whether the cluster is on several hosts.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check that the cluster can have the event clock
  cluster_clock_info:
    event_clock: true
    charge: true
"""

RETURN = "{}"

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.clock import clock_rules


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    params = module.params
    speed = clock_rules.speed_of(params["event_clock"], params["speed"])
    clock_rules.check(speed, charges=params["charge"], saves=params["saves"], several_hosts=params["several_hosts"])
    return {}


if __name__ == "__main__":
    main()
