"""FILLER and FILLER_JOBS: what the playbooks are told, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from mirage import ROOT
from mirage.experiment import runs
from mirage.experiment.cluster_variables import cluster_variables
from mirage.knobs import resolve as knobs
from mirage_extras.filler import experiment as fillers
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.filler.words import Filler


@pytest.mark.parametrize(("text", "value"), [("no", "no"), ("slots", "slots"), ("no,slots  planned", "no slots planned")])
def test_values_of_filler(text: str, value: str) -> None:
    assert knobs.parse("FILLER", text) == value


@pytest.mark.parametrize("text", ["yes", "slots slots", "slots,yes", " "])
def test_other_values_are_refused(text: str) -> None:
    with pytest.raises(WrongUse, match=r"FILLER: .* is not possible; it may be no, slots or planned"):
        knobs.parse("FILLER", text)


def test_without_fillers_nothing_is_told_of_them() -> None:
    values = knobs.resolve({"FILLER_JOBS": "save=7"})
    fillers.check(values)
    assert fillers.run_settings(values, Decimal(100)) == {}
    assert not [name for name in cluster_variables(values) if "filler" in name]


def test_a_run_has_its_words_in_the_clusters_time() -> None:
    values = knobs.resolve({"FILLER": "planned", "FILLER_JOBS": "work=100,50 save=7.5 speed=0.9"})
    settings = fillers.run_settings(values, Decimal(50))["filler"]
    assert (settings["variant"], settings["grace"]) == ("planned", 4 + fillers.MARGIN)
    assert Filler.parse(settings["words"]) == Filler((50.0, 25.0), 3.75, 2.5, 300.0, 300.0, 0.9, 2)
    told = cluster_variables(values, Decimal(50))
    assert told["slurm_mirage_extras"] == {"filler": {"grace": settings["grace"]}}


def test_another_content_of_the_file_is_another_run(tmp_path: Path) -> None:
    path = tmp_path / "work.txt"

    def inputs(content: str) -> str:
        path.write_text(content)
        return runs.inputs(knobs.resolve({"FILLER_JOBS": f"work={path}"}), "", ROOT / "configs/backfill.yml")["FILLER_JOBS"]

    assert inputs("100\n50\n") == Filler((100.0, 50.0), count=2).text()
    assert inputs("100\n60\n") != inputs("100\n50\n")
    assert len(inputs("100\n" * 1000)) == 64


def test_slots_have_no_grace_time() -> None:
    assert cluster_variables(knobs.resolve({"FILLER": "slots"}))["slurm_mirage_extras"] == {"filler": {"grace": 0}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"FILLER_JOBS": "save=-1"}, "^filler_jobs: save=-1: seconds, 0 or more"),
        ({"FILLER_JOBS": "nodes=2"}, "^filler_jobs: filler: 'nodes=2' may be one of"),
        ({"FILLER_JOBS": "slot=15"}, "^filler_jobs: slot=15: more than restore and save, 15 s"),
        ({"FILLER": "no slots"}, "^filler=no slots: only make compare takes several"),
        ({"MALLEABLE": "1"}, "^filler: malleable jobs grow onto idle nodes"),
        ({"CONFIG": "fifo"}, "^filler: SchedulerType=sched/builtin of the configuration"),
        ({"FRONT_END": "2"}, "^filler: filler jobs need a slurmd for each of their nodes"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        fillers.check(knobs.resolve({"FILLER": "slots"} | given))


def test_several_hosts_are_refused(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yml"
    hosts.write_text("{all: {children: {mirage: {children: {head: {hosts: {a: }}, compute: {hosts: {a: , b: }}}}}}}")
    with pytest.raises(WrongUse, match="the saved states of filler jobs are on one host, and the cluster has 2"):
        fillers.check(knobs.resolve({"FILLER": "slots", "INVENTORY": str(hosts)}))
