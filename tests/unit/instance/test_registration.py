"""Nodes that do not register with a controller are asked again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from farm_states import farm_state

from slurm_mirage.instance import registration as module
from slurm_mirage.instance.overview import wait_for_nodes
from slurm_mirage.instance.registration import ASKED_AFTER, Registration
from slurm_mirage.rm.api import Registered
from slurm_mirage.rm.registry import IMPLEMENTATIONS
from slurm_mirage.rm.slurm.commands import Slurm


class Manager:
    """A resource manager with three nodes, of which `ready` are."""

    def __init__(self) -> None:
        self.ready = self.asked = 0

    def registered(self) -> Registered:
        return Registered({"idle": self.ready, "unknown": 3 - self.ready}, self.ready, self.ready == 3)

    def ask_nodes(self) -> str:
        self.asked += 1
        return "n1"


def test_nodes_are_asked_again_when_no_further_one_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("slurm_mirage.instance.registration.time.monotonic", lambda: now[0])
    manager = Manager()
    registration = Registration(manager)  # type: ignore[arg-type]

    def asked_after(seconds: float, ready: int) -> int:
        now[0] += seconds
        manager.ready = ready
        assert registration.look().ready == ready
        return manager.asked

    almost = ASKED_AFTER - 1
    assert asked_after(0, 1) == 0
    assert asked_after(almost, 1) == 0
    assert asked_after(almost, 2) == 0
    assert asked_after(almost, 2) == 0
    assert asked_after(1, 2) == 1
    assert asked_after(almost, 2) == 1
    assert asked_after(1, 2) == 2
    assert asked_after(ASKED_AFTER, 3) == 2
    assert asked_after(ASKED_AFTER, 3) == 2


def test_the_wait_for_nodes_asks_those_that_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs as slurmctld answers: it refuses the state, and the node registers."""
    monkeypatch.setattr(module, "ASKED_AFTER", 0.5)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/farm.json").write_text(json.dumps(farm_state()))
    programs = {
        "sinfo": "case \"$*\" in *%N*) echo 'unknown*|n[2-3]';; *) cat nodes;; esac",
        "scontrol": "echo 'idle 3' > nodes; echo \"$@\" > words; echo 'slurm_update error: Invalid node state' >&2; exit 1",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\ncd {tmp_path}\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "nodes").write_text("idle 1\nunknown* 2\n")
    slurm = Slurm("/etc/slurm.conf", str(tmp_path), str(tmp_path))
    assert wait_for_nodes(tmp_path, slurm, IMPLEMENTATIONS["slurm"].records.names, 20) == {"idle": 3}
    assert (tmp_path / "words").read_text() == "update NodeName=n[2-3] State=UNDRAIN\n"
