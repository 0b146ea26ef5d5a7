"""Runs of a campaign on several hosts, each with a whole cluster: real threads and inventories; playbooks are only noted."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirage.campaign import lanes
from mirage.campaign.lanes import RunsLeft
from mirage.commands.teardown import teardown
from mirage.experiment import hosts, instance_use, runs
from mirage.experiment.endings import Failed
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import resolve
from mirage.terminal.screen import Screen
from slurm_mirage.base.files import write_json

WITHIN = 60.0
Played = list[tuple[str, str, Mapping[str, Any]]]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    hosts.listing.cache_clear()
    (tmp_path / "hosts").write_text("[run_hosts]\nh1\nh2\n")
    return tmp_path / "hosts"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """The playbooks that were run: name, host, variables. The cluster `broken` cannot be removed from h2."""
    found: Played = []

    def noted(name: str, variables: Mapping[str, Any], *_: object, host: str = "", **__: object) -> SimpleNamespace:
        found.append((name, host, variables))
        if (name, host, variables.get("mirage_cluster")) == ("teardown", "h2", "broken"):
            raise Failed("no answer")
        return SimpleNamespace(changed=2)

    for module in (instance_use, lanes):
        monkeypatch.setattr(module, "run_playbook", noted)
    return found


def values(inventory: Path, **given: str) -> Knobs:
    return resolve({"CLUSTER": "c", "NODES": "4", "CPUS": "4", "PORT": "17000", "INVENTORY": str(inventory), **given})


def test_each_host_plays_one_run_at_a_time_and_all_clusters_stay(inventory: Path, played: Played, tmp_path: Path) -> None:
    knobs, screen = values(inventory), Screen(io.StringIO())
    folder = tmp_path / "r"
    folder.mkdir()
    write_json(folder / "experiment.json", {})
    together, taken = threading.Barrier(2, timeout=WITHIN), {}

    def play(one: str, lane: Lane) -> bool:
        together.wait()
        taken[one] = lane
        lane.play("experiment", {"mirage_cluster": "c", "mirage_port": 17000}, inventory, folder / "log")
        return True

    with InstanceUse(knobs.cluster, "r", ["r"], [], screen, host="h1") as use:
        assert RunsLeft(
            knobs,
            inventory,
            Decimal(20),
            folder,
            use,
            on_head=[f"r.{one}" for one in "abcd"],
            left=list("abcd"),
            play=play,
            which=lambda one: f"run {one}",
            name=lambda one: f"r.{one}",
            folder_of=lambda one: folder / one,
            home=lambda one: "h2" if one == "d" else None,
            foot=lambda: "",
        ).run([], screen)
    assert sorted(lane.host for lane in taken.values()) == ["h1", "h1", "h2", "h2"]
    assert taken["d"].host == "h2", "it has begun there"
    assert taken["d"].place() == {"instance": "c", "run_host": "h2"}
    assert sorted((name, host) for name, host, _ in played) == [
        *[("experiment", "h1")] * 2,
        *[("experiment", "h2")] * 2,
        ("release", "h1"),
        ("release", "h2"),
    ]
    assert all(variables["mirage_cluster"] == "c" for _, _, variables in played)
    assert all(variables["mirage_port"] == 17000 for name, _, variables in played if name == "experiment")


def test_teardown_removes_the_cluster_from_all_hosts(inventory: Path, played: Played) -> None:
    ending = teardown(values(inventory), Screen(io.StringIO()))
    assert ending.line == "ok: cluster c is gone from 2 hosts, changed=4; results stay"
    assert sorted((name, host) for name, host, _ in played) == [("teardown", "h1"), ("teardown", "h2")]
    with pytest.raises(Failed, match="no answer"):
        teardown(values(inventory, CLUSTER="broken"), Screen(io.StringIO()))


def test_the_place_of_a_run_is_kept(tmp_path: Path) -> None:
    write_json(tmp_path / "experiment.json", {"run": "r", "instance": "c", "run_host": "h1"})
    runs.set_place(tmp_path, {"instance": "c", "run_host": "h2"})
    assert (runs.run_host_of(tmp_path), runs.instance_of(tmp_path)) == ("h2", "c")
    runs.set_place(tmp_path, {"instance": "c-2"})
    assert (runs.run_host_of(tmp_path), runs.instance_of(tmp_path)) == (None, "c-2")
