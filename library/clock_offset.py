#!/usr/bin/python
"""Ansible module: measures how far this host's clock is from that of the head."""

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_offset
short_description: Measure how far this host's clock is from that of another one
description:
  - Asks the program that M(clock_answers) has started on the other host some times what time it is, and takes the answer that came
    quickest. It is known to half of the time that this answer took, whatever the way there and the way back took each.
options:
  address:
    description: Address of the host that answers.
    type: str
    required: true
  port:
    description: Port at which it answers.
    type: int
    required: true
  questions:
    description: How many questions are asked.
    type: int
    default: 20
  bound:
    description:
      - Seconds by which the clocks may differ, beyond what may be the measurement's error. The module does not fail if they do, or
        if nobody answers, but says so in RV(trouble), so that what answers can be ended first.
    type: float
    default: 0.02
  name:
    description: What this host is called in messages.
    type: str
    default: this host
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
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
  description: What was found, in seconds.
  returned: always
  type: dict
  contains:
    host:
      description: O(name).
      type: str
    offset:
      description: By how much this host's clock is ahead of the other one (below 0, behind); null if nobody answered.
      type: float
      sample: 0.00012
    error:
      description: By how much that may be wrong; null if nobody answered.
      type: float
      sample: 0.0001
    answers:
      description: How many questions were answered.
      type: int
      sample: 20
trouble:
  description: Why this host's clock cannot be worked with, and what to do, in a line; empty if it agrees.
  returned: always
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.clock import clock_offset


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "questions": {"type": "int", "default": clock_offset.QUESTIONS},
            "bound": {"type": "float", "default": 0.02},
            "name": {"type": "str", "default": "this host"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    reason = ""
    found: clock_offset.Offset | None = None
    try:
        found = clock_offset.measure(asked["address"], asked["port"], asked["questions"])
    except OSError as error:
        reason = error.strerror or str(error)
    clock: dict[str, Any] = {"host": asked["name"], "offset": None, "error": None, "answers": 0}
    if found is not None:
        clock |= {"offset": round(found.seconds, 9), "error": round(found.error, 9), "answers": found.answers}
    where = f"{asked['address']}:{asked['port']}"
    module.exit_json(changed=False, clock=clock, trouble=clock_offset.trouble(found, asked["bound"], asked["name"], where, reason))


if __name__ == "__main__":
    main()
