#!/usr/bin/python
"""Ansible module: what the daemons of a host complained about during a run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_complaints_info
short_description: What the daemons of a host complained about during a run
description:
  - Looks through the logs of slurmctld and of the slurmd that the instance has on this host, and counts complaints by kind.
  - To be asked on the head first, which knows from when to when the run went. Other hosts are given what it returned as O(span).
  - Reads only.
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run, whose folder in C(runs) has the journal. Either this or O(span).
    type: str
  span:
    description: From when to when the run went, as this module returned it on the head.
    type: dict
    suboptions:
      real:
        description: Real seconds since the epoch.
        type: float
        required: true
      virtual:
        description: The same moment in virtual seconds.
        type: float
        required: true
      until:
        description: The end, in virtual seconds. Without one it goes on.
        type: float
  lines:
    description: How many lines of each kind are returned.
    type: int
    default: 20
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: See what slurmctld complained about
  slurm_complaints_info:
    instance: /var/lib/slurm-mirage/mirage
    run: kth
  register: found

- name: See what the slurmd of another host complained about
  slurm_complaints_info:
    instance: /var/lib/slurm-mirage/mirage
    span: "{{ found.span }}"
"""

RETURN = r"""
span:
  description: From when to when, as O(span). Without a journal of a run that has begun it is empty, and so is all else.
  returned: always
  type: dict
counts:
  description: How many complaints of each kind.
  returned: always
  type: dict
  sample: {time-out: 3}
lines:
  description: The first of each kind, with the log that they stand in.
  returned: always
  type: list
  elements: str
  sample: ["slurmd.n3.log: [2026-11-21T10:00:00.123] error: connect: Connection timed out"]
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import read_json
from ansible.module_utils.slurm_mirage.replay.journal import start_of
from ansible.module_utils.slurm_mirage.rm.slurm.daemon_log import Complaint, Span, by_kind, complaints


def span_of(folder: Path) -> tuple[dict[str, Any], int]:
    """From when to when the run in `folder` went, and how many bytes slurmctld.log had when it began. Empty before it has begun."""
    start = start_of(folder / "journal.jsonl")
    if start is None:
        return {}, 0
    result, settings = read_json(folder / "result.json"), read_json(folder / "run.json")
    until = None
    if result and settings:
        until = start["virtual"] + (result["ended"] - start["real"]) * settings["speed"]
    return {"real": start["real"], "virtual": start["virtual"], "until": until}, start["controller_log_offset"]


def first_of_each(found: list[Complaint], most: int) -> list[str]:
    """As many lines of each kind, in the order of the logs."""
    seen: dict[str, int] = {}
    lines = []
    for one in found:
        seen[one.kind] = seen.get(one.kind, 0) + 1
        if seen[one.kind] <= most:
            lines.append(f"{one.log}: {one.line}")
    return lines


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "run": {"type": "str"},
            "span": {
                "type": "dict",
                "options": {
                    "real": {"type": "float", "required": True},
                    "virtual": {"type": "float", "required": True},
                    "until": {"type": "float"},
                },
            },
            "lines": {"type": "int", "default": 20},
        },
        mutually_exclusive=[("run", "span")],
        required_one_of=[("run", "span")],
        supports_check_mode=True,
    )
    instance, span, offset = Path(module.params["instance"]), module.params["span"], 0
    try:
        if span is None:
            span, offset = span_of(instance / "runs" / module.params["run"])
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    found = list(complaints(instance / "log", Span(**span), offset)) if span else []
    module.exit_json(changed=False, span=span, counts=by_kind(found), lines=first_of_each(found, module.params["lines"]))


if __name__ == "__main__":
    main()
