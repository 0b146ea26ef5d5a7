"""The study of a site's week, with the archive of the imaginary site."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import simulated_runs
from browser import check_page
from playwright.sync_api import Browser

from mirage.campaign.campaign import Campaign
from mirage.commands.simulate import jobs_of, played
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.knobs.table import BY_NAME
from mirage.terminal.screen import Screen
from mirage.workloads import example_site
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from studies import site

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    runs.RESULTS.mkdir()
    return runs.RESULTS


def test_each_model_is_an_arm_and_the_page_ranks_the_unknowns(
    tmp_path: Path, results: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    played_campaigns: list[Campaign] = []

    def run(campaign: Campaign, _: Screen) -> Ending:
        played_campaigns.append(campaign)
        for part in campaign.parts:
            prepared = campaign.prepared[part.member.label]
            machine = prepared.knobs.nodes.machine
            jobs = jobs_of(played(prepared.workload, machine.processors, "easy", by_limits=True))
            simulated_runs.write(part.folder, jobs, machine.nodes, machine.processors // machine.nodes)
        write_json(campaign.folder / "experiment.json", {"comparison": [vars(part.member) for part in campaign.parts]})
        return Ending("ok", "compared")

    monkeypatch.setattr(Campaign, "run", run)
    example_site.write(tmp_path / "week.tar", 12, 60, 1)
    given = {"SITE": str(tmp_path / "week.tar"), "SPEED": "event", knobs.GIVEN: "SITE"}
    ending = site.study_site(knobs.resolve(given), Screen(io.StringIO()))
    assert ending.word == "ok" and ending.message.startswith("mean waits week: recorded ")
    [campaign] = played_campaigns
    assert [part.folder.name for part in campaign.parts] == [f"{label}-1" for label in site.MODELS]
    presets = {label: one.workload.presets() for label, one in campaign.prepared.items()}
    assert presets["empty"] == 0 and presets["running"] <= presets["replay"] == presets["no-age"]
    accounts = {label: one.knobs.scheduler.accounting for label, one in campaign.prepared.items()}
    assert accounts["nobody"] == "no" != accounts["replay"]
    text = (results / "study-site/study.html").read_text()
    for unknown in (site.BEGIN, site.AGES, site.USAGE, "EASY, simulated"):
        assert unknown in text, unknown
    check_page(browser, results / "study-site/study.html", ["over-time-week"])


def test_without_an_archive_it_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"^site: study-site needs the archive"):
        site.study_site(knobs.resolve({}), Screen())


@pytest.mark.parametrize(("knob", "value"), [("PRESET", "none"), ("ACCOUNTING", "no")])
def test_what_its_models_vary_is_not_varied_by_a_knob(tmp_path: Path, knob: str, value: str) -> None:
    example_site.write(tmp_path / "week.tar", 12, 60, 1)
    given = {"SITE": str(tmp_path / "week.tar"), "SPEED": "event", knob: value, knobs.GIVEN: f"SITE {knob}"}
    with pytest.raises(WrongUse, match=rf"^{knob.lower()}: study-site "):
        site.study_site(knobs.resolve(given), Screen())


@pytest.mark.parametrize("model", site.MODELS.values())
def test_knobs_and_configurations_of_a_model_are_there(model: site.Model) -> None:
    for knob, value in model.knobs.items():
        assert knob in BY_NAME
        assert knob != "CONFIG" or (ROOT / f"configs/{value}.yml").is_file()


def test_its_knobs_are_knobs_of_its_target() -> None:
    assert not [knob for knob in (*site.KNOBS, "SITE") if site.NAME not in BY_NAME[knob].targets]
