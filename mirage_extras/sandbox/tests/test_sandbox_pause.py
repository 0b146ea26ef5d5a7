"""A pause whose commands do not reach all jobs, and one that is older than the cluster. Scripts are in the place of Slurm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from modules import Caller

from slurm_mirage.extras.sandbox.instance import pausing
from slurm_mirage.rm.api import ResourceManagerError

SCRIPTS = {
    "squeue": """for word; do case $word in --states=*) state=${word#--states=};; esac; done
grep -l "^$state" jobs/* | xargs -rn1 basename""",
    "scontrol": """echo "$*" >> calls
[ "$1" = update ] && { echo "${2#*=}|${3#*=}" | tr A-Z a-z > partition; exit; }
[ -e broken ] && { echo "slurm_suspend error: Unable to contact slurm controller" >&2; exit 1; }
[ "$1" = suspend ] && state=SUSPENDED || state=RUNNING
for job in $(echo "$2" | tr , ' '); do [ -e jobs/$job ] && echo $state > jobs/$job; done
exit 0""",
    "sinfo": "cat partition",
}


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A folder with commands that have two running jobs, 7 and 8."""
    for name in ("bin", "sbin", "jobs", "transfer", "runs", "etc"):
        (tmp_path / name).mkdir()
    for name, script in SCRIPTS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "etc/farm.json").write_text(
        json.dumps({"daemons": [{"kind": "slurmctld", "command": [f"{tmp_path}/sbin/slurmctld"]}]})
    )
    (tmp_path / "cleared_for").write_text("first\n")
    (tmp_path / "partition").write_text("batch|up\n")
    for job in (7, 8):
        (tmp_path / f"jobs/{job}").write_text("RUNNING\n")
    return tmp_path


def _bring(directory: Path, state: str) -> dict[str, Any]:
    return pausing.apply({"directory": str(directory), "user": "nobody", "state": state}, False)


def _states(directory: Path) -> list[str]:
    return [path.read_text().strip() for path in sorted((directory / "jobs").iterdir())]


@pytest.mark.parametrize(("state", "left"), [("paused", "RUNNING"), ("resumed", "SUSPENDED")])
def test_jobs_that_were_not_reached_are_told_and_reached_by_the_same_command(sandbox: Path, state: str, left: str) -> None:
    if state == "resumed":
        _bring(sandbox, "paused")
    (sandbox / "broken").touch()
    with pytest.raises(ResourceManagerError, match=rf"^2 of 2 jobs are {left} still, such as 7 \(scontrol: .*\): the same command"):
        _bring(sandbox, state)
    (sandbox / "broken").unlink()
    assert _bring(sandbox, state)["jobs"] == 2
    assert _states(sandbox) == ["SUSPENDED" if state == "paused" else "RUNNING"] * 2
    assert (sandbox / pausing.RECORD).exists() is (state == "paused")


def test_the_pause_of_an_earlier_run_is_not_resumed_in_the_cluster_of_another(sandbox: Path) -> None:
    _bring(sandbox, "paused")
    (sandbox / "cleared_for").write_text("second\n")
    (sandbox / "calls").unlink()
    assert _bring(sandbox, "resumed") == {"changed": False, "jobs": 0}
    assert not (sandbox / "calls").exists()
    (sandbox / "jobs/7").write_text("RUNNING\n")
    (sandbox / "jobs/8").unlink()
    assert _bring(sandbox, "paused")["jobs"] == 1, "job 8 was one of the earlier run"
    assert _bring(sandbox, "resumed")["jobs"] == 1


def test_partitions_that_the_replay_opens_when_it_stops_are_closed(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition, brought = sandbox / "partition", []

    def bring(_: Path, run: str, state: str, __: object) -> None:
        brought.append((run, state))
        partition.write_text("batch|up\n")

    monkeypatch.setattr(pausing, "active_run", lambda _: "first")
    monkeypatch.setattr(pausing, "_bring", bring)
    partition.write_text("batch|down\n")
    _bring(sandbox, "paused")
    assert partition.read_text() == "batch|down\n"
    _bring(sandbox, "resumed")
    assert partition.read_text() == "batch|up\n"
    assert brought == [("first", "stopped"), ("first", "started")]


def test_a_cluster_that_is_no_sandbox_and_one_that_does_not_run_are_left_alone(sandbox: Path, call: Caller) -> None:
    for content, reason in (({}, "no sandbox"), ({"rest_port": 16998}, "does not run")):
        (sandbox / "instance.json").write_text(json.dumps(content))
        answer = call("slurm_pause", directory=str(sandbox), user="nobody", state="paused")
        assert answer["failed"] and answer["msg"].startswith("wrong use: CLUSTER=") and reason in answer["msg"], answer
    assert not (sandbox / "calls").exists() and _states(sandbox) == ["RUNNING", "RUNNING"]
