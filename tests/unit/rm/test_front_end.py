"""Front ends: their lines of slurm.conf, which releases and builds have them, and the module that looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from modules import Caller

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance import sizing
from slurm_mirage.instance.placement import Block, place
from slurm_mirage.rm.slurm import front_end
from slurm_mirage.rm.slurm.conf import render
from slurm_mirage.rm.slurm.node_classes import NodeClass

BLOCK = Block("127.0.0.1", 17000, 4)
NODES = [NodeClass("n", 1, 40, 4), NodeClass("fat", 1, 1, 8, (("Feature", "big"),))]


def placed(count: int, before: str = "") -> list[Any]:
    return place(front_end.classes(count), BLOCK, front_end.placed_in(before))


def test_nodes_have_no_ports_and_each_front_end_has_one() -> None:
    text = render({}, front_end.lines(placed(2), NODES), [{"name": "batch"}])
    assert text.splitlines()[1:] == [
        "FrontendName=frontend1 FrontendAddr=127.0.0.1 Port=17001",
        "FrontendName=frontend2 FrontendAddr=127.0.0.1 Port=17002",
        "NodeName=n[1-40] NodeAddr=127.0.0.1 CPUs=4",
        "NodeName=fat1 NodeAddr=127.0.0.1 CPUs=8 Feature=big",
        "PartitionName=batch Nodes=ALL",
    ]


def test_front_ends_keep_their_places() -> None:
    text = "FrontendName=frontend1 FrontendAddr=127.0.0.1 Port=17003\nFrontendName=frontend2 FrontendAddr=127.0.0.1 Port=17001\n"
    lines = [some.line() + "\n" for some in front_end.lines(placed(2, text), [])]
    assert "".join(lines) == text


def test_more_front_ends_than_ports_of_an_address_take_the_next_address() -> None:
    assert [some.line() for some in front_end.lines(placed(4), [])][-1] == (
        "FrontendName=frontend4 FrontendAddr=127.0.0.2 Port=17001"
    )


@pytest.mark.parametrize(
    ("some", "words"),
    [
        (NodeClass("frontend", 1, 2, 4), "prefix 'frontend'"),
        (NodeClass("n", 1, 2, 4, (("Gres", "gpu:2"),)), "n[1-2] have GRES"),
    ],
)
def test_refuses_nodes_that_need_a_slurmd_or_its_name(some: NodeClass, words: str) -> None:
    with pytest.raises(WrongUse) as refused:
        front_end.check_nodes([some])
    assert words in str(refused.value)


@pytest.mark.parametrize("release", ["16.05.6", "18.08.9", "23.11.2", "23.11.11", "24.05.0-1", "24.11.5", "24.11.7"])
def test_releases_that_work(release: str) -> None:
    front_end.check_release(release, 1)


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("25.05.0", "no front-end mode any more"),
        ("26.05", "no front-end mode any more"),
        ("19.05.0", "when a job ends"),
        ("22.05.8", "when a job ends"),
        ("23.02.8", "when a job ends"),
        ("23.11.1", "registers"),
        ("", "no package"),
    ],
)
def test_releases_that_do_not(release: str, words: str) -> None:
    with pytest.raises(WrongUse, match=f"^front_end=4: .*{words}"):
        front_end.check_release(release, 4)


def test_a_cluster_keeps_its_number_of_front_ends() -> None:
    two = render({}, front_end.lines(placed(2), NODES), [])
    usual = render({}, place(NODES, Block("127.0.0.1", 17000, 100)), [])
    for text, count in (("", 3), (two, 2), (usual, 0)):
        front_end.check_change(text, count, "mirage")
    for text, count, had in ((two, 0, 2), (two, 1, 2), (usual, 1, 0)):
        with pytest.raises(WrongUse, match=rf"^front_end={count}: cluster mirage was built with FRONT_END={had}; make teardown"):
            front_end.check_change(text, count, "mirage")


SCONTROL = """#!/bin/sh
if grep -q UNKNOWN= "$SLURM_CONF"; then echo "scontrol: fatal: Unable to process configuration file" >&2; exit 1; fi
[ "$1" != -V ] || { echo "slurm RELEASE"; exit; }
grep -q FrontendName= "$SLURM_CONF" || exit 3
MEANS
"""
"""Answers as the scontrol of a release does that read the file of SLURM_CONF, or refused to."""
READS = 'echo "$3"'
REFUSES = """echo "scontrol: fatal: Use of FrontendName in slurm.conf without Slurm being configured/built with the \\
--enable-front-end option" >&2; exit 1"""


def instance(tmp_path: Path, release: str, means: str, unknown: str = "ControlMachine") -> dict[str, Any]:
    """Without a word that the release does not know, or not any more."""
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin/scontrol"
    scontrol.write_text(SCONTROL.replace("RELEASE", release).replace("MEANS", means).replace("UNKNOWN", unknown))
    scontrol.chmod(0o755)
    return {"directory": str(tmp_path), "bin": str(tmp_path / "bin")}


def test_the_module_says_which_release_has_them(call: Caller, tmp_path: Path) -> None:
    params = instance(tmp_path, "24.11.5", READS)
    result = call("slurm_release_info", **params, front_ends=1)
    assert (result["changed"], result["release"]) == (False, "24.11.5")


@pytest.mark.parametrize("front_ends", [0, 1])
def test_a_build_of_an_old_release_reads_no_later_words(call: Caller, tmp_path: Path, front_ends: int) -> None:
    params = instance(tmp_path, "16.05.6", READS, unknown="SlurmctldHost")
    assert call("slurm_release_info", **params, front_ends=front_ends, version="16.05.6")["release"] == "16.05.6"


@pytest.mark.parametrize(
    ("release", "means", "words"),
    [
        ("24.11.5", REFUSES, "was not built with --enable-front-end; build 24.11 from its source"),
        (
            "24.11.5",
            "echo 'scontrol: fatal: no memory' >&2; exit 1",
            "cannot tell whether it has the front-end mode: scontrol: fatal",
        ),
        ("22.05.8", READS, "Slurm 22.05.8 cannot be used"),
    ],
)
def test_the_module_refuses_a_slurm_without_them(call: Caller, tmp_path: Path, release: str, means: str, words: str) -> None:
    message = call("slurm_release_info", **instance(tmp_path, release, means), front_ends=1)["msg"]
    assert message.startswith("wrong use: FRONT_END=1: ") and words in message and "\n" not in message


@pytest.mark.skipif(not Path("/usr/bin/scontrol").exists(), reason="skipped: Slurm's commands are not installed here")
def test_the_module_asks_the_real_scontrol(call: Caller, tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="was not built with --enable-front-end"):
        front_end.check_build(Path("/usr/bin"), front_end.release_of(Path("/usr/bin")), 1)
    assert call("slurm_release_info", directory=str(tmp_path), front_ends=1)["msg"].startswith("wrong use: FRONT_END=1: ")


def test_the_module_judges_what_would_be_built(call: Caller, tmp_path: Path) -> None:
    params = {"directory": str(tmp_path), "bin": str(tmp_path / "none"), "front_ends": 2}
    assert call("slurm_release_info", **params, version="24.11.5")["release"] == "24.11.5"
    assert "no front-end mode any more" in call("slurm_release_info", **params, version="25.11.7")["msg"]
    assert "no package" in call("slurm_release_info", **params)["msg"]


def test_the_module_looks_at_the_nodes(call: Caller, tmp_path: Path) -> None:
    params = {**instance(tmp_path, "24.11.5", READS), "front_ends": 1}
    with_gpus = {"count": 3, "cpus": 4, "extra": {"Gres": "gpu:1"}}
    assert call("slurm_release_info", **params, nodes=[{"count": 3, "cpus": 4}])["release"] == "24.11.5"
    assert "n[1-3] have GRES" in call("slurm_release_info", **params, nodes=[with_gpus])["msg"]


def test_slurm_config_has_the_slurmd_of_front_ends_only(call: Caller, tmp_path: Path) -> None:
    (tmp_path / "etc/nodes").mkdir(parents=True)
    params: dict[str, Any] = {
        "directory": str(tmp_path),
        "settings": {"ClusterName": "mirage"},
        "nodes": [{"count": 40, "cpus": 4}],
        "front_ends": 2,
        "port": 17000,
        "ports": 3,
        "partitions": [{"name": "batch"}],
    }
    result = call("slurm_config", **params)
    assert [(some["prefix"], some["first"], some["count"], some["hostname"]) for some in result["nodes"]] == [
        ("frontend", 1, 2, "localhost")
    ]
    assert [path.name for path in (tmp_path / "etc").rglob("*.conf")] == ["slurm.conf"]
    assert call("slurm_config", **params)["changed"] is False


def test_a_host_needs_room_for_the_slurmd_that_run() -> None:
    few = sizing.Load(100_000, wide_steps=True, front_ends=4)
    host = sizing.Capacity(memory=20_000.0, tasks=50_000, files=100_000, inodes=10_000, disk=100.0, merges=True)
    assert sizing.lacking(few, sizing.Load(0), host) is None
    assert sizing.lacking(sizing.Load(100_000), sizing.Load(0), host) is not None


def test_the_module_leaves_the_usual_layout_alone(call: Caller, tmp_path: Path) -> None:
    params = {"directory": str(tmp_path), "bin": str(tmp_path / "none"), "front_ends": 0}
    assert call("slurm_release_info", **params)["release"] == ""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/slurm.conf").write_text(render({}, front_end.lines(placed(1), NODES), []))
    assert "was built with FRONT_END=1" in call("slurm_release_info", **params)["msg"]
