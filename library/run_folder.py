#!/usr/bin/python
"""Ansible module: manages the folder of a run in an instance's directory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_folder
short_description: Manage the folder of a run in an instance's directory
description:
  - Creates C(runs/RUN) for the instance's user, with the plan and the settings of the replay, or removes it.
  - The folder C(runs) belongs to the instance's user, who can put anything there. The module follows no links, and fails with one
    line that names what it found. Modules that take a whole path, such as M(ansible.builtin.file), would follow them as root.
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run.
    type: str
    required: true
  user:
    description: The instance's user, who gets the folder. Required with O(state=present).
    type: str
  plan:
    description: File with the plan, in a folder that belongs to root. If omitted, the folder gets no plan.
    type: path
  plan_sha256:
    description:
      - SHA-256 of the plan in hexadecimal digits. Required with O(plan).
      - The module fails if the folder has another plan, because the journal in the folder belongs to that plan.
    type: str
  settings:
    description: Content of C(run.json). If omitted, the file is not written.
    type: json
  folders:
    description: Further folders of the instance's directory to remove with O(state=absent).
    type: list
    elements: str
    default: []
  state:
    description: Whether the folder exists.
    type: str
    choices: [present, absent]
    default: present
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Create the run's folder
  run_folder:
    instance: /var/lib/slurm-mirage/mirage
    run: first
    user: slurm-mirage
"""

RETURN = r"""
{}
"""

import hashlib
import os
import pwd
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import user_folders
from ansible.module_utils.slurm_mirage.base.errors import WrongUse

PLAN, SETTINGS = "plan.csv", "run.json"
LARGEST = 4 << 30  # bytes of a plan
BLOCK = 1 << 20


def digest_of(folder: user_folders.Folder, name: str) -> str | None:
    """SHA-256 of a file; None if there is none. Raises WrongUse."""
    try:
        descriptor = folder.open(name)
    except FileNotFoundError:
        return None
    digest, left = hashlib.sha256(), LARGEST
    with os.fdopen(descriptor, "rb") as stream:
        while left > 0 and (block := stream.read(BLOCK)):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def owner_of(user: str) -> tuple[int, int] | None:
    """User and group id of an account; None if this process does not run as root. Raises WrongUse."""
    try:
        account = pwd.getpwnam(user)
    except KeyError as error:
        raise WrongUse(f"user: there is no account {user}") from error
    return (account.pw_uid, account.pw_gid) if os.geteuid() == 0 else None


def write(folder: user_folders.Folder, parameters: dict[str, Any], check_mode: bool) -> bool:
    """Write the plan and the settings into the run's folder; returns whether they differed. Raises WrongUse."""
    changed = False
    if parameters["plan"] is not None:
        earlier = digest_of(folder, PLAN)
        if earlier not in (None, parameters["plan_sha256"]):
            raise WrongUse(
                f"{folder.path} on the head belongs to a run with other inputs; remove the folder, or choose another RUN",
                parameter="run",
                value=parameters["run"],
            )
        if earlier is None:
            changed = True
            if not check_mode:
                folder.write_atomically(PLAN, Path(parameters["plan"]).read_bytes())
    if parameters["settings"] is not None:
        content = f"{parameters['settings'].rstrip()}\n".encode()
        if not folder.is_file(SETTINGS) or folder.read_bytes(SETTINGS, user_folders.SMALL) != content:
            changed = True
            if not check_mode:
                folder.write_atomically(SETTINGS, content)
    return changed


def ensure_present(parameters: dict[str, Any], check_mode: bool) -> bool:
    """Create the folder with its files; returns whether anything changed. Raises WrongUse."""
    directory, relative = Path(parameters["instance"]), f"runs/{parameters['run']}"
    if check_mode and user_folders.status(directory, relative) is None:
        return True
    changed = not check_mode and user_folders.make_folder(directory, relative, 0o755, owner_of(parameters["user"]))
    with user_folders.open_folder(directory, relative) as folder:
        return write(folder, parameters, check_mode) or changed


def ensure_absent(parameters: dict[str, Any], check_mode: bool) -> bool:
    """Remove the folder and the further ones; returns whether one was there. Raises WrongUse."""
    directory = Path(parameters["instance"])
    if not directory.is_dir():
        return False
    paths = [f"runs/{parameters['run']}", *parameters["folders"]]
    found = [path for path in paths if user_folders.status(directory, path) is not None]
    if not check_mode:
        for path in found:
            user_folders.remove(directory, path)
    return bool(found)


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "run": {"type": "str", "required": True},
            "user": {"type": "str"},
            "plan": {"type": "path"},
            "plan_sha256": {"type": "str"},
            "settings": {"type": "json"},
            "folders": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["user"])],
        required_by={"plan": ["plan_sha256"]},
        supports_check_mode=True,
    )
    ensure = ensure_present if module.params["state"] == "present" else ensure_absent
    try:
        module.exit_json(changed=ensure(module.params, module.check_mode))
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except OSError as error:
        module.fail_json(msg=f"failed: {error}")


if __name__ == "__main__":
    main()
