#!/usr/bin/python
"""Ansible module: writes the munge key of another host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_key
short_description: Write a munge key
description:
  - Writes the key atomically, so that the file is never incomplete and never readable by other users.
  - A key is binary data, which M(ansible.builtin.copy) cannot write from a variable.
extends_documentation_fragment: [shared]
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

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.files import is_as_wanted, owner_of, write_atomically

SECRET = 0o600


@module_main(DOCUMENTATION, secrets=["key"])
def main(module: AnsibleModule) -> Result:
    path, owner = Path(module.params["path"]), owner_of(module.params["user"])
    try:
        key = base64.b64decode(module.params["key"], validate=True)
    except binascii.Error:
        raise RuntimeError("key: is not base64") from None
    changed = owner is None or not is_as_wanted(path, key, SECRET, owner)
    if changed and not module.check_mode:
        if owner is None:
            raise RuntimeError(f"user: there is no account {module.params['user']}")
        write_atomically(path, key, SECRET, owner)
    return {"changed": changed}


if __name__ == "__main__":
    main()
