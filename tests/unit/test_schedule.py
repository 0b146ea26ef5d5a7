"""Schedules are read from logs, runs and the jobs' own record."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_mirage import metrics, schedule, sigsleep_log
from slurm_mirage.errors import WrongUse

SWF = "1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1\n"
SACCT = "JobID|State|Submit|Start|End|AllocCPUS\n7|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|8\n"
JOBS = (
    "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag\n"
    "1,0,0,2,12,4,2,1,60,6,100,batch,COMPLETED,0.01\n"
    "2,0,,,,,2,,60,6,,batch,PENDING,\n"
)


def test_schedules_of_logs(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("; MaxProcs: 100\n" + SWF)
    (tmp_path / "b").write_text(SACCT)
    swf, sacct = schedule.read_schedule(tmp_path / "a"), schedule.read_schedule(tmp_path / "b")
    assert (swf.format, swf.processors, swf.suspensions) == ("swf", 100, None)
    assert swf.notes == {}
    assert swf.jobs.select("start", "end").row(0) == (5, 15)
    assert (sacct.format, sacct.processors) == ("sacct", 8)
    assert sacct.jobs.select("start", "end").row(0) == (30, 150)


def test_schedule_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    alone = schedule.read_schedule(tmp_path / "jobs.csv")
    assert (alone.format, alone.processors, alone.nodes, alone.suspensions) == ("run", None, None, None)
    assert alone.jobs.schema == metrics.JOBS_SCHEMA
    assert alone.jobs.row(0) == (1, 0, 0, 2, 12, 4, 2, 1, 60, 6, "100", "batch", "COMPLETED", 0.01)
    assert alone.jobs["start"].to_list() == [2, None]
    (tmp_path / "suspensions.csv").write_text("job,suspend,resume\n1,5,9\n1,,11\n")
    both = schedule.read_schedule(tmp_path / "jobs.csv")
    assert both.suspensions is not None
    assert both.suspensions.rows() == [(1, 5, 9), (1, None, 11)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (JOBS.replace("submit_lag", "lag"), "lacks the columns submit_lag"),
        (JOBS.replace("2,0,,", "2,soon,,"), "line 3: submit 'soon' is not a number"),
        (JOBS.replace("4,2,1,60", "4,2.5,1,60"), "line 2: processors '2.5' is not a number"),
        (JOBS.replace("0.01\n", "0.01,9,9,9\n"), "is not a CSV file"),
    ],
)
def test_a_damaged_jobs_csv_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "jobs.csv").write_text(content)
    with pytest.raises(WrongUse, match=f"^TRACE: {tmp_path}/jobs.csv.*{message}"):
        schedule.read_schedule(tmp_path / "jobs.csv")


def test_schedule_of_sigsleep(tmp_path: Path) -> None:
    second = 10**9
    record = sigsleep_log.Record(
        id=5,
        cores=2,
        priority="high",
        submission_ns=7 * second,
        start_ns=8 * second,
        end_ns=20 * second,
        runtime_ns=9 * second,
        executed_ns=9 * second,
        completed=True,
        suspensions=(sigsleep_log.Suspension(10 * second, 13 * second),),
    )
    packed = sigsleep_log.pack(record)
    (tmp_path / "sigsleep.log").write_bytes(packed + b"garbage" + packed[:50])
    found = schedule.read_schedule(tmp_path / "sigsleep.log")
    assert (found.format, found.processors) == ("sigsleep", None)
    assert found.jobs.select("id", "start", "end", "suspended").rows() == [(5, 1, 13, 3)]
    assert found.suspensions is not None
    assert found.suspensions.rows() == [(5, 3, 6)]
    assert set(found.notes) == {"damaged_places"}


def test_a_missing_schedule(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"cannot be read \(No such file or directory\)"):
        schedule.read_schedule(tmp_path / "none")
