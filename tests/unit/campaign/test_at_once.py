"""How many runs go on side by side, and on which instances."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from mirage.campaign import at_once
from mirage.campaign.at_once import first_run_host, home_of, instances, note_on, places, places_of, runs_at_once
from mirage.experiment import preflight
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.records.run_clock import EVENT
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from slurm_mirage.instance import capacity
from slurm_mirage.instance.sizing import Load, needs

PROCESSORS = len(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path / "instances")
    return tmp_path / "instances"


def values(**given: str) -> Knobs:
    return knobs.resolve({"CLUSTER": "c", "NODES": "4", "CPUS": "4", **given})


def exists(root: Path, name: str, **content: object) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    write_json(root / name / "instance.json", {"name": name, "port": 17000, "ports": 5, "nodes": 4, **content})


def test_a_constant_speed_has_the_host_alone_unless_a_number_is_given() -> None:
    assert runs_at_once(values(), values(SPEED="20").clock.speed, 10) == 1
    assert runs_at_once(values(), "auto", 10) == 1
    assert runs_at_once(values(AT_ONCE="3"), values(SPEED="20").clock.speed, 10) == 3
    assert runs_at_once(values(AT_ONCE="3"), "event", 2) == 2, "no more than runs"
    assert runs_at_once(values(AT_ONCE="3"), "event", 0) == 1


def test_auto_is_what_processors_and_memory_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_at_once(values(), "event", 100) == PROCESSORS
    assert runs_at_once(values(), "event", 1) == 1
    host = capacity.look(preflight.INSTANCES)
    one = needs(preflight.load_of(values()), host.merges).memory
    for fits in (1, 2, 3):
        small = replace(host, memory=one * (fits + 0.5))
        monkeypatch.setattr(capacity, "look", lambda folder, small=small: small)
        assert runs_at_once(values(), "event", 100) == min(fits, PROCESSORS)
    monkeypatch.setattr(capacity, "look", lambda folder: replace(host, memory=0.0))
    assert runs_at_once(values(), "event", 100) == 1, "the preflight refuses a cluster that does not fit at all"


def test_a_number_that_does_not_fit_is_refused_with_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    host = capacity.look(preflight.INSTANCES)
    small = replace(host, memory=needs(preflight.load_of(values()), host.merges).memory * 2.5)
    monkeypatch.setattr(capacity, "look", lambda folder: small)
    with pytest.raises(WrongUse, match=r"^at_once=5: .* too little memory; the largest that fits is 2$"):
        runs_at_once(values(AT_ONCE="5"), "event", 10)
    assert runs_at_once(values(AT_ONCE="5"), "event", 2) == 2, "two runs are left"


def test_instances_that_run_already_need_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    host = capacity.look(preflight.INSTANCES)
    monkeypatch.setattr(capacity, "look", lambda folder: replace(host, memory=1.0))
    running = replace(preflight.load_of(values()), jobs=0)
    monkeypatch.setattr(capacity, "running_load", lambda directory: running if directory.name in ("c", "c-2") else Load(0, jobs=0))
    assert runs_at_once(values(AT_ONCE="2"), "event", 10) == 2


def test_other_hosts_are_not_counted() -> None:
    elsewhere = values(INVENTORY="inventories/hosts.example")
    assert runs_at_once(elsewhere, "event", 10) == 1
    assert runs_at_once(elsewhere.with_values({"AT_ONCE": 40}), "event", 50) == 40
    assert instances(elsewhere.cluster, 3) == ["c", "c-2", "c-3"]


def test_instances_of_somebody_else_are_left_out(root: Path) -> None:
    assert instances(values().cluster, 3) == ["c", "c-2", "c-3"]
    exists(root, "c-2")
    exists(root, "c-3", belongs_to="c")
    exists(root, "c-4", belongs_to="other")
    assert instances(values().cluster, 3) == ["c", "c-3", "c-5"]
    (root / "c-5").mkdir()
    assert at_once.belongs("c-5", "c"), "a build that was interrupted"


def test_a_name_that_is_too_long_is_refused() -> None:
    long = values(CLUSTER="c" * 20)
    assert instances(long.cluster, 1) == ["c" * 20]
    with pytest.raises(WrongUse, match=r"^cluster=c+: 'c+-2' is too long for an instance"):
        instances(long.cluster, 2)


def test_a_run_goes_on_where_it_began_if_that_is_still_there(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    assert home_of(values().cluster, folder, "r") is None, "a new run"
    folder.mkdir()
    write_json(folder / "experiment.json", {"instance": "c-2"})
    assert home_of(values().cluster, folder, "r") is None, "its cluster is gone"
    exists(root, "c-2", belongs_to="c")
    (root / "c-2/runs/r").mkdir(parents=True)
    (root / "c-2/runs/r/journal.jsonl").touch()
    assert home_of(values().cluster, folder, "r") == "c-2"
    exists(root, "c-2")
    assert home_of(values().cluster, folder, "r") is None, "somebody has taken the instance"
    write_json(folder / "experiment.json", {})
    (root / "c/runs/r").mkdir(parents=True)
    (root / "c/runs/r/journal.jsonl").touch()
    assert home_of(values().cluster, folder, "r") == "c", "no instance is noted"


@pytest.mark.parametrize("text", ["0", "65", "two", "-1", "AUTO"])
def test_at_once_is_auto_or_a_number(text: str) -> None:
    assert knobs.parse("AT_ONCE", "auto") == "auto" and knobs.parse("AT_ONCE", "64") == 64
    with pytest.raises(WrongUse, match=r"^AT_ONCE: .* it may be auto, or a whole number from 1 to 64"):
        knobs.parse("AT_ONCE", text)


def test_hosts_for_runs_play_one_run_each(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("[run_hosts]\nh1\nh2\nh3\n")
    inventory = str(tmp_path)
    assert runs_at_once(values(INVENTORY=inventory), Decimal(20), 5) == 3, "they do not disturb each other at any speed"
    assert note_on(values(INVENTORY=inventory).cluster, Decimal(20), 3) is None
    assert note_on(values().cluster, Decimal(20), 3) == at_once.CONSTANT
    assert note_on(values().cluster, EVENT, 3) is None and note_on(values().cluster, Decimal(20), 1) is None
    assert runs_at_once(values(INVENTORY=inventory), EVENT, 2) == 2
    assert runs_at_once(values(INVENTORY=inventory, AT_ONCE="2"), EVENT, 5) == 2
    with pytest.raises(WrongUse, match=r"^at_once=4: run_hosts has 3 hosts, and each executes one run at a time"):
        runs_at_once(values(INVENTORY=inventory, AT_ONCE="4"), EVENT, 5)
    assert places(values(INVENTORY=inventory).cluster, 2) == ["h1", "h2"]
    assert first_run_host(values(INVENTORY=inventory).cluster) == "h1"
    assert first_run_host(values().cluster) == ""

    folder = tmp_path / "r"
    assert home_of(values(INVENTORY=inventory).cluster, folder, "r") is None, "a new run"
    folder.mkdir()
    write_json(folder / "experiment.json", {"instance": "c", "run_host": "h3"})
    assert home_of(values(INVENTORY=inventory).cluster, folder, "r") == "h3"
    assert places_of([folder]) == ["h3"]
    write_json(folder / "experiment.json", {"instance": "c", "run_host": "h9"})
    assert home_of(values(INVENTORY=inventory).cluster, folder, "r") is None, "that host is in the inventory no longer"
