"""mirage.traces.captured: the log in an archive of mirage-capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captures import BEGIN, COLUMNS, DAY, JOBS, capture, job, table
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.traces.local_time import LocalTime
from mirage.traces.trace import read_trace
from mirage.workloads.selection import Selection, take
from slurm_mirage.base.errors import WrongUse

FIRST, SECOND = "sacct/20261031T230000Z.txt", "sacct/20261101T110000Z.txt"


def test_the_log_of_an_archive_with_its_users_and_zone(tmp_path: Path) -> None:
    trace = read_trace(capture(tmp_path))
    # Users by their place among those of the associations, of whom u_a is none.
    assert trace.frame.select("job_number", "user", "account", "submit").rows() == [
        (1, 2, "a_1", 660.0),
        (2, 4, "a_2", 0.0),
        (3, 2, "a_1", 780.0),
    ]
    assert trace.format == "sacct" and "user_name" not in trace.frame.columns
    local = LocalTime.of(trace)
    assert local.zone == "Europe/Berlin" and str(local.date(600.0)) == "2026-11-01 00:00:00"
    taken = take(trace, Selection(begin="2026-11-01T00:00:00", end="2026-11-01T23:00:00"))
    assert taken.jobs["job_number"].to_list() == [1, 3] and taken.instant == 600.0


def test_a_job_is_in_each_piece_and_counts_once_as_the_last_piece_has_it(tmp_path: Path) -> None:
    running = job(1, State="RUNNING", End="Unknown", ElapsedRaw=1800)
    trace = read_trace(capture(tmp_path, {FIRST: table(COLUMNS, running, *JOBS[1:]), SECOND: table(COLUMNS, job(1), JOBS[1])}))
    assert trace.frame.select("job_number", "run_time", "status").rows() == [(1, 3600.0, 1), (2, 3600.0, 1), (3, 3600.0, 1)]
    assert trace.notes.get("repeated_lines", 0) == 0


def test_pieces_of_two_releases_have_the_columns_of_both(tmp_path: Path) -> None:
    older = tuple(column for column in COLUMNS if column != "SubmitLine")
    row = dict(zip(COLUMNS, job(1), strict=True))
    trace = read_trace(capture(tmp_path, {FIRST: table(older, tuple(row[c] for c in older)), SECOND: table(COLUMNS, *JOBS[1:])}))
    assert trace.frame["job_number"].to_list() == [1, 2, 3]
    assert ["tasks=4" in text for text in trace.frame["request"]] == [False, True, True]


def document(number: int, limit: int) -> str:
    submit = BEGIN + 60 * number
    time = {"submission": submit, "start": submit, "eligible": submit, "end": submit + 3600, "elapsed": 3600}
    array = {"job_id": 7, "task_id": number, "limits": {"max": {"running": {"tasks": limit}}}}
    return json.dumps({"job_id": number, "array": array, "time": time, "licenses": "matlab:2"})


def test_the_json_adds_what_the_columns_lack(tmp_path: Path) -> None:
    rows = [job(number, JobID=f"7_{number}") for number in (1, 2)]
    text = f'{{"jobs": [\n{document(1, 4)},\n{document(2, 4)}\n]}}\n'
    trace = read_trace(capture(tmp_path, {FIRST: table(COLUMNS, *rows), "sacct-json/20261031T230000Z.json": text}))
    assert trace.frame["array_limit"].to_list() == [4, 4]
    assert ["licences=matlab:2" in text for text in trace.frame["request"]] == [True, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({FIRST: table(("JobID", "JobIDRaw"), (1, 1))}, r"capture.tar: sacct/\S+:1: has no column Submit"),
        ({FIRST: table(COLUMNS, *JOBS, (1, 2))}, r"capture.tar: sacct/\S+:5: has 2 fields, the heading has 22"),
        ({"sacctmgr/assoc.txt": "Name\tAccount\nx\ty\n"}, r"sacctmgr/assoc.txt:1: has no column user"),
        ({FIRST: table(COLUMNS)}, "has no job in its window; the capture took it as operator"),
        ({FIRST: None}, "has no part sacct/"),
    ],
)
def test_archives_that_are_refused(tmp_path: Path, changes: dict[str, str | None], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        read_trace(capture(tmp_path, changes))


@settings(max_examples=10, deadline=None)
@given(st.sets(st.integers(1, 30), min_size=1), st.sets(st.integers(1, 30)))
def test_pieces_are_the_union_of_their_jobs(tmp_path_factory: pytest.TempPathFactory, first: set[int], second: set[int]) -> None:
    texts = {name: table(COLUMNS, *map(job, sorted(numbers))) for name, numbers in ((FIRST, first), (SECOND, second))}
    trace = read_trace(capture(tmp_path_factory.mktemp("site"), dict(texts)))
    assert set(trace.frame["job_number"]) == first | second and trace.frame.height == len(first | second)


def test_a_window_in_summer_time_is_the_sites(tmp_path: Path) -> None:
    local = LocalTime.of(read_trace(capture(tmp_path, begin=BEGIN, end=BEGIN + DAY)))
    assert local.words == "Europe/Berlin"
