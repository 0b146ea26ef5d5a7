"""What is told of SLURM_CONF: names of nodes, what is left out, what a release does not have, what is not in force."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from captures import BEGIN, COLUMNS, EVENT_COLUMNS, JOBS, capture, job, table

from mirage.experiment import site
from mirage.experiment.prepare import Prepared, source
from mirage.experiment.remarks import remarks
from mirage.knobs.knobs import SchedulerKnobs
from mirage.knobs.resolve import resolve
from mirage.knobs.slurm_source import SlurmSource
from slurm_mirage.rm.slurm.records import CONFIGURATION_FILE

TEXT = """
CacheGroups=0
TopologyPlugin=topology/tree
PreemptParameters=reclaim_licenses
PriorityDecayHalfLife=30-0
NodeName=rack[1-2]-[01-02] CPUs=8 State=CLOUD
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
        f"{prefix}decides about scheduling: TopologyPlugin=topology/tree: no topology: all nodes are equally near; "
        "topology.conf has no switch of these nodes",
        f"{prefix}decides about scheduling: AllowGroups of partition p: users and accounts are those of the log, not the site's",
        f"{prefix}decides about scheduling: PreemptParameters=reclaim_licenses: it is there from Slurm 23.02 on",
        f"{prefix}changes resources: State=CLOUD of 4 nodes: all nodes are there and idle when the cluster starts",
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


def test_the_table_of_a_site_says_what_is_taken_approximated_and_absent(tmp_path: Path) -> None:
    gone = job(4, User="u_a", Account="a_2", Submit=BEGIN - 600)  # its user has no association
    parts = {
        "sacct/20261031T230000Z.txt": table(COLUMNS, *JOBS, gone),
        "sacctmgr/event.txt": table(EVENT_COLUMNS, ("s_1", "Node", "", "c01", BEGIN + 5, BEGIN + 9, "DOWN", 1, "root", "t_1")),
        "sshare.txt": "Account\tUser\na_1\tu_b\n",
    }
    path = capture(tmp_path, dict(parts), not_allowed=["usage of other users"], failed={"sacct-json": "error: no"})
    given = {"SITE": str(path), "SPEED": "event"}
    knobs = resolve({"MIRAGE_GIVEN": " ".join(given), **given}, "experiment")
    run = Prepared.make(knobs, source(knobs.workload, knobs.nodes.machine).trace, knobs.jobs.shrinks[0])
    run.write(tmp_path / "run", {"run": "run"})
    written = json.loads((tmp_path / "run/experiment.json").read_text())["site"]
    assert written == run.site and set(written) == {"taken", "approximated", "absent"}
    assert written["taken"] == {
        "jobs submitted in the window": 2, "nodes": 6, "partitions": 2, "settings": 8, "switches": 3, "accounts": 4, "users": 2,
        "QOS": 2, "outages of nodes": 1,
    }  # fmt: skip
    assert written["approximated"] == {
        "jobs that ran or waited at the begin: submitted then, without their age": 2,
        "associations that are gone: one share, no limits": 1,
        "partitions with access or a QOS: given at the start of the run": 1,
    }
    absent = written["absent"]
    assert absent["nodes that are not there yet (FUTURE)"] == 9 and absent["usage at the begin, for fair share (sshare.txt)"] == 1
    assert absent["hidden at the site: usage of other users"] == absent["could not be taken at the site: sacct-json"] == 1
    assert "AllowGroups=g_1" in (tmp_path / "run" / site.LEFT_OUT).read_text()
    assert "SITE: approximated: associations that are gone: one share, no limits: 1" in remarks(run)
    assert ",SITE" in (tmp_path / "run/events.csv").read_text()
