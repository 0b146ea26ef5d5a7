#!/usr/bin/python
"""Ansible module: gives a host the munge key of another one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: munge_key
short_description: Have the munge key that another host has
description:
  - Writes a key in one step, so that it is never there in part, nor for a moment readable by others.
  - A key is 1024 bytes that are no text, which M(ansible.builtin.copy) cannot write from a variable.
options:
  path:
    description: File of the key.
    type: path
    required: true
  user:
    description: Account that owns it. It may be missing in check mode.
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
- name: Have the head's key
  munge_key:
    path: /var/lib/slurm-mirage/mirage/etc/munge.key
    user: slurm-mirage
    key: "{{ hostvars['head'].key.content }}"
  no_log: true
"""

RETURN = "{}"

import base64
import binascii
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically

SECRET = 0o600


def owner_of(user: str) -> tuple[int, int] | None:
    """(uid, gid) of the user; None when it is not there yet."""
    with suppress(KeyError):
        account = pwd.getpwnam(user)
        return account.pw_uid, account.pw_gid
    return None


def is_there(path: Path, key: bytes, owner: tuple[int, int] | None) -> bool:
    """Whether the file has that key, and only its owner may read it."""
    if differs(path, key):
        return False
    status = path.stat()
    return stat.S_IMODE(status.st_mode) == SECRET and (status.st_uid, status.st_gid) == owner


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
    changed = not is_there(path, key, owner)
    if changed and not module.check_mode:
        if owner is None:
            module.fail_json(msg=f"user: there is no account {module.params['user']}")
        write_atomically(path, key, SECRET, owner)
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
