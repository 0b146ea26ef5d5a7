"""Which resource manager the tools on a host find in an instance, and how it is told apart by its daemons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from other_managers import KNOWN

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance.manager import manager_at
from slurm_mirage.rm import registry
from slurm_mirage.rm.slurm.commands import Slurm


def instance(folder: Path, **content: object) -> Path:
    (folder / "etc").mkdir()
    (folder / "instance.json").write_text(json.dumps({"name": "a", **content}))
    (folder / "etc/farm.json").write_text(json.dumps({"daemons": []}))
    return folder


def test_an_instance_that_names_none_has_slurm(tmp_path: Path) -> None:
    assert isinstance(manager_at(tmp_path), Slurm)
    assert isinstance(manager_at(instance(tmp_path)), Slurm)


def test_an_instance_of_a_later_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=f"rm=torque: one of {KNOWN}"):
        manager_at(instance(tmp_path, rm="torque"))


@pytest.mark.parametrize("kinds", [["slurmctld", "slurmd"], []])
def test_daemons_belong_to_a_manager(kinds: list[str]) -> None:
    assert registry.records_of_daemons(kinds).names.manager == "Slurm"


def test_names_of_a_manager_are_found_by_its_name() -> None:
    assert registry.names_of("").controller == registry.names_of("Slurm").controller == "slurmctld"
