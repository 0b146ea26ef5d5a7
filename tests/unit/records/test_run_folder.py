"""The folder of a run: each file is read once, and its resource manager is looked up once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import MadeFolder
from simulated_runs import verdict

from mirage.records.run_folder import RunFolder
from slurm_mirage.base import strict_json
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.strict_json import Damaged
from slurm_mirage.rm.slurm.commands import Slurm


def test_a_run_that_names_no_manager_is_one_of_slurm(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).manager is Slurm.records
    (tmp_path / "run.json").write_text(json.dumps({"run": "made before"}))
    assert RunFolder(tmp_path).manager is Slurm.records
    (tmp_path / "run.json").write_text(json.dumps({"rm": "slurm"}))
    assert (RunFolder(tmp_path).manager, RunFolder(tmp_path).manager_name) == (Slurm.records, "slurm")


@pytest.mark.parametrize("name", ["pbs", 7])
def test_a_manager_that_nobody_has(tmp_path: Path, name: object) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"rm": name}))
    with pytest.raises(WrongUse, match=r"run\.json: rm"):
        assert RunFolder(tmp_path).manager


def test_a_folder_without_files_has_empty_ones(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert (run.experiment, run.status, run.metrics, run.validity, run.result, run.complaints, run.start) == (*[{}] * 6, None)
    assert run.samples.is_empty() and run.diagnostics.is_empty() and run.configuration == ""
    with pytest.raises(WrongUse, match=r"run\.json: is not there"):
        assert run.settings


def test_a_file_is_read_once_whatever_is_asked_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeFolder(tmp_path)
    made.played(made.job(due=0.0), start=0.1)
    made.write()
    (tmp_path / "metrics.json").write_text(json.dumps({"metrics": {"wait_mean": 1.0}, "validity": verdict()}))
    read: list[str] = []
    whole = strict_json.read
    monkeypatch.setattr(strict_json, "read", lambda path, *more: read.append(path.name) or whole(path, *more))
    run = RunFolder(tmp_path)
    assert (run.manager_name, run.settings["speed"], run.manager) == ("slurm", 1.0, Slurm.records)
    assert run.validity is run.measured["validity"]
    assert read == ["run.json", "metrics.json"]
    with pytest.raises(Damaged, match=r"metrics\.json: jobs is missing: it is not of this release$"):
        assert run.metrics


def test_the_first_result_is_that_of_the_end(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text(json.dumps({"message": "at work", "lag": None}))
    assert RunFolder(tmp_path).result == {"message": "at work"}
    (tmp_path / "result.json").write_text(json.dumps({"ended": 7}))
    assert RunFolder(tmp_path).result == {"ended": 7}
