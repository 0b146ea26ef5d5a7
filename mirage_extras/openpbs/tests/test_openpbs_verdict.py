"""The verdict on a run of OpenPBS: the same figures from its accounting log, in its own words, and what it has no record of."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from run_folders import MadeFolder

from mirage.records.collect import collect
from mirage.records.run_folder import RunFolder
from mirage.terminal.table import figures_of
from mirage.verdict.run_results import results
from mirage.verdict.thresholds import Thresholds
from mirage.verdict.validity import judge
from slurm_mirage.extras.openpbs import collection
from slurm_mirage.rm.evidence import CONNECTION_RENEWED, Layout
from slurm_mirage.rm.slurm.commands import Slurm

SAMPLES = pl.DataFrame({"real": [0.0], "nodes_not_responding": [0.0], "cpu_busy": [0.5]})
FINISHED = {"ended": 1.0, "messages": {}, "released": 0}
DIAGNOSTICS = pl.DataFrame({"backfill_last_cycle_us": [2000.0], "backfill_max_cycle_us": [2000.0]})
LAYOUT = Layout.of_equal(64, 4)
QMGR = {
    collection.VERSION: "pbs_version = 23.06.06",
    collection.SERVER: "create queue batch\nset server backfill_depth = 1\n",
    collection.NODES: "".join(f"create node n{i}\nset node n{i} resources_available.ncpus = 16\n" for i in range(1, 5)),
    collection.SCHEDULER: "strict_ordering: true ALL\n",
}


def good_run(folder: Path) -> MadeFolder:
    """Ten pairs of jobs: a small one, which starts at once, and one of the whole machine, which waits for it."""
    made = MadeFolder(folder)
    for pair in range(10):
        due = 600.0 * pair
        made.played(made.job(due=due, runtime=200.0), start=due + 0.02, launch=0.03)
        made.played(made.job(due=due + 1.0, runtime=200.0, processors=64), start=due + 201.06, launch=0.03)
    return made


def as_openpbs(made: MadeFolder) -> Path:
    """The folder with the completed jobs in an accounting log instead of Slurm's record."""
    folder = made.write()
    lines = []
    for job in Slurm.records.completions((folder / "jobcomp.log").read_text()):
        assert job.end is not None
        printed = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(job.end))
        hosts = "+".join(f"n{1 + number // 16}/{number % 16}" for number in range(job.processors or 1))
        lines.append(
            f"{printed};E;{job.job_id}.pbs-head;user=slurm-a group=slurm-a jobname={job.name} queue=batch ctime={job.submit} "
            f"qtime={job.submit} etime={job.submit} start={job.start} exec_host={hosts} Resource_List.ncpus={job.processors} "
            f"session=1 end={job.end} Exit_status=0 run_count=1\n"
        )
    (folder / "accounting.log").write_text("".join(lines))
    for name in ("jobcomp.log", "freed.csv"):
        (folder / name).unlink()
    settings = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(settings | {"rm": "openpbs"}))
    (folder / "qmgr.txt").write_text(collection.joined(QMGR))
    return folder


def verdict(folder: Path, diagnostics: pl.DataFrame = DIAGNOSTICS, messages: Mapping[str, int] | None = None) -> dict[str, object]:
    run, finished = RunFolder(folder), FINISHED | {"messages": messages or {}}
    vars(run).update(samples=SAMPLES, diagnostics=diagnostics, result=finished)
    return judge(run, collect(run), LAYOUT, Thresholds.in_force({}, run.scheduling))


def test_a_good_run_is_valid_without_a_record_of_freed_processors(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    found = verdict(as_openpbs(made))
    assert (found["verdict"], found["reasons"]) == ("valid", [])
    assert found["freed_p50"] is None and found["backfill_cycle_max"] == pytest.approx(0.002)
    assert found["manager"] == "OpenPBS"
    shown = {name: (words, value) for name, words, _, value in figures_of(found)}
    assert str(shown["freed_p50"][1]).startswith("not measured: OpenPBS records the end of a job when its processors are free")
    assert shown["clock_speed"][0] == "speed of OpenPBS's clock"


def test_the_errors_of_its_metrics_are_known_without_a_record_of_freed_processors(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    folder = as_openpbs(made)
    samples = "real,virtual,nodes_not_responding,cpu_busy\n0,0,0,0.5\n"
    (folder / "samples.csv").write_text(samples)
    (folder / "pbs.csv").write_text("real,virtual,cycle_last_us,cycle_max_us\n0,0,2000,2000\n")
    (folder / "result.json").write_text(json.dumps(FINISHED))
    found = results(RunFolder(folder), 64, 4, 10.0, {}).metrics
    error = found["errors"]["wait_mean"]["emulation"]
    # Launches of 0.03 s, a lag of 0.01 s, and records in whole seconds: of waits of some 200 s.
    assert error is not None and 0 < error < 5
    assert found["validity"]["verdict"] == "valid"


def test_without_samples_of_the_scheduler_it_is_inconclusive(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    found = verdict(as_openpbs(made), pl.DataFrame())
    assert found["verdict"] == "inconclusive"
    assert found["reasons"] == ["no sample of the scheduler's diagnostics: the longest scheduling cycle is not known"]


def test_a_job_without_a_line_in_the_accounting_log_is_told_in_words_of_openpbs(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    folder = as_openpbs(made)
    lines = (folder / "accounting.log").read_text().splitlines(keepends=True)
    (folder / "accounting.log").write_text("".join(lines[1:]))
    [reason] = [one for one in verdict(folder)["reasons"] if "disagree" in one]  # type: ignore[attr-defined]
    assert reason == "sigsleep's and OpenPBS's records disagree 1 time, none is allowed: in sigsleep's record only: 1"


def test_a_long_cycle_of_the_scheduler_makes_it_invalid_because_no_pause_explains_it(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    slow = pl.DataFrame({"backfill_last_cycle_us": [20e6], "backfill_max_cycle_us": [20e6]})
    found = verdict(as_openpbs(made), slow)
    assert found["verdict"] == "invalid"
    assert [one for one in found["reasons"] if " is 20 trace s, over 5" in one and one.startswith("mean scheduling cycle")]  # type: ignore[attr-defined]


def test_connections_that_daemons_renew_make_no_run_invalid_and_a_reason_tells_them_apart(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    folder = as_openpbs(made)
    judged = verdict(folder, messages={CONNECTION_RENEWED: 98, "launch failed": 1})
    assert (judged["verdict"], judged["reasons"]) == ("valid", [])
    judged = verdict(folder, messages={CONNECTION_RENEWED: 98, "launch failed": 30, "other error": 4})
    assert judged["reasons"] == [
        "pbs_server and pbs_mom complained 30 times, over 1 (0.05 of the jobs): launch failed: 30; "
        "not counted: connection renewed, without cost: 98"
    ]
