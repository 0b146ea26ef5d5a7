#!/usr/bin/python
"""Ansible module: copies the records of a run into a folder of root's, from which they can be fetched."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_records
short_description: Copy the records of a run into a folder that belongs to root
description:
  - Copies files from the folders of an instance's user into O(dest), which belongs to root and nobody else may enter.
  - The instance's user can put anything into its folders, such as a link to a file that only root may read, and
    M(ansible.builtin.fetch) would follow it as root. The module copies regular files only, and fails with one line that names
    anything else.
  - The file system shares the blocks of the copies if it can; otherwise they need the same space again until they are removed.
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  files:
    description: Paths of the files, relative to O(instance). Missing files are left out.
    type: list
    elements: str
    required: true
  dest:
    description: Folder for the copies, which have the names of the files. Copies that are there are replaced.
    type: path
    required: true
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
    details: Copies nothing.
"""

EXAMPLES = r"""
- name: Copy the records
  run_records:
    instance: /var/lib/slurm-mirage/mirage
    files: [runs/first/journal.jsonl, log/jobcomp.log]
    dest: /var/lib/slurm-mirage/mirage/transfer/first
"""

RETURN = r"""
copied:
  description: Names of the files that are in O(dest), and not in check mode.
  returned: always
  type: list
  elements: str
"""

import os
from pathlib import Path, PurePath

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base import user_folders
from ansible.module_utils.slurm_mirage.base.errors import WrongUse

LARGEST = 64 << 30  # bytes of a record
BLOCK = 1 << 24


def copy(directory: Path, relative: str, dest: Path) -> bool:
    """Copy a file into the folder `dest`; returns whether it exists. Raises WrongUse and OSError."""
    try:
        source = user_folders.open_file(directory, relative)
    except FileNotFoundError:
        return False
    try:
        size = os.fstat(source).st_size
        if size > LARGEST:
            raise WrongUse(f"{directory / relative}: is larger than {LARGEST} bytes")
        target = dest / PurePath(relative).name
        target.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        made = os.open(target, flags, 0o600)
        try:
            copy_content(source, made, size)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(made)
    finally:
        os.close(source)
    return True


def copy_content(source: int, target: int, size: int) -> None:
    """Copy `size` bytes, or as many as there are: a process may still add to the file."""
    left, in_kernel = size, hasattr(os, "copy_file_range")
    while left > 0:
        if in_kernel:
            try:
                done = os.copy_file_range(source, target, min(left, BLOCK))
            except OSError:  # not between these file systems
                in_kernel = False
                continue
        else:
            data = os.read(source, min(left, BLOCK))
            done = len(data)
            while data:
                data = data[os.write(target, data) :]
        if done == 0:
            return
        left -= done


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "path", "required": True},
            "files": {"type": "list", "elements": "str", "required": True},
            "dest": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, copied=[])
    directory, dest = Path(module.params["instance"]), Path(module.params["dest"])
    try:
        for folder in (dest.parent, dest):
            folder.mkdir(mode=0o700, exist_ok=True)
        copied = [PurePath(path).name for path in module.params["files"] if copy(directory, path, dest)]
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except OSError as error:
        module.fail_json(msg=f"failed: {error}")
    # The copies are fetched and removed: they are no state of the host.
    module.exit_json(changed=False, copied=copied)


if __name__ == "__main__":
    main()
