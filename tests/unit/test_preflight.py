"""What make refuses before Ansible starts, when the cluster is to stand on this machine."""

from __future__ import annotations

import re

import pytest
import yaml

from cli import ROOT, preflight
from cli.knobs import GIVEN, resolve
from slurm_mirage.errors import WrongUse


def room(**knobs: object) -> None:
    """Look whether the host has room for a cluster of these knobs, that does not run."""
    given = {"CLUSTER": "no-such-cluster", **{name: str(value) for name, value in knobs.items()}}
    preflight.has_room(resolve({GIVEN: " ".join(given), **given}))


def test_a_few_nodes_have_room() -> None:
    room(NODES=1)


def test_more_nodes_than_the_kernel_has_processes_for_are_refused_with_the_largest_number() -> None:
    with pytest.raises(WrongUse, match=r"^NODES=1000000: needs about .*; the largest that fits is \d+$") as refusal:
        room(NODES=1_000_000)
    most = int(re.findall(r"\d+", str(refusal.value))[-1])
    assert 0 < most < 1_000_000


def test_other_hosts_are_not_judged_by_this_one() -> None:
    room(NODES=1_000_000, INVENTORY="inventories/hosts.example")


def test_steps_count() -> None:
    with pytest.raises(WrongUse, match=r"\(STEPS=no allows \d+\)$"):
        room(NODES=1_000_000, STEPS="yes")


def test_auto_is_what_the_inventory_says() -> None:
    variables = yaml.safe_load((ROOT / "inventories/common/group_vars/all.yml").read_text())
    assert variables["mirage_steps_auto"] == preflight.STEPS_AUTO
