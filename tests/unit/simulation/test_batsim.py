"""Tests of the export in Batsim's format: columns, states, and the assignment of processors."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.metrics import metrics
from mirage.simulation import batsim
from slurm_mirage.base.errors import WrongUse


def table(*jobs: dict[str, Any]) -> pl.DataFrame:
    empty = dict.fromkeys(metrics.JOBS_SCHEMA)
    rows = [{**empty, "id": number, "submit": 0, **job} for number, job in enumerate(jobs, 1)]
    return pl.DataFrame(rows, schema=metrics.JOBS_SCHEMA)


def written(folder: Path, jobs: pl.DataFrame) -> list[dict[str, str]]:
    batsim.write_batsim(jobs, folder / "jobs.csv", "w")
    with (folder / "jobs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def allocated(folder: Path, *jobs: tuple[float, float, int]) -> list[str]:
    frame = table(*({"start": start, "end": end, "processors": count} for start, end, count in jobs))
    return [row["allocated_resources"] for row in written(folder, frame)]


def processors(text: str) -> list[int]:
    """The processors of an interval set, parsed as evalys and Batsim's tools do."""
    bounds = [[int(bound) for bound in interval.split("-")] for interval in text.split()]
    return [number for interval in bounds for number in range(interval[0], interval[-1] + 1)]


def test_the_file(tmp_path: Path) -> None:
    jobs = table(
        {"submit": 2.5, "start": 4, "end": 10, "processors": 3, "requested": 60, "state": "COMPLETED"},
        {"submit": 3, "state": "CANCELLED", "processors": 2, "requested": 60},
        {"submit": 3, "start": 5, "state": "RUNNING", "processors": 1},
    )
    batsim.write_batsim(jobs, tmp_path / "jobs.csv", "toy")
    assert (tmp_path / "jobs.csv").read_text() == (
        "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
        "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata\n"
        "1,toy,1,2.5,3,60,1,COMPLETED_SUCCESSFULLY,4,6,10,1.5,7.5,1.25,0-2,-1,\n"
        "2,toy,2,3.0,2,60,0,REJECTED,,,,,,,,,\n"
        "3,toy,3,3.0,1,,0,RUNNING,5,,,2.0,,,,-1,\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.csv"]


@pytest.mark.parametrize(
    ("state", "final"),
    [
        ("COMPLETED", "COMPLETED_SUCCESSFULLY"),
        ("FAILED", "COMPLETED_FAILED"),
        ("NODE_FAIL", "COMPLETED_FAILED"),
        ("TIMEOUT", "COMPLETED_WALLTIME_REACHED"),
        ("CANCELLED", "COMPLETED_KILLED"),
        (None, ""),
    ],
)
def test_how_a_job_ended(tmp_path: Path, state: str | None, final: str) -> None:
    row = written(tmp_path, table({"start": 0, "end": 1, "processors": 1, "state": state}))[0]
    assert (row["final_state"], row["success"]) == (final, {"COMPLETED": "1", None: ""}.get(state, "0"))


def test_the_lowest_free_processors_are_taken(tmp_path: Path) -> None:
    # Job 2 leaves a gap below job 3. Job 4 takes a part of it; job 5 takes the rest and processors above job 3.
    assert allocated(tmp_path, (0, 9, 2), (0, 4, 3), (0, 9, 1), (4, 9, 1), (5, 9, 4)) == ["0-1", "2-4", "5", "2", "3-4 6-7"]


def test_processors_released_at_an_instant_are_free_at_that_instant(tmp_path: Path) -> None:
    assert allocated(tmp_path, (3, 5, 2), (0, 3, 2)) == ["0-1", "0-1"]


def test_a_job_without_duration_keeps_its_processors_free(tmp_path: Path) -> None:
    assert allocated(tmp_path, (0, 9, 1), (2, 2, 2), (2, 9, 2)) == ["0", "1-2", "1-2"]
    assert written(tmp_path, table({"start": 2, "end": 2, "processors": 1}))[0]["stretch"] == ""


def test_an_end_before_the_start_and_an_unknown_size_have_no_processors(tmp_path: Path) -> None:
    jobs = table({"start": 5, "end": 4, "processors": 1}, {"start": 5, "end": 6}, {"start": 5, "end": 6, "processors": 1})
    assert [row["allocated_resources"] for row in written(tmp_path, jobs)] == ["", "", "0"]


def test_a_schedule_without_jobs_has_a_heading(tmp_path: Path) -> None:
    assert written(tmp_path, table()) == []
    assert (tmp_path / "jobs.csv").read_text().startswith("job_id,workload_name,")


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"^OUT: .*cannot be written"):
        batsim.write_batsim(table(), tmp_path / "none" / "jobs.csv", "w")


schedules = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 9)), max_size=40)


@given(schedules, st.integers(1, 50))
@settings(deadline=None)
def test_each_job_has_the_lowest_free_processors(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, int, int]], at_once: int
) -> None:
    """Compared with a second implementation that keeps a set of processors."""
    rows = [(float(start), float(start + duration), count) for start, duration, count in jobs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batsim, "_ROWS", at_once)
        assigned = [processors(text) for text in allocated(tmp_path_factory.mktemp("batsim"), *rows)]
    expected: dict[int, list[int]] = {}
    for number in sorted(range(len(rows)), key=lambda number: rows[number][0]):
        start, _, count = rows[number]
        busy = {one for other, has in expected.items() for one in has if rows[other][1] > start}
        expected[number] = [one for one in range(1000) if one not in busy][:count]
    assert assigned == [expected[number] for number in range(len(rows))]


def test_many_jobs_are_assigned_by_compiled_code_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough intervals for the arrays to grow.
    rows = [(float(n * 7919 % 1009), float(n * 7919 % 1009 + 1 + n * 31 % 997), 1 + n % 5) for n in range(3000)]
    plain = allocated(tmp_path, *rows)
    monkeypatch.setattr(batsim, "_COMPILED_FROM", 1)
    assert allocated(tmp_path, *rows) == plain
    assert sum(len(text.split()) for text in plain) > 2048
