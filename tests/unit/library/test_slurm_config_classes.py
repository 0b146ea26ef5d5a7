"""The module slurm_config with several node classes: GresTypes, gres.conf, device files, partitions over classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from modules import Caller


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "etc/nodes").mkdir(parents=True)
    return {
        "directory": str(tmp_path),
        "settings": {"ClusterName": "mirage"},
        "nodes": [
            {"count": 2, "cpus": 4},
            {"count": 2, "cpus": 8, "prefix": "gpu", "extra": {"Gres": ["gpu:v100:2", "fpga:1"], "RealMemory": 64000}},
        ],
        "port": 17000,
        "ports": 5,
        "partitions": [{"name": "batch"}],
    }


def etc(directory: Path) -> set[str]:
    return {str(path.relative_to(directory / "etc")) for path in (directory / "etc").rglob("*") if not path.is_dir()}


def test_gres_conf_is_in_the_folder_where_slurmd_reads_it(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    """slurmd looks for it beside the configuration that it was given: etc/nodes/NODE.conf, or etc/slurm.conf with wide steps."""
    lines = [f"NodeName=gpu[1-2] Name=gpu Type=v100 File={tmp_path}/etc/gpu[0-1]", "NodeName=gpu[1-2] Name=fpga Count=1"]
    assert call("slurm_config", **params)["changed"] is True
    assert (tmp_path / "etc/nodes/gres.conf").read_text().splitlines()[1:] == lines
    assert call("slurm_config", **params)["changed"] is False
    assert call("slurm_config", **params, wide_steps=True)["changed"] is True
    assert etc(tmp_path) == {"slurm.conf", "gres.conf", "gpu0", "gpu1"}
    assert (tmp_path / "etc/gres.conf").read_text().splitlines()[1:] == lines


def test_slurm_conf_contains_the_gres(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("slurm_config", **params)
    lines = (tmp_path / "etc/slurm.conf").read_text().splitlines()
    assert "GresTypes=gpu,fpga" in lines
    assert "NodeName=gpu[1-2] NodeAddr=127.0.0.1 Port=[17003-17004] CPUs=8 Gres=gpu:v100:2,fpga:1 RealMemory=64000" in lines
    assert "GresTypes=gpu,fpga" in (tmp_path / "etc/common.conf").read_text().splitlines()


def test_grestypes_of_the_user_takes_precedence(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    call("slurm_config", **{**params, "settings": {"grestypes": "gpu,fpga,nic"}})
    lines = (tmp_path / "etc/slurm.conf").read_text().splitlines()
    assert [line for line in lines if line.lower().startswith("grestypes")] == ["grestypes=gpu,fpga,nic"]


def test_device_files_are_created_and_removed_with_the_gpus(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    checked = call("slurm_config", check=True, **params)
    assert etc(tmp_path) == set()
    assert f"{tmp_path}/etc/gpu1" in checked["files"]
    call("slurm_config", **params)
    assert (tmp_path / "etc/gpu0").readlink() == Path("/dev/null")
    fewer = [params["nodes"][0], {**params["nodes"][1], "extra": {"Gres": "gpu:1"}}]
    assert f"{tmp_path}/etc/gpu1" in call("slurm_config", **{**params, "nodes": fewer})["files"]
    assert {"gpu0", "nodes/gres.conf"} <= etc(tmp_path) and "gpu1" not in etc(tmp_path)
    call("slurm_config", **{**params, "nodes": params["nodes"][:1]})
    assert etc(tmp_path) == {"slurm.conf", "common.conf", "nodes/n1.conf", "nodes/n2.conf"}


def test_a_change_of_gres_changes_the_digest_of_its_class_only(call: Caller, params: dict[str, Any]) -> None:
    before = call("slurm_config", **params)["nodes"]
    other = [params["nodes"][0], {**params["nodes"][1], "extra": {"Gres": ["gpu:v100:4", "fpga:1"], "RealMemory": 64000}}]
    after = call("slurm_config", **{**params, "nodes": other})["nodes"]
    assert before[0] == after[0]
    assert before[1]["digest"] != after[1]["digest"]


@pytest.mark.parametrize("extra", [{"Gres": "mps:100"}, {"Gres": "gpu:x:y:z"}, {"Port": 5}, {"Sockets": 3}])
def test_invalid_extra_options_are_refused(call: Caller, params: dict[str, Any], tmp_path: Path, extra: dict[str, Any]) -> None:
    params["nodes"][1]["extra"] = extra
    assert call("slurm_config", **params)["msg"].startswith("wrong use: nodes: class 2: ")
    assert etc(tmp_path) == set()


@pytest.mark.parametrize("nodes", ["ALL", "n[1-2]", ["n1", "gpu[1-2]"], "large,n2", "all,n1"])
def test_a_partition_may_contain_nodes_of_several_classes(call: Caller, params: dict[str, Any], tmp_path: Path, nodes: Any) -> None:
    params["partitions"] = [{"name": "batch", "nodes": nodes}]
    assert call("slurm_config", **params)["changed"] is True
    text = nodes if isinstance(nodes, str) else ",".join(nodes)
    assert (tmp_path / "etc/slurm.conf").read_text().splitlines()[-1] == f"PartitionName=batch nodes={text}"


@pytest.mark.parametrize(
    ("nodes", "message_part"), [("n[1-3]", "there is no node n3; the nodes are n[1-2],gpu[1-2]"), ("n[1", "names of nodes")]
)
def test_a_partition_with_an_unknown_node_is_refused(
    call: Caller, params: dict[str, Any], tmp_path: Path, nodes: str, message_part: str
) -> None:
    """slurmctld would not start with it."""
    params["partitions"] = [{"name": "batch"}, {"name": "thin", "Nodes": nodes}]
    message = call("slurm_config", **params)["msg"]
    assert message.startswith(f"wrong use: slurm.conf: PartitionName=thin: Nodes={nodes}: ") and message_part in message
    assert etc(tmp_path) == set()


def test_words_that_the_release_does_not_have_yet_are_left_out(call: Caller, params: dict[str, Any], tmp_path: Path) -> None:
    nodes = [{"count": 2, "cpus": 4, "extra": {"TRESWeights": "CPU=1", "Weight": 3}}]
    given = params | {"nodes": nodes, "partitions": [{"name": "p", "MaxCPUsPerSocket": 2, "MaxNodes": 1}]}
    for version, there in (("16.05.6", False), ("23.02.1", True)):
        call("slurm_config", **given, version=version)
        text = (tmp_path / "etc/slurm.conf").read_text()
        assert ("TRESWeights=CPU=1" in text, "MaxCPUsPerSocket=2" in text) == (there, there)
        assert "Weight=3" in text and "MaxNodes=1" in text
