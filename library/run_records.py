#!/usr/bin/python
"""Ansible module: packs the records of a run on a host into an archive for the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_records
short_description: Pack the records of a run on a host
description:
  - Writes a tar archive that only root can read, from files of the instance's user and from what the daemons answer.
  - Ansible's own modules would follow a link that the instance's user has planted, as root.
  - On the head it also has the configuration in force, the jobs that have not ended, when the processors of jobs were free again
    (C(freed.csv), from slurmctld's log) and, with O(accounting), the lines of C(sacct) for the run's jobs.
  - On another host with a second slurmctld it also has C(freed.csv), from the log of that one.
extends_documentation_fragment: [shared, shared.run]
options:
  files:
    description:
      - Paths of the records, relative to O(instance). Those that do not exist are left out.
      - On the head, those of the resource manager are added.
    type: list
    elements: str
    required: true
  host:
    description: Name of this host in C(complaints.json).
    type: str
    required: true
  span:
    description: On a host that is not the head, the time span of the run as the module returns it on the head.
    type: dict
  bin:
    description: Folder of the resource manager's commands, by default that of the release that the farm runs.
    type: path
  accounting:
    description: Whether the instance has accounting.
    type: bool
    default: false
  dest:
    description: Path of the archive. Its folder belongs to root.
    type: path
    required: true
attributes:
  check_mode:
    details: Writes nothing.
"""

EXAMPLES = r"""
- name: Pack the records
  run_records:
    instance: /var/lib/slurm-mirage/mirage
    run: kth
    files: [runs/kth/journal.jsonl]
    host: head1
    dest: /var/lib/slurm-mirage/mirage/transfer/kth.tar.gz
"""

RETURN = r"""
names:
  description: Names of the files in the archive.
  returned: not in check mode
  type: list
  elements: str
span:
  description: Time span of the run; empty if it has not started. On the head only.
  returned: not in check mode
  type: dict
"""

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.collection.archive import pack


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    try:
        # The archive is fetched and removed, so it is not part of the host's state.
        return {} if module.check_mode else pack(module.params)
    except (KeyError, TypeError, ValueError) as error:
        raise WrongUse(f"its journal or result.json is damaged: {error!r}", "run", module.params["run"]) from error


if __name__ == "__main__":
    main()
