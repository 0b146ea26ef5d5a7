"""The choice of a resource manager by run.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.run_settings import RunSettings
from slurm_mirage.rm import registry
from slurm_mirage.rm.api import BACKFILL_DIAGNOSTICS
from slurm_mirage.rm.slurm.commands import Slurm
from slurm_mirage.rm.slurm.records import DIAGNOSTICS


@pytest.mark.parametrize("name", ["pbs", 7])
def test_a_name_that_nobody_has(tmp_path: Path, name: object) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"rm": name}))
    with pytest.raises(WrongUse, match=r"run\.json: rm"):
        registry.connect(RunSettings.read(tmp_path / "run.json"), 0)


def test_slurms_diagnostics_have_names_that_the_verdict_knows() -> None:
    names = Slurm.records.diagnostic_names
    assert tuple(names.values()) == BACKFILL_DIAGNOSTICS
    assert names.keys() <= DIAGNOSTICS.keys()
    assert {metric.key for metric in Slurm.records.diagnostic_metrics} <= DIAGNOSTICS.keys()


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_file_that_is_no_object(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(WrongUse, match=r"run\.json: "):
        RunSettings.read(tmp_path / "run.json")
