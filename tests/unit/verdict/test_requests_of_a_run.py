"""What metrics.json says of requests that a run does not play, and of what the log records of its jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
from run_folders import ORIGIN, MadeFolder

from mirage.records.run_folder import RunFolder
from mirage.records.shapes import METRICS_JSON
from mirage.verdict.run_results import results


def metrics_of(folder: Path, *jobs: dict[str, Any], recorded: str = "") -> dict[str, Any]:
    """metrics.json of a run of jobs of 300 s on 4 processors, with these values of workload.csv. recorded: recorded.csv"""
    made = MadeFolder(folder)
    for place, values in enumerate(jobs):
        made.played(made.job(due=20.0 * place, runtime=300.0, **values), 20.0 * place + 5)
    made.write()
    if recorded:
        (folder / "recorded.csv").write_text(recorded)
    (folder / "samples.csv").write_text("real,virtual,nodes_not_responding,cpu_busy\n1.5,3,0,0.25\n")
    (folder / "result.json").write_text(json.dumps({"ended": len(jobs), "messages": {}, "released": 0}))
    return json.loads(results(RunFolder(folder), 64, 4, 10.0, {}).files["metrics.json"])  # type: ignore[no-any-return]


def test_metrics_have_the_requests_that_are_not_played(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"ran": True, "preset": ""}
    found = metrics_of(tmp_path, *(plain | {"not_played": kinds} for kinds in ("", "gres memory", "gres", "")))
    assert found["not_played"] == {
        "gres": {"jobs": 2, "share": 0.5},
        "memory": {"jobs": 1, "share": 0.25},
        "any": {"jobs": 2, "share": 0.5},
    }


def test_a_run_that_plays_all_requests_says_so(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"ran": True, "preset": "", "not_played": ""}
    assert metrics_of(tmp_path, plain, plain)["not_played"] == {}


def test_a_calibration_has_no_such_member(tmp_path: Path) -> None:
    metrics_of(tmp_path, {}, {})
    pl.read_csv(tmp_path / "workload.csv").select("id", "submit", "runtime", "requested").write_csv(tmp_path / "workload.csv")
    assert "not_played" not in results(RunFolder(tmp_path), 64, 4, 10.0, {}).metrics


def test_nearness_to_what_the_log_records(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"ran": True, "preset": "", "not_played": "", "user": 3}
    rows = [f"{number},{ORIGIN + 20 * number - 20},,{ORIGIN + 20 * number},{ORIGIN + 320},4,true" for number in (1, 2)]
    recorded = "\n".join(["id,submit,eligible,start,end,processors,selected", *rows]) + "\n"
    found = metrics_of(tmp_path, plain, plain, recorded=recorded)
    assert METRICS_JSON.fault(found, "") == ""
    near = found["nearness"]
    # In the run a job waits for 5 s, in the log for 20 s.
    assert near["waits"]["jobs"] == 2
    assert abs(near["waits"]["wait_mean"]["difference"] + 15) < 0.6
    assert (near["played_in_full"], near["inconclusive"], near["differences"]["within_minute"]["value"]) == (1, "", 1)


def test_without_a_record_there_is_no_nearness(tmp_path: Path) -> None:
    assert "nearness" not in metrics_of(tmp_path, {}, {})
