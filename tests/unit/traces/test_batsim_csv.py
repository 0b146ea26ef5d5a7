"""Tests of reading jobs.csv of Batsim and evalys."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mirage.metrics.jobs_frame import JOBS_SCHEMA
from mirage.records.schedule import read_schedule
from mirage.simulation.batsim import write_batsim
from mirage.traces.trace import read_trace
from slurm_mirage.base.errors import WrongUse

NEW = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,starting_time,"
    "execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata\n"
    '1,w,p,0.0,5,100,1,COMPLETED_SUCCESSFULLY,5.5,10,15.5,5.5,15.5,1.55,0-3 7,-1,""\n'
    '2,w,p,0.0,2,100,0,COMPLETED_WALLTIME_REACHED,6,100,106,6,106,1,4-5,-1,""\n'
    '3,w,p,1,99,100,0,REJECTED,-1,-1,-1,-1,-1,-1,,-1,""\n'
    '4,w,p,2,1,100,0,COMPLETED_KILLED,6,10,16,4,14,1,6,-1,"a,b"\n'
)
OLD = (
    "jobID,workload_name,submission_time,requested_number_of_processors,requested_time,success,starting_time,execution_time,"
    "finish_time,waiting_time,turnaround_time,stretch,consumed_energy,allocated_processors\n"
    "w!11,w,0,4,100,1,5,10,15,5,15,1,-1,0-3\n"
    "w!12,w,0,4,100,0,5,10,15,5,15,1,-1,4-7\n"
)
EVALYS = "jobID,submission_time,waiting_time,execution_time,requested_number_of_resources,allocated_resources\n0,0,5,10,4,0-3\n"


def test_a_file_of_batsim(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(NEW)
    log = read_trace(tmp_path / "jobs.csv")
    assert log.format == "batsim"
    columns = ["job_number", "submit", "wait", "run_time", "allocated_processors", "requested_processors", "requested_time"]
    assert log.frame.select(*columns, "status", "state").rows() == [
        (1, 0, 5.5, 10, 5, 5, 100, 1, "COMPLETED"),
        (2, 0, 6, 100, 2, 2, 100, 0, "TIMEOUT"),
        (3, 1, -1, -1, -1, 99, 100, -1, "REJECTED"),
        (4, 2, 4, 10, 1, 1, 100, 5, "CANCELLED"),
    ]
    assert read_schedule(tmp_path / "jobs.csv").jobs["end"].to_list() == [15.5, 106, None, 16]


@pytest.mark.parametrize(
    ("text", "rows"), [(OLD, [(11, 5, 10, 4, "COMPLETED"), (12, 5, 10, 4, "FAILED")]), (EVALYS, [(0, 5, 10, 4, None)])]
)
def test_files_of_older_releases_and_of_evalys(text: str, rows: list[tuple[object, ...]], tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    frame = read_trace(tmp_path / "jobs.csv").frame
    assert frame.select("job_number", "wait", "run_time", "allocated_processors", "state").rows() == rows


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = [(1, 0.0, 2.0, 9.5, 4, "COMPLETED"), (2, 1.0, 9.5, 12.0, 8, "TIMEOUT"), (3, 2.0, 12.0, 13.0, 1, "FAILED")]
    names = ("id", "submit", "start", "end", "processors", "state")
    jobs = pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows], schema=JOBS_SCHEMA)
    write_batsim(jobs, tmp_path / "jobs.csv", "w")
    assert read_schedule(tmp_path / "jobs.csv").jobs.select(names).rows() == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id,submission_time\n1,0\n", "line 1: the heading of Batsim's jobs.csv lacks requested_number_of_resources"),
        (OLD.split("\n")[0] + "\n", "has no jobs"),
        (OLD.replace(",w,0,", ",w,x,"), "line 2: has no submission_time from 0 on"),
    ],
)
def test_malformed_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    with pytest.raises(WrongUse, match=message):
        read_trace(tmp_path / "jobs.csv")


def test_a_record_in_the_columns_of_elastisim(tmp_path: Path) -> None:
    path = tmp_path / "job_statistics.csv"
    heading = "ID,Type,Submit Time,Start Time,End Time,Wait Time,Makespan,Turnaround Time,Status"
    path.write_text(f"{heading},Nodes\n0,Rigid,0,298498,440850,298498,142352,440850,completed,756\n7,rigid,5.5,6,7,0.5,1,1.5,x,1\n")
    log = read_trace(path)
    columns = ("job_number", "submit", "wait", "run_time", "allocated_processors", "state")
    assert (log.format, log.frame.select(columns).rows()) == (
        "batsim",
        [(0, 0, 298498, 142352, 756, "COMPLETED"), (7, 5.5, 0.5, 1, 1, "x")],
    )
    path.write_text(f"{heading}\n0,Rigid,0,1,2,1,1,2,completed\n")
    with pytest.raises(WrongUse, match="lacks requested_number_of_resources"):
        read_trace(path)
