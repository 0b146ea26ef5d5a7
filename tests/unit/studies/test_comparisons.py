"""Studies are sets of knobs that can be played."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path

import pytest

from mirage.commands.main import as_given
from mirage.experiment.endings import Ending
from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import STUDY_TARGET
from mirage.knobs.table import BY_NAME
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from studies import comparisons
from studies.__main__ import STUDIES

ROOT = Path(__file__).parents[3]


def values_of(own: dict[str, str]) -> Knobs:
    return knobs.with_texts(knobs.resolve({}), own)


@pytest.mark.parametrize("name", comparisons.STUDIES)
def test_the_small_size_is_a_workload_for_its_machine_of_less_than_an_hour(name: str) -> None:
    study = comparisons.STUDIES[name]
    values = values_of({**study.knobs, **study.smoke, "SPEED": "event"})
    prepared = Prepared.make(values, source(values.workload, values.nodes.machine).trace, Decimal(100))
    assert prepared.workload.jobs.height == int(study.smoke["JOBS"])
    seconds = prepared.real_estimate()
    assert seconds is not None
    assert seconds * len(study.knobs["CONFIGS"].split()) < 3600
    plan = prepared.plan("x")
    assert len(plan) == int(study.smoke["JOBS"])


@pytest.mark.parametrize("name", comparisons.STUDIES)
def test_its_knobs_are_knobs_of_its_target(name: str) -> None:
    study = comparisons.STUDIES[name]
    assert name.removeprefix(STUDY_TARGET) in STUDIES
    for own in (study.smoke, study.full):
        values_of({**study.knobs, **own})
        assert not [knob for knob in {**study.knobs, **own} if name not in BY_NAME[knob].targets and knob != "RUN"]
    assert f"make {as_given(name)} FULL=yes" in (ROOT / "studies/README.md").read_text()


def test_without_openpbs_the_study_says_so_and_compares_slurms_two(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []

    def compare(knobs: Knobs, _: Screen) -> Ending:
        compared.append(knobs.campaign.configs)
        return Ending("failed", "here")

    monkeypatch.setattr(comparisons, "compare", compare)
    output = io.StringIO()
    comparisons.study_scms(values_of({}), Screen(output))
    assert output.getvalue().startswith("OPENPBS_SOURCE is not given: Slurm's FIFO and backfill only")
    assert compared == ["fifo backfill"]


def test_another_log_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"^trace: study-scms has a workload"):
        comparisons.study("study-scms", values_of({"TRACE": "x.swf"}), Screen())
