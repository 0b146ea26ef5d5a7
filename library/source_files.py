#!/usr/bin/python
"""Ansible module: writes the source files of a program into its build folder."""

from __future__ import annotations

DOCUMENTATION = r"""
module: source_files
short_description: Write the source files of a program into one folder
description:
  - Writes all files in one task. M(ansible.builtin.copy) in a loop takes some tenths of a second for each file.
  - Each file is written atomically. Other files in the folder stay.
options:
  dest:
    description: Folder on the host, which exists unless in check mode.
    type: path
    required: true
  files:
    description: Content of the files by their names. A name has no folder.
    type: dict
    required: true
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Write the source files
  source_files:
    dest: /var/lib/slurm-mirage/mirage/src/program
    files:
      Makefile: "{{ lookup('ansible.builtin.file', 'Makefile', rstrip=false) }}"
      program.c: "{{ lookup('ansible.builtin.file', 'program.c', rstrip=false) }}"
"""

RETURN = "{}"

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={"dest": {"type": "path", "required": True}, "files": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    folder, files = Path(module.params["dest"]), module.params["files"]
    if wrong := [name for name in files if Path(name).name != name or name in ("", "..")]:
        module.fail_json(msg=f"files: {wrong[0]!r} is no name of a file in one folder")
    changed = [name for name, content in files.items() if differs(folder / name, content)]
    if not module.check_mode:
        for name in changed:
            write_atomically(folder / name, files[name])
    module.exit_json(changed=bool(changed))


if __name__ == "__main__":
    main()
