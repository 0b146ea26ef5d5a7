"""Digests of all that a cluster is built from. The playbooks do nothing to a cluster whose digests have not changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from mirage import ROOT
from mirage.experiment import configuration
from mirage.experiment.preflight import INSTANCES
from mirage.knobs.table import BY_NAME
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import file_digest, undamaged_json
from slurm_mirage.instance.standing import RECORD

CODE = ("roles", "library", "module_utils", "playbooks", "inventories/common", "files", "ansible.cfg", "requirements.txt")
OF_EXTRAS = ("host", "roles", "library", "tasks", "files")
"""Folders of an extra (mirage_extras) that affect a cluster."""
SOURCES = {"", ".c", ".cfg", ".h", ".j2", ".py", ".sh", ".txt", ".yml"}
"""Suffixes of the project's files that affect a cluster. Compiled files are not among them."""
OF_A_RUN = ("experiment_", "mirage_fresh")
"""Prefixes of the variables that affect a run but not its cluster."""
OF_A_CONFIGURATION = "mirage_config"


class Work(Enum):
    """Changes that a cluster needs before a run: none, another configuration for slurmctld, or a build."""

    NONE = "none"
    CONFIGURE = "configure"
    BUILD = "build"


def work_left(variables: Mapping[str, Any], inventory: Path) -> Work:
    """Compare the inputs of a cluster on this machine with the record of its last build. Does not check whether its daemons run.

    A cluster on other machines is compared with its inputs task by task, which takes as long as a build. One whose record this user
    may not read counts as up to date.
    variables: those of the cluster
    """
    record = INSTANCES / str(variables.get("mirage_cluster", BY_NAME["CLUSTER"].default)) / RECORD
    try:
        built = undamaged_json(record)
    except PermissionError:
        return Work.NONE
    if not built:
        return Work.BUILD
    wanted = digests(variables, inventory)
    if not wanted or built.get("inputs") != wanted["mirage_inputs"]:
        return Work.BUILD
    return Work.NONE if built.get("configuration") == wanted["mirage_configuration"] else Work.CONFIGURE


def digests(variables: Mapping[str, Any], inventory: Path) -> dict[str, str]:
    """The variables mirage_inputs and mirage_configuration of the playbooks (playbooks/standing.yml).

    They are missing where a change could not be noticed: for an inventory that is computed, and for an unknown configuration.
    variables: the extra variables of the playbook; inventory: its path, in the checkout if it is relative
    """
    name = str(variables.get(OF_A_CONFIGURATION, ""))
    path = ROOT / f"configs/{name}.yml"
    hosts = _hosts(ROOT / inventory)
    if hosts is None or not path.is_file():
        return {}
    try:
        accounting = configuration.read(path).accounting
    except WrongUse:
        return {}
    cluster = {key: value for key, value in variables.items() if not key.startswith(OF_A_RUN) and key != OF_A_CONFIGURATION}
    inputs = json.dumps([cluster, accounting, hosts, _code()], sort_keys=True, default=str)
    return {
        "mirage_inputs": hashlib.sha256(inputs.encode()).hexdigest()[:16],
        "mirage_configuration": file_digest(path),
    }


def _hosts(inventory: Path) -> dict[str, str] | None:
    """Digest of each file of an inventory; None if a program or a plugin computes it."""
    files = sorted(_files(inventory)) if inventory.is_dir() else [inventory]
    if any(os.access(path, os.X_OK) or any(line.startswith("plugin:") for line in _text(path).splitlines()) for path in files):
        return None
    return {str(path): file_digest(path) for path in files}


@cache
def _code() -> dict[str, str]:
    """Digest of each file of the project that affects a cluster."""
    extras = [path for name in OF_EXTRAS for path in sorted(ROOT.glob(f"mirage_extras/*/{name}"))]
    roots = [ROOT / name for name in CODE] + extras
    files = [path for root in roots for path in (sorted(_files(root)) if root.is_dir() else [root])]
    return {
        str(path.relative_to(ROOT)): file_digest(path)
        for path in files
        if path.is_file() and path.suffix in SOURCES and not _is_compiled(path)
    }


def _is_compiled(path: Path) -> bool:
    return not path.suffix and os.access(path, os.X_OK)


def _files(folder: Path) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(path, name) for name in names)


def _text(path: Path) -> str:
    return path.read_text(errors="replace")
