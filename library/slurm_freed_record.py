#!/usr/bin/python
"""Ansible module: writes when the processors of each job of a run were free again, from slurmctld's log."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_freed_record
short_description: Write when the processors of each job were free again
description:
  - Slurm records the end of a job when the job begins to complete. Its processors are free when all of its nodes have completed it.
  - Reads both instants of each job from slurmctld's log, from the start of the run on, and writes them into a CSV file.
    The log can be a thousand times as large.
  - Without the settings C(SlurmctldDebug=verbose) and C(DebugFlags=TraceJobs), the log does not have them, and the file has only
    its heading.
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run, whose folder in C(runs) contains the journal.
    type: str
    required: true
  dest:
    description: File for the record. Its folder must belong to root.
    type: path
    required: true
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
    details: Writes nothing.
"""

EXAMPLES = r"""
- name: Write when the processors of the jobs of a run were free again
  slurm_freed_record:
    instance: /var/lib/slurm-mirage/mirage
    run: kth
    dest: /var/lib/slurm-mirage/mirage/transfer/kth/freed.csv
"""

RETURN = r"""
jobs:
  description: Number of jobs in the file.
  returned: not in check mode
  type: int
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically
from ansible.module_utils.slurm_mirage.replay.journal import start_of
from ansible.module_utils.slurm_mirage.rm.slurm.freed_processors import instants_in_log, to_csv


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "run": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    directory, run, dest = Path(module.params["instance"]), module.params["run"], Path(module.params["dest"])
    if module.check_mode:
        module.exit_json(changed=False)
    try:
        start = start_of(directory, run)
        if start is None:
            module.fail_json(msg=f"wrong use: RUN={run}: it has not begun in {directory}")
        instants = instants_in_log(directory / "log", int(start["controller_log_offset"]))
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    content = to_csv(instants)
    if differs(dest, content):
        write_atomically(dest, content)
    # The copy is fetched and removed: it is no state of the host.
    module.exit_json(changed=False, jobs=len(instants))


if __name__ == "__main__":
    main()
