"""waits.csv and the member "wait_causes" among the results of a run."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest
from run_folders import VIRTUAL_ZERO, MadeFolder

from mirage.records.run_folder import RunFolder
from mirage.records.wait_causes import WAITS_SCHEMA
from mirage.verdict.run_results import Results, results


def results_of(folder: Path, reasons: str) -> Results:
    made = MadeFolder(folder)
    made.played(made.job(due=0.0, runtime=100.0, processors=32, nodes=2), start=0.02)
    for number in (2, 3):
        made.played(made.job(due=10.0 * number, runtime=50.0, processors=32, nodes=2), start=100.2 + 51 * (number - 2))
    made.write()
    if reasons:
        (folder / "reasons.csv").write_text(f"virtual,job_id,about,reason\n{reasons}")
    return results(RunFolder(folder), 32, 2, 10.0, {})


def test_the_files_of_a_run_have_the_causes(tmp_path: Path) -> None:
    words = ((21.0, 2, "Resources"), (31.0, 3, "Priority"), (110.0, 3, "Resources"))
    found = results_of(tmp_path, "".join(f"{VIRTUAL_ZERO + at},{100 + job},reason,{reason}\n" for at, job, reason in words))
    spans = pl.read_csv(io.BytesIO(found.files["waits.csv"]), schema=WAITS_SCHEMA)
    waited = spans.group_by("job").agg((pl.col("to") - pl.col("from")).sum().alias("waited"))
    jobs = pl.read_csv(io.BytesIO(found.files["jobs.csv"])).with_columns(wait=pl.col("start") - pl.col("submit"))
    both = jobs.join(waited, left_on="id", right_on="job")
    assert both.height >= 2 and (both["wait"] - both["waited"]).abs().max() < 1e-5  # type: ignore[operator]
    member = found.metrics["wait_causes"]
    assert member["reasons_recorded"] and member["waited"] == pytest.approx((spans["to"] - spans["from"]).sum())
    longest = {one["job"]: one["causes"] for one in member["longest"]}
    assert next(iter(longest[3])) == "priority" and longest[3]["resources"] > 30 and longest[2]["resources"] > 75
    assert abs(sum(member["causes"].values()) - 1) < 1e-6


def test_a_run_without_recorded_reasons_has_them_too(tmp_path: Path) -> None:
    member = results_of(tmp_path, "").metrics["wait_causes"]
    assert not member["reasons_recorded"] and member["waited"] > 0
