"""The study of Cirrus with a made record and a made slurm.conf: what it plays, what it refuses, and its page."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import simulated_runs
from browser import check_page
from pages import Outline
from playwright.sync_api import Browser
from polars.testing import assert_frame_equal

from mirage.campaign.campaign import Campaign
from mirage.commands.simulate import jobs_of, played
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.knobs import resolve as knobs
from mirage.knobs.knobs import Knobs
from mirage.knobs.table import BY_NAME
from mirage.simulation.simulation import schedule
from mirage.terminal.screen import Screen
from mirage.traces.trace import read_trace
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_json
from studies import cirrus, record_page
from studies.beside_record import Played, Schedule
from studies.cirrus import Window
from studies.unknowns import BASE, HOUR, MODELS

CONF = """ClusterName=made
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=r1i0n[0-8] CPUs=36 RealMemory=1000
NodeName=g[1-2] CPUs=40 RealMemory=1000
PartitionName=all Nodes=ALL State=UP
PartitionName=standard Nodes=r1i0n[0-8] State=UP
"""
WINDOWS = (Window("one", "the first hours", 5 * HOUR, 30 * HOUR, 1234.0), Window("two", "the next hours", 30 * HOUR, 50 * HOUR))


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(cirrus, "SHORT_WINDOWS", WINDOWS[:1])
    monkeypatch.setattr(cirrus, "WINDOWS", WINDOWS)
    runs.RESULTS.mkdir()
    return runs.RESULTS


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """TRACE and SLURM_CONF of a machine with 8 of 9 nodes in use that was busy for more than two days."""
    jobs = simulated_runs.jobs_of(260, 8, 36)
    # Sizes below a node, or whole nodes, over 55 hours.
    size = pl.when(pl.col("processors") > 36).then((pl.col("processors") // 36) * 36).otherwise("processors")
    jobs = jobs.select(
        submit=(pl.col("submit") * 55 * HOUR / pl.col("submit").max()).round(),
        run=pl.col("runtime").round().clip(1, 20 * HOUR),
        size=size,
    )
    submit, run, width = (column.to_numpy() for column in jobs)
    start = submit[0] + np.round(schedule(submit, width, run, 2 * run, 288, "easy") - submit[0])
    record = pl.DataFrame(
        {"ID": range(len(run)), "Submit Time": submit, "Start Time": start, "End Time": start + run, "Makespan": run}
    ).with_columns(Nodes=width, Status=pl.lit("completed"))
    record.write_csv(tmp_path / "record.csv")
    (tmp_path / "slurm.conf").write_text(CONF)
    files = {"TRACE": str(tmp_path / "record.csv"), "SLURM_CONF": str(tmp_path / "slurm.conf")}
    return {**files, "SPEED": "event", knobs.GIVEN: "TRACE SLURM_CONF"}


def study_of(given: dict[str, str], **more: str) -> tuple[Ending, str]:
    output = io.StringIO()
    return cirrus.study_cirrus(knobs.resolve({**given, **more}), Screen(output)), output.getvalue()


def finished(campaign: Campaign, _: Screen) -> Ending:
    """Write what the campaign's runs would have left if Slurm were EASY with each model's limits."""
    for part in campaign.parts:
        prepared = campaign.prepared[part.member.label]
        jobs = jobs_of(played(prepared.workload, 324, "easy", by_limits=True))
        simulated_runs.write(part.folder, jobs, 11, 36)
    write_json(campaign.folder / "experiment.json", {"comparison": [vars(part.member) for part in campaign.parts]})
    return Ending("ok", "compared")


def test_the_arms_have_the_logs_and_knobs_of_their_models(
    given: dict[str, str], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaigns: list[Campaign] = []

    def run(campaign: Campaign, screen: Screen) -> Ending:
        campaigns.append(campaign)
        return finished(campaign, screen)

    monkeypatch.setattr(Campaign, "run", run)
    ending, told = study_of(given, FULL="yes")
    assert ending.word == "ok" and "2 windows" in told and f"{len(MODELS)} models" in told
    assert [one.folder.name for one in campaigns] == ["study-cirrus-full-one", "study-cirrus-full-two"]
    [first, _] = campaigns
    assert [*first.arms] == [*MODELS] and first.replicas == 1
    limits = {label: one.workload.jobs["limit_minutes"].sum() for label, one in first.prepared.items()}
    assert limits["exact"] < limits[BASE] < limits["x5"] and limits["peak"] == limits[BASE]
    inputs = {label: first._inputs_of(part)["TRACE"] for part in first.parts for label in [part.member.label]}
    assert inputs["peak"] == inputs[BASE] != inputs["exact"]
    waits = [one.recorded["start"].to_list() for one in first.prepared.values() if one.recorded is not None]
    assert len(waits) == len(MODELS) and all(one == waits[0] for one in waits)
    assert first.prepared["qos"].requests.qos.count("short") > 0 == first.prepared[BASE].requests.qos.count("short")
    [drained] = first.prepared["peak"].events
    assert (drained.instant, drained.action, drained.target) == (0.0, "drain", "r1i0n8") and not first.prepared[BASE].events
    assert first.prepared[BASE].workload.presets() > 0
    assert set(first.prepared[BASE].requests.partitions) == {"standard"}


def test_the_page_has_recorded_emulated_simulated_and_published_waits(
    given: dict[str, str], results: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Campaign, "run", finished)
    monkeypatch.setattr(cirrus, "RECORD_SHA256", read_trace(Path(given["TRACE"])).sha256)
    ending, _ = study_of(given, FULL="yes")
    assert ending.message.startswith("mean waits one: recorded ") and "emulated" in ending.message
    path = results / "study-cirrus-full/study.html"
    outline, text = Outline.of(path.read_text()), path.read_text()
    for name in ("recorded", "interval over models", "EASY, simulated", "FIFO, simulated", record_page.ELASTISIM, "1,234"):
        assert name in outline.texts, name
    assert "Of what the record does not say, " in text and "9 models" in text
    assert [one for one in outline.references if not one.startswith("../study-cirrus-full-")] == []
    check_page(browser, path, ["over-time-one", "over-time-two"])
    table = pl.read_csv(path.parent / "study.csv")
    assert table.height == 2 * (1 + len(MODELS) + 2)
    base = table.filter(pl.col("window") == "one", pl.col("schedule").is_in([BASE, "easy"]))
    assert base["wait_mean"].n_unique() == 1, "the runs of the base model were EASY here"
    of_models = table.drop_nulls("easy")
    assert of_models.height == 2 * len(MODELS)
    like_peak = of_models.filter(pl.col("wait_mean") != pl.col("easy"))["schedule"].unique().to_list()
    assert like_peak == ["peak"], "EASY with the same limits, on all nodes here, on fewer in the simulation"


def test_a_job_before_all_others_that_did_not_run_moves_nothing(
    given: dict[str, str], results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Campaign, "run", finished)
    study_of(given)
    [window], path = WINDOWS[:1], tmp_path / "record.csv"
    record, earlier = pl.read_csv(path), 20 * HOUR
    times = ["Submit Time", "Start Time", "End Time"]
    first = record.head(1).with_columns(pl.lit(record["ID"].max() + 1).alias("ID"), Makespan=pl.lit(0.0))
    first = first.with_columns(pl.lit(0.0).alias(name) for name in times)
    begin = record["Submit Time"].min()
    later = record.with_columns(pl.col(name) - begin + earlier for name in times)
    pl.concat([first.select(record.columns).cast(later.schema), later]).write_csv(path)
    moved = Window(window.name, window.words, window.begin + earlier, window.end + earlier)
    monkeypatch.setattr(cirrus, "SHORT_WINDOWS", (moved,))
    monkeypatch.setattr(cirrus, "WINDOWS", (moved,))
    study_of(given, RUN="moved")
    tables = [pl.read_csv(results / name / "study.csv") for name in ("study-cirrus", "moved")]
    assert_frame_equal(*tables)


def test_another_record_has_no_published_schedule(given: dict[str, str], results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Campaign, "run", finished)
    study_of(given)
    text = (results / "study-cirrus/study.html").read_text()
    assert record_page.ELASTISIM not in text and "4 models" in text


def test_an_unfinished_window_ends_the_command_and_the_next_one_goes_on(
    given: dict[str, str], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Campaign, "run", lambda *_: Ending("failed", "interrupted"))
    assert study_of(given)[0].word == "failed"
    before = {path.name: path.read_bytes() for path in (results / "study-cirrus").iterdir()}
    monkeypatch.setattr(Campaign, "run", finished)
    assert study_of(given)[0].word == "ok"
    assert {name: (results / "study-cirrus" / name).read_bytes() for name in before} == before


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"TRACE": ""}, r"^trace: study-cirrus needs a file of EPCC's"),
        ({"SLURM_CONF": ""}, r"^slurm_conf: study-cirrus needs a file of EPCC's"),
        ({"MODEL": "raijin"}, "study-cirrus has its own"),
        ({"FROM": "5"}, "study-cirrus has its own"),
    ],
)
def test_what_is_refused(given: dict[str, str], more: dict[str, str], told: str) -> None:
    with pytest.raises(WrongUse, match=told):
        study_of(given, **more)


def test_a_record_that_ends_too_early_and_a_machine_without_its_partition_are_refused(
    given: dict[str, str], tmp_path: Path
) -> None:
    lines = Path(given["TRACE"]).read_text().splitlines(keepends=True)
    (tmp_path / "short.csv").write_text("".join(lines[:100]))
    with pytest.raises(WrongUse, match=r"^trace: is not Cirrus's record of January 2024"):
        study_of(given, TRACE=str(tmp_path / "short.csv"))
    (tmp_path / "slurm.conf").write_text(CONF.replace("standard", "other"))
    with pytest.raises(WrongUse, match=r"^slurm_conf: has no partition standard"):
        study_of(given)


def test_of_a_partition_of_all_nodes_those_that_were_not_needed_are_drained(given: dict[str, str], tmp_path: Path) -> None:
    lines = [line for line in CONF.splitlines() if not line.startswith(("NodeName=g", "PartitionName=all"))]
    (tmp_path / "slurm.conf").write_text("\n".join(lines).replace("standard Nodes=r1i0n[0-8]", "standard Nodes=ALL"))
    models, record = {"peak": MODELS["peak"]}, read_trace(Path(given["TRACE"]))
    arms = cirrus.arms_of(knobs.resolve(given), WINDOWS[0], record, models, {"peak": tmp_path / "x"}, tmp_path)
    assert Path(str(arms["peak"]["EVENTS"])).read_text().splitlines()[1:] == ['0,drain,"r1i0n8",not in service']


def test_the_unknown_with_the_largest_range_is_named_first() -> None:
    def one(means: dict[str, float]) -> Played:
        waits = {label: {"jobs": 10, "wait_mean": {"run": mean, "record": 100.0}} for label, mean in means.items()}
        schedules = {label: Schedule(label, {"waits": of}, None) for label, of in waits.items()}
        return Played("x", "", None, None, 1, schedules, {}, 1, "x")

    found = [one({BASE: 50.0, "exact": 40.0, "x5": 80.0, "peak": 95.0})]
    ranks = record_page.ranked(found, MODELS)
    assert [(name, low, high) for name, low, _, high, _ in ranks] == [
        ("nodes in service", BASE, "peak"),
        ("time limits", "exact", "x5"),
    ]
    assert record_page.decides(found, MODELS).endswith("from 50 s (x2) to 95 s (peak); recorded are 100 s.")


def test_its_knobs_are_knobs_of_its_target() -> None:
    own = {*cirrus.KNOBS, "TRACE", "SLURM_CONF", "FROM", "TO", "FULL"}
    assert not [knob for knob in own if cirrus.NAME not in BY_NAME[knob].targets]


def test_the_names_of_windows_and_arms_are_short_enough(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(knobs.resolve(given), Knobs)
    longest = max(len(f"study-cirrus-full-{window.name}.{label}-1") for window in cirrus.WINDOWS for label in MODELS)
    assert longest <= 98
