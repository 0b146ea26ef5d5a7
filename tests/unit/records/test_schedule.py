"""Schedules are read from logs, runs and the jobs' own record."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest

from mirage.metrics import metrics
from mirage.metrics.availability import NOT_RECORDED
from mirage.metrics.jobs_frame import ALLOCATIONS_SCHEMA, JOBS_SCHEMA
from mirage.records import schedule
from mirage.records.recorded import RECORDED_SCHEMA
from mirage.traces.trace import LARGEST_JOB
from mirage.workloads.selection import Selection
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs import sigsleep_log

SWF = "1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1\n"
SACCT = "JobID|State|Submit|Start|End|AllocCPUS\n7|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:00:30|2026-03-01T10:02:30|8\n"
JOBS = (
    "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag,preset\n"
    "1,0,0,2,12,4,2,1,60,6,100,batch,COMPLETED,0.01,\n"
    "2,0,,,,,2,,60,6,,batch,PENDING,,\n"
)


def test_schedules_of_logs(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("; MaxProcs: 100\n" + SWF)
    (tmp_path / "b").write_text(SACCT)
    swf, sacct = schedule.read_schedule(tmp_path / "a"), schedule.read_schedule(tmp_path / "b")
    assert (swf.format, swf.processors, swf.machine, swf.suspensions) == ("swf", 100, "the log's header", None)
    assert swf.notes == {}
    assert swf.jobs.select("start", "end").row(0) == (5, 15)
    assert (sacct.format, sacct.processors, sacct.machine) == ("sacct", 8, LARGEST_JOB)
    assert sacct.jobs.select("start", "end").row(0) == (30, 150)


def test_schedule_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    alone = schedule.read_schedule(tmp_path / "jobs.csv")
    assert (alone.format, alone.processors, alone.nodes, alone.suspensions) == ("run", None, None, None)
    assert alone.jobs.schema == JOBS_SCHEMA
    assert alone.jobs.row(0) == (1, 0, 0, 2, 12, 4, 2, 1, 60, 6, "100", "batch", "COMPLETED", 0.01, None)
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
        (JOBS.replace("0.01,\n", "0.01,,9,9,9\n"), "line 2: has 18 fields, the heading has 15"),
        (JOBS.replace(",0.01,\n", "\n"), "line 2: has 13 fields, the heading has 15"),
        (JOBS + "\n", "line 4: has 0 fields, the heading has 15"),
    ],
)
def test_a_damaged_jobs_csv_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "jobs.csv").write_text(content)
    with pytest.raises(WrongUse, match=f"^trace: {tmp_path}/jobs.csv.*{message}"):
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
    assert (found.format, found.processors, found.machine) == ("sigsleep", None, "")
    assert found.jobs.select("id", "start", "end", "suspended").rows() == [(5, 1, 13, 3)]
    assert found.suspensions is not None
    assert found.suspensions.rows() == [(5, 3, 6)]
    assert set(found.notes) == {"damaged_places"}


@pytest.mark.parametrize("line", ["1,10,10,0,12,0,2,1,60,6,,batch,COMPLETED,", "1,10,10,9.5,12,0,2,1,60,6,,batch,COMPLETED,"])
def test_jobs_that_started_before_their_submission_are_noted(tmp_path: Path, line: str) -> None:
    (tmp_path / "jobs.csv").write_text(f"{','.join(JOBS_SCHEMA)}\n{line},\n2,10,10,12,18,0,2,1,60,6,,batch,COMPLETED,,\n")
    assert schedule.read_schedule(tmp_path / "jobs.csv").notes == {"wait_negative": 1}
    (tmp_path / "recorded.csv").write_text(f"{','.join(RECORDED_SCHEMA)}\n1,10,,0,12,2,true\n2,10,,12,18,2,true\n")
    assert schedule.read_schedule(tmp_path / "recorded.csv").notes == {"wait_negative": 1}


def test_a_missing_schedule(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"cannot be read \(No such file or directory\)"):
        schedule.read_schedule(tmp_path / "none")


# Selection.


def test_jobs_of_a_log_are_selected(tmp_path: Path) -> None:
    lines = [f"{n} {10 * n} 5 {n} 4 -1 -1 4 20 -1 1 {n % 2} 1 -1 -1 -1 -1 -1\n" for n in range(1, 7)]
    (tmp_path / "log").write_text("; MaxProcs: 8\n" + "".join(reversed(lines)))

    def ids(selection: Selection) -> list[int]:
        found = schedule.read_schedule(tmp_path / "log", selection)
        assert found.processors == 8
        return found.jobs["id"].to_list()

    assert ids(Selection()) == [6, 5, 4, 3, 2, 1]
    assert ids(Selection(begin="20", end="50")) == [2, 3, 4]
    assert ids(Selection(users=("1",), offset=1)) == [3, 5]
    chosen = schedule.read_schedule(tmp_path / "log", Selection(min_runtime=3, jobs=2))
    assert chosen.jobs["id"].to_list() == [3, 4]
    assert chosen.left_out == {"shorter than MIN_RUNTIME": 2}


def test_jobs_of_a_run_are_selected(tmp_path: Path) -> None:
    rows = [f"{n},{100 - 10 * n},,{100 - 10 * n},100,0,2,1,60,{n},,batch,COMPLETED,0,\n" for n in range(1, 6)]
    heading = JOBS.splitlines(keepends=True)[0]
    (tmp_path / "jobs.csv").write_text(heading + "".join(rows) + "9,,,,,,2,,60,,,batch,LOST,,\n")

    def ids(selection: Selection) -> list[int]:
        return schedule.read_schedule(tmp_path / "jobs.csv", selection).jobs["id"].to_list()

    assert ids(Selection()) == [1, 2, 3, 4, 5, 9]
    assert ids(Selection(begin="60", end="80")) == [4, 3]
    assert ids(Selection(offset=1, jobs=2)) == [5, 4]
    chosen = schedule.read_schedule(tmp_path / "jobs.csv", Selection(min_runtime=2))
    assert chosen.jobs["id"].to_list() == [5, 4, 3, 2]
    assert chosen.left_out == {"shorter than MIN_RUNTIME": 2}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(queues=("1",)), "queues: the log does not say of which queue its jobs are"),
        (Selection(users=("1",)), "users: the log does not say of which user its jobs are"),
        (Selection(begin="2016-04-01"), "from: 2016-04-01 is a date, but the log has no UnixStartTime"),
        (Selection(begin="1000"), "from: no job was submitted from 1000"),
        (Selection(offset=2), "offset: 2 may be up to 1"),
        (Selection(min_runtime=7), "min_runtime: none of the log's jobs"),
    ],
)
def test_what_a_run_does_not_say_cannot_select_its_jobs(tmp_path: Path, selection: Selection, message: str) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    with pytest.raises(WrongUse, match=f"^{message}"):
        schedule.read_schedule(tmp_path / "jobs.csv", selection)


# The machine of a run.


@pytest.mark.parametrize(
    ("inputs", "machine"),
    [
        ({"NODES": "20", "CPUS": "16", "CLASSES": "", "SHRINK": "100"}, (320, 20, 60.0)),
        ({"NODES": "20", "CPUS": "16", "SHRINK": "0.2"}, (320, 20, 60.0)),
        ({"NODES": "20", "CPUS": "16", "SHRINK": "50", "SPEED": "500"}, (320, 20, 60.0)),
        ({"NODES": "20", "CPUS": "16", "SHRINK": "100", "SPEED": "auto"}, (320, 20, 60.0)),
        (
            {"NODES": "5", "CPUS": "", "CLASSES": '[{"count": 2, "cpus": 8}, {"count": 3, "cpus": 4}]', "SHRINK": "50"},
            (28, 5, 60.0),
        ),
    ],
)
def test_a_runs_folder_says_its_machine(tmp_path: Path, inputs: dict[str, str], machine: tuple[int, int, float]) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "experiment.json").write_text(json.dumps({"inputs": inputs}))
    found = schedule.read_schedule(tmp_path / "jobs.csv")
    assert (found.processors, found.nodes, found.immediate_below) == machine
    assert found.machine == "experiment.json"


def test_the_threshold_of_immediate_is_the_same_for_both_schedules_of_a_run_and_shorter_for_a_log(tmp_path: Path) -> None:
    inputs = {"NODES": "2", "CPUS": "2", "SHRINK": "100", "SPEED": "auto"}
    (tmp_path / "experiment.json").write_text(json.dumps({"inputs": inputs, "clock": {"asked": "auto", "speed": 300.0}}))
    (tmp_path / "jobs.csv").write_text(JOBS)
    for name in ("schedule.swf", "log.swf"):
        (tmp_path / name).write_text("1 0 5 10 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n")
    line = "1|2026-11-26T21:02:00|2026-11-26T21:02:01|2026-11-26T21:24:14|COMPLETED|1\n"
    (tmp_path / "sacct.txt").write_text(f"JobID|Submit|Start|End|State|NCPUS\n{line}")
    names = ("jobs.csv", "schedule.swf", "sacct.txt", "log.swf")
    assert [schedule.read_schedule(tmp_path / name).immediate_below for name in names] == [60, 60, 60, 1]
    # Only a run tells which nodes were out of service.
    assert [schedule.read_schedule(tmp_path / name).availability for name in names] == [None, *[NOT_RECORDED] * 3]
    (tmp_path / "experiment.json").unlink()
    assert schedule.read_schedule(tmp_path / "sacct.txt").immediate_below == 1, "a site's"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[]", r"it may be an object, not \[\]"),
        ("{}", "does not describe a run"),
        ('{"inputs": {"NODES": "many", "CPUS": "1", "SHRINK": "1"}}', "does not describe a run"),
    ],
)
def test_a_damaged_description_of_a_run_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "experiment.json").write_text(text)
    with pytest.raises(WrongUse, match=f"^trace: {tmp_path}/experiment.json: {message}"):
        schedule.read_schedule(tmp_path / "jobs.csv")


# Changes of size.

RUN = JOBS + "3,5,,5,,0,1,1,60,6,,batch,RUNNING,,\n"


def with_allocations(folder: Path, rows: str, heading: str = "job,from,nodes,processors\n") -> schedule.Schedule:
    (folder / "jobs.csv").write_text(RUN)
    (folder / "allocations.csv").write_text(heading + rows)
    return schedule.read_schedule(folder / "jobs.csv")


def test_changes_of_size_are_read_beside_a_run(tmp_path: Path) -> None:
    found = with_allocations(tmp_path, "1,2.5,2,4\n3,100,,2\n1,2,1,3\n1,12,1,1\n")
    assert found.allocations is not None and found.allocations.schema == ALLOCATIONS_SCHEMA
    assert found.allocations.rows() == [(1, 2.5, 2, 4), (3, 100, None, 2), (1, 2, 1, 3), (1, 12, 1, 1)]
    (tmp_path / "allocations.csv").unlink()
    assert schedule.read_schedule(tmp_path / "jobs.csv").allocations is None


def test_changes_of_jobs_that_are_not_selected_are_no_error(tmp_path: Path) -> None:
    with_allocations(tmp_path, "1,2.5,2,4\n")
    chosen = schedule.read_schedule(tmp_path / "jobs.csv", Selection(offset=2))
    assert chosen.jobs["id"].to_list() == [3]
    assert metrics.compute(chosen.jobs, 8, allocations=chosen.allocations)["jobs"]["submitted"] == 1


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("id", "", "line 2: id is empty"),
        ("id", "2", "line 3: job 2 is in an earlier line, too"),
        ("end", "-1e9", "line 2: the end of job 1, -1000000000.0, is before its start, "),
        ("end", "inf", "line 2: end 'inf' is not a number"),
        ("start", "NaN", "line 2: start 'NaN' is not a number"),
        ("processors", "-3", "line 2: processors of job 1 may be 1 or more, not -3"),
        ("processors", "9" * 20, "line 2: processors '99999999999999999999' is not a number"),
        ("nodes", "0", "line 2: nodes of job 1 may be 1 or more, not 0"),
        ("suspended", "1e300", "line 2: suspended '1e300' is not a number"),
        ("suspended", "-1", "line 2: suspended, requested or runtime of job 1 is below 0"),
    ],
)
def test_what_no_schedule_has_is_refused_with_its_line(tmp_path: Path, column: str, value: str, message: str) -> None:
    jobs = pl.read_csv(io.StringIO(RUN), infer_schema=False).with_columns(pl.lit("1").alias("nodes"))
    more = jobs.with_columns(id=pl.lit("2"))
    first = jobs.head(1).with_columns(pl.lit(value or None, pl.String).alias(column)).select(jobs.columns)
    (tmp_path / "jobs.csv").write_text(pl.concat([first, more.head(1)]).write_csv())
    with pytest.raises(WrongUse) as refused:
        schedule.read_schedule(tmp_path / "jobs.csv")
    assert str(refused.value).startswith(f"trace: {tmp_path}/jobs.csv {message}")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,3,1,1\n9,3,1,1\n", "line 3: there is no job 9 in jobs.csv"),
        ("2,3,1,1\n", "line 2: job 2 did not start"),
        ("1,3,1,1\n1,1.5,1,1\n", "line 3: from 1.5 is before the start of job 1, 2.0"),
        ("3,4,1,1\n", "line 2: from 4.0 is before the start of job 3, 5.0"),
        ("1,12.5,1,1\n", "line 2: from 12.5 is after the end of job 1, 12.0"),
        ("1,3,1,0\n", "line 2: processors may be 1 or more"),
        ("1,3,-1,1\n", "line 2: nodes may be 1 or more, or empty"),
        ("1,3,1,1\n1,4,1,2\n1,3,1,4\n", "line 4: job 1 has another line with from 3.0"),
        ("1,3,1,\n", "line 2: job, from or processors is empty"),
        (",3,1,1\n", "line 2: job, from or processors is empty"),
        ("1,soon,1,1\n", "line 2: from 'soon' is not a number"),
        ("1,nan,1,1\n", "line 2: from 'nan' is not a number"),
        ("1,inf,1,1\n", "line 2: from 'inf' is not a number"),
        ("1,1e300,1,1\n", "line 2: from '1e300' is not a number"),
        ("1,3,1\n", "line 2: has 3 fields, the heading has 4"),
    ],
)
def test_wrong_changes_of_size_are_refused_with_their_line(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(WrongUse) as refused:
        with_allocations(tmp_path, rows)
    assert str(refused.value) == f"trace: {tmp_path}/allocations.csv {message}"


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"allocations.csv line 1: lacks the columns nodes"):
        with_allocations(tmp_path, "1,2,3\n", heading="job,from,processors\n")


# Lost executions.


def test_earlier_executions_are_read_beside_a_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(RUN)
    assert schedule.read_schedule(tmp_path / "jobs.csv").executions is None
    (tmp_path / "suspensions.csv").write_text("job,suspend,resume\n1,5,9\n")
    (tmp_path / "executions.csv").write_text("job,start,end\n1,0.5,1.5\n")
    found = schedule.read_schedule(tmp_path / "jobs.csv")
    assert found.executions is not None and found.executions.rows() == [(1, 0.5, 1.5)]
    measured = metrics.compute(found.jobs, 8, 8, suspensions=found.suspensions, executions=found.executions)["metrics"]
    assert measured["wasted_fraction"] == pytest.approx(1 / 7)  # job 1 ran for 6 s, on both occasions on 4 processors


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,0.5,1.5\n9,1,2\n", "line 3: there is no job 9 in jobs.csv"),
        ("1,,1.5\n", "line 2: job, start or end is empty"),
        ("1,1.5,1\n", "line 2: end 1.0 is before start 1.5"),
        ("1,-1,1\n", "line 2: start -1.0 is before the submission of job 1, 0.0"),
        ("1,1,2.5\n", "line 2: end 2.5 is after 2.0, the start of the last execution of job 1 or its cancellation"),
    ],
)
def test_a_damaged_table_of_executions_is_refused(tmp_path: Path, rows: str, message: str) -> None:
    (tmp_path / "jobs.csv").write_text(RUN)
    (tmp_path / "executions.csv").write_text("job,start,end\n" + rows)
    with pytest.raises(WrongUse) as refused:
        schedule.read_schedule(tmp_path / "jobs.csv")
    assert str(refused.value) == f"trace: {tmp_path}/executions.csv {message}"
