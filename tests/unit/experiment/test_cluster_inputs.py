"""Digests of a cluster's inputs, and what a run expects to be left to do to its cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage import ROOT
from mirage.experiment import standing
from mirage.experiment.standing import Work, digests, work_left
from slurm_mirage.base.files import write_json

LOCAL = ROOT / "inventories/local"
VARIABLES: dict[str, Any] = {"mirage_cluster": "one", "mirage_nodes": 10, "mirage_config": "fifo"}


def test_a_variable_of_the_cluster_changes_its_inputs_and_one_of_a_run_does_not() -> None:
    before = digests(VARIABLES, LOCAL)
    assert digests({**VARIABLES, "mirage_nodes": 11}, LOCAL)["mirage_inputs"] != before["mirage_inputs"]
    assert digests({**VARIABLES, "experiment_run": "x", "mirage_fresh": True}, LOCAL) == before


def test_a_configuration_without_a_database_changes_only_its_own_digest() -> None:
    before, after = digests(VARIABLES, LOCAL), digests({**VARIABLES, "mirage_config": "backfill"}, LOCAL)
    assert after["mirage_inputs"] == before["mirage_inputs"] and after["mirage_configuration"] != before["mirage_configuration"]


def test_an_inventory_that_a_program_computes_has_no_digest(tmp_path: Path) -> None:
    program = tmp_path / "hosts"
    program.write_text("#!/bin/sh\necho {}\n")
    assert digests(VARIABLES, program)
    program.chmod(0o755)
    assert digests(VARIABLES, program) == {}


def test_what_is_left_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "INSTANCES", tmp_path)
    assert work_left(VARIABLES, LOCAL) is Work.BUILD
    (tmp_path / "one").mkdir()
    wanted = digests(VARIABLES, LOCAL)
    write_json(tmp_path / "one/built.json", {"inputs": wanted["mirage_inputs"], "configuration": wanted["mirage_configuration"]})
    assert work_left(VARIABLES, LOCAL) is Work.NONE
    assert work_left({**VARIABLES, "mirage_config": "backfill"}, LOCAL) is Work.CONFIGURE
    assert work_left({**VARIABLES, "mirage_nodes": 11}, LOCAL) is Work.BUILD
    assert work_left({**VARIABLES, "mirage_cluster": "two"}, LOCAL) is Work.BUILD
