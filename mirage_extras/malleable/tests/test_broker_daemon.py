"""The broker among the daemons of a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from slurm_mirage.extras.malleable import daemons
from slurm_mirage.rm.managers import DAEMON_KINDS
from slurm_mirage.rm.slurm.daemons import farm_content


def options(**given: Any) -> dict[str, Any]:
    """Of a head without nodes."""
    texts = dict.fromkeys(("controller_digest", "second_hostname", "shared_folder", "mariadbd", "munge_sbin"), "")
    flags = {"controller": True, "event_clock": False, "wide_steps": False}
    more = {"sbin": "/usr/sbin", "hostname": "localhost", "controller_hostname": None, "database_port": 0, "nodes": []}
    return {**texts, **flags, **more, "python": sys.executable, **given}


def test_the_broker_runs_beside_slurmctld(tmp_path: Path) -> None:
    def of(**given: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = farm_content(tmp_path, options(**given))["daemons"]
        return found

    munged, slurmctld, broker = of(extras={"malleable": {}})
    assert [daemon["kind"] for daemon in (munged, slurmctld, broker)] == ["munged", "slurmctld", "broker"]
    assert broker["command"][:3] == [sys.executable, "-m", "slurm_mirage.extras.malleable.program"]
    assert broker["ready_file"] == broker["command"][-1]
    assert [daemon["kind"] for daemon in of(extras={})] == ["munged", "slurmctld"]
    assert [daemon["kind"] for daemon in of(extras={"malleable": {}}, controller=False)] == ["munged"]
    assert DAEMON_KINDS["broker"] is daemons.BROKER
