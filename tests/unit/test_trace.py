"""The format of a log is told by its content, and schedules are read from all kinds of files."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from slurm_mirage import metrics, sigsleep_log, trace
from slurm_mirage.errors import WrongUse

SWF = "1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1\n"
SACCT = "JobID|State|Submit|Start|End|AllocCPUS\n7|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|8\n"
JOBS = (
    "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag\n"
    "1,0,0,2,12,4,2,1,60,6,100,batch,COMPLETED,0.01\n"
    "2,0,,,,,2,,60,6,,batch,PENDING,\n"
)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.swf", SWF, "swf"),
        ("log", SWF, "swf"),
        ("a.txt", "; MaxProcs: 9\n\n   ; more\n" + SWF, "swf"),
        ("no-bars.log", "  \t" + SWF, "swf"),
        ("a.csv", SACCT, "sacct"),
        ("a.swf.gz", SACCT, "sacct"),
        ("dump", "\n" + SACCT, "sacct"),
    ],
)
def test_content_decides(tmp_path: Path, name: str, content: str, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    read = trace.read_trace(path)
    assert (read.format, read.frame.height) == (kind, 1)
    assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\nworld\n", "line 1: 'hello' is neither a job in SWF nor a heading of sacct -P with JobID"),
        ("; comment\n\nAccount|User\nx|y\n", "line 3: 'Account|User' is neither"),
        ("; only comments\n", "has no jobs"),
        ("1 2 3\n", "line 1: has 3 fields"),
        ("", "is empty"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(WrongUse) as error:
        trace.read_trace(path)
    assert str(error.value).startswith(f"TRACE: {path}")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("header", "machine"),
    [
        ("; MaxProcs: 100\n; MaxNodes: 50\n", (100, 50)),
        ("; MaxProcs: 128 (and 2 for service)\n", (128, None)),
        ("; MaxNodes: 3\n", (4, 3)),
        ("; MaxProcs: 0\n; MaxNodes: unknown\n", (4, None)),
    ],
)
def test_the_machine_of_a_log(tmp_path: Path, header: str, machine: tuple[int, int | None]) -> None:
    (tmp_path / "log").write_text(header + SWF)
    assert trace.read_trace(tmp_path / "log").machine() == machine


def test_schedules_of_logs(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("; MaxProcs: 100\n" + SWF)
    (tmp_path / "b").write_text(SACCT)
    swf, sacct = trace.read_schedule(tmp_path / "a"), trace.read_schedule(tmp_path / "b")
    assert (swf.format, swf.processors, swf.suspensions) == ("swf", 100, None)
    assert swf.notes == {}
    assert swf.jobs.select("start", "end").row(0) == (5, 15)
    assert (sacct.format, sacct.processors) == ("sacct", 8)
    assert sacct.jobs.select("start", "end").row(0) == (30, 150)


def test_schedule_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    alone = trace.read_schedule(tmp_path / "jobs.csv")
    assert (alone.format, alone.processors, alone.nodes, alone.suspensions) == ("run", None, None, None)
    assert alone.jobs.schema == metrics.JOBS_SCHEMA
    assert alone.jobs.row(0) == (1, 0, 0, 2, 12, 4, 2, 1, 60, 6, "100", "batch", "COMPLETED", 0.01)
    assert alone.jobs["start"].to_list() == [2, None]
    (tmp_path / "suspensions.csv").write_text("job,suspend,resume\n1,5,9\n1,,11\n")
    both = trace.read_schedule(tmp_path / "jobs.csv")
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
        trace.read_schedule(tmp_path / "jobs.csv")


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
    schedule = trace.read_schedule(tmp_path / "sigsleep.log")
    assert (schedule.format, schedule.processors) == ("sigsleep", None)
    assert schedule.jobs.select("id", "start", "end", "suspended").rows() == [(5, 1, 13, 3)]
    assert schedule.suspensions is not None
    assert schedule.suspensions.rows() == [(5, 3, 6)]
    assert set(schedule.notes) == {"damaged_places"}


def test_a_missing_schedule(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"cannot be read \(No such file or directory\)"):
        trace.read_schedule(tmp_path / "none")
