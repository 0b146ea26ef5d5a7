"""slurm.conf of a cluster with filler jobs, as the module slurm_config writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from modules import Caller

OWN = {"filler": {"grace": 15}}


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "etc/nodes").mkdir(parents=True)
    return {
        "directory": str(tmp_path),
        "settings": {"ClusterName": "mirage", "MinJobAge": 300},
        "nodes": [{"count": 3, "cpus": 4}],
        "port": 17000,
        "ports": 5,
        "partitions": [{"name": "batch", "Default": True}],
    }


def test_a_cluster_with_fillers_has_their_partition(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("slurm_config", **params, extras=OWN)
    lines = (tmp_path / "etc/slurm.conf").read_text().splitlines()
    own = "PartitionName=filler Nodes=ALL PriorityTier=0 PreemptMode=REQUEUE GraceTime=15 MaxNodes=1 MaxTime=UNLIMITED"
    assert own in lines and "PreemptMode=REQUEUE" in lines and "RequeueExit=99" in lines
    assert all("PreemptMode=OFF" in line for line in lines if line.startswith("PartitionName=") and line != own)
    assert call("slurm_config", check=True, **params, extras=OWN)["changed"] is False
    assert call("slurm_config", check=True, **params)["changed"] is True


def test_a_configuration_that_leaves_fillers_no_room_is_refused(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    result = call("slurm_config", **{**params, "extras": OWN, "settings": {"SchedulerType": "sched/builtin"}})
    assert result["failed"] and result["msg"] == (
        "wrong use: FILLER: SchedulerType=sched/builtin of the configuration: only sched/backfill starts fillers beside "
        "waiting jobs"
    )
    assert not (tmp_path / "etc/slurm.conf").exists()
