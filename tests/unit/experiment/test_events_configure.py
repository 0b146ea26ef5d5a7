"""Configurations that take the place of CONFIG during a run: how, what is refused, and what the cluster gets."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp

import pytest
from copies import left_out
from other_managers import OTHERS, config_of
from test_prepare import SPAN, prepared

from mirage import ROOT
from mirage.experiment import configuration, other_configurations
from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.run_events import digest
from slurm_mirage.base.errors import WrongUse


def argument(tmp_path: Path, target: str, **knobs: object) -> str:
    """The argument of an event that gives the run another configuration."""
    path = Path(mkdtemp(dir=tmp_path), "change.csv")  # a file is read once
    path.write_text(f"1h,configure,{target},\n")
    (event,) = prepared(SPAN, EVENTS=str(path), **knobs).events
    return event.argument


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ("slurm-defaults", "fifo", "restart"),
        ("backfill", "backfill-tuned", "reconfigure"),
        ("backfill", "suspend", "reconfigure"),
        ("suspend", "requeue", "reconfigure"),
    ],
)
def test_how_it_is_taken_over(tmp_path: Path, before: str, after: str, way: str) -> None:
    assert argument(tmp_path, after, CONFIG=before) == way


def test_with_accounting_priorities_may_change(tmp_path: Path) -> None:
    assert argument(tmp_path, "multifactor", CONFIG="backfill", ACCOUNTING="yes") == "restart"
    assert argument(tmp_path, "easy", CONFIG="multifactor") == "restart"
    assert argument(tmp_path, "easy", CONFIG="multifactor", ACCOUNTING="no") == "restart", "PriorityType"


@pytest.mark.parametrize(
    ("target", "knobs", "words"),
    [
        ("fast", {}, "there is no configs/fast.yml; it may be one of"),
        *((config_of(name), {}, f"{config_of(name)} is a configuration of {name}") for name in OTHERS),
        ("multifactor", {}, "it needs accounting, which this cluster does not have"),
        ("fifo", {"CONFIG": "suspend"}, "it has no partition urgent"),
        ("fifo", {"FILLER": "planned"}, "only sched/backfill starts fillers"),
    ],
)
def test_what_is_refused(tmp_path: Path, target: str, knobs: dict[str, object], words: str) -> None:
    with pytest.raises(WrongUse) as caught:
        argument(tmp_path, target, **knobs)
    assert words in str(caught.value) and str(caught.value).startswith(f"events: change.csv:1: configure {target}: ")


def test_qos_are_made_before_the_run_and_slurmd_keeps_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs", ignore=left_out)
    (tmp_path / "configs/levels.yml").write_text("qos: [{name: high, Priority: 10}]\n")
    (tmp_path / "configs/linear.yml").write_text("settings: {SelectType: select/linear}\n")
    (tmp_path / "configs/charged.yml").write_text(
        "settings: {AccountingStorageEnforce: limits, AccountingStorageTRES: [license/matlab]}\n"
    )
    for module in (configuration, other_configurations):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    with pytest.raises(WrongUse, match="its qos or shares are not those of backfill"):
        argument(tmp_path, "levels", CONFIG="backfill", ACCOUNTING="yes")
    with pytest.raises(WrongUse, match=r"change\.csv:1: configure linear: it changes SelectType"):
        argument(tmp_path, "linear", CONFIG="backfill")
    with pytest.raises(WrongUse, match="it changes AccountingStorage"):
        argument(tmp_path, "charged", CONFIG="backfill", ACCOUNTING="yes")
    (tmp_path / "configs/plain.yml").write_text("settings: {}\n")
    assert argument(tmp_path, "charged", CONFIG="plain") == "reconfigure"


def test_the_cluster_gets_the_configurations_and_the_run_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "change.csv").write_text("1h,configure,fifo,\n2h,configure,slurm-defaults,\n")
    knobs = prepared(SPAN, EVENTS=str(tmp_path / "change.csv"), CONFIG="slurm-defaults").knobs
    (variable,) = (value for name, value in cluster_variables(knobs).items() if name == "slurm_controller_other_configurations")
    assert set(variable) == {"fifo", "slurm-defaults"}
    assert variable["fifo"]["settings"]["SchedulerType"] == "sched/builtin" and variable["fifo"]["partitions"][0]["name"] == "batch"
    before = digest(knobs.events)
    shutil.copytree(ROOT / "configs", tmp_path / "configs", ignore=left_out)
    with (tmp_path / "configs/fifo.yml").open("a") as stream:
        stream.write("# changed\n")
    monkeypatch.setattr(other_configurations, "ROOT", tmp_path)
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    assert digest(knobs.events) != before
