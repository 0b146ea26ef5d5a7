"""Runs side by side on several instances: real locks, threads and signals, and a playbook that removes an instance's folder."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from journals import start_event

from mirage.campaign import lanes
from mirage.campaign.lanes import RunsLeft
from mirage.campaign.run_queue import RunQueue
from mirage.experiment import instance_use, launch_costs, playbook, preflight
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.lane import Lane
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import Speed
from mirage.knobs.resolve import resolve
from mirage.terminal.screen import Screen
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.instance.instance_lock import Busy, Holder, exists, take, work_in
from slurm_mirage.replay.launch_cost import LaunchCost, Width

TEARDOWN = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Remove
      ansible.builtin.file:
        path: "{folder}/{{{{ mirage_cluster }}}}"
        state: absent
"""
INVENTORY = (
    "all:\n  hosts:\n    localhost: {ansible_connection: local, ansible_python_interpreter: '{{ ansible_playbook_python }}'}\n"
)
WITHIN = 120.0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all instances, which is empty; the caller counts as root."""
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/teardown.yml").write_text(TEARDOWN.format(folder=tmp_path / "instances"))
    (tmp_path / "ansible.cfg").write_text("")
    for inventory in ("common", "local"):
        (tmp_path / "inventories" / inventory).mkdir(parents=True)
        (tmp_path / "inventories" / inventory / "hosts.yml").write_text(INVENTORY)
    monkeypatch.setattr(playbook, "ROOT", tmp_path)
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path / "instances")
    monkeypatch.setattr(playbook, "INSTANCES", tmp_path / "instances")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(instance_use, "LOOK", 0.05)
    monkeypatch.setattr(lanes, "LOOK", 0.05)
    (tmp_path / "r").mkdir()
    write_json(tmp_path / "r/experiment.json", {})
    return tmp_path / "instances"


def values(**given: str) -> Knobs:
    return resolve({"CLUSTER": "c", "NODES": "4", "CPUS": "4", "AT_ONCE": "2", "PORT": "17000", **given})


def run(
    root: Path,
    runs: str,
    play: Callable[[str, Lane], bool],
    *,
    homes: dict[str, str] | None = None,
    used: tuple[str, ...] = (),
    speed: Speed = Decimal(1),
    knobs: Knobs | None = None,
) -> bool:
    """Play runs with names of one letter."""
    knobs, folder, screen = knobs or values(), root.parent / "r", Screen(io.StringIO())
    with InstanceUse(knobs.cluster, "r", ["r"], [], screen) as use:
        return RunsLeft(
            knobs,
            root.parent / "inventories/local",
            speed,
            folder,
            use,
            on_head=[f"r.{one}" for one in runs],
            left=list(runs),
            play=play,
            which=lambda one: f"run {one}",
            name=lambda one: f"r.{one}",
            folder_of=lambda one: folder / one,
            home=lambda one: (homes or {}).get(one),
            foot=lambda: "",
        ).run(used, screen)


def test_runs_go_on_side_by_side_under_locks_and_further_instances_are_removed(root: Path) -> None:
    together, held = threading.Barrier(2, timeout=WITHIN), {}

    def play(one: str, lane: Lane) -> bool:
        together.wait()
        held[lane.name] = work_in(root / lane.name)
        for name in ("c", "c-2"):
            (root / name).mkdir(exist_ok=True)
        return True

    assert run(root, "abcd", play)
    assert {name: work is not None and work.order for name, work in held.items()} == {"c": "r", "c-2": "r"}
    assert (root / "c").exists() and not (root / "c-2").exists()
    assert not exists(root / "c") and not exists(root / "c-2")


def test_further_instances_have_their_own_names_and_ports(root: Path) -> None:
    given: dict[str, object] = {}

    class Noted(InstanceUse):
        """Notes the variables that the playbook would get."""

        def play(self, playbook: str, variables: object, *_: object) -> None:
            given[self._cluster.name] = variables

    cluster = values().cluster
    for name in ("c", "c-2"):
        own = replace(cluster, name=name)
        use = Noted(own, "r", [], [], Screen(io.StringIO()))
        lane = Lane(name, own, use, Screen(io.StringIO()), "c")
        lane.play("experiment", {"mirage_cluster": "c", "mirage_port": 17000}, root, root)
    assert given == {
        "c": {"mirage_cluster": "c", "mirage_port": 17000},
        "c-2": {"mirage_cluster": "c-2", "mirage_port": 0, "instance_belongs_to": "c"},
    }


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set when no further run begins."""
    close, is_closed = RunQueue.close, threading.Event()
    monkeypatch.setattr(RunQueue, "close", lambda queue: (close(queue), is_closed.set()))
    return is_closed


def test_after_a_failed_run_no_other_begins_and_those_that_go_on_end(root: Path, closed: threading.Event) -> None:
    together, ended = threading.Barrier(2, timeout=WITHIN), []

    def play(one: str, lane: Lane) -> bool:
        (root / lane.name).mkdir(parents=True, exist_ok=True)
        together.wait()
        if one == "a":
            return False
        assert closed.wait(WITHIN)
        ended.append(one)
        return True

    assert not run(root, "abcd", play)
    assert ended == ["b"]
    assert (root / "c-2").exists(), "the same command goes on there"
    assert not exists(root / "c") and not exists(root / "c-2")


def test_an_unexpected_error_is_raised_when_the_others_have_ended(root: Path, closed: threading.Event) -> None:
    together, ended = threading.Barrier(2, timeout=WITHIN), []

    def play(one: str, lane: Lane) -> bool:
        together.wait()
        if one == "b":
            raise OSError("disk")
        assert closed.wait(WITHIN)
        ended.append(one)
        return True

    with pytest.raises(OSError, match="disk"):
        run(root, "abcd", play)
    assert ended == ["a"]
    assert not exists(root / "c-2")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_reaches_all_runs(root: Path, number: signal.Signals) -> None:
    together, interrupted = threading.Barrier(2, timeout=WITHIN), []

    def play(one: str, lane: Lane) -> bool:
        if together.wait() == 0:
            signal.raise_signal(number)
        assert lane.use.interrupted is not None
        interrupted.append(lane.use.interrupted.wait(WITHIN))
        return False

    before = signal.getsignal(number)
    assert not run(root, "abcd", play)
    assert interrupted == [True, True]
    assert signal.getsignal(number) is before


def test_one_at_a_time_uses_no_thread(root: Path) -> None:
    played = []

    def play(one: str, lane: Lane) -> bool:
        played.append((one, lane.name, threading.current_thread() is threading.main_thread()))
        return one != "b"

    assert not run(root, "abc", play, knobs=values(AT_ONCE="1"))
    assert played == [("a", "c", True), ("b", "c", True)]


def test_a_run_goes_on_where_it_began_also_with_fewer_at_once(root: Path) -> None:
    (root / "c-3").mkdir(parents=True)
    write_json(root / "c-3/instance.json", {"port": 17000, "ports": 5, "belongs_to": "c"})
    played = []

    def play(one: str, lane: Lane) -> bool:
        played.append((one, lane.name))
        return True

    assert run(root, "ab", play, homes={"b": "c-3"}, used=("c-3", "c"), knobs=values(AT_ONCE="1"))
    assert played == [("b", "c-3"), ("a", "c")]
    assert not (root / "c-3").exists() and not exists(root / "c-3")


def test_an_instance_that_somebody_has_made_his_own_is_not_removed(root: Path) -> None:
    (root / "c-2").mkdir(parents=True)
    write_json(root / "c-2/instance.json", {"port": 17000, "ports": 5})
    assert run(root, "ab", lambda one, lane: lane.name in ("c", "c-3"), used=("c-2",))
    assert (root / "c-2").exists()


def test_an_instance_with_another_order_is_refused_before_any_run(root: Path) -> None:
    take(root / "c-2", Holder.of_process(os.getppid(), "other", "/clone"), "other")
    with pytest.raises(Busy, match="run other goes on in it"):
        run(root, "ab", lambda one, lane: True)
    assert exists(root / "c-2") and not exists(root / "c")


def test_the_first_run_is_alone_until_it_has_measured_what_a_launch_costs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_run, asked = RunQueue.take, threading.Barrier(2, timeout=WITHIN)
    monkeypatch.setattr(RunQueue, "take", lambda queue: (asked.wait() if queue.waits else None, take_run(queue))[1])
    cost, order = LaunchCost(Width(1, 0.02, 0.001, 25)).record(), []
    others = threading.Event()

    def play(one: str, lane: Lane) -> bool:
        order.append((one, launch_costs.variables(root.parent / "r")))
        if one != "a":
            others.set()
            return True
        asked.wait()
        order.append(("measured", {}))
        journal = root / lane.name / "runs/r.a/journal.jsonl"
        journal.parent.mkdir(parents=True)
        start = start_event(launch_cost=cost)
        journal.write_text(json.dumps(start) + "\nhalf a li")
        return others.wait(WITHIN)

    assert run(root, "ab", play, speed=Decimal(20))
    given = {"experiment_launch_cost": cost}
    assert order == [("a", {}), ("measured", {}), ("b", given)]
    assert (read_json(root.parent / "r/experiment.json") or {})["launch_cost"] == cost
