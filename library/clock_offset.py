#!/usr/bin/python
"""Ansible module: measures the offset between this host's clock and the head's."""

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_offset
short_description: Measure the offset between this host's clock and that of another host
description:
  - Asks the server that M(clock_answers) started on the other host for the time, several times, and uses the answer with the
    shortest round trip. The error of the offset is at most half of this round trip.
extends_documentation_fragment: [shared]
options:
  address:
    description: Address of the host with the server.
    type: str
    required: true
  port:
    description: UDP port of the server.
    type: int
    required: true
  questions:
    description: Number of questions.
    type: int
    default: 20
  bound:
    description:
      - Seconds by which the clocks may differ, in addition to the measurement's error. If they differ by more, or if the server
        does not answer, the module does not fail but reports it in RV(trouble), so that the server can be stopped first.
    type: float
    default: 0.02
  name:
    description: Name of this host in messages.
    type: str
    default: this host
"""

EXAMPLES = r"""
- name: Measure this host's clock
  clock_offset:
    address: 192.0.2.10
    port: 17000
    name: compute-1
"""

RETURN = r"""
clock:
  description: Result of the measurement, in seconds.
  returned: always
  type: dict
  contains:
    host:
      description: O(name).
      type: str
    offset:
      description: How far this host's clock is ahead of the other one (negative, behind); null if the server did not answer.
      type: float
      sample: 0.00012
    error:
      description: Bound of the offset's error; null if the server did not answer.
      type: float
      sample: 0.0001
    answers:
      description: Number of questions that were answered.
      type: int
      sample: 20
trouble:
  description: One line that says why this host's clock cannot be used and what to do; empty if the clocks agree.
  returned: always
  type: str
"""

from typing import Any

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.clock import clock_offset


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    params = module.params
    reason = ""
    offset: clock_offset.Offset | None = None
    try:
        offset = clock_offset.measure(params["address"], params["port"], params["questions"])
    except OSError as error:
        reason = error.strerror or str(error)
    clock: dict[str, Any] = {"host": params["name"], "offset": None, "error": None, "answers": 0}
    if offset is not None:
        clock |= {"offset": round(offset.seconds, 9), "error": round(offset.error, 9), "answers": offset.answers}
    server = f"{params['address']}:{params['port']}"
    return {"clock": clock, "trouble": clock_offset.clock_problem(offset, params["bound"], params["name"], server, reason)}


if __name__ == "__main__":
    main()
