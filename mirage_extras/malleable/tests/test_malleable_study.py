"""The studies of malleable jobs: what they compare, and what they refuse."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from mirage.campaign.campaign import Campaign
from mirage.experiment import runs
from mirage.experiment.prepare import Prepared, source
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.knobs.table import BY_NAME
from mirage.terminal.screen import Screen
from mirage_extras.malleable.studies import study
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable

KTH = """; MaxProcs: 100
1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 -1 -1 -1 -1
2 10 5 30 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1
3 20 5 30 16 -1 -1 16 60 -1 1 1 1 -1 -1 -1 -1 -1
4 30 5 30 7 -1 -1 7 60 -1 1 1 1 -1 -1 -1 -1 -1
"""


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path)
    return tmp_path


def values(**given: str) -> Knobs:
    return knobs.resolve(given)


@pytest.mark.parametrize("is_full", [False, True])
def test_each_arm_is_a_workload_for_its_machine(is_full: bool) -> None:
    planned = study.planned(values(), study.STUDY, is_full)
    assert {one.jobs for one in planned} == set(study.FULL_JOBS if is_full else study.JOBS)
    for one in planned:
        assert one.knobs.output.run == one.name
        trace = source(one.knobs.workload, one.knobs.nodes.machine).trace
        for label, arm in one.arms.items():
            jobs = Prepared.make(one.knobs.with_values(arm), trace, Decimal(100)).workload.jobs
            assert jobs.height == one.jobs
            if arm["MALLEABLE"]:
                malleable = [words for words in jobs["malleable"] if words]
                assert len(malleable) > 0.6 * one.jobs
                assert all(Malleable.parse(words).asynchronous == label.endswith("async") for words in malleable)
                # Jobs are submitted at their maximum.
                if one.workload == study.APPLICATIONS:
                    assert all(
                        Malleable.parse(words).maximum == nodes for words, nodes in jobs.select("malleable", "nodes_wanted").rows()
                    )


def test_the_arms_of_a_campaign_have_their_own_workloads_and_inputs() -> None:
    comparison = study.planned(values(), study.STUDY, False)[0]
    planned = Campaign.of(comparison.knobs, None, comparison.arms)
    assert [part.folder.name for part in planned.parts[:3]] == ["fixed-1", "preferred-1", "wide-1"]
    assert len(planned.parts) == 9
    assert "malleable" not in planned.prepared["fixed"].workload.jobs.columns or not any(
        planned.prepared["fixed"].workload.jobs["malleable"]
    )
    assert planned.inputs["preferred MALLEABLE_JOBS"] == "dmr"
    own = planned._inputs_of(planned.parts[2])
    assert (own["MALLEABLE"], own["MALLEABLE_JOBS"], own["CONFIG"]) == ("1", "dmr preferred=none", "backfill")
    assert "wide MALLEABLE" not in own


def test_another_arm_is_another_campaign() -> None:
    comparison = study.planned(values(), study.STUDY, False)[0]
    fewer = Campaign.of(comparison.knobs, None, {"fixed": study.arm(""), "wide": study.arm("dmr preferred=none")})
    assert fewer.inputs != Campaign.of(comparison.knobs, None, comparison.arms).inputs


def test_shares_of_three_strategies(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(KTH)
    arms = study.share_arms(study.FULL_SHARES)
    assert len(arms) == 1 + 5 * 3
    own = {**study.SHARE_KNOBS, "JOBS": "4", "RUN": "x", "OFFSET": "0"}
    given = study.chosen(values(TRACE=str(tmp_path / "log.swf")), own)
    trace = source(given.workload, given.nodes.machine).trace
    counts = {label: _malleable(given.with_values(arm), trace) for label, arm in arms.items()}
    assert (counts["fixed"], counts["minimum-60"], counts["average-100"]) == (0, 2, 4)
    jobs = {
        name: Prepared.make(given.with_values(arms[f"{name}-100"]), trace, Decimal(100)).workload.jobs for name in study.STRATEGIES
    }
    assert jobs["preferred"]["nodes_wanted"].to_list() == [1, 4, 16, 7]
    assert jobs["minimum"]["nodes_wanted"].to_list() == [1, 2, 4, 7]


def _malleable(given: Knobs, trace: object) -> int:
    jobs = Prepared.make(given, trace, Decimal(100)).workload.jobs  # type: ignore[arg-type]
    return sum(map(bool, jobs["malleable"])) if "malleable" in jobs.columns else 0


@pytest.mark.parametrize("name", [study.STUDY, study.SHARE])
def test_its_knobs_are_knobs_of_its_target(name: str) -> None:
    own = {*study.COMMON, *study.SHARE_KNOBS, "MODEL", "JOBS", "FULL"}
    assert not [knob for knob in own if name not in BY_NAME[knob].targets]


def test_what_a_study_chooses_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"^model: study-malleable has its own"):
        study.study_malleable(values(MODEL="raijin"), Screen())
    with pytest.raises(WrongUse, match=r"^trace: nothing is given"):
        study.study_malleable_share(values(), Screen())
