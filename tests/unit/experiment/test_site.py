"""What is told of SLURM_CONF: names of nodes, what is left out, what a release does not have, what is not in force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirage.experiment import site
from mirage.knobs.knobs import SchedulerKnobs
from mirage.knobs.resolve import resolve
from mirage.knobs.slurm_source import SlurmSource
from slurm_mirage.rm.slurm.records import CONFIGURATION_FILE

TEXT = """
CacheGroups=0
TopologyPlugin=topology/tree
PreemptParameters=reclaim_licenses
PriorityDecayHalfLife=30-0
NodeName=rack[1-2]-[01-02] CPUs=8 State=FUTURE
NodeName=login
PartitionName=p Nodes=ALL Default=YES AllowGroups=staff
"""


@pytest.fixture
def scheduler(tmp_path: Path) -> SchedulerKnobs:
    (tmp_path / "slurm.conf").write_text(TEXT)
    source = SlurmSource("slurm.tar.bz2", "16.05.6", "0")
    return replace(resolve({}).scheduler, slurm_conf=str(tmp_path / "slurm.conf"), config="site", slurm_source=source)


def test_the_important_things_are_told_first(scheduler: SchedulerKnobs) -> None:
    prefix = "SLURM_CONF: not taken over, "
    assert site.in_short(scheduler, "there.txt") == [
        "SLURM_CONF: 4 of 5 nodes are called otherwise here, without leading zeros in the last number: rack1-01 is rack1-1",
        "SLURM_CONF: 1 of 5 nodes are called otherwise here, with a number, or beside one of that name: login is login1",
        f"{prefix}decides about scheduling: TopologyPlugin=topology/tree: no topology: all nodes are equally near, "
        "topology.conf is not read",
        f"{prefix}decides about scheduling: AllowGroups of partition p: users and accounts are those of the log, not the site's",
        f"{prefix}decides about scheduling: PreemptParameters=reclaim_licenses: it is there from Slurm 23.02 on",
        f"{prefix}changes resources: State=FUTURE of 4 nodes: all nodes are there and idle when the cluster starts",
        f"{prefix}has no part in scheduling here: 1 more",
        "SLURM_CONF: all of this in full: there.txt",
    ]


def test_the_file_has_each_line_and_name(scheduler: SchedulerKnobs, tmp_path: Path) -> None:
    site.write(scheduler, tmp_path / "new/full.txt")
    text = (tmp_path / "new/full.txt").read_text()
    assert "Not taken over, decides about scheduling:\n  TopologyPlugin=topology/tree: " in text
    assert "  PartitionName=p: AllowGroups=staff: " in text
    assert "  CacheGroups=0: retired in Slurm 21.08, now GroupUpdateTime\n" in text
    assert "  rack2-02: rack2-2\n  login: login1\n" in text


def test_after_a_run_the_settings_in_force_are_compared(scheduler: SchedulerKnobs, tmp_path: Path) -> None:
    assert site.not_taken(scheduler, tmp_path) == []
    shown = "SLURM_VERSION = {}\nPriorityDecayHalfLife = {}\nPreemptParameters = reclaim_licenses\n"
    (tmp_path / CONFIGURATION_FILE).write_text(shown.format("24.05.1", "30-00:00:00"))
    assert site.not_taken(scheduler, tmp_path) == ["SLURM_CONF: 2 settings taken over, all in force as written"]
    (tmp_path / CONFIGURATION_FILE).write_text(shown.format("22.05.8", "7-00:00:00"))
    assert site.not_taken(scheduler, tmp_path) == [
        "SLURM_CONF: PreemptParameters=reclaim_licenses: it is there from Slurm 23.02 on",
        "SLURM_CONF: PriorityDecayHalfLife=30-0: in force is 7-00:00:00",
    ]
    assert (
        site.not_taken(replace(scheduler, slurm_conf=""), tmp_path) == site.in_short(replace(scheduler, slurm_conf=""), "x") == []
    )
