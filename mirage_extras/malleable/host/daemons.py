"""The broker as a daemon of the farm, beside slurmctld."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...rm.daemon_kinds import DaemonKind, Role

BROKER = DaemonKind("broker", Role.SERVICE, "Slurm")
SLURM = (BROKER,)
"""Kinds of daemons in a cluster of Slurm."""
SOCKET = "run/private/broker.socket"
"""The broker's socket in the instance's directory; jobs connect to it."""


def of_slurm(directory: Path, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The broker, on the host of slurmctld. The farm has the same code: when that changes, both are restarted."""
    if not options["controller"]:
        return []
    commands, socket = Path(options["sbin"]).parent / "bin", directory / SOCKET
    return [
        {
            "kind": BROKER.name,
            "name": "broker",
            "command": [
                options["python"],
                "-m",
                "slurm_mirage.extras.malleable.program",
                str(directory),
                str(commands),
                str(socket),
            ],
            "digest": "",
            "ready_file": str(socket),
            "environment": {"PYTHONPATH": str(directory / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
        }
    ]
