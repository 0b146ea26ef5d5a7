"""A site's slurm.conf: what is taken over, what is not and why, and what is wrong in it."""

from __future__ import annotations

import re
from pathlib import Path

import line_values
import pytest
import slurm_reader
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mirage.site import own_parser, site_conf, site_words
from mirage.site.conf_lines import ConfFiles
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.hostlist import expand
from slurm_mirage.rm.slurm import conf as slurm_conf
from slurm_mirage.rm.slurm.conf import Nodes
from slurm_mirage.rm.slurm.node_options import gres_of, split_gres
from slurm_mirage.rm.slurm.setting_names import NODE_WORDS_SINCE, PARTITION_WORDS_SINCE, RETIRED, SINCE

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
JobCompLoc=https://elastic:secret@es.example.org:9200/slurm
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
    left_out = "\n".join(map(str, site.left_out))
    assert "ClusterName=wombat: the instance has its own" in left_out
    assert "Prolog=/etc/slurm/prolog.sh: jobs only sleep" in left_out
    assert "NodeName=g[08-09]: NodeAddr=10.1.1.[8-9]: all nodes are daemons of one host" in left_out
    assert "PartitionName=cpu: AllowGroups=staff" in left_out
    assert "AccountingStoragePass=***" in left_out
    assert "JobCompLoc=https://***@es.example.org:9200/slurm" in left_out
    assert "secret" not in left_out
    assert "State=" not in left_out
    assert site.accounting


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NodeName=a1\n", "has no PartitionName line"),
        ("PartitionName=p Nodes=ALL\n", "has no NodeName line"),
        ("NodeName=a1\nnonsense\n", r"line 2: is not a Key=Value of slurm\.conf\Z"),
        ("NodeName=a1 CPUs=many\n", r"line 1: CPUs is not a whole number below 65536\Z"),
        (f"NodeName=a1 Sockets={5000 * '1'}\n", r"line 1: Sockets is not a whole number below 65536\Z"),
        ("NodeName=a1 Boards=3 CPUs=3 CoresPerSocket=4\n", r"line 1: its sockets, cores and threads do not make its processors\Z"),
        ("NodeName=a[1-2]\nNodeName=a[0,2]\n", r"line 2: NodeName: node 2 of this line is there twice\Z"),
        ("NodeName=a1,b/c\n", "line 1: NodeName: node 2 of this line: a name may have letters, digits,"),
        ("NodeName=a[1\n", r"line 1: NodeName: is not a host list\Z"),
        ("NodeName=a1\nPartitionName=p Nodes=a1,b1\n", r"line 2: Nodes: name 2 is that of no node\Z"),
        ("NodeName=a1\nNodeSet=s Nodes=b1\nPartitionName=p Nodes=s\n", r"line 2: Nodes: name 1 is that of no node\Z"),
        ("NodeName=a1\nPartitionName=p\n", "has no PartitionName line with nodes"),
        ("NodeName=a[1-1000]-[1-2000]\n", "has 2000000 names, at most 65536"),
        ("\ninclude other.conf\n", r"line 2: Include: there is no such file below /\S+\Z"),
        ("include a**\n", "line 1: Include: there is no such file below"),
        ("include a\0b\n", "line 1: Include: there is no such file below"),
        ("include .\n", "line 1: Include: there is no such file below"),
        ("SchedulerType=\n", r"line 1: SchedulerType has no value that Slurm can read\Z"),
        ("ClusterName=a SlurmctldHost=b\n", r"line 1: what follows the value of ClusterName is not a Key=Value of slurm\.conf\Z"),
        ("\nA=1\\\n\\\n2 B\n", r"line 2: is not a Key=Value of slurm\.conf\Z"),
        (f"include {'a' * 300}\n", "line 1: Include: there is no such file below"),
        ("include slurm.conf\n", "line 1: Include: the file is included by itself"),
        # A template of Ansible's that was not rendered.
        (
            "##\nSlurmctldHost={{ host }}({{ ip }})\n",
            r"line 2: is a line of a template \({{ }} or {% %}\); SLURM_CONF may be the file",
        ),
        ("{% if backup %}\nNodeName=a1\n", "line 1: is a line of a template"),
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
    text = slurm_conf.render(
        {"SchedulerType": "sched/builtin", "SlurmctldPort": 17000}, nodes, [{"name": "p", "MaxTime": "1:00", "Default": True}]
    )
    (tmp_path / "slurm.conf").write_text(text)
    site = site_conf.read(tmp_path / "slurm.conf")
    assert [(some.names, some.cpus) for some in site.nodes] == [("n[1-5]", 4), ("fat1", 8)]
    assert site.settings == {"SchedulerType": "sched/builtin"}
    assert site.partitions == [{"name": "p", "MaxTime": "1:00", "Default": "YES", "Nodes": "ALL"}]


def read(tmp_path: Path, text: str, **files: str) -> site_conf.SiteConf:
    for name, content in {"slurm": text, **files}.items():
        (tmp_path / f"{name}.conf").write_text(content)
    return site_conf.read(tmp_path / "slurm.conf")


NODES_AND_PARTITION = "NodeName=a[1-4] CPUs=8\nPartitionName=p Nodes=ALL Default=YES\n"


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        ("rack-d07-[24,27]-[01]", ["rack-d07-24-1", "rack-d07-27-1"]),
        ("a[1-2]-[1-3]", ["a1-[1-3]", "a2-[1-3]"]),
        ("n[001-120]", ["n[1-120]"]),
        ("r1i0n[0-35],r1i1n[0-3]", ["r1i0n[0-35]", "r1i1n[0-3]"]),
        ("holy0110[1-8],holy0120[1-8]", ["holy[1101-1108]", "holy[1201-1208]"]),
        # Names that differ in zeros only, a number without a name, names without a number.
        ("n1,n01,n001", ["n1", "n0-1", "n00-1"]),
        ("[01-04]", ["n[1-4]"]),
        ("1a,login-ib", ["n1a1", "login-ib1"]),
    ],
)
def test_names_of_nodes(tmp_path: Path, names: str, classes: list[str]) -> None:
    site = read(tmp_path, f"NodeName={names} CPUs=2 NodeAddr=10.0.0.1 NodeHostname=x\nPartitionName=p Nodes={names}\n")
    assert [some.names for some in site.nodes] == classes
    wanted = {name for some in site.nodes for name in expand(some.names)}
    assert set(expand(site.partitions[0]["Nodes"])) == wanted == {site.renamed.get(name, name) for name in expand(names)}


@given(st.sets(st.from_regex(r"[a-c0-1][a-c0-1-]{0,4}", fullmatch=True), min_size=1))
def test_any_names_become_as_many_nodes_of_names_that_slurm_takes(
    tmp_path_factory: pytest.TempPathFactory, names: set[str]
) -> None:
    text = f"NodeName={','.join(sorted(names))}\nPartitionName=p Nodes={','.join(sorted(names))}\n"
    site = read(tmp_path_factory.mktemp("names"), text)
    assert sum(some.count for some in site.nodes) == len(names)
    assert len(set(expand(site.partitions[0]["Nodes"]))) == len(names)


@pytest.mark.parametrize(
    ("gres", "kept", "left_out"),
    [
        ("gpu:a100:4(S:0-1)", "gpu:a100:4", ["gpu:a100:4(S:0-1)"]),
        ("gpu:v100:4(IDX:0-1,3),craynetwork:4", "gpu:v100:4,craynetwork:4", ["gpu:v100:4(IDX:0-1,3)"]),
        ("gpu:2,shard:8,mps:200", "gpu:2", ["shard:8", "mps:200"]),
        ("gpu:tesla_v100-pcie-16gb:2", "gpu:tesla_v100-pcie-16gb:2", []),
        ("big-node:1,lscratch:10k", "big-node:1,lscratch:10K", []),
        ("gpu:v100:2,gpu:v100:1", "gpu:v100:3", []),
        ("gpu:2,gpu:v100:2", "gpu:2", ["gpu:v100:2"]),
        ("bandwidth:lustre:no_consume:4G,gpu:1", "gpu:1", ["bandwidth:lustre:no_consume:4G"]),
        ("gpu:100", "", ["gpu:100"]),
        ("gpu:0,,", "", []),
        ("gpu:x:y:z", "", ["gpu:x:y:z"]),
    ],
)
def test_gres(tmp_path: Path, gres: str, kept: str, left_out: list[str]) -> None:
    site = read(tmp_path, f"GresTypes=gpu\nNodeName=a[1-4] Gres={gres}\nPartitionName=p Nodes=ALL\n")
    assert dict(site.nodes[0].extra).get("Gres", "") == kept
    assert [item.what for item in site.left_out if item.group == site_words.RESOURCES] == [f"Gres={item}" for item in left_out]
    assert all(item.count == 4 for item in site.left_out if item.group == site_words.RESOURCES)


@given(st.text("gpu:a1,(S-)0k", max_size=20))
def test_what_is_kept_of_any_gres_can_be_emulated(text: str) -> None:
    gres_of((("Gres", split_gres(text)[0]),))


def test_included_files(tmp_path: Path) -> None:
    """A pattern; a path of the site, whose file is taken from the folder of the first file; %c for the cluster's name; an included
    file that includes another one; a backslash at the end of a file.
    """
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/b.conf").write_text("NodeName=b1 \\\n  CPUs=4 # of four\n")
    (tmp_path / "parts/a.conf").write_text("nodename=a1 CPUS=2\nInclude more.conf\n")
    text = "clustername=wombat\nINCLUDE parts/*.conf\nInclude /etc/nowhere/%c.conf\nPartitionName=p Nodes=ALL\n"
    site = read(tmp_path, text, wombat="NodeName=w1 CPUs=8\\", more="NodeName=m1")
    assert [(some.names, some.cpus) for some in site.nodes] == [("a1", 2), ("m1", 1), ("b1", 4), ("w1", 8)]


def test_sub_folders_of_an_included_file_are_kept(tmp_path: Path) -> None:
    """A copy of /opt/site/etc with its folder pcluster, which includes a file of the folder's own; another q1.conf is not taken."""
    (tmp_path / "pcluster").mkdir()
    (tmp_path / "pcluster/q1.conf").write_text(
        "include more.conf\nNodeSet=q1 Nodes=q1-dy-[1-4]\nPartitionName=q1 Nodes=q1 Default=YES\n"
    )
    (tmp_path / "pcluster/more.conf").write_text("NodeName=q1-dy-[1-4] CPUs=8 State=CLOUD\n")
    site = read(
        tmp_path, "ClusterName=A\ninclude /opt/site/etc/pcluster/q1.conf\ninclude /x/%c.conf", q1="NodeName=x1\n", a="TreeWidth=5"
    )
    assert [(some.names, some.cpus) for some in site.nodes] == [("q1-dy-[1-4]", 8)]


def test_values_as_slurm_reads_them(tmp_path: Path) -> None:
    text = r"""
AuthInfo="cred_expire=1200","ttl=1500"
SchedulerParameters += "bf_window=60, defer"
TaskProlog=a\#b\\c # note
MailProg="a # b"
NODENAME="n1 n2,,n3" cpus=0x10 realmemory=64K Features=a State = UNKNOWN
NodeName = DEFAULT Feature=old CPUs=010 \
  # a note ends the line
NodeName=n4 Features=new ThreadsPerCore=0
PartitionName=DEFAULT SelectTypeParameters=CR_Core MaxTime=1:00
PartitionName=p Nodes="n1 n4" Default=YES
"""
    site = read(tmp_path, text)
    left_out = {item.what for item in site.left_out}
    assert {'AuthInfo="cred_expire=1200","ttl=1500"', "TaskProlog=a#b\\c", 'MailProg="a'} <= left_out
    assert site.settings == {"SchedulerParameters": "bf_window=60, defer"}
    assert 'SchedulerParameters="bf_window=60, defer"\n' in slurm_conf.render_settings(site.settings)
    assert [(some.names, some.cpus, dict(some.extra)) for some in site.nodes] == [
        ("n[1-3]", 16, {"realmemory": "65536", "Features": "a"}),
        ("n4", 8, {"Features": "new", "ThreadsPerCore": "1"}),
    ]
    assert site.partitions == [{"name": "p", "MaxTime": "1:00", "Default": "YES", "Nodes": "n[1,4]"}]


def test_up_to_20_11_the_default_of_storage_makes_accounting(tmp_path: Path) -> None:
    assert read(tmp_path, f"DefaultStorageType=SlurmDBD\n{NODES_AND_PARTITION}").accounting
    other = "AccountingStorageType=accounting_storage/none\n"
    assert not read(tmp_path, f"DefaultStorageType=slurmdbd\n{other}{NODES_AND_PARTITION}").accounting


def test_node_sets_have_nodes_and_features(tmp_path: Path) -> None:
    text = (
        "NodeName=a1 Feature=x\nNodeName=a[2-3]\nNodeSet=s Feature=x Nodes=a3\nPartitionName=p Nodes=s\nPartitionName=q Nodes=All\n"
    )
    assert [partition["Nodes"] for partition in read(tmp_path, text).partitions] == ["a[1,3]", "ALL"]


def test_a_partition_without_nodes_is_left_out(tmp_path: Path) -> None:
    site = read(tmp_path, NODES_AND_PARTITION + "PartitionName=empty\n")
    assert [partition["name"] for partition in site.partitions] == ["p"]
    assert any(item.line == "PartitionName=empty" and item.group == site_words.SCHEDULING for item in site.left_out)


def test_the_largest_open_partition_is_the_default_where_the_file_has_none(tmp_path: Path) -> None:
    nodes = "NodeName=a[1-4]\n"
    partitions = "PartitionName=s Nodes=a1\nPartitionName=l Nodes=a[1-3] Default=NO\nPartitionName=m Nodes=ALL State=DOWN\n"
    site = read(tmp_path, f"{nodes}{partitions}PartitionName=h Nodes=ALL Hidden=YES\n")
    assert [partition["name"] for partition in site.partitions if partition.get("Default") == "YES"] == ["l"]
    assert any(str(item).startswith("no partition is the default: l is, the largest one") for item in site.left_out)
    site = read(tmp_path, f"{nodes}{partitions}PartitionName=d Nodes=a1 default=yes\n")
    assert [partition["name"] for partition in site.partitions if "default" in partition] == ["d"]


def test_processors_that_do_not_agree_are_those_that_slurm_takes(tmp_path: Path) -> None:
    site = read(
        tmp_path, "NodeName=a1 CPUs=24 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2\nPartitionName=p Nodes=ALL Default=YES\n"
    )
    assert site.nodes[0].cpus == 32
    assert [item.what for item in site.left_out] == ["CPUs=24"]


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("CacheGroups=0", {}),
        ("SchedulerPort=7321", {}),
        ("FastSchedule=1", {}),
        ("NoSuchSetting=1", {}),
        ("PrEpPlugins=prep/own", {}),
        ("PreemptType=preempt/qos\nPreemptMode=REQUEUE", {}),
        (
            "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE",
            {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"},
        ),
        ("PreemptMode=GANG", {"PreemptMode": "GANG"}),
        ("SchedulerType=sched/wiki2", {}),
        ("SelectType=select/cray_aries\nSelectTypeParameters=CR_CPU,NHC_NO", {"SelectTypeParameters": "CR_CPU"}),
        ("AccountingStorageEnforce=all", {}),
        ("AccountingStorageEnforce=limits,WCKeys,qos", {"AccountingStorageEnforce": "limits,qos"}),
        (
            "SchedulerParameters=bf_max_job_user=9,defer,bf_max_job_user_part=2,max_rpc_cnt=8,bf_max_job_assoc=1,bf_max_job_part=7",
            {"SchedulerParameters": "defer,bf_max_job_part=7"},
        ),
        ("SchedulerParameters=assoc_limit_stop,bf_continue", {"SchedulerParameters": "bf_continue"}),
        ("SchedulerParameters=max_job_bf=50", {"SchedulerParameters": "bf_max_job_test=50"}),
        (
            "SchedulerParameters=bf_max_job_array_resv=5,default_queue_depth=9",
            {"SchedulerParameters": "bf_max_job_array_resv=5,default_queue_depth=9"},
        ),
    ],
)
def test_what_slurmctld_would_not_start_with_or_one_user_would_be_held_back_by(
    tmp_path: Path, line: str, settings: dict[str, str]
) -> None:
    site = read(tmp_path, f"{line}\n{NODES_AND_PARTITION}")
    assert site.settings == settings
    whole = line.replace("max_job_bf", "bf_max_job_test").splitlines() == [f"{key}={value}" for key, value in settings.items()]
    assert bool(site.left_out) is not (whole and "Enforce" not in line)


def test_the_reason_names_the_release_that_retired_a_setting(tmp_path: Path) -> None:
    site = read(tmp_path, f"CacheGroups=0\nControlMachine=h\nMemLimitEnforce=no\n{NODES_AND_PARTITION}")
    assert [str(item) for item in site.left_out] == [
        "CacheGroups=0: retired in Slurm 21.08, now GroupUpdateTime",
        "ControlMachine=h: retired in Slurm 18.08, now SlurmctldHost",
        "MemLimitEnforce=no: retired in Slurm 20.02, now JobAcctGatherParams=OverMemoryKill",
    ]


GROUPS_TEXT = """
TopologyPlugin=topology/tree
MCSPlugin=mcs/none
GresTypes=gpu
SlurmctldDebug=info
NodeName=a[1-4] CPUs=8 CoreSpecCount=1 State=FUTURE
NodeName=b1 CoreSpecCount=2 State=UNKNOWN NodeAddr=x
DownNodes=a[1-2] State=DOWN
PartitionName=p Nodes=ALL AllowGroups=x QOS=long State=DOWN
PartitionName=q Nodes=a1,b1 AllowGroups=y State=UP AllowQos=ALL Default=YES
"""


def test_what_is_left_out_is_told_in_groups(tmp_path: Path) -> None:
    told = site_conf.summary(read(tmp_path, GROUPS_TEXT).left_out)
    expected = [
        "decides about scheduling: TopologyPlugin=topology/tree: no topology",
        "decides about scheduling: AllowGroups of 2 partitions: users and accounts are those of the log",
        "decides about scheduling: QOS of partition p: the site's QOS",
        "decides about scheduling: State=DOWN of partition p: all partitions are up",
        "changes resources: State=FUTURE of 4 nodes: nodes that are not there yet are left out",
        "changes resources: DownNodes=a[1-2] State=DOWN: all nodes are there",
        "has no part in scheduling here: 4 more",
    ]
    assert len(told) == len(expected)
    assert all(line.startswith(begin) for line, begin in zip(told, expected, strict=True)), told


def test_words_that_a_release_does_not_have_yet_are_told(tmp_path: Path) -> None:
    text = "PreemptParameters=reclaim_licenses\nNodeName=a1 TRESWeights=CPU=1\nPartitionName=p Nodes=ALL MaxCPUsPerSocket=4\n"
    site = read(tmp_path, text)
    assert site_conf.too_new(site, "") == site_conf.too_new(site, "23.02.1") == []
    assert [str(item) for item in site_conf.too_new(site, "16.05.6")] == [
        "PreemptParameters=reclaim_licenses: it is there from Slurm 23.02 on",
        "PartitionName=p: MaxCPUsPerSocket=4: it is there from Slurm 23.02 on",
        "NodeName=a1: TRESWeights=CPU=1: it is there from Slurm 17.02 on",
    ]


def test_each_word_is_in_one_table() -> None:
    named = [*site_words.TAKEN, *RETIRED, *(name for _, _, names in site_words.OVERRIDDEN for name in names)]
    assert len({name.lower() for name in named}) == len(named)
    assert set(SINCE) <= set(site_words.TAKEN)
    for since, taken in ((PARTITION_WORDS_SINCE, site_words.PARTITION_TAKEN), (NODE_WORDS_SINCE, site_words.NODE_TAKEN)):
        assert {word.lower() for word in since} <= set(taken)
    assert not set(site_words.NODE_TAKEN) & set(site_words.NODE_OVERRIDDEN)
    assert not set(site_words.PARTITION_TAKEN) & set(site_words.PARTITION_OVERRIDDEN)


def test_a_number_of_gpus_of_thousands_of_digits_is_left_out() -> None:
    assert split_gres(f"gpu:{5000 * '1'},gpu:v100:2") == (
        "gpu:v100:2",
        [(f"gpu:{5000 * '1'}", "NAME:COUNT or NAME:TYPE:COUNT can be emulated")],
    )


@example('"\u3000')
@given(line_values.values)
def test_a_setting_comes_out_letter_by_letter_or_is_refused_with_its_line(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    """Also one that the file has in a form that the project does not write."""
    assume(not {"\n", "\r", "\0"} & set(value) and value == value.encode(errors="replace").decode())
    path = tmp_path_factory.mktemp("site") / "slurm.conf"
    escaped = value.replace("\\", "\\\\").replace("#", "\\#")
    form = '"{}"' if re.search(r"\s", value) else "{}"
    path.write_text(f"NodeName=n1\nSchedulerParameters={form.format(escaped)}\nPartitionName=p Nodes=n1\n", newline="")
    try:
        site = site_conf.read(path)
        lines = list(ConfFiles(path).lines())
    except WrongUse as error:
        assert str(error).startswith(f"slurm_conf: {path} line 2: ") and str(error).isprintable()
        return
    rendered = slurm_conf.render(site.settings, [], site.partitions)
    written = slurm_reader.words(own_parser._with_values(lines))
    read = dict(written[1])["SchedulerParameters"]
    assert [[key for key, _ in line] for line in written] == [["NodeName"], ["SchedulerParameters"], ["PartitionName", "Nodes"]]
    assert [("SchedulerParameters", read)] in slurm_reader.words(rendered) or not read
    assert read == value or value.startswith('"')


@pytest.mark.parametrize(
    ("accounting", "weights", "billing"),
    [("yes", "CPU=1000,GRES/gpu=500", "CPU=1.0,GRES/gpu=2.0"), ("no", "CPU=1000", "CPU=1.0")],
)
def test_weights_of_gres_are_left_out_without_accounting(accounting: str, weights: str, billing: str, tmp_path: Path) -> None:
    """slurmctld ends at once with those of a resource that it does not count, and it counts GRES only with accounting."""
    path = tmp_path / "slurm.conf"
    path.write_text(
        "AccountingStorageTRES=gres/gpu\nPriorityType=priority/multifactor\nPriorityWeightTRES=CPU=1000,GRES/gpu=500\n"
        "NodeName=g1 CPUs=4 Gres=gpu:1\nPartitionName=a Nodes=g1 Default=YES TRESBillingWeights=CPU=1.0,GRES/gpu=2.0\n"
        "PartitionName=b Nodes=g1 TRESBillingWeights=GRES/gpu=1.0\n"
    )
    found = site_conf.read(path, accounting)
    assert found.settings["PriorityWeightTRES"] == weights
    assert [one.get("TRESBillingWeights") for one in found.partitions] == [billing, "GRES/gpu=1.0" if accounting == "yes" else None]
    left_out = [one.what for one in found.left_out if one.why == site_words.NOT_COUNTED]
    assert len(left_out) == (0 if accounting == "yes" else 3)
