"""A comparison of resource managers: each configuration belongs to its own, and an instance changes its manager between runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from journals import start_event
from simulated_runs import verdict

from mirage.campaign import arms
from mirage.campaign.campaign import Campaign
from mirage.experiment import configuration, launch_costs, preflight, runs
from mirage.experiment.lane import Lane
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import resolve
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.replay.launch_cost import LaunchCost, Width

SWF = """; MaxProcs: 8
1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 30 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1
"""
CONFIGS = {
    "backfill": "settings: {SchedulerType: sched/backfill}\n",
    "slurm-defaults": "settings: {SchedulerType: sched/backfill}\n",
    "fifo": "settings: {SchedulerType: sched/builtin}\n",
    "pbs-easy": "rm: openpbs\nserver: {backfill_depth: 1}\n",
    "pbs-fifo": "rm: openpbs\nserver: {backfill_depth: 0}\n",
}
BOTH = "slurm openpbs"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of results; the configurations are those of CONFIGS, and no instance exists."""
    for folder in ("results", "configs", "instances"):
        (tmp_path / folder).mkdir()
    for name, text in CONFIGS.items():
        (tmp_path / f"configs/{name}.yml").write_text(text)
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path / "instances")
    (tmp_path / "two.swf").write_text(SWF)
    return tmp_path / "results"


def values(results: Path, **given: str) -> Knobs:
    told = {"TRACE": str(results.parent / "two.swf"), "NODES": "4", "CPUS": "2", "RUN": "r", "SPEED": "20", "REPLICAS": "2"}
    return resolve(told | given)


def test_labels_name_the_manager_and_each_run_has_its_own(results: Path) -> None:
    planned = Campaign.of(values(results, RM=BOTH, CONFIGS="fifo backfill pbs-fifo pbs-easy"))
    labels = ["slurm-fifo", "slurm-backfill", "openpbs-fifo", "openpbs-easy"]
    assert [part.folder.name for part in planned.parts] == [f"{label}-{number}" for number in (1, 2) for label in labels]
    assert [one.knobs.scheduler.rm for one in planned.prepared.values()] == ["slurm", "slurm", "openpbs", "openpbs"]
    assert [one.knobs.scheduler.config for one in planned.prepared.values()] == ["fifo", "backfill", "pbs-fifo", "pbs-easy"]
    assert len({tuple(one.dues) for one in planned.prepared.values()}) == 1, "the same submissions"
    inputs = [planned._inputs_of(part) for part in planned.parts[:4]]
    assert [one["RM"] for one in inputs] == ["slurm", "slurm", "openpbs", "openpbs"]
    assert planned.inputs["RM"] == BOTH


def test_without_configs_the_default_of_each_manager_is_compared(results: Path) -> None:
    assert [*arms.of_configurations(values(results, RM=BOTH))] == ["slurm-defaults", "openpbs-easy"]
    assert [*arms.of_configurations(values(results, RM="openpbs slurm"))] == ["openpbs-easy", "slurm-defaults"]


def test_configurations_of_one_manager_keep_their_names(results: Path) -> None:
    found = arms.of_configurations(values(results, RM="openpbs", CONFIGS="pbs-fifo pbs-easy"))
    assert found == {"pbs-fifo": {"CONFIG": "pbs-fifo"}, "pbs-easy": {"CONFIG": "pbs-easy"}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"RM": BOTH, "CONFIGS": "fifo backfill"},
            "configs: fifo backfill: none is of openpbs; it may also have one of: pbs-easy, ",
        ),
        ({"RM": "slurm", "CONFIGS": "fifo pbs-fifo"}, "configs: pbs-fifo is a configuration of openpbs; with RM=slurm it may be"),
        ({"RM": BOTH, "CONFIGS": "fifo pbs-no"}, r"there is no configs/pbs-no\.yml; it may be one of: backfill, fifo, pbs-easy"),
    ],
)
def test_what_no_manager_has_is_refused(results: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        Campaign.of(values(results, **given))


def test_a_speed_is_chosen_for_one_manager_only(results: Path) -> None:
    with pytest.raises(WrongUse, match="speed=auto: picks the largest speed for one resource manager; give a number for both"):
        arms.check_speed(values(results, RM=BOTH), "auto")
    arms.check_speed(values(results, RM=BOTH), Decimal(20))
    arms.check_speed(values(results, RM=BOTH), "event")
    arms.check_speed(values(results), "auto")


class Played:
    """What the playbooks would do: an instance with the manager of the run, and the records of a run."""

    orders: ClassVar[list[tuple[str, str]]] = []

    def play(self, playbook: str, variables: Mapping[str, Any], inventory: Path, screen: Screen, log: Path) -> None:
        instance = preflight.INSTANCES / variables["mirage_cluster"]
        if playbook == "teardown":
            (instance / "instance.json").unlink()
            self.orders.append((playbook, ""))
            return
        self.orders.append((playbook, variables["mirage_rm"]))
        instance.mkdir(exist_ok=True)
        assert read_json(instance / "instance.json") in (None, {"rm": variables["mirage_rm"]}), "as role instance asks"
        write_json(instance / "instance.json", {"rm": variables["mirage_rm"]})
        folder = Path(variables["experiment_results_dir"])
        cost = LaunchCost(Width(1, 0.02 if variables["mirage_rm"] == "slurm" else 0.2, 0.001, 25)).record()
        assert variables.get("experiment_launch_cost", cost) == cost, "that of its own manager"
        start = start_event(launch_cost=cost)
        (folder / "journal.jsonl").write_text(json.dumps(start) + "\n")
        shown = {"validity": verdict(), "metrics": {"wait_mean": 1.0}, "jobs": {"submitted": 2}}
        write_json(folder / "metrics.json", shown)


def test_an_instance_is_removed_before_it_gets_another_manager(results: Path) -> None:
    planned = Campaign.of(values(results, RM=BOTH, CONFIGS="fifo pbs-fifo pbs-easy", REPLICAS="1"))
    planned.folder.mkdir()
    write_json(planned.folder / "experiment.json", {})
    Played.orders.clear()
    for part in planned.parts:
        lane = Lane.only(planned.knobs.cluster, Played(), Screen())  # type: ignore[arg-type]
        ending = planned._play(part, planned.prepared[part.member.label], lane)
        assert ending.word == "ok", ending.line
    assert Played.orders == [("experiment", "slurm"), ("teardown", ""), ("experiment", "openpbs"), ("experiment", "openpbs")]
    known = [launch_costs.variables(planned.folder, name)["experiment_launch_cost"] for name in ("slurm", "openpbs")]
    assert [one["narrow"]["seconds"] for one in known] == [0.02, 0.2], "each manager has a launch cost of its own"
