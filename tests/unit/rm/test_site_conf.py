"""A site's slurm.conf: what is taken over, what is not and why, and what is wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import conf as slurm_conf
from slurm_mirage.rm.slurm import site_conf
from slurm_mirage.rm.slurm.conf import Nodes

SITE = r"""
# A comment, and a value with a \# in it.
ClusterName=wombat
SlurmctldHost=head1(10.0.0.1)
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_window=2880,bf_max_job_test=500,\
default_queue_depth=200
PriorityType=priority/multifactor
PriorityWeightAge=1000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStoragePass=secret
Prolog=/etc/slurm/prolog.sh
GresTypes=gpu
include nodes.conf

NodeSet=gpus Feature=a100
NodeSet=both Nodes=gpus,login
PartitionName=DEFAULT MaxTime=2-00:00:00 State=UP
PartitionName=cpu Nodes=cn[001-004] Default=YES AllowGroups=staff
PartitionName=gpu Nodes=gpus MaxTime=08:00:00 Priority=10
PartitionName=mixed Nodes=both,cn001
PartitionName=all Nodes=ALL
"""
NODES = """
NodeName=DEFAULT RealMemory=64000 State=UNKNOWN
NodeName=cn[001-003] Sockets=2 CoresPerSocket=8 ThreadsPerCore=1
NodeName=cn004 CPUs=32 RealMemory=128000 Weight=5
NodeName=g[08-09] CPUs=64 Feature=a100,nvlink Gres=gpu:a100:4 NodeAddr=10.1.1.[8-9] Reason="no fan"
NodeName=login
"""


@pytest.fixture
def site(tmp_path: Path) -> site_conf.SiteConf:
    (tmp_path / "slurm.conf").write_text(SITE)
    (tmp_path / "nodes.conf").write_text(NODES)
    return site_conf.read(tmp_path / "slurm.conf")


def test_settings(site: site_conf.SiteConf) -> None:
    assert site.settings == {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "bf_window=2880,bf_max_job_test=500,default_queue_depth=200",
        "PriorityType": "priority/multifactor",
        "PriorityWeightAge": "1000",
    }


def test_nodes(site: site_conf.SiteConf) -> None:
    assert [(some.names, some.cpus) for some in site.nodes] == [("cn[1-3]", 16), ("cn4", 32), ("g[8-9]", 64), ("login1", 1)]
    assert dict(site.nodes[2].extra) == {"RealMemory": "64000", "Feature": "a100,nvlink", "Gres": "gpu:a100:4"}
    assert dict(site.nodes[1].extra) == {"RealMemory": "128000", "Weight": "5"}


def test_partitions(site: site_conf.SiteConf) -> None:
    assert site.partitions == [
        {"name": "cpu", "MaxTime": "2-00:00:00", "Default": "YES", "Nodes": "cn[1-4]"},
        {"name": "gpu", "MaxTime": "08:00:00", "Priority": "10", "Nodes": "g[8-9]"},
        {"name": "mixed", "MaxTime": "2-00:00:00", "Nodes": "cn1,g[8-9],login1"},
        {"name": "all", "MaxTime": "2-00:00:00", "Nodes": "ALL"},
    ]


def test_what_is_left_out_is_listed_without_secrets(site: site_conf.SiteConf) -> None:
    left_out = "\n".join(site.left_out)
    assert "ClusterName=wombat: the instance has its own" in left_out
    assert "Prolog=/etc/slurm/prolog.sh: jobs only sleep" in left_out
    assert "NodeName=g[08-09]: NodeAddr=10.1.1.[8-9]: all nodes are daemons of one host" in left_out
    assert "PartitionName=cpu: AllowGroups=staff" in left_out
    assert "AccountingStoragePass=***" in left_out
    assert "secret" not in left_out
    assert "State=" not in left_out
    assert site.accounting


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NodeName=a1\n", "has no PartitionName line"),
        ("PartitionName=p Nodes=ALL\n", "has no NodeName line"),
        ("NodeName=a1\nnonsense\n", r"line 2: 'nonsense' is no Key=Value"),
        ("NodeName=a1 CPUs=many\n", r"line 1: CPUs=many is not a whole number"),
        ("NodeName=a[1-2]\nNodeName=a2\n", "line 2: node a2 is there twice"),
        ("NodeName=a1,a01\nPartitionName=p Nodes=ALL\n", "leading zeros"),
        ("NodeName=a[1\n", "not a host list"),
        ("NodeName=a1\nPartitionName=p Nodes=b1\n", "there is no node b1"),
        ("NodeName=a1\nPartitionName=p\n", "has no nodes"),
        ("include other.conf\n", r"other\.conf: cannot be read"),
        ("include slurm.conf\n", "is included by itself"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "slurm.conf").write_text(text)
    with pytest.raises(WrongUse, match=rf"^slurm_conf: .*{words}"):
        site_conf.read(tmp_path / "slurm.conf")


@given(st.binary(max_size=400))
def test_anything_is_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "slurm.conf"
    path.write_bytes(content + b"\nNodeName=a1\nPartitionName=p Nodes=ALL\n")
    try:
        site_conf.read(path)
    except WrongUse as error:
        assert "\n" not in str(error)


def test_our_own_file_is_taken_over(tmp_path: Path) -> None:
    """What slurm_conf writes for a cluster is read as that cluster."""
    nodes = [Nodes("n", 1, 5, 4, "127.0.0.1", 17001, (("RealMemory", "100"),)), Nodes("fat", 1, 1, 8, "127.0.0.1", 17006)]
    text = slurm_conf.render({"SchedulerType": "sched/builtin", "SlurmctldPort": 17000}, nodes, [{"name": "p", "MaxTime": "1:00"}])
    (tmp_path / "slurm.conf").write_text(text)
    site = site_conf.read(tmp_path / "slurm.conf")
    assert [(some.names, some.cpus) for some in site.nodes] == [("n[1-5]", 4), ("fat1", 8)]
    assert site.settings == {"SchedulerType": "sched/builtin"}
    assert site.partitions == [{"name": "p", "MaxTime": "1:00", "Nodes": "ALL"}]


SHOWN = """Configuration data as of 2026-03-01T10:00:00
SchedulerParameters     = bf_max_job_test=500,bf_window=2880,bf_max_time=3600
PriorityDecayHalfLife   = 7-00:00:00
PriorityWeightAge       = 1000
KillWait                = 30 sec
"""


def test_what_is_not_in_force_is_told() -> None:
    written = {
        "SchedulerParameters": "bf_window=2880,bf_max_job_test=500",
        "KillWait": "30",
        "PriorityWeightAge": "900",
        "Own": "1",
    }
    assert site_conf.not_in_force(written, SHOWN) == ["PriorityWeightAge=900: in force is 1000"]
