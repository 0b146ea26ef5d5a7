"""Other configurations of slurmctld during a run: what may differ, and which file slurmctld reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.rm.api import Refused
from slurm_mirage.rm.slurm.conf import read_by_nodes, render_settings
from slurm_mirage.rm.slurm.other_configurations import AT_START, KEPT, choose, read_by_controller, way_of

ONE: dict[str, Any] = {"SchedulerType": "sched/backfill", "SchedulerParameters": {"bf_interval": 30}, "KillWait": 30}


@pytest.mark.parametrize(
    ("change", "way"),
    [
        ({}, "reconfigure"),
        ({"schedulerparameters": "bf_interval=30", "PreemptMode": "omit"}, "reconfigure"),
        ({"SchedulerParameters": {"bf_interval": 5}, "PreemptType": "preempt/partition_prio"}, "reconfigure"),
        ({"PriorityDecayHalfLife": "1-0"}, "reconfigure"),
        ({"SchedulerType": "omit"}, "restart"),
        ({"schedulertype": "sched/builtin", "PriorityWeightAge": 3}, "restart"),
        ({"PriorityType": "priority/multifactor"}, "restart"),
    ],
)
def test_how_slurmctld_takes_over_other_settings(change: dict[str, Any], way: str) -> None:
    keys = {key.lower() for key in change}
    other = {**{key: value for key, value in ONE.items() if key.lower() not in keys}, **change}
    assert way_of(ONE, other) == way_of(other, ONE) == way


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"KillWait": 5}, "it changes KillWait, which slurmd or the commands may read"),
        ({"SelectType": "select/linear"}, "it changes SelectType"),
        ({"SlurmctldPort": 7}, "it changes SlurmctldPort"),
        ({"overtimelimit": 5}, "it changes overtimelimit, on which the replay relies"),
    ],
)
def test_what_cannot_change_while_the_daemons_run(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        way_of(ONE, {**ONE, **change})


@given(st.dictionaries(st.sampled_from([*AT_START, *KEPT, "PriorityFlags", "TaskPlugin", "ReturnToService"]), st.integers(0, 3)))
def test_slurmd_reads_nothing_that_may_change(change: dict[str, Any]) -> None:
    try:
        way_of({}, change)
    except ValueError:
        return
    kept = {key: value for key, value in change.items() if key != "AccountingStorageEnforce"}
    assert read_by_nodes(render_settings(kept)) == ""


def test_the_file_that_slurmctld_reads(tmp_path: Path) -> None:
    for folder in ("etc", "run"):
        (tmp_path / folder).mkdir()
    (tmp_path / "etc/slurm.conf").write_text("own")
    (tmp_path / "etc/slurm.conf.fifo").write_text("fifo")
    assert read_by_controller(tmp_path) == tmp_path / "etc/slurm.conf"
    assert not choose(tmp_path, "")
    with pytest.raises(Refused, match="the cluster has no other configurations"):
        choose(tmp_path, "fifo")
    (tmp_path / "etc/active-slurm.conf").symlink_to("../run/slurm.conf")
    path = read_by_controller(tmp_path)
    assert path == tmp_path / "etc/active-slurm.conf"
    assert [choose(tmp_path, name) for name in ("", "", "fifo", "fifo")] == [True, False, True, False]
    assert path.read_text() == "fifo" and (tmp_path / "etc/slurm.conf").read_text() == "own"
    with pytest.raises(Refused, match="the cluster has no configuration easy"):
        choose(tmp_path, "easy")
    assert choose(tmp_path, "") and path.read_text() == "own"
