#!/usr/bin/python
"""Ansible module: writes the accounting records of a run's jobs to a file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounting_record
short_description: Write the accounting records of a run's jobs
description:
  - Calls C(sacct) once, in the cluster's virtual time (UTC), for all jobs since the start of the run, and selects the run's jobs by
    their names.
  - C(make metrics) and C(make experiment) can read the file as TRACE. Its times are virtual times, shrunk like the workload.
options:
  instance:
    description: Directory of the instance, which must have accounting.
    type: path
    required: true
  run:
    description: Name of the run, whose folder in C(runs) contains the journal.
    type: str
    required: true
  bin:
    description: Folder with sacct.
    type: path
    default: /usr/bin
  dest:
    description: File to write, in a folder that belongs to root.
    type: path
    required: true
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Write Slurm's accounting records
  slurm_accounting_record:
    instance: /var/lib/slurm-mirage/mirage
    run: kth
    dest: /var/lib/slurm-mirage/mirage/transfer/kth/sacct.txt
"""

RETURN = r"""
jobs:
  description: Number of lines in the file, without its heading.
  returned: not in check mode
  type: int
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically
from ansible.module_utils.slurm_mirage.replay.journal import start_of
from ansible.module_utils.slurm_mirage.rm.api import ResourceManagerError
from ansible.module_utils.slurm_mirage.rm.slurm.account_commands import AccountCommands
from ansible.module_utils.slurm_mirage.rm.slurm.accounting import lines_of_run


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "run": {"type": "str", "required": True},
            "bin": {"type": "path", "default": "/usr/bin"},
            "dest": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    directory, run, dest = Path(module.params["instance"]), module.params["run"], Path(module.params["dest"])
    if module.check_mode:
        module.exit_json(changed=not dest.exists())
    try:
        start = start_of(directory, run)
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    if start is None:
        module.fail_json(msg=f"wrong use: RUN={run}: it has not begun in {directory}")
    try:
        output = AccountCommands(directory, module.params["bin"]).record(float(start["virtual"]))
    except ResourceManagerError as error:
        module.fail_json(msg=str(error))
    lines = lines_of_run(output, run)
    content = "".join(f"{line}\n" for line in lines)
    changed = differs(dest, content)
    if changed:
        write_atomically(dest, content)
    module.exit_json(changed=changed, jobs=len(lines) - 1)


if __name__ == "__main__":
    main()
