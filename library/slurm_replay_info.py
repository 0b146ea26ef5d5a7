#!/usr/bin/python
"""Ansible module: returns the progress of a replay."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_replay_info
short_description: Gather the progress of a replay
description:
  - Reads the C(progress.json) that the replay writes once a second. Changes nothing.
  - Ends its wait when munged, slurmctld or the database ends again and again, because the replay then waits in vain.
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run.
    type: str
    required: true
  wait:
    description: Seconds to wait for the end of the replay. V(0) returns immediately.
    type: float
    default: 0
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
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

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import user_folders
from ansible.module_utils.slurm_mirage.base.disk import no_space
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.run_files import PROGRESS
from ansible.module_utils.slurm_mirage.base.run_lock import lock_holder
from ansible.module_utils.slurm_mirage.farm.daemons import CONTROLLERS, PREREQUISITES
from ansible.module_utils.slurm_mirage.farm.events import full_folders, read_events
from ansible.module_utils.slurm_mirage.farm.farm import failure_of, read_state

ENDED = ("finished", "failed", "stopped")
NEEDED = (*PREREQUISITES, *CONTROLLERS)
SIGN_WITHIN = 5.0  # seconds before the last progress of a replay in which its disk may have become full
FAILING_FOR = 10.0  # seconds for which a daemon has to fail before the wait ends


def state_of(directory: Path, run: str) -> dict[str, Any]:
    """The module's result: whether the replay runs, and its progress. Raises WrongUse."""
    running = lock_holder(directory, run) is not None
    progress = user_folders.read_json(directory, f"runs/{run}/progress.json", PROGRESS) or {}
    failure = ""
    if progress and not running and progress.get("phase") != "finished":
        if progress.get("phase") not in ENDED:
            progress["message"] = "the replay was killed; the same command goes on"
        failure = lack_of_space(directory, progress.get("real")) or failure_of_daemons(directory)
    return {"changed": False, "running": running, "failure": failure, "progress": progress}


def lack_of_space(directory: Path, since: Any) -> str:
    """Error message for a folder of the instance that is full, or was at the last sign of the replay, `since` (real seconds)."""
    full = [str(path) for path in full_folders(directory).values()]
    if isinstance(since, (int, float)):
        full += [event["path"] for event in read_events(directory, since - SIGN_WITHIN) if event["event"] == "full"]
    return no_space(full[0]) if full else ""


def failure_of_daemons(directory: Path) -> str:
    """Error message for a daemon that the replay needs and that does not start."""
    state = read_state(directory)
    return "" if state is None else failure_of(state, directory, NEEDED)


def lack_of_state_space(directory: Path) -> str:
    """Error message for a folder that is full and without which slurmctld accepts no job and starts none."""
    full = [path for path in full_folders(directory).values() if path.name != "log"]
    return no_space(full[0]) if full else ""


def follow(directory: Path, run: str, wait: float) -> dict[str, Any]:
    """Wait until the replay has ended or cannot go on, at most `wait` seconds; returns the module's result. Raises WrongUse."""
    deadline = time.monotonic() + wait
    well = time.monotonic()
    while True:
        result = state_of(directory, run)
        if not result["running"]:
            return result
        failure, now = failure_of_daemons(directory) or lack_of_state_space(directory), time.monotonic()
        if not failure:
            well = now
        elif now - well >= min(FAILING_FOR, wait):
            return {**result, "failure": failure}
        if now >= deadline:
            return result
        time.sleep(min(deadline - now, 0.2))


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "run": {"type": "str", "required": True},
            "wait": {"type": "float", "default": 0},
        },
        supports_check_mode=True,
    )
    try:
        result = follow(Path(module.params["instance"]), module.params["run"], module.params["wait"])
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except OSError as error:
        module.fail_json(msg=f"failed: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
