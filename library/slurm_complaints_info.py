#!/usr/bin/python
"""Ansible module: counts errors in the logs of Slurm's daemons on a host during a run, and returns the farm's events."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_complaints_info
short_description: Gather errors from the daemons' logs during a run
description:
  - Searches the logs of the controller and of the instance's nodes on this host for errors, and counts them by kind.
  - Returns the events of this host's farm, which are unexpected ends of daemons and full folders.
  - Run it on the head first, with O(run). The head returns the time span of the run; pass it to the other hosts as O(span).
  - Changes nothing.
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run, whose folder in C(runs) contains the journal. Mutually exclusive with O(span).
    type: str
  span:
    description: Time span of the run, as this module returned it on the head.
    type: dict
    suboptions:
      real:
        description: Start of the run, in real seconds since the epoch.
        type: float
        required: true
      virtual:
        description: Start of the run, in virtual seconds since the epoch.
        type: float
        required: true
      until:
        description: End of the run, in virtual seconds since the epoch. Omitted while the run is in progress.
        type: float
      ended:
        description: End of the run, in real seconds since the epoch. Omitted while the run is in progress.
        type: float
  lines:
    description: Number of lines of each kind that are returned.
    type: int
    default: 20
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Gather errors of the head's daemons
  slurm_complaints_info:
    instance: /var/lib/slurm-mirage/mirage
    run: kth
  register: head_errors

- name: Gather errors of the slurmd of another host
  slurm_complaints_info:
    instance: /var/lib/slurm-mirage/mirage
    span: "{{ head_errors.span }}"
"""

RETURN = r"""
span:
  description: Time span of the run, as O(span). If the run has not started, it is empty, and so are the other values.
  returned: always
  type: dict
counts:
  description: Number of errors by kind.
  returned: always
  type: dict
  sample: {time-out: 3}
events:
  description: The events of the farm, in order; the package's C(farm/events.py) describes them.
  returned: always
  type: list
  elements: dict
  sample: [{event: full, path: /var/lib/slurm-mirage/mirage/log, real: 1700000000.5}]
lines:
  description: The first lines of each kind, with the name of their log.
  returned: always
  type: list
  elements: str
  sample: ["slurmd.n3.log: [2026-11-21T10:00:00.123] error: connect: Connection timed out"]
"""

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import user_folders
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.farm.events import full_folders, read_events
from ansible.module_utils.slurm_mirage.replay.journal import start_of
from ansible.module_utils.slurm_mirage.rm.evidence import Complaint, Span
from ansible.module_utils.slurm_mirage.rm.registry import manager_of, tools


def span_of(instance: Path, run: str) -> tuple[dict[str, Any], int]:
    """Return the time span of a run, empty when it has not started, and the size of the controller's log then. Raises WrongUse."""
    start = start_of(instance, run)
    if start is None:
        return {}, 0
    result, settings = (user_folders.read_json(instance, f"runs/{run}/{name}.json") for name in ("result", "run"))
    until = ended = None
    if result and settings:
        ended = result["ended"]
        until = start["virtual"] + (ended - start["real"]) * settings["speed"]
    # On an event clock the replay lives in virtual time, but not the farm.
    outside = (result or {}).get("outside") or {}
    real, ended = start.get("outside", start["real"]), outside.get("ended", ended)
    return {"real": real, "virtual": start["virtual"], "until": until, "ended": ended}, start["controller_log_offset"]


def with_full_folders(instance: Path, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events, and one for each folder that is full now: the farm cannot note it if the disk with its events is full."""
    noted = {event["path"] for event in events if event["event"] == "full"}
    now = round(time.time(), 3)
    full = [str(path) for path in full_folders(instance).values()]
    return [*events, *({"event": "full", "real": now, "path": path} for path in full if path not in noted)]


def first_of_each(errors: list[Complaint], most: int) -> list[str]:
    """Return the first `most` lines of each kind, in the order of the logs."""
    counts: dict[str, int] = {}
    lines = []
    for complaint in errors:
        counts[complaint.kind] = counts.get(complaint.kind, 0) + 1
        if counts[complaint.kind] <= most:
            lines.append(f"{complaint.log}: {complaint.line}")
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
                    "ended": {"type": "float"},
                },
            },
            "lines": {"type": "int", "default": 20},
        },
        mutually_exclusive=[("run", "span")],
        required_one_of=[("run", "span")],
        supports_check_mode=True,
    )
    instance, span, offset = Path(module.params["instance"]), module.params["span"], 0
    manager = tools(manager_of(instance))
    try:
        if span is None:
            span, offset = span_of(instance, module.params["run"])
        of_logs = Span(span["real"], span["virtual"], span["until"]) if span else None
        errors = list(manager.complaints(instance, of_logs, offset)) if of_logs else []
        events = with_full_folders(instance, read_events(instance, span["real"], span["ended"])) if span else []
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except (KeyError, TypeError, ValueError) as error:
        module.fail_json(msg=f"wrong use: RUN={module.params['run']}: its journal or result.json is damaged: {error!r}")
    lines = first_of_each(errors, module.params["lines"])
    module.exit_json(changed=False, span=span, counts=manager.by_kind(errors), lines=lines, events=events)


if __name__ == "__main__":
    main()
