#!/usr/bin/python
"""Ansible module: takes, renews and releases the lock of an instance."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_instance_lock
short_description: Take or release the lock of an instance
description:
  - One experiment, sweep or comparison works with an instance at a time. It takes the lock of the instance on the head before it
    changes anything, and releases it when its records have been collected.
  - The lock ends with the processes on the head that stand for its holder, that is C(ansible-playbook) with a local connection and
    the C(sshd) of the connection otherwise, and not before the end of a replay in the instance. Nobody has to remove the lock of a
    killed holder.
  - A lock is not configuration, so RV(ignore:changed) is never true, except when the lock is removed by O(state=absent).
extends_documentation_fragment: [shared]
options:
  directory:
    description: Directory of the instance, which need not exist. The lock is a file beside it.
    type: path
    required: true
  run:
    description: Name of the run. Required unless O(state=absent).
    type: str
  holder:
    description:
      - Who holds the lock, as a mapping of order, who, place, machine, pid and started, which C(make) passes. The holder of all
        runs of a sweep or comparison is the same.
      - If it is empty, the holder is the C(ansible-playbook) that calls this module, or the connection.
    type: dict
    default: {}
  state:
    description:
      - With V(taken), takes or renews the lock. Fails, and says who has it, if that is another holder.
      - With V(released), releases the lock if the holder has it.
      - With V(absent), removes the lock, whoever holds it.
    type: str
    choices: [taken, released, absent]
    default: taken
"""

EXAMPLES = r"""
- name: Take the lock of the instance
  slurm_instance_lock:
    directory: /var/lib/slurm-mirage/mirage
    run: first

- name: Release it
  slurm_instance_lock:
    directory: /var/lib/slurm-mirage/mirage
    run: first
    state: released
"""

RETURN = r"""
busy:
  description: Whether the module failed because another holder has the lock.
  returned: on failure
  type: bool
"""

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.instance import instance_lock


@module_main(DOCUMENTATION, required_if=[("state", "taken", ["run"]), ("state", "released", ["run"])])
def main(module: AnsibleModule) -> Result:
    try:
        return {"changed": instance_lock.apply(module.params, module.check_mode)}
    except WrongUse as error:
        module.fail_json(msg=error.module_message(), busy=isinstance(error, instance_lock.Busy))
    except OSError as error:
        module.fail_json(msg=f"failed: the lock of the instance: {error}", busy=False)


if __name__ == "__main__":
    main()
