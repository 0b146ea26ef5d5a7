"""Checks what a cluster asks for against the release of Slurm that it is to run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import extras
from . import database, front_end, release_change
from .node_classes import node_classes


def check(parameters: Mapping[str, Any]) -> str:
    """Run all checks, by the parameters of the module slurm_release_info, and return the release. Raises WrongUse."""
    directory, count = Path(parameters["directory"]), parameters["front_ends"]
    slurm_conf = directory / "etc/slurm.conf"
    before = slurm_conf.read_text() if slurm_conf.exists() else ""
    commands = Path(parameters["bin"])
    is_installed = front_end.has_commands(commands)
    release = str(parameters["version"])
    if not release and is_installed:
        release = front_end.release_of(commands)
    if parameters["accounting"]:
        database.check_release(release)
    for of, _ in extras.wanted("configuration", "check", parameters["extras"]):
        of(release, parameters["accounting"], count)
    release_change.check(before, release, directory.name)
    front_end.check_change(before, count, directory.name)
    if count:
        front_end.check_nodes(node_classes(parameters["nodes"]))
        front_end.check_release(release, count)
        if is_installed:
            front_end.check_build(commands, release, count)
    return release
