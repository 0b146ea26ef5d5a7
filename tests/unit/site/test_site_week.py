"""The machine and the configuration in an archive of mirage-capture, and what of them only slurmctld's file has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import BEGIN, CONF, DAY, GRES, capture
from hypothesis import given
from hypothesis import strategies as st

from mirage.knobs import resolve
from mirage.site import site_conf, topology
from mirage.site.conf_lines import ConfFiles
from mirage.site.site_words import REST, SCHEDULING
from mirage.workloads.requests import offer
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance.slurm_configuration import configure


def test_site_gives_the_knobs(tmp_path: Path) -> None:
    path = str(capture(tmp_path))
    knobs = resolve.resolve({resolve.GIVEN: "SITE", "SITE": path}, "experiment")
    assert (knobs.workload.trace, knobs.scheduler.slurm_conf, knobs.scheduler.config) == (path, path, "site")
    assert (knobs.workload.begin, knobs.workload.end) == ("2026-11-01T00:00:00", "2026-11-02T00:00:00")
    assert (knobs.jobs.preset, knobs.jobs.sizes) == ("all", "fit")
    assert knobs.nodes.machine.nodes == 6 and knobs.nodes.machine.processors == 4 * 16 + 2 * 32
    other = {"SITE": path, "FROM": "2026-11-01T12:00:00", "PRESET": "none", "CONFIG": "fifo"}
    changed = resolve.resolve({resolve.GIVEN: " ".join(other), **other}, "experiment")
    assert (changed.workload.begin, changed.jobs.preset, changed.scheduler.config) == ("2026-11-01T12:00:00", "none", "fifo")


@pytest.mark.parametrize(
    ("name", "value"), [("TRACE", "a.swf"), ("SLURM_CONF", "a.conf"), ("NODES", "8"), ("MODEL", "raijin"), ("MALLEABLE", "0.5")]
)
def test_what_site_says_too_is_refused(tmp_path: Path, name: str, value: str) -> None:
    given = {"SITE": str(capture(tmp_path)), name: value}
    with pytest.raises(WrongUse, match=f"^{name}: SITE says that too; give SITE, or {name}"):
        resolve.resolve({resolve.GIVEN: " ".join(given), **given}, "experiment")


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_text("JobID|User\n")
    with pytest.raises(WrongUse, match=r"a\.tar: is not an archive of mirage-capture"):
        resolve.resolve({resolve.GIVEN: "SITE", "SITE": str(tmp_path / "a.tar")}, "experiment")


def test_what_is_wrong_in_its_slurm_conf_is_said_of_site(tmp_path: Path) -> None:
    path = str(capture(tmp_path, {"conf/slurm.conf": f"{CONF}NodeName=x y\n"}))
    with pytest.raises(WrongUse) as error:
        resolve.resolve({resolve.GIVEN: "SITE", "SITE": path}, "experiment")
    expected = f"SITE: {path}: conf/slurm.conf line 17: what follows the value of NodeName is not a Key=Value of slurm.conf"
    assert resolve.user_message(error.value) == expected


def test_the_lines_of_its_slurm_conf_are_read_as_those_of_a_file(tmp_path: Path) -> None:
    path = capture(tmp_path)
    lines = list(ConfFiles(path).lines())
    assert lines[0].where.startswith(f"{path}: conf/slurm.conf line ")
    texts = [" ".join(f"{key}={value}" for key, value in line.words) for line in lines]
    assert [text for text in texts if text.startswith("PartitionName=")] == [
        line for line in CONF.splitlines() if line.startswith("PartitionName=")
    ]


def test_the_machine_of_an_archive(tmp_path: Path) -> None:
    site = site_conf.read(capture(tmp_path))
    assert [(one.names, one.cpus) for one in site.nodes] == [("c[1-4]", 16), ("g[1-2]", 32)]
    # gres.conf has the types.
    assert dict(site.nodes[1].extra)["Gres"] == "gpu:a100:4"
    assert dict(site.nodes[0].extra) == {"RealMemory": "64000", "CoreSpecCount": "1", "MemSpecLimit": "2000", "Weight": "2"}
    assert [one["Nodes"] for one in site.partitions] == ["c[1-4]", "g[1-2]"]
    assert site.topology == "SwitchName=s1 Nodes=c[1-4]\nSwitchName=s2 Nodes=g[1-2]\nSwitchName=top Switches=s1,s2\n"
    assert site.settings["TopologyPlugin"] == "topology/tree"
    # Jobs belong to users of Slurm: limits of the scheduler for each user hold.
    assert site.settings["SchedulerParameters"] == "bf_max_job_user=4,bf_window=2880"
    assert "bf_max_job_user" not in site_conf.read(capture(tmp_path), "no").settings["SchedulerParameters"]


def test_access_to_partitions_is_what_scontrol_showed(tmp_path: Path) -> None:
    assert site_conf.read(capture(tmp_path)).of_accounts == {"gpu": {"QOS": "gpus", "AllowAccounts": "a_1"}}
    shown = (
        "PartitionName=cpu AllowGroups=ALL AllowAccounts=a_2 AllowQos=ALL QoS=N/A State=UP TotalCPUs=64\n"
        "PartitionName=gpu AllowGroups=ALL DenyAccounts=a_2 AllowQos=normal,high QoS=gpus State=UP TotalCPUs=64\n"
    )
    site = site_conf.read(capture(tmp_path, {"scontrol/partition.txt": shown}))
    assert site.of_accounts == {
        "cpu": {"AllowAccounts": "a_2"},
        "gpu": {"DenyAccounts": "a_2", "AllowQos": "normal,high", "QOS": "gpus"},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PartitionName=cpu QoS=N/A State=UP TotalCPUs=6", "partition.txt:1: is torn: it has no end of line"),
        ("PartitionName=cpu AllowAccounts=a_\n", "partition.txt:1: is torn: it has no QoS, or ends there"),
        ("PartitionName=cpu AllowAccounts=a_2 QoS=gpus Sta\n", "partition.txt:1: is torn: it has no QoS, or ends there"),
        ("PartitionName=cpu AllowAccounts=a_2 QoS=gpus MaxTime=1 T\n", "partition.txt:1: is torn: it has no State, or ends there"),
        ("a_2\n", "partition.txt:1: 'a_2' does not begin with PartitionName="),
    ],
)
def test_torn_partitions(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        site_conf.read(capture(tmp_path, {"scontrol/partition.txt": text}))


def test_jobs_can_have_what_is_not_set_aside_for_the_system(tmp_path: Path) -> None:
    site = site_conf.read(capture(tmp_path))
    offered = offer(site.nodes, site.partitions, "CR_Core_Memory", None)
    [nodes] = offered.partitions["cpu"].nodes
    assert (nodes.cpus, nodes.memory) == (15, 62000)


@pytest.mark.parametrize(
    ("gres", "conf", "expected"),
    [
        ("NodeName=g[1-2] Name=gpu Type=a100 Count=2\nNodeName=g[1-2] Name=gpu Type=h100 Count=2\n", CONF, "gpu:a100:2,gpu:h100:2"),
        ("Name=gpu Type=a100 Count=3\n", CONF, "gpu:4"),  # they do not agree on the number
        (GRES, CONF.replace("gpu:4", "gpu:v100:4"), "gpu:v100:4"),
        ("AutoDetect=nvml\n", CONF, "gpu:4"),
    ],
)
def test_types_of_gres(tmp_path: Path, gres: str, conf: str, expected: str) -> None:
    site = site_conf.read(capture(tmp_path, {"conf/gres.conf": gres, "conf/slurm.conf": conf}))
    assert dict(site.nodes[1].extra)["Gres"] == expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"conf/slurm.conf": None}, r"capture\.tar: conf/slurm\.conf is not in it"),
        (
            {"conf/slurm.conf": f"{CONF}NodeName=x y\n"},
            r"capture\.tar: conf/slurm\.conf line 17: what follows the value of NodeName",
        ),
        (
            {"conf/topology.conf": "SwitchName=s1 Nodes=c[1\n"},
            r"capture\.tar: conf/topology\.conf line 1: a list of names is not a host list",
        ),
        (
            {"conf/gres.conf": "NodeName=g[ Name=gpu Type=a\n"},
            r"capture\.tar: conf/gres\.conf line 1: NodeName: is not a host list",
        ),
    ],
)
def test_wrong_files_in_an_archive(tmp_path: Path, changes: dict[str, str | None], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        site_conf.read(capture(tmp_path, changes))


def test_files_beside_a_slurm_conf_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    assert "TopologyPlugin" not in site_conf.read(tmp_path / "slurm.conf").settings
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=c[01-04],g[1-2]\n")
    assert site_conf.read(tmp_path / "slurm.conf").topology == "SwitchName=s Nodes=c[1-4],g[1-2]\n"


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6), st.sets(st.integers(0, 9)))
def test_a_tree_has_the_nodes_that_are_there_each_once_and_no_empty_switch(switches: list[list[int]], there: set[int]) -> None:
    nodes = {f"n{number}": f"m{number}" for number in there}
    given = [topology.Switch("", f"s{number}", ",".join(f"n{n}" for n in names), "") for number, names in enumerate(switches)]
    given.append(topology.Switch("", "top", "", ",".join(f"s{number}" for number in range(len(switches)))))
    text, unknown = topology.tree(given, nodes)
    kept = [number for number, names in enumerate(switches) if set(names) & there]
    assert unknown == sum(name not in there for names in switches for name in names)
    assert [line.split()[0] for line in text.splitlines()] == [f"SwitchName=s{n}" for n in kept] + ["SwitchName=top"] * bool(kept)
    assert all("Nodes=m" in line for line in text.splitlines()[:-1])


@pytest.mark.parametrize(
    ("names", "words"),
    [("s[1-2]", "line 2: the switch is defined twice"), ("s;x", "line 2: the name of a switch may have letters")],
)
def test_names_of_switches_that_are_refused(names: str, words: str) -> None:
    given = [topology.Switch("line 1", "s1", "a1", ""), topology.Switch("line 2", names, "a2", "")]
    with pytest.raises(WrongUse, match=f"^slurm_conf: {words}"):
        topology.tree(given, {"a1": "a1", "a2": "a2"})


TOPOLOGIES = """
- topology: blocks
  block: {block_sizes: [4], blocks: [{block: b1, nodes: "c[01-04]"}]}
- topology: tree1
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[1-2]
      - switch: s1
        nodes: c[01-04]
      - switch: s2
        nodes: [g1, g2]
"""


def test_topology_yaml_decides_where_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF.replace("TopologyPlugin=topology/tree\n", ""))
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=c[01-04],g[1-2]\n")
    (tmp_path / "topology.yaml").write_text(TOPOLOGIES)
    site = site_conf.read(tmp_path / "slurm.conf")
    assert site.topology == "SwitchName=top Switches=s1,s2\nSwitchName=s1 Nodes=c[1-4]\nSwitchName=s2 Nodes=g[1-2]\n"
    assert site.settings["TopologyPlugin"] == "topology/tree"
    assert "topology.yaml: blocks: topology/block: a cluster has one topology here" in map(str, site.left_out)
    of_archive = site_conf.read(capture(tmp_path, {"conf/topology.yaml": TOPOLOGIES}))
    assert of_archive.topology == site.topology
    # A flat one, beside a TopologyPlugin that Slurm does not read then; and one that is not taken over.
    for text, group, words in (
        ("[{topology: a, flat: true}]", REST, "TopologyPlugin=topology/tree: topology.yaml decides"),
        (
            "[{topology: a, block: {}}]",
            SCHEDULING,
            "topology.yaml: topology/block: no topology: all nodes are equally near; topology/",
        ),
    ):
        (tmp_path / "slurm.conf").write_text(CONF)
        (tmp_path / "topology.yaml").write_text(text)
        site = site_conf.read(tmp_path / "slurm.conf")
        assert site.topology == "" and "TopologyPlugin" not in site.settings
        assert [item.group for item in site.left_out if str(item).startswith(words)] == [group]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n  b: secret\n", "line 2: is not YAML"),
        ("secret", "is not a list of topologies"),
        ("[secret]", "topology 1: is not one of a list"),
        ("[{topology: a}]", "topology 1: is not one of a list"),
        ("[{topology: a, tree: secret}]", "topology 1: tree: has no list of switches"),
        ("[{topology: a, tree: {switches: [{switch: 's[', nodes: secret}]}}]", "topology 1: switch 1: a list of names is not a"),
    ],
)
def test_a_topology_yaml_that_cannot_be_read_is_not_quoted(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "topology.yaml").write_text(text)
    with pytest.raises(WrongUse, match=rf"^slurm_conf: {tmp_path}/topology\.yaml:? {words}") as error:
        site_conf.read(tmp_path / "slurm.conf")
    assert "secret" not in str(error.value)


def test_only_slurmctlds_own_file_has_what_a_slurmd_must_not_read(tmp_path: Path) -> None:
    site = site_conf.read(capture(tmp_path))
    (tmp_path / "etc/nodes").mkdir(parents=True)
    nodes = [{"prefix": n.prefix, "first": n.first, "count": n.count, "cpus": n.cpus, "extra": dict(n.extra)} for n in site.nodes]
    options: dict[str, Any] = {
        "directory": str(tmp_path), "settings": {"TopologyPlugin": "topology/tree"}, "nodes": nodes, "port": 17000, "ports": 7,
        "partitions": [{"name": "p"}], "address": "127.0.0.1", "hostname": "here", "hosts": [], "known": "", "front_ends": 0,
        "wide_steps": False, "extras": {}, "others": {}, "speed": 1.0,
        "event_clock": False, "silent_nodes": False, "controllers": 1, "version": "", "topology": site.topology,
    }  # fmt: skip
    configure(options, write=True)
    etc = tmp_path / "etc"
    own, common, node = (etc / name for name in ("slurm.conf", "common.conf", "nodes/c1.conf"))
    for word in ("TopologyPlugin=", "CoreSpecCount=1", "MemSpecLimit=2000"):
        texts = [path.read_text() for path in (own, common, node)]
        assert [word in text for text in texts] == [True, False, False], word
    assert (etc / "topology.conf").read_text().endswith(site.topology) and not (etc / "nodes/topology.conf").exists()
    configure({**options, "settings": {}, "topology": "", "wide_steps": True}, write=True)
    assert "CoreSpecCount" not in own.read_text() and not (etc / "topology.conf").exists()


def test_the_window(tmp_path: Path) -> None:
    path = capture(tmp_path, begin=BEGIN + 3600, end=BEGIN + DAY, zone="Nowhere/Else")
    knobs = resolve.resolve({resolve.GIVEN: "SITE", "SITE": str(path)}, "experiment")
    assert knobs.workload.begin == "2026-11-01T00:00:00"  # in UTC: the zone is not known
