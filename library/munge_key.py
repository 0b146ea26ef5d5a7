#!/usr/bin/python
"""Ansible module: writes the munge key of another host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_key
short_description: Write a munge key
description:
  - Writes the key atomically, so that the file is never incomplete and never readable by other users.
  - A key is binary data, which M(ansible.builtin.copy) cannot write from a variable.
options:
  path:
    description: File of the key.
    type: path
    required: true
  user:
    description: Account that owns the file. In check mode it may not exist yet.
    type: str
    required: true
  key:
    description: The key in base64, as M(ansible.builtin.slurp) returns it.
    type: str
    required: true
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Write the head's munge key
  munge_key:
    path: /var/lib/slurm-mirage/mirage/etc/munge.key
    user: slurm-mirage
    key: "{{ hostvars['head'].key.content }}"
  no_log: true
"""

RETURN = "{}"

import base64
import binascii
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.files import is_as_wanted, owner_of, write_atomically

SECRET = 0o600


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "user": {"type": "str", "required": True},
            "key": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    path, owner = Path(module.params["path"]), owner_of(module.params["user"])
    try:
        key = base64.b64decode(module.params["key"], validate=True)
    except binascii.Error:
        module.fail_json(msg="key: is not base64")
    changed = owner is None or not is_as_wanted(path, key, SECRET, owner)
    if changed and not module.check_mode:
        if owner is None:
            module.fail_json(msg=f"user: there is no account {module.params['user']}")
        write_atomically(path, key, SECRET, owner)
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
