#!/usr/bin/python
"""Ansible module: builds programs of this project on the host from their source."""

from __future__ import annotations

DOCUMENTATION = r"""
module: compiled_program
short_description: Build programs from their source on the host
description:
  - Writes the source files into a folder, calls C(make) for each program, and installs what was built.
  - The digest of the source is kept beside each program (C(PATH.source)). A program whose source has not changed is not built
    again.
  - A program is installed by renaming, so that processes that run the old one, or have it mapped, keep it.
extends_documentation_fragment: [shared]
options:
  build:
    description: Folder of the build on the host.
    type: path
    required: true
  files:
    description: Content of the source files by their names, including the Makefile. A name has no folder.
    type: dict
    required: true
  results:
    description: The programs to build. The file name of each is a target of the Makefile.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Where the program is installed.
        type: path
        required: true
      mode:
        description: Its mode, in octal.
        type: str
        default: "0755"
"""

EXAMPLES = r"""
- name: Build a program
  compiled_program:
    build: /var/lib/slurm-mirage/mirage/src/program
    files:
      Makefile: "{{ lookup('ansible.builtin.file', 'Makefile', rstrip=false) }}"
      program.c: "{{ lookup('ansible.builtin.file', 'program.c', rstrip=false) }}"
    results:
      - path: /var/lib/slurm-mirage/mirage/bin/program
"""

RETURN = r"""
built:
  description: Paths of the programs that were built, or would be in check mode.
  returned: always
  type: list
  elements: str
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.files import differs, write_atomically


def source_of(path: Path) -> Path:
    """The file with the digest of the source that the program was built from."""
    return path.with_name(f"{path.name}.source")


def build(module: AnsibleModule, digest: str, outdated: list[dict[str, Any]]) -> None:
    """Build and install the programs. Ends the module if make fails."""
    folder, files = Path(module.params["build"]), module.params["files"]
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        if differs(folder / name, files[name]):
            write_atomically(folder / name, files[name])
    make = module.get_bin_path("make", required=True)
    for result in outdated:
        path = Path(result["path"])
        code, output, errors = module.run_command([make, "-C", str(folder), path.name])
        if code != 0:
            words = (errors or output).strip().splitlines() or ["make failed"]
            module.fail_json(msg=f"{path.name} cannot be built: {words[-1]}", stdout=output, stderr=errors)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (folder / path.name).read_bytes(), int(result["mode"], 8))
        write_atomically(source_of(path), digest)


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    files = module.params["files"]
    if wrong := [name for name in files if Path(name).name != name or name in ("", "..")]:
        raise RuntimeError(f"files: {wrong[0]!r} is not a file name without a folder")
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    outdated = [
        result
        for result in module.params["results"]
        if not Path(result["path"]).exists() or differs(source_of(Path(result["path"])), digest)
    ]
    if outdated and not module.check_mode:
        build(module, digest, outdated)
    return {"changed": bool(outdated), "built": [result["path"] for result in outdated]}


if __name__ == "__main__":
    main()
