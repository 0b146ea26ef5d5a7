"""The module openpbs_config, run in process on real folders."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from modules import Caller


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    for name in ("etc", "lib", "run", "opt/etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "opt/etc/pbs_resource_group").write_text("# shares\n")
    return {
        "directory": str(tmp_path),
        "prefix": str(tmp_path / "opt"),
        "nodes": [{"count": 3, "cpus": 4}],
        "settings": {"strict_ordering": True},
    }


def modes(folder: Path) -> dict[str, str]:
    """Mode of each entry below a folder, by path."""
    return {str(path.relative_to(folder)): f"{stat.S_IMODE(path.lstat().st_mode):o}" for path in folder.rglob("*")}


def test_homes_have_the_modes_that_openpbs_insists_on(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    """Folders of server and nodes as of OpenPBS's pbs_postinstall; no hook is there."""
    assert call("openpbs_config", check=True, **params)["changed"] is True
    assert not (tmp_path / "pbs").exists()
    assert call("openpbs_config", **params)["changed"] is True
    server, node = modes(tmp_path / "pbs/server"), modes(tmp_path / "pbs/moms/n2")
    assert {server[name] for name in ("server_priv", "server_priv/jobs", "server_priv/hooks", "sched_priv")} == {"750"}
    assert (server["spool"], server["server_priv/db_user"], server["server_logs"]) == ("1777", "600", "755")
    assert (node["mom_priv"], node["mom_priv/jobs"], node["checkpoint"], node["undelivered"], node["tmp"]) == (
        *("751", "751", "700"),
        *("1777", "755"),
    )
    assert [name for name in server if name.startswith("server_priv/hooks/")] == ["server_priv/hooks/tmp"]
    assert (tmp_path / "pbs/server/sched_priv/resource_group").read_text() == "# shares\n"
    again = call("openpbs_config", **params)
    assert (again["changed"], again["files"]) == (False, [])


def test_another_mode_of_a_folder_is_mended(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("openpbs_config", **params)
    jobs = tmp_path / "pbs/server/server_priv/jobs"
    jobs.chmod(0o777)
    assert call("openpbs_config", **params)["files"] == [str(jobs)]
    assert stat.S_IMODE(jobs.stat().st_mode) == 0o750


def test_each_node_has_a_file_with_ports_of_its_own(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("openpbs_config", **params)
    lines = (tmp_path / "etc/nodes/n3.conf").read_text().splitlines()
    home = tmp_path / "pbs/moms/n3"
    wanted = {f"PBS_HOME={home}", "PBS_MOM_NODE_NAME=n3", "PBS_LEAF_NAME=n3", "PBS_MOM_SERVICE_PORT=2006"}
    assert wanted | {"PBS_MANAGER_SERVICE_PORT=2007", "PBS_SERVER=pbs-head"} <= set(lines)
    assert f"$tmpdir {home}/tmp\n" in (home / "mom_priv/config").read_text()


def test_what_changes_is_restarted_and_nothing_else(call: Caller, params: dict[str, Any]) -> None:
    """Digests: of the scheduler with its settings, of all with the clock, of none with the number of nodes."""
    first = call("openpbs_config", **params)
    fifo = call("openpbs_config", **{**params, "settings": {"strict_ordering": False}})
    assert [first[key] == fifo[key] for key in ("server_digest", "scheduler_digest", "nodes")] == [True, False, True]
    more = call("openpbs_config", **{**params, "nodes": [{"count": 5, "cpus": 4}]})
    assert more["nodes"] == [{**first["nodes"][0], "count": 5}]
    fast = call("openpbs_config", **{**params, "speed": 20})
    assert [first[key] == fast[key] for key in ("server_digest", "scheduler_digest", "nodes")] == [False, False, False]


def test_the_clock_reaches_jobs_by_the_environment(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    environment = tmp_path / "etc/pbs_environment"
    call("openpbs_config", **params)
    assert environment.read_text() == "PATH=/usr/bin:/bin\nTZ=UTC\n"
    call("openpbs_config", **{**params, "speed": 20})
    assert f"LD_PRELOAD={tmp_path}/lib/virtual_clock.so\n" in environment.read_text()


def test_a_node_with_a_job_is_not_removed(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("openpbs_config", **params)
    job = tmp_path / "pbs/moms/n3/mom_priv/jobs/12.pbs-head.JB"
    job.touch()
    fewer = {**params, "nodes": [{"count": 2, "cpus": 4}]}
    message = "wrong use: NODES=2: node n3 is to be removed and runs job 12.pbs-head; wait for its end, or make teardown"
    assert call("openpbs_config", **fewer)["msg"] == message
    job.unlink()
    assert call("openpbs_config", **fewer)["changed"] is True
    assert [path.name for path in sorted((tmp_path / "pbs/moms").iterdir())] == ["n1", "n2"]
    assert sorted(path.name for path in (tmp_path / "etc/nodes").iterdir()) == ["n1.conf", "n2.conf"]


def test_links_in_a_folder_of_everybody_lead_nowhere_when_a_node_is_removed(
    call: Caller, params: dict[str, Any], tmp_path: Path
) -> None:
    call("openpbs_config", **params)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "pbs/moms/n3/spool/link").symlink_to(tmp_path / "precious")
    call("openpbs_config", **{**params, "nodes": [{"count": 2, "cpus": 4}]})
    assert (tmp_path / "precious/file").exists()
    assert not (tmp_path / "pbs/moms/n3").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"nodes": [{"count": 1001, "cpus": 1}]}, "wrong use: nodes: class 1: node n1001: with OpenPBS at most 1000 nodes"),
        (
            {"nodes": [{"count": 1, "cpus": 1, "extra": {"Gres": "gpu:1"}}]},
            "wrong use: nodes: class 1: Gres: a node of OpenPBS has only processors here; leave it out",
        ),
        (
            {"nodes": [{"count": 2, "cpus": 1}, {"count": 2, "cpus": 1, "prefix": "fat", "first": 2}]},
            "wrong use: nodes: class 2: has numbers of class 1; with OpenPBS each node needs a number of its own",
        ),
        (
            {"settings": {"node_sort_key": {"a": 1}}},
            "wrong use: sched_config: 'node_sort_key' is not a setting with a one-line value",
        ),
    ],
)
def test_wrong_use_is_one_line_and_changes_nothing(
    call: Caller, params: dict[str, Any], tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    assert call("openpbs_config", **{**params, **more})["msg"] == message
    assert not (tmp_path / "pbs").exists()
