"""From a log of sacct to the plan: what the jobs asked for, on a machine that has it in part."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_managers import OTHERS
from test_not_played import DAY, kinds, run

from mirage.experiment.prepare import Prepared
from mirage.experiment.remarks import remarks
from slurm_mirage.jobs.plan import parse_plan, plan_text

LATER = {"Eligible": f"{DAY}18:00:00", "Start": f"{DAY}18:00:05", "End": f"{DAY}19:00:05"}
MACHINE = """
- {count: 6, cpus: 16, extra: {RealMemory: 64000, Feature: skylake}}
- {count: 2, cpus: 16, prefix: g, extra: {RealMemory: 64000, Feature: rome, Gres: "gpu:a100:4"}}
"""


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "machine.yml"
    path.write_text(MACHINE)
    return str(path)


def requests(prepared: Prepared) -> list[str]:
    return [row.request for row in parse_plan(plan_text(prepared.plan("run")))]


def test_the_plan_has_what_the_machine_can_give(tmp_path: Path, machine: str) -> None:
    prepared = run(
        tmp_path,
        {},
        {"SubmitLine": "sbatch --gpus=8 a.sh", "ReqTRES": "cpu=8,gres/gpu=8"},
        {"SubmitLine": "sbatch -C rome --gres=gpu:h100:1 a.sh"},
        {"Constraints": "milan"},
        {"SubmitLine": "sbatch -N2 -L matlab a.sh", "ReqNodes": "2"},
        LATER | {"SubmitLine": "sbatch --begin=now+8hours a.sh"},
        CLASSES=machine,
        NODES="",
        CPUS="",
    )  # fmt: skip
    assert requests(prepared) == ["", "gpus=8", "nodes=2", "begin=28800.0"]
    assert kinds(prepared) == ["", "", "licence", ""]
    assert prepared.workload.excluded == {
        "asks for gpu:h100, which no node has": 1,
        "asks for the feature milan, which no node has": 1,
    }
    assert "left out: 1 jobs (asks for gpu:h100, which no node has)" in remarks(prepared)
    assert prepared.estimate() == pytest.approx(28800 + 3600)


def test_instants_shrink_and_sizes_that_are_scaled_have_no_requests(tmp_path: Path, machine: str) -> None:
    later = {"SubmitLine": "sbatch -H -N2 a.sh", "Eligible": f"{DAY}11:00:00", "Start": f"{DAY}11:00:05", "End": f"{DAY}12:00:05"}
    given = {"CLASSES": machine, "NODES": "", "CPUS": ""}
    assert requests(run(tmp_path, {}, later, **given, SHRINK="10")) == ["", "nodes=2 hold=360.0"]
    assert requests(run(tmp_path, {}, later, **given, SIZES="scale")) == ["", "hold=3600.0"]


@pytest.mark.parametrize("given", [*({"RM": name} for name in OTHERS), {"MALLEABLE": "0.5"}])
def test_another_manager_and_malleable_jobs_have_no_requests(tmp_path: Path, given: dict[str, str]) -> None:
    asking = {"SubmitLine": "sbatch -N2 --nice=3 a.sh", "Eligible": f"{DAY}10:00:09"}
    prepared = run(tmp_path, {}, asking, **given)
    assert requests(prepared) == ["", ""]
    assert set(kinds(prepared)[1].split()) == {"node_count", "begin", "nice"}


def test_a_preset_job_waits_for_the_rest_of_its_time(tmp_path: Path) -> None:
    at_once = {"Submit": f"{DAY}09:00:00", "Eligible": f"{DAY}09:00:00", "Start": f"{DAY}09:00:10"}
    over = LATER | {"Submit": f"{DAY}09:00:00", "Eligible": f"{DAY}09:30:00", "Start": f"{DAY}09:30:05", "End": f"{DAY}12:00:05"}
    before = LATER | {"Submit": f"{DAY}09:00:00"}
    first = {"Submit": f"{DAY}13:00:00", "Eligible": f"{DAY}13:00:00", "Start": f"{DAY}13:00:05", "End": f"{DAY}14:00:05"}
    prepared = run(tmp_path, at_once, over, before, first, FROM=f"{DAY}11:00:00", PRESET="all")
    assert requests(prepared) == ["", "", "begin=25200.0", ""]
