"""Tests of the quantities in sacct's output: durations, flags and marks for no value, and columns that contradict each other."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from test_sacct import COLUMNS, DAY, parse, text

from mirage.metrics.jobs_frame import frame_from_swf
from mirage.traces import sacct


def one(**job: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The row of a job with these fields in place of, or beside, those of `COLUMNS`, and the notes."""
    frame, notes = parse({}, columns={**COLUMNS, **job})
    assert frame.height == 1
    return frame.row(0, named=True), notes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("2-00:00:01", 172801),
        ("0-00:01", 60),
        ("10:30", 630),
        ("01:10:30", 4230),
        ("90", 5400),
        ("1-2-3", None),
    ],
)
def test_durations_are_read_as_slurm_reads_them(text: str, seconds: int | None) -> None:
    job, _ = one(Timelimit=text)
    assert job["requested_time"] == (-1 if seconds is None else seconds)


FLAG = 1 << 31
FLAG_64 = 1 << 63


@pytest.mark.parametrize(
    ("memory", "per_processor"),
    [
        (f"{FLAG + 3000}Mn", 3000),
        (f"{FLAG + 3000}M", 3000),
        (f"{FLAG + 3000}Mc", 3000),
        (f"{FLAG // 1024 + 4}Gn", 4096),
        (f"{FLAG_64 + 4000}Mn", 4000),
        (f"{FLAG_64 + 4000}", 4000),
        (f"{FLAG_64 // 1024 + 4}Gn", 4096),
        (f"{FLAG - 2}Mn", None),
        (f"{2**32 - 2}Mn", None),
        (f"{2**32 - 1}M", None),
        (f"{2**64 - 2}Mn", None),
        (f"{2**64 - 1}Mc", None),
        (f"{FLAG}Mn", None),
        ("16?", None),
        ("0?", None),
        ("INFINITE", None),
    ],
)
def test_flags_and_marks_are_no_part_of_an_amount_of_memory(memory: str, per_processor: int | None) -> None:
    job, notes = one(ReqNodes="2", ReqMem=memory)
    assert job["requested_memory"] == (-1 if per_processor is None else per_processor * 1024)
    assert notes.get("memory_flag", 0) == (per_processor is not None)
    assert per_processor is not None or memory in ("0?", "INFINITE") or notes["marks_for_no_value"] == 1


@pytest.mark.parametrize("column", ["Submit", "Start", "End"])
@pytest.mark.parametrize("date", ["9026-03-01T10:00:00", "2107-01-01T00:00:00", "9999-12-31T23:59:59+0100"])
def test_a_line_with_an_instant_that_cannot_be_is_left_out(column: str, date: str) -> None:
    log = text({column: date}, {"JobID": "8"}, {"JobID": "9"})
    frame, _, _, unread = sacct.parse_sacct(log, "log")
    assert frame["job_number"].to_list() == [8, 9]
    assert f"line 2: {column} {date!r} does not have the form" in unread.in_words()


@pytest.mark.parametrize("date", ["2106-02-07T06:28:14", "2106-02-07T01:28:15", "2106-02-06T23:28:15", "4294967294"])
def test_a_mark_for_no_value_is_no_instant(date: str) -> None:
    job, _ = one(Start=date, State="PENDING", End=date)
    assert (job["wait"], job["run_time"]) == (-1, -1)


def test_an_end_before_the_start_is_noted() -> None:
    times = {"Submit": "2026-03-01T10:00:00", "Start": "2026-03-01T10:30:00", "End": "2026-03-01T10:20:00"}
    _, notes = one(**times, Elapsed="00:10:00")
    assert notes["elapsed_contradicts_end"] == 1


def test_a_job_on_many_nodes_may_have_a_lot_of_memory() -> None:
    job, notes = one(ReqNodes="10000", ReqMem="5120T", ReqCPUS="40000")
    assert job["requested_memory"] == 5120 * 2**30 / 40000
    assert "memory_flag" not in notes


@pytest.mark.parametrize("mark", [2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1])
@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("AllocCPUS", "allocated_processors"),
        ("NCPUS", "allocated_processors"),
        ("TimelimitRaw", "requested_time"),
        ("NNodes", "nodes"),
    ],
)
def test_marks_for_no_value_are_no_quantities(column: str, field: str, mark: int) -> None:
    columns = {name: text for name, text in COLUMNS.items() if name not in ("AllocCPUS", "Timelimit", "ReqCPUS")}
    frame, notes = parse({}, columns={**columns, "ReqCPUS": "4", column: str(mark)})
    assert frame[field][0] in ((4, -1) if field == "allocated_processors" else (-1,))
    assert notes["marks_for_no_value"] == 1


@pytest.mark.parametrize("date", ["0", "4294967294", "18446744073709551614", "1970-01-01T00:00:00"])
def test_marks_for_no_instant(date: str) -> None:
    job, notes = one(State="CANCELLED", Start=date, Elapsed="00:00:00")
    assert (job["wait"], job["run_time"]) == (150, -1)
    assert notes["cancelled_before_start"] == 1


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        ({"ReqMem": "4000Mc", "ReqTRES": "cpu=4,mem=8000M,node=1"}, "reqmem_contradicts_reqtres"),
        ({"NCPUS": "16"}, "numbers_of_processors_contradict"),
        ({"AllocTRES": "cpu=4,node=1"}, "numbers_of_processors_contradict"),
        ({"TimelimitRaw": "20"}, "timelimits_contradict"),
        ({"Elapsed": "00:30:00"}, "elapsed_contradicts_end"),
        ({"Suspended": "00:00:00", "Elapsed": "00:01:00"}, "elapsed_contradicts_end"),
    ],
)
def test_columns_that_contradict_each_other_are_told(columns: dict[str, str], note: str) -> None:
    _, notes = one(**columns)
    assert notes[note] == 1


def test_columns_that_agree_are_not_told() -> None:
    tres = {"ReqTRES": "cpu=4,mem=16000M,node=1", "AllocTRES": "cpu=8,mem=16000M"}
    agreeing = {"ReqMem": "4000Mc", "NCPUS": "8", "TimelimitRaw": "10", "ElapsedRaw": "120", "Suspended": "00:00:00", **tres}
    assert one(**agreeing)[1] == {}


def test_the_recorded_end_wins_over_start_and_elapsed() -> None:
    """It ran for half of the hour between its start and its end."""
    frame, notes = parse({"Start": DAY + "10:00:00", "End": DAY + "11:00:00", "Elapsed": "00:30:00"})
    assert frame.select("run_time", "suspended").row(0) == (1800, 1800)
    assert notes["suspended"] == 1
    assert frame_from_swf(frame).select("start", "end", "suspended").row(0) == (0, 3600, 1800)
    known, notes = parse({"End": DAY + "10:04:30", "Suspended": "00:02:00"}, columns={**COLUMNS, "Suspended": ""})
    assert known.select("run_time", "suspended").row(0) == (120, 120)
    assert notes == {"suspended": 1}


def test_a_field_that_no_job_needs_is_unknown_and_told() -> None:
    lines: tuple[dict[str, str], ...] = ({}, {"JobID": "8", "ReqMem": "much", "UID": "me"}, {"JobID": "9"})
    data = text(*lines, columns={**COLUMNS, "ReqMem": "4Gc", "UID": "5"})
    frame, _, _, unread = sacct.parse_sacct(data, "log")
    assert frame["job_number"].to_list() == [7, 8, 9]
    assert frame["requested_memory"].to_list() == [4 << 20, -1, 4 << 20]
    assert (unread.count, unread.fields) == (0, 2)
    assert "line 3: UID 'me' does not have the form" in unread.in_words()
    assert "line 3: ReqMem 'much' does not have the form" in unread.in_words()


def test_requests_in_trackable_resources_without_a_value() -> None:
    frame, _ = parse({}, columns={**COLUMNS, "ReqTRES": f"cpu={2**32 - 2},mem={2**64 - 2}M,node={2**64 - 1}"})
    assert frame.select("requested_processors", "requested_memory").row(0) == (4, -1)
    assert frame.schema["requested_memory"] == pl.Float64
