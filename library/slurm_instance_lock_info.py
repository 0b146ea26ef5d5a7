#!/usr/bin/python
"""Ansible module: returns which work goes on in an instance."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_instance_lock_info
short_description: Tell which experiment works with an instance
description:
  - Returns who holds the lock of an instance (M(slurm_instance_lock)), or which replay runs in it. Reads only.
extends_documentation_fragment: [shared, shared.directory]
"""

EXAMPLES = r"""
- name: Ask whether an experiment works with the instance
  slurm_instance_lock_info:
    directory: /var/lib/slurm-mirage/mirage
  register: work
"""

RETURN = r"""
order:
  description: Name of the experiment, sweep or comparison; empty if there is none.
  returned: always
  type: str
by_whom:
  description: When it began, and by whom, in words; empty if that is not known.
  returned: always
  type: str
  sample: (started 12:03 by root@host in /root/slurm-mirage)
"""

from pathlib import Path

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.instance_lock import work_in


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    try:
        work = work_in(Path(module.params["directory"]))
    except OSError as error:
        raise RuntimeError(f"failed: the lock of the instance: {error}") from error
    return {"order": work.order if work else "", "by_whom": work.by_whom if work else ""}


if __name__ == "__main__":
    main()
