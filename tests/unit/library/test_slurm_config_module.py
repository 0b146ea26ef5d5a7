"""The module slurm_config, run in process, and the role that calls it, run by Ansible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from modules import ROOT, Caller


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "etc/nodes").mkdir(parents=True)
    return {
        "directory": str(tmp_path),
        "settings": {"ClusterName": "mirage", "MinJobAge": 300},
        "nodes": [{"count": 3, "cpus": 4}],
        "port": 17000,
        "ports": 5,
        "partitions": [{"name": "batch", "Default": True}],
    }


def content(directory: Path) -> dict[str, str]:
    """Return the content of the files below etc, by path, without the first line, which names the generator."""
    files = (path for path in (directory / "etc").rglob("*") if path.is_file())
    return {str(path.relative_to(directory / "etc")): path.read_text().split("\n", 1)[1] for path in files}


def digests(result: dict[str, Any]) -> list[str]:
    """Return the digests of the nodes' configuration."""
    return [entry["digest"] for entry in result["nodes"]]


def test_slurm_conf_and_a_slim_file_for_each_node_are_written_once(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    result = call("slurm_config", **params)
    assert result["changed"] is True
    settings = "ClusterName=mirage\nMinJobAge=300\n"
    line = "NodeName={} NodeAddr=127.0.0.1 Port={} CPUs=4\n"
    assert content(tmp_path) == {
        "slurm.conf": settings + line.format("n[1-3]", "[17001-17003]") + "PartitionName=batch Nodes=ALL Default=YES\n",
        "common.conf": settings,
        **{f"nodes/n{i}.conf": f"Include {tmp_path}/etc/common.conf\n" + line.format(f"n{i}", 17000 + i) for i in (1, 2, 3)},
    }
    again = call("slurm_config", **params)
    assert (again["changed"], again["files"]) == (False, [])
    assert [again[key] for key in ("slurmctld_digest", "nodes")] == [result["slurmctld_digest"], result["nodes"]]


def test_nodes_beyond_the_block_use_the_next_addresses(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    more = {"nodes": [{"count": 3, "cpus": 4}, {"count": 6, "cpus": 8, "prefix": "fat"}], "hostname": "here"}
    result = call("slurm_config", **{**params, **more})
    assert [line for line in content(tmp_path)["slurm.conf"].splitlines() if line.startswith("NodeName")] == [
        "NodeName=n[1-3] NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=4",
        "NodeName=fat1 NodeAddr=127.0.0.1 Port=17004 CPUs=8",
        "NodeName=fat[2-5] NodeAddr=127.0.0.2 Port=[17001-17004] CPUs=8",
        "NodeName=fat6 NodeAddr=127.0.0.3 Port=17001 CPUs=8",
    ]
    assert content(tmp_path)["nodes/fat2.conf"].endswith("NodeName=fat2 NodeAddr=127.0.0.2 Port=17001 CPUs=8\n")
    assert [[entry[key] for key in ("prefix", "first", "count", "hostname")] for entry in result["nodes"]] == [
        ["n", 1, 3, "here"],
        ["fat", 1, 1, "here"],
        ["fat", 2, 4, "127.0.0.2"],
        ["fat", 6, 1, "127.0.0.3"],
    ]
    assert len(set(digests(result))) == 4
    assert call("slurm_config", **{**params, **more})["changed"] is False


def test_a_larger_class_does_not_move_the_other_nodes(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    fat = {"count": 2, "cpus": 8, "prefix": "fat"}
    before = call("slurm_config", **{**params, "nodes": [{"count": 2, "cpus": 4}, fat]})
    slim = {name: text for name, text in content(tmp_path).items() if name != "slurm.conf"}
    after = call("slurm_config", **{**params, "nodes": [{"count": 4, "cpus": 4}, fat], "ports": 7})
    assert content(tmp_path).items() >= slim.items()
    ranges = [(entry["prefix"], entry["first"], entry["count"]) for entry in after["nodes"]]
    assert ranges == [("n", 1, 2), ("n", 3, 2), ("fat", 1, 2)]
    assert digests(before) == [digests(after)[0], digests(after)[2]]


def test_with_wide_steps_only_slurm_conf_is_written(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    slim = call("slurm_config", **params)
    wide = call("slurm_config", **params, wide_steps=True)
    assert set(content(tmp_path)) == {"slurm.conf"}
    assert wide["slurmctld_digest"] == slim["slurmctld_digest"]
    assert digests(wide) != digests(slim)
    more = {**params, "nodes": [{**params["nodes"][0], "count": 4}], "wide_steps": True}
    assert digests(call("slurm_config", **more)) != digests(wide), "every slurmd has to read the new node"


@pytest.mark.parametrize("wide", [False, True])
def test_another_scheduler_configuration_concerns_slurmctld_only(call: Caller, params: dict[str, Any], wide: bool) -> None:
    params["wide_steps"] = wide
    before = call("slurm_config", **params)
    scheduler = {"SchedulerType": "sched/builtin", "SchedulerParameters": {"bf_interval": 7}, "PriorityWeightAge": 3}
    after = call("slurm_config", **{**params, "settings": {**params["settings"], **scheduler}, "partitions": [{"name": "long"}]})
    assert after["slurmctld_digest"] != before["slurmctld_digest"]
    assert digests(after) == digests(before)
    other = call("slurm_config", **{**params, "settings": {**params["settings"], "KillWait": 7}})
    assert digests(other) != digests(before)


def test_each_of_several_hosts_writes_all_nodes_and_the_slim_files_of_its_own(
    call: Caller, params: dict[str, Any], tmp_path: Path
) -> None:
    params |= {"nodes": [{"count": 5, "cpus": 4}], "hosts": ["10.0.0.1", "10.0.0.2"], "hostname": "head"}
    results = {}
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.9"):
        folder = tmp_path / host
        (folder / "etc/nodes").mkdir(parents=True)
        results[host] = call("slurm_config", **{**params, "directory": str(folder), "address": host})
    first, second, head = (content(tmp_path / host) for host in results)
    assert [line for line in first["slurm.conf"].splitlines() if line.startswith("NodeName")] == [
        "NodeName=n[1-3] NodeAddr=10.0.0.1 Port=[17001-17003] CPUs=4",
        "NodeName=n[4-5] NodeAddr=10.0.0.2 Port=[17001-17002] CPUs=4",
    ]
    assert first["slurm.conf"] == second["slurm.conf"] == head["slurm.conf"]
    assert {name for name in first if name.startswith("nodes/")} == {f"nodes/n{i}.conf" for i in (1, 2, 3)}
    assert {name for name in second if name.startswith("nodes/")} == {"nodes/n4.conf", "nodes/n5.conf"}
    assert not [name for name in head if name.startswith("nodes/")], "a head that is not a compute host has no slim files"
    assert [[entry[key] for key in ("first", "count", "hostname")] for entry in results["10.0.0.2"]["nodes"]] == [
        [4, 2, "10.0.0.2"]
    ]
    assert [entry["hostname"] for entry in results["10.0.0.1"]["nodes"]] == ["10.0.0.1"], "the address on which its slurmd listen"
    assert results["10.0.0.9"]["nodes"] == []
    assert len({result["slurmctld_digest"] for result in results.values()}) == 1


def test_an_added_host_does_not_change_the_nodes_of_the_others(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    params |= {"nodes": [{"count": 4, "cpus": 4}], "hosts": ["10.0.0.1", "10.0.0.2"], "address": "10.0.0.2"}
    before = call("slurm_config", **params)
    larger = {"directory": str(tmp_path), "nodes": [{"count": 6, "cpus": 4}], "hosts": ["10.0.0.1", "10.0.0.2", "10.0.0.3"]}
    placement = call("slurm_placement_info", **larger)
    assert (placement["changed"], placement["counts"]) == (False, {"10.0.0.1": 2, "10.0.0.2": 2, "10.0.0.3": 2})
    more = {**params, **larger, "known": placement["known"]}
    after = call("slurm_config", **more)
    assert after["nodes"] == before["nodes"]
    assert after["slurmctld_digest"] != before["slurmctld_digest"]
    new = tmp_path / "new"
    (new / "etc/nodes").mkdir(parents=True)
    joined = call("slurm_config", **{**more, "directory": str(new), "address": "10.0.0.3"})
    assert content(new)["slurm.conf"] == content(tmp_path)["slurm.conf"], "a host without an earlier slurm.conf computes the same"
    assert [(entry["first"], entry["count"]) for entry in joined["nodes"]] == [(5, 2)]
    again = call("slurm_placement_info", **larger)
    assert call("slurm_config", **{**more, "known": again["known"]})["changed"] is False


def test_an_empty_list_of_hosts_is_refused(call: Caller, tmp_path: Path) -> None:
    refused = call("slurm_placement_info", directory=str(tmp_path), nodes=[{"count": 1, "cpus": 1}], hosts=[])
    assert refused["msg"].startswith("wrong use: INVENTORY: group compute is empty")


def test_check_mode_returns_the_same_and_writes_nothing(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    checked = call("slurm_config", check=True, **params)
    assert content(tmp_path) == {}
    written = call("slurm_config", **params)
    assert {key: written[key] for key in ("changed", "files", "diff", "slurmctld_digest", "nodes")} == {
        key: checked[key] for key in ("changed", "files", "diff", "slurmctld_digest", "nodes")
    }
    assert checked["diff"]["before"] == "" and checked["diff"]["after"] == (tmp_path / "etc/slurm.conf").read_text()


def test_files_of_removed_nodes_are_deleted(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    before = call("slurm_config", **params)
    fewer = call("slurm_config", **{**params, "nodes": [{"count": 1, "cpus": 4}]})
    assert sorted(path.name for path in (tmp_path / "etc/nodes").iterdir()) == ["n1.conf"]
    assert f"{tmp_path}/etc/nodes/n3.conf" in fewer["files"]
    assert digests(fewer) == digests(before), "the configuration of n1 has not changed"
    assert fewer["slurmctld_digest"] != before["slurmctld_digest"]


def test_time_outs_are_multiplied_by_the_speed_in_all_files(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    before = call("slurm_config", **params)
    fast = call("slurm_config", **params, speed=20)
    for name in ("slurm.conf", "common.conf"):
        assert {"MinJobAge=2000", "MessageTimeout=200", "AuthInfo=cred_expire=120"} <= set(content(tmp_path)[name].splitlines())
    assert digests(fast) != digests(before) and fast["slurmctld_digest"] != before["slurmctld_digest"]
    assert call("slurm_config", **params, speed=20)["changed"] is False
    wrong = call("slurm_config", **{**params, "settings": {"MinJobAge": "long"}}, speed=20)
    assert wrong["msg"].startswith("wrong use: slurm.conf: MinJobAge=long: must be a number")
    back = call("slurm_config", **params, speed=1)
    assert [back[key] for key in ("slurmctld_digest", "nodes")] == [before[key] for key in ("slurmctld_digest", "nodes")]


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"ClusterName": "other"}},
        {"nodes": [{"count": 3, "cpus": 5}]},
        {"port": 17010},
        {"address": "127.0.0.9"},
        {"nodes": [{"count": 3, "cpus": 4, "extra": {"Feature": "gpu"}}]},
    ],
)
def test_the_digest_depends_on_everything_that_a_node_reads(call: Caller, params: dict[str, Any], change: dict[str, Any]) -> None:
    assert digests(call("slurm_config", **params)) != digests(call("slurm_config", **{**params, **change}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"Two words": 1}}, "wrong use: slurm.conf: 'Two words' is not the name of a setting"),
        ({"settings": {"MailProg": "a\nb"}}, "wrong use: slurm.conf: MailProg: has the control character U+000A"),
        ({"settings": {"MailProg": None}}, "wrong use: slurm.conf: 'MailProg' has no value"),
        (
            {"nodes": [{"count": 3, "cpus": 4}, {"count": 1, "cpus": 1, "first": 3}]},
            "wrong use: nodes: class 2: n3 would be there twice, see class 1",
        ),
        (
            {"partitions": [{"MaxTime": 5}]},
            "wrong use: slurm.conf: partition '': the name is not one word without quotes and , | = # \\",
        ),
        ({"extras": {"none": {}}}, "wrong use: there is no folder none in mirage_extras"),
        (
            {"partitions": [{"name": "p", "State": "UP\nNodeName=x"}]},
            "wrong use: slurm.conf: PartitionName=p: State: has the control character U+000A",
        ),
    ],
)
def test_a_refused_configuration_writes_nothing(
    call: Caller, params: dict[str, Any], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    result = call("slurm_config", **{**params, **change})
    assert (result["failed"], result["msg"]) == (True, message)
    assert content(tmp_path) == {}


def test_changes_are_refused_while_a_replay_runs(
    call: Caller, params: dict[str, Any], tmp_path: Path, replaying: Callable[[Path, str], None]
) -> None:
    call("slurm_config", **params)
    replaying(tmp_path, "kth")
    assert call("slurm_config", **params)["changed"] is False
    before = content(tmp_path)
    for check in (True, False):
        refused = call("slurm_config", check=check, **{**params, "settings": {"ClusterName": "other"}})
        assert refused["msg"].startswith("wrong use: NODES, CPUS, PORT, CONFIG: run kth goes on")
    assert content(tmp_path) == before


USERS_SETTINGS = {
    "SlurmdTimeout": "omit",
    "mailprog": "omit",  # names of settings are case-insensitive in Slurm
    "TreeWidth": 7,
    "PreemptMode": ["SUSPEND", "GANG"],
    "SchedulerParameters": {"bf_continue": False, "bf_window": "omit", "defer": True, "bf_interval": 9},
    "CompleteWait": "{{ 30 + 2 }}",
}
USERS_PARTITIONS = [
    {"name": "long", "Default": True, "MaxTime": "1:30:00", "PreemptMode": False},
    {"name": "short", "Nodes": "n1"},
]
TIME_OUTS = {"settings": {"TCPTimeout": 3, "KillWait": 20}, "configuration": "backfill"}
OTHERS = {name: yaml.safe_load((ROOT / f"configs/{name}.yml").read_text()) for name in ("fifo",)}
# Variables of the role slurm_controller without the role's name, by case.
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "settings": {"settings": USERS_SETTINGS},
    "partitions": {"partitions": USERS_PARTITIONS},
    "real_time": TIME_OUTS,
    "fast": {**TIME_OUTS, "speed": 20},
    "long_age": {"settings": {"MinJobAge": 90_000}},
    "event_long_age": {"settings": {"MinJobAge": 90_000}, "event_clock": True},
    "one": {"configuration": "slurm-defaults", "speed": 20, "other_configurations": OTHERS, "release": "25.11.7"},
    "other": {"configuration": "fifo", "speed": 20, "release": "25.11.7"},
    "event_no_time_out": {"settings": {"SlurmdTimeout": 0}, "event_clock": True},
    "shared": {"shared_folder": "/shared/wide"},
}


@pytest.fixture(scope="module")
def converged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The lines of slurm.conf of each case, as the role writes them. All are hosts of one playbook, which is started once."""
    folder = tmp_path_factory.mktemp("roles")
    hosts = {}
    for case, variables in CASES.items():
        (folder / case / "etc/nodes").mkdir(parents=True)
        (folder / case / "run").mkdir()
        own = {"slurm_controller_directory": str(folder / case), "slurm_controller_nodes": [{"count": 2, "cpus": 1}]}
        hosts[case] = own | {f"slurm_controller_{name}": value for name, value in variables.items()}
    play = {"hosts": "all", "connection": "local", "gather_facts": False, "roles": ["slurm_controller"]}
    play["vars"] = {"ansible_python_interpreter": sys.executable}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}, sort_keys=False))
    subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), str(folder / "play.yml"), "-i", str(folder / "hosts.yml")],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_ROLES_PATH": str(ROOT / "roles")},
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    files = {case: folder / case / "etc/slurm.conf" for case in CASES} | {"fifo": folder / "one/etc/slurm.conf.fifo"}
    return {case: path.read_text().replace(str(path.parents[1]), "DIRECTORY").splitlines() for case, path in files.items()}


def test_another_configuration_for_a_run_is_as_if_the_cluster_had_it(converged: dict[str, list[str]]) -> None:
    assert converged["fifo"] == converged["other"] != converged["one"]


def test_settings_of_the_user_override_defaults_and_omit_removes_them(converged: dict[str, list[str]]) -> None:
    plain, lines = converged["plain"], converged["settings"]
    assert {"SlurmdTimeout=300", "MailProg=/bin/true", "TreeWidth=65533", "SchedulerType=sched/backfill"} <= set(plain)
    expected = {"TreeWidth=7", "PreemptMode=SUSPEND,GANG", "SchedulerParameters=defer,bf_interval=9", "CompleteWait=32"}
    assert expected <= set(lines)
    keys = [line.split("=")[0].lower() for line in lines]
    assert not {"slurmdtimeout", "mailprog"} & set(keys)
    own = {"treewidth", "preemptmode", "schedulerparameters", "completewait", "slurmdtimeout", "mailprog"}
    assert [line for line in lines[1:] if line.split("=")[0].lower() not in own] == [
        line for line in plain[1:] if line.split("=")[0].lower() not in own
    ], "nothing else changed"


def test_state_and_record_of_ended_jobs_in_a_folder_that_hosts_share(converged: dict[str, list[str]]) -> None:
    there = {"StateSaveLocation=/shared/wide/state", "JobCompLoc=/shared/wide/log/jobcomp.log"}
    assert set(converged["shared"]) - set(converged["plain"]) == there


def test_two_slurmctld_on_several_hosts_without_a_shared_folder_are_refused(tmp_path: Path) -> None:
    more = {"hosts": ["10.0.0.1", "10.0.0.2"], "head": "head1", "controllers": 2, "directory": str(tmp_path)}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "roles": ["slurm_controller"]}
    play["vars"] = {f"slurm_controller_{name}": value for name, value in more.items()}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    result = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), str(tmp_path / "play.yml"), "-i", "localhost,"],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_ROLES_PATH": str(ROOT / "roles")},
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    (line,) = [line for line in result.stdout.splitlines() if "wrong use: " in line and line.startswith("[ERROR]")]
    assert "CONTROLLERS=2: " in line and "(mirage_shared_folder), or leave out CONTROLLERS" in line


def test_partitions_of_the_user_replace_those_of_the_configuration(converged: dict[str, list[str]]) -> None:
    assert converged["partitions"][-2:] == [
        "PartitionName=long Nodes=ALL Default=YES MaxTime=1:30:00 PreemptMode=OFF",
        "PartitionName=short Nodes=n1",
    ]


def test_time_outs_of_the_role_follow_the_speed(converged: dict[str, list[str]]) -> None:
    """Time-outs in the role's defaults, the scheduler's configuration and the user's settings follow; policy settings do not."""
    fast = converged["fast"]
    assert {"MessageTimeout=60", "TCPTimeout=3", "KillWait=20"} <= set(converged["real_time"])
    assert {"MessageTimeout=1200", "TCPTimeout=60", "KillWait=20", "SlurmctldTimeout=2400"} <= set(fast)
    assert "AuthInfo=socket=DIRECTORY/run/private/munge.socket,cred_expire=120" in fast
    (parameters,) = (line for line in fast if line.startswith("SchedulerParameters="))
    assert {"bf_interval=5", "bf_max_time=100", "max_sched_time=40"} <= set(parameters.split("=", 1)[1].split(","))


def test_two_settings_are_long_enough_for_the_event_clock(converged: dict[str, list[str]]) -> None:
    """Those that are longer, or switched off, stay; all others are as in real time."""
    assert set(converged["event_long_age"]) - set(converged["long_age"]) == {"SlurmdTimeout=60000"}
    assert {"SlurmdTimeout=0", "MinJobAge=36000"} <= set(converged["event_no_time_out"])


def test_settings_and_files_depend_on_the_release(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    params["settings"] |= {"SlurmctldHost": "here(127.0.0.1)", "SlurmdParameters": "config_overrides"}
    call("slurm_config", **params, version="16.05.6")
    old = content(tmp_path)
    assert old["common.conf"] == "ClusterName=mirage\nControlAddr=127.0.0.1\nControlMachine=here\nFastSchedule=2\nMinJobAge=300\n"
    assert old["slurm.conf"].startswith("# For Slurm 16.05.\n" + old["common.conf"])
    assert "cgroup.conf" not in old
    # slurmctld and slurmd read it from the folder of their slurm.conf.
    call("slurm_config", **params, version="25.11.7")
    new = content(tmp_path)
    assert new["cgroup.conf"] == new["nodes/cgroup.conf"] == "CgroupPlugin=disabled\n"
    assert "SlurmctldHost=here(127.0.0.1)\n" in new["common.conf"]
    call("slurm_config", **params, version="25.11.7", wide_steps=True)
    assert set(content(tmp_path)) == {"slurm.conf", "cgroup.conf"}
    call("slurm_config", **params, version="slurm-wlm 22.05.8")
    assert not [name for name in content(tmp_path) if "cgroup" in name]


def test_slurmctld_reads_a_copy_where_there_are_other_configurations(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    link, copy, own = tmp_path / "etc/active-slurm.conf", tmp_path / "run/slurm.conf", tmp_path / "etc/slurm.conf"
    others = {"fifo": {"settings": {**params["settings"], "SchedulerType": "sched/builtin"}, "partitions": [{"name": "batch"}]}}
    before = call("slurm_config", **params)
    result = call("slurm_config", **params, others=others)
    assert [result[key] for key in ("slurmctld_digest", "nodes")] == [before[key] for key in ("slurmctld_digest", "nodes")]
    assert link.readlink() == Path("../run/slurm.conf") and link.read_text() == own.read_text()
    fifo = tmp_path / "etc/slurm.conf.fifo"
    changed = own.read_text().replace("MinJobAge=300\n", "MinJobAge=300\nSchedulerType=sched/builtin\n")
    assert fifo.read_text() == changed.replace(" Default=YES", "")
    assert call("slurm_config", **params, others=others)["changed"] is False
    # A run has chosen it, and goes on.
    copy.write_bytes(fifo.read_bytes())
    call("slurm_config", **params, others=others)
    assert link.read_text() == fifo.read_text()
    call("slurm_config", **{**params, "settings": {"ClusterName": "mirage", "KillWait": 7}}, others=others)
    assert "KillWait=7" in link.read_text()
    call("slurm_config", **params)
    assert not link.is_symlink() and not copy.exists() and not fifo.exists()


def test_an_invalid_release_is_refused(call: Caller, params: dict[str, Any]) -> None:
    result = call("slurm_config", **params, version="latest")
    assert result["msg"] == "wrong use: slurm_version=latest: it may be a release of Slurm, like 22.05.8"


def test_a_second_slurmctld_has_a_configuration_of_its_own(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    two = {**params, "controllers": 2, "settings": {**params["settings"], "SlurmctldHost": "localhost(127.0.0.1)"}}
    result = call("slurm_config", **two)
    assert result["second_hostname"] == "127.0.0.2"
    files = content(tmp_path)
    first, second = (
        [line for line in files[name].splitlines() if line.startswith("Slurmctld")] for name in ("slurm.conf", "slurm2.conf")
    )
    assert first == ["SlurmctldHost=localhost(127.0.0.1)", "SlurmctldHost=127.0.0.2(127.0.0.2)"]
    assert second == [
        "SlurmctldHost=127.0.0.1(127.0.0.1)",
        "SlurmctldHost=127.0.0.2(127.0.0.2)",
        f"SlurmctldLogFile={tmp_path}/log/slurmctld2.log",
        f"SlurmctldPidFile={tmp_path}/run/slurmctld2.pid",
    ]
    assert [line for line in files["slurm2.conf"].splitlines() if not line.startswith("Slurmctld")] == [
        line for line in files["slurm.conf"].splitlines() if not line.startswith("Slurmctld")
    ]
    assert call("slurm_config", **two)["changed"] is False
    one = call("slurm_config", **{**two, "controllers": 1})
    assert (one["second_hostname"], "slurm2.conf" in content(tmp_path)) == ("", False)
    assert one["slurmctld_digest"] != result["slurmctld_digest"]


def test_a_second_slurmctld_on_another_host(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    """Only its host has the second configuration; all hosts know its name and address."""
    head, first, other = "10.0.0.1", "10.0.0.2", "10.0.0.3"
    params |= {"controllers": 2, "second_name": "slurmctld2-wide", "second_address": first, "hosts": [first, other]}
    params["settings"] |= {"SlurmctldHost": f"slurmctld-wide({head})"}
    files, names, digests = {}, {}, {}
    for host in (head, first, other):
        (tmp_path / host / "etc/nodes").mkdir(parents=True)
        result = call("slurm_config", **{**params, "directory": str(tmp_path / host), "address": host})
        files[host], names[host], digests[host] = content(tmp_path / host), result["second_hostname"], result["slurmctld_digest"]
    assert names == {head: "", first: "slurmctld2-wide", other: ""}
    assert [host for host in files if "slurm2.conf" in files[host]] == [first]
    hosts = ["SlurmctldHost=slurmctld-wide(10.0.0.1)", "SlurmctldHost=slurmctld2-wide(10.0.0.2)"]
    for text in (*(files[host]["slurm.conf"] for host in files), files[first]["slurm2.conf"]):
        assert [line for line in text.splitlines() if line.startswith("SlurmctldHost")] == hosts
    assert f"SlurmctldLogFile={tmp_path}/{first}/log/slurmctld2.log\n" in files[first]["slurm2.conf"]
    assert digests[head] == digests[other] != digests[first]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": "17.11.2"}, "needs Slurm 18.08 or later"),
        ({"hosts": ["one", "two"], "hostname": "one"}, "on several hosts a second slurmctld needs second_name and second_address"),
    ],
)
def test_where_there_can_be_no_second_slurmctld(call: Caller, params: dict[str, Any], change: dict[str, Any], reason: str) -> None:
    settings = {**params["settings"], "SlurmctldHost": "localhost(127.0.0.1)"}
    failed = call("slurm_config", **{**params, "settings": settings, "controllers": 2, **change})
    assert failed["failed"] is True and reason in failed["msg"]
