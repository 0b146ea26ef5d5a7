"""What make refuses before Ansible starts, when the cluster is to stand on this machine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mirage import ROOT
from mirage.experiment import preflight
from mirage.knobs.resolve import GIVEN, resolve
from mirage.knobs.table import BY_NAME
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from slurm_mirage.clock import instance_clock
from slurm_mirage.clock.clock import Clock


def room(**knobs: object) -> None:
    """Look whether the host has room for a cluster of these knobs, that does not run."""
    given = {"CLUSTER": "no-such-cluster", **{name: str(value) for name, value in knobs.items()}}
    preflight.has_room(resolve({GIVEN: " ".join(given), **given}))


def test_a_few_nodes_have_room() -> None:
    room(NODES=1)


def test_more_nodes_than_the_kernel_has_processes_for_are_refused_with_the_largest_number() -> None:
    with pytest.raises(WrongUse, match=r"^nodes=1000000: needs about .*; the largest that fits is \d+$") as refusal:
        room(NODES=1_000_000)
    most = int(re.findall(r"\d+", str(refusal.value))[-1])
    assert 0 < most < 1_000_000


def test_other_hosts_are_not_judged_by_this_one() -> None:
    room(NODES=1_000_000, INVENTORY="inventories/hosts.example")


def test_steps_count() -> None:
    with pytest.raises(WrongUse, match=r"\(STEPS=no allows \d+\)$"):
        room(NODES=1_000_000, STEPS="yes")


def test_auto_is_what_the_inventory_says() -> None:
    variables = yaml.safe_load((ROOT / "inventories/common/group_vars/all/main.yml").read_text())
    assert variables["mirage_steps_auto"] == preflight.STEPS_AUTO


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"CLASSES": "machines/example.yml"}, None),
        ({"CLASSES": "machines/example.yml", "CONFIG": "fifo"}, "config: run r goes on in cluster c with CONFIG=slurm-defaults"),
        ({"CLASSES": "machines/example.yml", "SPEED": "20"}, "speed: run r goes on in cluster c with SPEED=auto"),
        ({"NODES": "36"}, "classes: run r goes on in cluster c with other CLASSES"),
    ],
)
def test_a_run_on_classes_is_joined_by_the_same_machine_only(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    replaying: Callable[[Path, str], None],
    given: dict[str, str],
    words: str | None,
) -> None:
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path / "instances")
    monkeypatch.setattr(preflight, "ROOT", tmp_path)
    begun = resolve({"CLASSES": str(ROOT / "machines/example.yml")})
    write_json(made(tmp_path / "results/r") / "experiment.json", {"inputs": {name: begun.text(name) for name in BY_NAME}})
    replaying(tmp_path / "instances/c", "r")
    wanted = resolve({"CLUSTER": "c", **{name: text.replace("machines", f"{ROOT}/machines") for name, text in given.items()}})
    if words is None:
        preflight.nothing_disturbed(wanted, "r")
        return
    with pytest.raises(WrongUse, match=f"^{words}; wait for it"):
        preflight.nothing_disturbed(wanted, "r")


YEARS = 86400 * 365.25


@pytest.mark.parametrize(
    ("ahead", "length", "instead"),
    [
        # The clock's lead over today, and the length of the run, in years.
        (None, 1.0, None),
        (None, 40.0, "take fewer JOBS, or a smaller SHRINK"),
        (0.0, 1.0, None),
        (-1.0, 1.0, None),
        (1.0, 40.0, "take fewer JOBS, or a smaller SHRINK"),
        # Whatever today is, a year is too long for a clock that ends in a month.
        ("end", 1.0, "make teardown CLUSTER=c starts the clock at today's date again"),
    ],
)
def test_a_run_ends_before_slurm_cannot_count_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float | str | None, length: float, instead: str | None
) -> None:
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path)
    values = resolve({"CLUSTER": "c"})
    if ahead is not None:
        now = time.time_ns()
        virtual = preflight.LAST_INSTANT - YEARS / 12 if ahead == "end" else now / 1e9 + float(ahead) * YEARS
        made(tmp_path / "c/state")
        Clock(now, round(virtual * 1e9), 500.0).write(instance_clock.clock_file(tmp_path / "c"))
    if instead is None:
        preflight.before_2038(values.cluster, length * YEARS)
        return
    with pytest.raises(WrongUse, match=r"^speed: the clock of cluster c is at 20\d\d-.*beyond 2038-01-18; ") as refusal:
        preflight.before_2038(values.cluster, length * YEARS)
    assert str(refusal.value).endswith(f"; {instead}")


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_a_calibration_belongs_to_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaying: Callable[[Path, str], None]
) -> None:
    """While it is at work the run goes on, and no other; its journal, too, is none of a run whose results are gone."""
    monkeypatch.setattr(preflight, "INSTANCES", tmp_path / "instances")
    monkeypatch.setattr(preflight, "ROOT", tmp_path)
    values = resolve({"CLUSTER": "c"})
    replaying(tmp_path / "instances/c", "r.calibration")
    assert preflight.running(values.cluster) == "r"
    preflight.nothing_disturbed(values, "r")
    with pytest.raises(WrongUse, match=r"^cluster=c: run r goes on in it; wait for its end \(BUSY=wait\)"):
        preflight.nothing_disturbed(values, "other")
    preflight.no_leftover(values.cluster, made(tmp_path / "results/r"))
    (tmp_path / "results/r").rmdir()
    with pytest.raises(WrongUse, match=r"^run: results/r is gone, but .*/r\.calibration is not"):
        preflight.no_leftover(values.cluster, tmp_path / "results/r")
