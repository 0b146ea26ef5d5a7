"""The module slurm_instance, run in process, in temporary folders."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from farm_states import farm_state
from modules import Caller
from other_managers import OTHERS

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to change the owner of folders")

# An account that does not exist, as before the first run of the role.
USER = "slurm-unit-test-nobody"


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    return {"name": "one", "root": str(tmp_path / "root"), "user": USER, "nodes": 4}


def test_folders_ports_and_code_are_created_once(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    directory = tmp_path / "root/one"
    checked = call("slurm_instance", check=True, **params)
    assert (checked["changed"], checked["directory"]) == (True, str(directory))
    assert not (tmp_path / "root").exists()
    created = call("slurm_instance", **params)
    assert created["changed"] is True
    content = json.loads((directory / "instance.json").read_text())
    assert created["ports"] == 5
    assert created["kernel_settings"]["kernel.pid_max"] >= 131072
    assert content == {"name": "one", "port": created["port"], "ports": 5, "addresses": 1, "nodes": 4, "user": USER}
    assert {path.name for path in directory.iterdir() if path.is_dir()} == {
        "etc",
        "bin",
        "lib",
        "state",
        "spool",
        "log",
        "run",
        "runs",
        "home",
        "transfer",
    }
    again = call("slurm_instance", **params)
    assert (again["changed"], again["port"]) == (False, created["port"])


def test_a_database_keeps_a_port_that_no_other_instance_gets(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    assert call("slurm_instance", **params)["database_port"] == 0
    kept = tmp_path / "root/one/instance.json"
    assert "database_port" not in json.loads(kept.read_text())
    first = call("slurm_instance", **params, database=True)
    assert (first["changed"], 10000 <= first["database_port"] < 17000) == (True, True)
    second = call("slurm_instance", **{**params, "name": "two"}, database=True)
    assert second["database_port"] != first["database_port"]
    again = call("slurm_instance", **params, database=True)
    assert (again["changed"], again["database_port"]) == (False, first["database_port"])
    assert json.loads(kept.read_text())["database_port"] == first["database_port"]
    taken = call("slurm_instance", **{**params, "name": "three", "port": first["database_port"] - 2})
    assert "belong to another instance" in taken["msg"]
    with socket.create_server(("127.0.0.1", first["database_port"])):
        assert call("slurm_instance", **params, database=True)["database_port"] != first["database_port"]


def test_the_installed_package_can_run_the_farm(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("slurm_instance", **params)
    directory = tmp_path / "root/one"
    command = ["/usr/bin/python3", "-m", "slurm_mirage.programs.farm", "status", str(directory)]
    status = subprocess.run(command, env={"PYTHONPATH": str(directory / "lib")}, capture_output=True, text=True, check=False)
    assert (status.returncode, json.loads(status.stdout), status.stderr) == (3, {"phase": "stopped"}, "")


def test_the_folders_mode_does_not_depend_on_the_umask(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        call("slurm_instance", **params)
    finally:
        os.umask(before)
    folders = [tmp_path / "root", tmp_path / "root/one", *(path for path in (tmp_path / "root/one").iterdir() if path.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o755}
    (tmp_path / "root/one").chmod(0o700)
    assert call("slurm_instance", **params)["changed"] is True
    assert stat.S_IMODE((tmp_path / "root/one").stat().st_mode) == 0o755


@pytest.fixture
def head(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the head, with 4 of the cluster's 9 nodes. Loopback addresses replace the addresses of other hosts."""
    return {**params, "address": "127.0.1.7", "cluster_nodes": 9, "block_nodes": 5}


def test_other_hosts_use_the_ports_of_the_head(call: Caller, head: dict[str, Any], tmp_path: Path) -> None:
    created = call("slurm_instance", **head)
    assert created["ports"] == 6, "one for slurmctld, and one for each node of the host with the most nodes"
    kept = json.loads((tmp_path / "root/one/instance.json").read_text())
    assert (kept["nodes"], kept["here"], kept["addresses"]) == (9, 4, 1)
    assert created["host"]["cores"] == os.cpu_count() and created["account"] is None
    assert 100 not in created["taken_ids"] or created["taken_ids"] == sorted(created["taken_ids"])
    other = {**head, "root": str(tmp_path / "other"), "address": "127.0.1.8", "nodes": 5, "follows": True}
    follower = call("slurm_instance", **other, port=created["port"], ports=created["ports"])
    assert (follower["port"], follower["ports"]) == (created["port"], created["ports"])
    assert call("slurm_instance", **other, port=created["port"], ports=created["ports"])["changed"] is False
    with socket.create_server(("127.0.1.8", created["port"] + 3)):
        refused = call("slurm_instance", check=True, **other, port=created["port"], ports=created["ports"])
    assert refused["msg"].startswith(
        f"wrong use: PORT={created['port']}: port {created['port'] + 3} of 127.0.1.8 is taken by another"
    )


def test_a_head_may_have_no_nodes(call: Caller, head: dict[str, Any]) -> None:
    created = call("slurm_instance", **{**head, "nodes": 0})
    assert (created["changed"], created["ports"]) == (True, 6)


def test_a_host_of_several_needs_its_own_address_and_has_no_second_one(call: Caller, head: dict[str, Any]) -> None:
    foreign = call("slurm_instance", **{**head, "address": "192.0.2.1"})
    assert foreign["msg"].startswith("wrong use: mirage_address=192.0.2.1: this host has no such address")
    many = call("slurm_instance", check=True, **{**head, "block_nodes": 15000, "cluster_nodes": 20000})
    assert many["msg"] == "wrong use: NODES: 15000 of them on one host; a cluster of several hosts has at most 14999 on each"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../two"}, "wrong use: CLUSTER=../two: "),
        ({"user": "root"}, "wrong use: instance_user=root: this account is not the instance's"),
        ({"port": 80}, "wrong use: PORT=80: needs 5 ports"),
        ({"address": "127.0.0.99"}, "wrong use: localhost resolves to "),
        ({"nodes": 1_000_000}, "wrong use: NODES=1000000: needs about "),
        ({"nodes": 15001, "port": 50600}, "wrong use: PORT=50600: needs 15000 ports"),
    ],
)
def test_a_refused_instance_creates_nothing(
    call: Caller, params: dict[str, Any], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    for check in (True, False):
        result = call("slurm_instance", check=check, **{**params, **change})
        assert result["failed"] is True
        assert result["msg"].startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_instances_created_at_the_same_time_get_different_ports(params: dict[str, Any], tmp_path: Path) -> None:
    script = "import sys, json, modules; from ansible.module_utils.testing import patch_module_args as p\n"
    script += "with p(json.loads(sys.argv[1])): modules.load('slurm_instance').main()"
    environment = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}"}
    calls = [
        subprocess.Popen(
            [sys.executable, "-c", script, json.dumps({**params, "name": name})],
            env=environment,
            stdout=subprocess.PIPE,
        )
        for name in ("one", "two", "three", "four")
    ]
    ports = sorted(json.loads(process.communicate()[0])["port"] for process in calls)
    assert all(after - before >= 5 for before, after in pairwise(ports)), ports


def test_changes_are_refused_while_a_replay_runs(
    call: Caller, params: dict[str, Any], tmp_path: Path, replaying: Callable[[Path, str], None]
) -> None:
    call("slurm_instance", **params)
    directory = tmp_path / "root/one"
    replaying(directory, "kth")
    assert call("slurm_instance", **params)["changed"] is False
    assert "run kth goes on" in call("slurm_instance", **{**params, "nodes": 5})["msg"]
    assert json.loads((directory / "instance.json").read_text())["nodes"] == 4
    (directory / "lib/slurm_mirage/farm.py").write_text("# older\n")
    assert "run kth goes on" in call("slurm_instance", **params)["msg"]
    assert (directory / "lib/slurm_mirage/farm.py").read_text() == "# older\n"


def test_the_common_folder_is_removed_with_the_last_instance(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("slurm_instance", **params)
    call("slurm_instance", **{**params, "name": "two"})
    root, absent = params["root"], {"state": "absent"}
    assert call("slurm_instance", check=True, name="one", root=root, **absent)["changed"] is True
    assert (tmp_path / "root/one/etc").is_dir()
    assert call("slurm_instance", name="one", root=root, **absent)["changed"] is True
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["two"]
    assert call("slurm_instance", name="two", root=root, **absent)["changed"] is True
    assert not (tmp_path / "root").exists()
    assert call("slurm_instance", name="two", root=root, **absent)["changed"] is False
    assert not (tmp_path / "root").exists()


def test_removal_is_refused_while_the_farm_runs(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("slurm_instance", **params)
    (tmp_path / "root/one/run/farm.json").write_text(json.dumps(farm_state()))
    absent = {"name": "one", "root": params["root"], "state": "absent"}
    assert call("slurm_instance", check=True, **absent)["changed"] is True, "outside check mode the role stops the farm first"
    result = call("slurm_instance", **absent)
    assert result["msg"].startswith("wrong use: the farm of instance one still runs")
    assert (tmp_path / "root/one/instance.json").exists()


def test_removal_is_refused_with_an_account_of_others(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("slurm_instance", **params)
    result = call("slurm_instance", name="one", root=params["root"], user="nobody", state="absent")
    assert result["msg"].startswith("wrong use: instance_user=nobody: this account is not the instance's")
    assert (tmp_path / "root/one/instance.json").exists()


@pytest.mark.parametrize(("first", "second"), [pair for name in OTHERS for pair in (("slurm", name), (name, "slurm"))])
def test_an_instance_keeps_its_resource_manager(
    call: Caller, params: dict[str, Any], tmp_path: Path, first: str, second: str
) -> None:
    call("slurm_instance", **params, rm=first)
    for check in (True, False):
        refused = call("slurm_instance", check=check, **params, rm=second)
        assert refused["msg"] == (
            f"wrong use: RM={second}: cluster one was built with {first}; make teardown CLUSTER=one first, or take another CLUSTER"
        )
    assert call("slurm_instance", **params, rm=first)["changed"] is False
    call("slurm_instance", name="one", root=params["root"], state="absent")
    assert call("slurm_instance", **params, rm=second)["changed"] is True
    content = json.loads((tmp_path / "root/one/instance.json").read_text())
    assert content.get("rm", "slurm") == second


def test_an_instance_belongs_to_another_until_it_is_made_without(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    root, further = str(tmp_path / "root"), {**params, "belongs_to": "one"}
    call("slurm_instance", **params)
    for name in ("one-2", "one-10"):
        assert call("slurm_instance", **{**further, "name": name})["changed"] is True
    assert call("slurm_instance", **{**further, "name": "one-2"})["changed"] is False
    call("slurm_instance", **{**params, "name": "one-3"})
    call("slurm_instance", **{**params, "name": "one-2-2", "belongs_to": "one-2"})
    assert call("slurm_instance_info", root=root, name="one")["belonging"] == ["one-2", "one-10"]
    refused = call("slurm_instance", **{**further, "name": "one-3"})
    assert refused["failed"] and refused["msg"] == (
        "wrong use: CLUSTER=one-3: it is there already and does not belong to one; take another CLUSTER, or AT_ONCE=1"
    )
    assert call("slurm_instance", **{**params, "name": "one-2"})["changed"] is True
    assert call("slurm_instance_info", root=root, name="one")["belonging"] == ["one-10"]
    (tmp_path / "root/one-10/instance.json").write_text("half a fi")
    assert call("slurm_instance_info", root=root, name="one")["belonging"] == []
    assert call("slurm_instance_info", root=str(tmp_path / "none"), name="one")["belonging"] == []
