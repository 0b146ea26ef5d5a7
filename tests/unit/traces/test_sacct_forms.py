"""Tests of the forms in which sites have their record: delimiters, CSV, headings, no heading, JSON, nodes without processors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mirage.records.schedule import in_whole_nodes, read_schedule
from mirage.traces import sacct_heading, trace
from mirage.traces.sacct_table import recognised
from slurm_mirage.base.errors import WrongUse

D = "2026-03-01T"
PLAIN = (
    "JobID|User|Submit|Start|End|Elapsed|State|NCPUS|ReqTRES\n"
    f"7|ann|{D}10:00:00|{D}10:00:10|{D}10:30:10|00:30:00|COMPLETED|4|cpu=4\n"
    f"8_[1-3]|ann|{D}10:00:05|Unknown|Unknown|00:00:00|PENDING|0|cpu=2\n"
)


def read(folder: Path, text: str) -> trace.Trace:
    (folder / "log").write_text(text)
    return trace.read_trace(folder / "log")


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", ":::", "^", "~", " | ", "||"])
@pytest.mark.parametrize("closed", [False, True])
def test_any_delimiter(delimiter: str, closed: bool, tmp_path: Path) -> None:
    expected = read(tmp_path, PLAIN)
    found = read(tmp_path, (PLAIN.replace("\n", "|\n") if closed else PLAIN).replace("|", delimiter))
    assert (found.format, found.notes) == ("sacct", expected.notes)
    assert found.frame.equals(expected.frame)


@pytest.mark.parametrize("change", [str.lower, str.upper, lambda heading: heading.replace("|", " | ")])
def test_headings_in_any_case(change: Any, tmp_path: Path) -> None:
    heading, lines = PLAIN.split("\n", 1)
    assert read(tmp_path, f"{change(heading)}\n{lines}").frame.equals(read(tmp_path, PLAIN).frame)


@pytest.mark.parametrize("sign", ["[", "|", " ", '"', "\t", ";"])
def test_a_long_line_of_one_sign_is_read_at_once(sign: str) -> None:
    began = time.process_time()
    assert recognised(sign * 500_000) is None
    assert recognised(f"{sign * 500_000}x") is None
    assert time.process_time() - began < 2


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("all_quoted", [False, True])
def test_csv_with_quotes(delimiter: str, all_quoted: bool, tmp_path: Path) -> None:
    heading = ["JobID", "Submit", "Start", "End", "State", "AllocTRES", "SubmitLine"]
    dates = [f"{D}10:00:00", f"{D}10:00:10", f"{D}10:30:10"]
    rows = [
        ["7", *dates, "COMPLETED", f"cpu=4{delimiter}mem=10G", 'sbatch --wrap="a\nb"'],
        ["8", *dates, "FAILED", "cpu=2", "sbatch x"],
    ]
    path = tmp_path / "log"
    frame = pl.DataFrame(rows, schema=heading, orient="row")
    path.write_text(frame.write_csv(separator=delimiter, quote_style="always" if all_quoted else "necessary"))
    found = trace.read_trace(path).frame
    assert found.select("job_number", "wait", "run_time", "state").rows() == [(7, 10, 1800, "COMPLETED"), (8, 10, 1800, "FAILED")]
    assert found["allocated_processors"].to_list()[1] == 2


def test_commas_between_and_inside_fields(tmp_path: Path) -> None:
    text = f"JobID,Submit,Start,End,AllocTRES,State\n7,{D}10:00:00,{D}10:00:10,{D}10:30:10,cpu=4,mem=10G,COMPLETED\n"
    found = read(tmp_path, text)
    assert found.frame.select("allocated_processors", "state").row(0) == (4, "COMPLETED")
    assert found.notes["lines_with_bars_mended"] == 1


FIELDS = {
    "JobID": "7", "JobIDRaw": "7", "Cluster": "c", "Partition": "p", "QOS": "q", "Account": "a", "Group": "g", "GID": "1",
    "User": "u", "UID": "2", "Submit": f"{D}10:00:00", "Eligible": f"{D}10:00:00", "Start": f"{D}10:00:10", "End": f"{D}10:30:10",
    "Elapsed": "00:30:00", "ElapsedRaw": "1800", "ExitCode": "0:0", "State": "COMPLETED", "NNodes": "1", "NCPUS": "12",
    "ReqCPUS": "12", "AllocCPUS": "12", "ReqNodes": "1", "AllocNodes": "1", "ReqMem": "4Gn", "ReqTRES": "cpu=12",
    "AllocTRES": "cpu=12", "ReqGRES": "gpu:1", "Timelimit": "1-00:00:00", "TimelimitRaw": "1440", "NodeList": "n1",
    "Suspended": "00:00:00", "Reason": "None",
}  # fmt: skip


@pytest.mark.parametrize("columns", sacct_heading.DOCUMENTED, ids=len)
@pytest.mark.parametrize("delimiter", ["|", "\t"])
def test_without_a_heading_the_columns_of_a_documented_command_are_known(
    columns: tuple[str, ...], delimiter: str, tmp_path: Path
) -> None:
    line = delimiter.join(FIELDS.get(column, "x") for column in columns)
    found = read(tmp_path, f"{line}\n{line.replace('7', '8')}\n")
    assert found.frame.select("job_number", "wait", "allocated_processors", "state").rows() == [
        (7, 10, 12, "COMPLETED"),
        (8, 10, 12, "COMPLETED"),
    ]
    with_heading = read(tmp_path, f"{delimiter.join(columns).lower()}\n{line}\n{line.replace('7', '8')}\n")
    assert with_heading.frame.equals(found.frame)


@pytest.mark.parametrize("delimiter", ["|", "\t", ",", ";"])
def test_without_a_known_heading_the_message_says_what_was_found(delimiter: str, tmp_path: Path) -> None:
    _, lines = PLAIN.split("\n", 1)
    with pytest.raises(WrongUse) as error:
        read(tmp_path, lines.replace("|", delimiter))
    message = str(error.value)
    assert "line 1: '7" in message and "has 9 fields and no heading (as of sacct --noheader)" in message
    assert "JobID or JobIDRaw, Submit, Start, End or Elapsed" in message
    assert "\n" not in message


# ---- JSON ----


def number(value: int | None, infinite: bool = False) -> dict[str, Any]:
    """A number as releases from 23.02 on print it."""
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


OLD: dict[str, Any] = {
    "account": "a",
    "allocation_nodes": 2,
    "array": {"job_id": 0, "limits": {"max": {"running": {"tasks": 0}}}, "task": None, "task_id": None},
    "association": {"account": "a", "cluster": "c", "partition": None, "user": "ann"},
    "cluster": "c",
    "constraints": None,
    "group": "g",
    "het": {"job_id": None, "job_offset": None},
    "job_id": 7,
    "name": "n",
    "partition": "batch",
    "qos": "normal",
    "required": {"CPUs": 8, "memory": (1 << 63) + 1000},
    "reservation": {"id": 0, "name": 0},
    "state": {"current": "COMPLETED", "reason": "None"},
    "steps": [{"jobs": [], "step": {"id": "7.batch"}}],
    "time": {
        "elapsed": 3600, "eligible": 1772359200, "end": 1772364610, "start": 1772359210, "submission": 1772359200,
        "suspended": 1800, "limit": 120,
    },
    "tres": {
        "allocated": [
            {"type": "cpu", "name": None, "id": 1, "count": 16},
            {"type": "mem", "name": None, "id": 2, "count": 8000},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 1},
        ],
        "requested": [{"type": "cpu", "name": None, "id": 1, "count": 8}, {"type": "mem", "name": None, "id": 2, "count": 8000}],
    },
    "user": "ann",
}  # fmt: skip
"""A job as Slurm 21.08 prints it."""
NEW: dict[str, Any] = {
    **OLD,
    "array": {"job_id": 0, "limits": {}, "task_id": number(None), "task": ""},
    "het": {"job_id": 0, "job_offset": number(None)},
    "required": {"CPUs": 8, "memory_per_cpu": number(1000), "memory_per_node": number(None)},
    "state": {"current": ["COMPLETED"], "reason": "None"},
    "time": {**OLD["time"], "limit": number(120), "suspended": 1800},
    "submit_line": "sbatch --dependency=afterok:3 a|b",
}
"""A job as Slurm 24.05 prints it."""


def document(*jobs: dict[str, Any], indent: int | None = None) -> str:
    meta = {"Slurm": {"version": {"major": "24"}, "release": "24.05"}, "command": ["sacct", "--json"]}
    return json.dumps({"meta": meta, "jobs": jobs, "errors": [], "warnings": []}, indent=indent)


@pytest.mark.parametrize("job", [OLD, NEW], ids=["old", "new"])
@pytest.mark.parametrize("indent", [None, 2])
def test_json(job: dict[str, Any], indent: int | None, tmp_path: Path) -> None:
    found = read(tmp_path, "\n " + document(job, {**job, "job_id": 8}, indent=indent))
    assert (found.format, found.frame.height) == ("sacct", 2)
    row = found.frame.row(0, named=True)
    expected = {
        "job_number": 7, "submit": 0, "wait": 10, "run_time": 3600, "suspended": 1800, "allocated_processors": 16, "nodes": 2,
        "requested_processors": 8, "requested_time": 7200, "requested_memory": 1000 * 1024, "state": "COMPLETED", "status": 1,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["not_played"] == ["gres"]
    assert found.header["Partition"] == "1 batch"
    assert ("dependency" in row) == ("submit_line" in job)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"array": {"job_id": 5, "task_id": number(3), "task": ""}}, {"array_job": 5, "array_task": 3}),
        ({"array": {"job_id": 5, "task_id": 3, "task": None}}, {"array_job": 5, "array_task": 3}),
        ({"array": {"job_id": 5, "task_id": number(None), "task": "1-4%2"}}, {"array_job": 5, "array_limit": 2}),
        ({"het": {"job_id": 5, "job_offset": number(1)}}, {"array_job": 5, "job_number": 7}),
        ({"time": {**NEW["time"], "limit": number(None, infinite=True)}}, {"requested_time": -1}),
        ({"time": {**NEW["time"], "end": 0, "elapsed": 60}, "state": {"current": ["RUNNING"]}}, {"run_time": -1, "wait": 10}),
        ({"time": {**NEW["time"], "start": 0, "end": 0}, "state": {"current": "PENDING"}}, {"run_time": -1, "wait": -1}),
        ({"required": {"CPUs": 8, "memory_per_cpu": None, "memory_per_node": number(4000)}, "tres": {}}, {"requested_memory": -1}),
        ({"user": "half of a pair: \ud800", "cluster": "\udc00"}, {"user": 1}),
        ({"tres": None, "required": None, "user": None, "association": None}, {"user": -1, "allocated_processors": -1}),
    ],
)
def test_members_of_json(changes: dict[str, Any], fields: dict[str, Any], tmp_path: Path) -> None:
    row = read(tmp_path, document({**NEW, **changes})).frame.row(0, named=True)
    assert {name: row[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document(NEW)[:700], "it is cut off"),
        (document(NEW).replace('"user"', "user"), "a value is not JSON"),
        (document(NEW)[:-1], "it is cut off"),
        ('{"jobs": [1]}', "a member of jobs has no job_id"),
        ('{"jobs": [{"job_id": 3}]}', "a member of jobs has no job_id or no time"),
        ('{"data": [1]}', "the list jobs is missing"),
        ('{"jobs": ' + "[" * 100_000, "it is nested too deeply"),
        ('{"jobs": [' + "9" * 5000, "a value is not JSON"),
        ("{", "it is cut off"),
        ('{\n"jobs" 3}', "line 2: is not output of sacct --json, ':' is missing"),
        (document(NEW) + "\nsacct: error: slurmdbd\n", "line 2: is not output of sacct --json, other text follows it"),
        (document(NEW) + "}", "other text follows it"),
        (document(NEW) + '\n{"meta": {}}', "line 2: is not output of sacct --json, the list jobs is missing"),
        (document(NEW) + document(NEW)[:700], "it is cut off"),
        ("[[1]]", "a member of jobs has no job_id"),
        ("[", "it is cut off"),
        ('{"jobs": []}', "has no jobs"),
    ],
)
def test_other_json_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(WrongUse) as error:
        read(tmp_path, text)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("between", ["", "\n", "\r\n\n"])
def test_a_file_of_several_documents(indent: int | None, between: str, tmp_path: Path) -> None:
    """As of `sacct --json >> file` on each day: a job that was there on two days is in both. A list is one of jobs."""
    first, second = ({**NEW, "job_id": number} for number in (7, 8))
    documents = (document(first, indent=indent), document(first, second, indent=indent), json.dumps([{**NEW, "job_id": 9}]))
    found = read(tmp_path, between.join(documents))
    assert found.frame["job_number"].to_list() == [7, 8, 9]
    assert found.notes["repeated_lines"] == 1


def execution(words: list[str] | str, submit: int, start: int, end: int, cpus: int = 1, number: int = 7) -> dict[str, Any]:
    """A line of a job's executions; instants are in seconds."""
    begin = 1772359200
    time = {**NEW["time"], "submission": begin + submit, "start": begin + start, "end": begin + end, "elapsed": end - start}
    allocated = [{"type": "cpu", "name": "", "id": 1, "count": cpus}, {"type": "node", "name": "", "id": 4, "count": cpus}]
    return {
        **NEW, "job_id": number, "state": {"current": words}, "allocation_nodes": cpus,
        "time": {**time, "eligible": begin + submit, "suspended": 0}, "tres": {"requested": allocated, "allocated": allocated},
    }  # fmt: skip


@pytest.mark.parametrize("flagged", [lambda flag: flag, lambda flag: ["PENDING", flag], lambda flag: [flag, "PENDING"]])
def test_states_that_slurm_stores_as_a_flag(flagged: Any, tmp_path: Path) -> None:
    """Executions, changes of size and siblings of another cluster are as in the lines of text."""
    lines = [
        ("REQUEUED", 0, 10, 3610, 1, 7), ("REQUEUED", 3611, 3741, 7341, 1, 7), ("COMPLETED", 7342, 7472, 9272, 1, 7),
        ("RESIZING", 0, 10, 110, 4, 8), ("RESIZING", 110, 110, 310, 2, 8), ("COMPLETED", 310, 310, 610, 8, 8),
        ("REVOKED", 60, 7200, 7200, 4, 9),
    ]  # fmt: skip
    of_json = [
        execution(flagged(state) if state != "COMPLETED" else ["COMPLETED"], *instants, cpus=cpus, number=number)
        for state, *instants, cpus, number in lines
    ]
    found = read(tmp_path, document(*of_json))
    text = [
        "JobIDRaw|Cluster|User|Group|Partition|QOS|Submit|Eligible|Start|End|State|ReqTRES|AllocTRES|AllocNodes|TimelimitRaw|SubmitLine"
    ]
    for state, *instants, cpus, number in lines:
        submit, start, end = (1772359200 + instant for instant in instants)
        size = f"cpu={cpus},node={cpus}"
        others = f"{NEW['cluster']}|ann|g|batch|normal|{submit}|{submit}|{start}|{end}"
        text.append(f"{number}|{others}|{state}|{size}|{size}|{cpus}|120|{NEW['submit_line'].replace('|', '')}")
    expected = read(tmp_path, "\n".join(text) + "\n")
    columns = ["job_number", "submit", "wait", "run_time", "allocated_processors", "nodes", "state", "earlier", "resized"]
    assert found.frame.select(columns).equals(expected.frame.select(columns))
    assert found.frame["job_number"].to_list() == [7, 8]
    for one in (found, expected):
        assert [one.notes[name] for name in ("requeued", "resized", "revoked")] == [2, 1, 1]


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["RUNNING", "COMPLETING"], "COMPLETING"), (["PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT"], "REQUEUE_HOLD"),
        (["FAILED", "LAUNCH_FAILED"], "FAILED"), (["CANCELLED", "REVOKED"], None), ([], ""), ("RUNNING", "RUNNING"),
    ],
)  # fmt: skip
def test_a_flag_is_the_state_where_sacct_prints_it(words: list[str] | str, state: str | None, tmp_path: Path) -> None:
    found = read(tmp_path, document(execution(words, 0, 10, 70), execution(["COMPLETED"], 0, 10, 70, number=8))).frame
    of_seven = found.filter(pl.col("job_number") == 7)["state"].to_list()
    assert of_seven == ([] if state is None else [state or None])


def test_json_in_a_single_long_line(tmp_path: Path) -> None:
    jobs = [{**NEW, "job_id": number, "name": "x" * 3000} for number in range(1, 1001)]
    text = document(*jobs)
    assert len(text) > 3 << 20
    assert read(tmp_path, text).frame["job_number"].to_list() == list(range(1, 1001))


# ---- nodes only ----


def test_a_log_of_nodes_is_one_of_whole_nodes(tmp_path: Path) -> None:
    text = (
        "JobID|Submit|Start|End|State|ReqNodes|AllocNodes\n"
        f"1|{D}00:00:00|{D}00:01:00|{D}01:01:00|COMPLETED|4|4\n"
        f"2|{D}00:00:30|Unknown|{D}00:32:00|CANCELLED|3|0\n"
    )
    log = read(tmp_path, text)
    assert log.notes["nodes_only"] == 2
    filled = log.in_whole_nodes(16)
    assert filled.frame.select("allocated_processors", "requested_processors").rows() == [(64, 64), (-1, 48)]
    schedule = read_schedule(tmp_path / "log")
    assert (schedule.processors, schedule.machine) == (None, "")
    assert in_whole_nodes(schedule, 128, 8).jobs["processors"][0] == 64
    assert (filled.machine()[0], read(tmp_path, PLAIN).in_whole_nodes(16).frame["allocated_processors"][0]) == (64, 4)
