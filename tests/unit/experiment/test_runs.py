"""Which run `make experiment` means when RUN is not given."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from journals import start_event

from mirage.experiment import runs
from mirage.experiment.endings import Ending
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_json

NOW = datetime(2026, 1, 2, 3, 4, 5)
WANTED = {"NODES": "360", "SEED": "1"}
FRESH = "20260102-030405-generated"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    return tmp_path


def earlier(results: Path, name: str, word: str | None, inputs: dict[str, str], age: int) -> None:
    folder = results / name
    folder.mkdir()
    write_json(folder / "experiment.json", {"inputs": inputs})
    if word is not None:
        Ending(word, "said").store(folder)
    os.utime(folder, (1000 - age, 1000 - age))


def test_a_name_of_the_time_and_the_trace() -> None:
    assert runs.name_for(None, "", WANTED, NOW) == FRESH
    assert runs.name_for(None, "/x/KTH-SP2.swf.gz", WANTED, NOW) == "20260102-030405-KTH-SP2"


def test_a_knob_that_a_run_did_not_have_was_at_its_default(results: Path) -> None:
    earlier(results, "old", "ok", WANTED, age=1)
    ended = runs.earlier(results / "old", WANTED | {"CLASSES": "", "SIZES": "keep"})
    assert ended is not None and ended.word == "ok"
    with pytest.raises(WrongUse, match="has other inputs: SIZES was not set, is fit"):
        runs.earlier(results / "old", WANTED | {"SIZES": "fit"})
    with pytest.raises(WrongUse, match="has other inputs: another CLASSES"):
        runs.earlier(results / "old", WANTED | {"CLASSES": "[...]"})


def test_a_finished_run_with_other_cuts_is_measured_again_by_make_metrics(results: Path) -> None:
    earlier(results, "old", "ok", WANTED, age=1)
    with pytest.raises(WrongUse, match=r"WARMUP_CUT was not set, is 5%;.*make metrics TRACE=results/RUN/jobs.csv WARMUP_CUT=5%"):
        runs.earlier(results / "old", WANTED | {"WARMUP_CUT": "5%"})


def test_a_name_that_is_given(results: Path) -> None:
    earlier(results, "old", None, WANTED, age=1)
    assert runs.name_for("mine", "", WANTED, NOW) == "mine"


@pytest.mark.parametrize("word", [None, "failed"])
def test_the_same_command_goes_on_with_what_did_not_end(results: Path, word: str | None) -> None:
    earlier(results, "older", None, WANTED, age=9)
    earlier(results, "old", word, WANTED, age=5)
    earlier(results, "another", None, WANTED | {"SEED": "2"}, age=1)
    assert runs.name_for(None, "", WANTED, NOW) == "old"


def test_what_a_run_has_shown_is_added(results: Path) -> None:
    earlier(results, "r", None, WANTED, age=1)
    folder = results / "r"
    write_json(folder / "experiment.json", {"inputs": WANTED, "clock": {"asked": "auto"}})
    runs.complete(folder)
    assert read_json(folder / "experiment.json") == {"inputs": WANTED, "clock": {"asked": "auto"}, "slurm": {}}
    write_json(folder / "run.json", {"speed": 500.0, "clock": "/x/state/clock", "shrink_percent": 100.0})
    start = start_event(real=1.5, virtual=2.5)
    (folder / "journal.jsonl").write_text(f"{json.dumps(start)}\nwhatever else\n")
    (folder / "scontrol.txt").write_text("SLURM_VERSION           = 22.05.8\n")
    runs.complete(folder)
    shown = read_json(folder / "experiment.json")
    assert shown is not None
    assert shown["clock"] == {
        "asked": "auto",
        "speed": 500.0,
        "virtual": True,
        "began": {"real": 1.5, "virtual": 2.5},
    }
    assert shown["slurm"] == {"version": "22.05.8"}


def test_hosts_of_the_cluster_are_told_when_they_are_known(results: Path) -> None:
    earlier(results, "r", None, WANTED, age=1)
    folder = results / "r"
    control = {"name": "laptop", "cores": 8, "memory_bytes": 1, "kernel": "6"}
    write_json(folder / "experiment.json", {"inputs": WANTED, "host": control})
    write_json(folder / "run.json", {"speed": 1.0, "shrink_percent": 100.0, "clock": None, "hosts": []})
    runs.complete(folder)
    shown = read_json(folder / "experiment.json")
    assert (shown["host"], "hosts" in shown) == (control, False)
    head = {"name": "h1", "cores": 2, "memory_bytes": 4096, "kernel": "6.1"}
    hosts = [{**head, "address": "10.0.0.1", "nodes": 0}, {**head, "name": "c1", "address": "10.0.0.2", "nodes": 9}]
    write_json(folder / "run.json", {"speed": 1.0, "shrink_percent": 100.0, "clock": None, "hosts": hosts})
    runs.complete(folder)
    shown = read_json(folder / "experiment.json")
    assert (shown["host"], shown["hosts"]) == (head, hosts)


@pytest.mark.parametrize("word", ["ok", "invalid"])
def test_a_finished_run_is_not_meant(results: Path, word: str) -> None:
    earlier(results, "old", word, WANTED, age=1)
    (results / "bench").mkdir()
    assert runs.name_for(None, "", WANTED, NOW) == FRESH
