"""The daemons of a sandbox: slurmrestd, and slurmd as root of a user namespace, so that jobs run as the users who submit them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base import processes
from ...base.files import read_json
from ...rm.daemon_kinds import DaemonKind, Role
from ...rm.slurm import job_users
from . import users
from .addresses import ADDRESS

SLURMRESTD = DaemonKind("slurmrestd", Role.SERVICE, "Slurm", uses_clock=False)
SLURM = (SLURMRESTD,)
"""Kinds of daemons in a cluster of Slurm."""
USER_NAMESPACE = {"first": processes.NAMED_USERS.start, "count": len(processes.NAMED_USERS)}
"""User and group ids that are the same in the user namespace as on the host (`farm.daemons.Spec`)."""
INSIDE = "SLURM_MIRAGE_INSIDE"
"""Environment variable by which files/job_users knows that it is in the user namespace. Its value is its root outside."""


def of_slurm(directory: Path, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """slurmrestd, on the host of slurmctld, as a user of its own. It takes tokens only."""
    if not options["controller"]:
        return []
    port = read_json(directory / "instance.json")["rest_port"]
    return [
        {
            "kind": SLURMRESTD.name,
            "name": "slurmrestd",
            "command": [f"{options['sbin']}/slurmrestd", "-a", "rest_auth/jwt", f"{ADDRESS}:{port}"],
            "digest": options["controller_digest"],
            "ready_file": "",
            "ready_port": port,
            "inside": users.REST,
            "environment": {
                "SLURM_CONF": f"{directory}/etc/slurm.conf",
                # Releases before 21.08 ask for a token of their own; this word stands for none.
                "SLURM_JWT": "daemon",
                **job_users.preload(directory),
            },
        }
    ]


def changed(directory: Path, daemon: dict[str, Any]) -> dict[str, Any]:
    """slurmd in the user namespace, as its root; other daemons as they are."""
    if daemon["kind"] != "slurmd":
        return daemon
    inside = {INSIDE: str(processes.instance_user(str(directory)))}
    return daemon | {"inside": 0, "environment": {**daemon.get("environment", {}), **inside}}
