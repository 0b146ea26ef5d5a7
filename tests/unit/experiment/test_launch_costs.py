"""One launch cost for a campaign: its first run measures it, the others take it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from journals import start_event

from mirage.experiment import launch_costs
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.replay.launch_cost import REAL_TIME, LaunchCost, Width

MEASURED = LaunchCost(Width(1, 0.02, 0.001, 25), Width(11, 0.04, 0.002, 15), 4.0)


def played(campaign: Path, cost: Any) -> None:
    """A run of the campaign whose journal has this cost."""
    run = campaign / "fifo-1"
    run.mkdir(exist_ok=True)
    start = start_event(launch_cost=cost)
    (run / "journal.jsonl").write_text(json.dumps(start) + "\n")
    launch_costs.keep(campaign, run)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    write_json(tmp_path / "experiment.json", {"inputs": {}})
    return tmp_path


def test_the_first_run_measures_and_the_others_take(campaign: Path) -> None:
    assert launch_costs.variables(campaign) == {}
    played(campaign, MEASURED.record())
    wanted = {"experiment_launch_cost": MEASURED.record()}
    assert launch_costs.variables(campaign) == wanted
    played(campaign, REAL_TIME.record())
    assert launch_costs.variables(campaign) == wanted
    assert read_json(campaign / "experiment.json") == {"inputs": {}, "launch_cost": MEASURED.record()}


@pytest.mark.parametrize(
    "cost", [LaunchCost(None, None, 4.0, "no job ran"), LaunchCost(MEASURED.narrow, None, 4.0, "wide ones did not run")]
)
def test_what_was_not_measured_in_full_is_measured_again(campaign: Path, cost: LaunchCost) -> None:
    played(campaign, cost.record())
    assert launch_costs.variables(campaign) == {}


def test_a_run_that_left_no_journal(campaign: Path) -> None:
    launch_costs.keep(campaign, campaign / "fifo-1")
    assert launch_costs.variables(campaign) == launch_costs.variables(campaign / "nosuch") == {}


def test_each_host_of_several_has_its_own(campaign: Path) -> None:
    run = campaign / "fifo-1"
    run.mkdir()
    start = start_event(launch_cost=MEASURED.record())
    (run / "journal.jsonl").write_text(json.dumps(start) + "\n")
    launch_costs.keep(campaign, run, host="h2")
    assert launch_costs.variables(campaign, host="h2") == {"experiment_launch_cost": MEASURED.record()}
    assert launch_costs.variables(campaign, host="h1") == launch_costs.variables(campaign) == {}
