"""Tests of the selection of jobs by window, offset, number, queue, user and run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads.selection import Selection, choose, take
from slurm_mirage.base.errors import WrongUse

HOUR = 3600
HEADER = {"UnixStartTime": "843480031", "TimeZoneString": "Europe/Stockholm", "Queue": "1 batch\n2 [fque:2]\n3 - test jobs"}
"""The header of the KTH log (second 0 is 23 September 1996, 14:00:31 local summer time), with queues."""


def log(*jobs: Mapping[str, float], header: Mapping[str, str] | None = None) -> Trace:
    """A log of these jobs. Defaults: submission 0, run time 100; other fields are unknown."""
    blank = {**dict.fromkeys(swf.COLUMNS, -1), "submit": 0, "run_time": 100}
    rows = [{**blank, "job_number": number, **job} for number, job in enumerate(jobs, 1)]
    return Trace(pl.DataFrame(rows, schema=swf.SCHEMA), dict(HEADER if header is None else header), {}, "swf", "")


def numbers(trace: Trace, **knobs: Any) -> list[int]:
    return choose(trace, Selection(**knobs))[0]["job_number"].to_list()


HOURLY = log(*({"submit": HOUR * n, "queue": n % 3 + 1, "user": n % 4, "run_time": n} for n in range(48)))
"""Jobs 1 to 48, one per hour for two days; the one at 10 h (0:00:31) is the first of 24 September."""


def test_the_default_selection_is_the_whole_log_in_order_of_submission() -> None:
    trace = log({"submit": 9}, {"submit": 4}, {"submit": -1}, {"submit": 9})
    frame, left_out = choose(trace, Selection())
    assert frame["job_number"].to_list() == [3, 2, 1, 4]
    assert (frame.schema, left_out) == (swf.SCHEMA, {})


@pytest.mark.parametrize(
    ("begin", "end", "first", "last"),
    [
        ("", "", 1, 48),
        ("7200", "10800", 3, 3),
        ("7199.5", "10800.5", 3, 4),
        ("7201", "", 4, 48),
        ("", "7200", 1, 2),
        ("1996-09-24", "", 11, 48),
        ("", "1996-09-24", 1, 10),
        ("1996-09-24", "1996-09-25", 11, 34),
        ("1996-09-24T00:00", "1996-09-24T00:00:31", None, None),
        ("1996-09-24T00:00", "1996-09-24T00:00:32", 11, 11),
    ],
)
def test_a_window(begin: str, end: str, first: int | None, last: int | None) -> None:
    """The window includes its beginning and excludes its end."""
    if first is None or last is None:
        with pytest.raises(WrongUse, match=r"^FROM: no job was submitted from 1996-09-24T00:00 before 1996-09-24T00:00:31"):
            numbers(HOURLY, begin=begin, end=end)
    else:
        assert numbers(HOURLY, begin=begin, end=end) == list(range(first, last + 1))


@pytest.mark.parametrize(
    ("header", "unix"),
    [
        ({"UnixStartTime": "1000000000"}, 1e9),
        ({"UnixStartTime": "1000000000", "TimeZone": "3600"}, 1e9 - 3600),
        # TimeZone does not include the summer time of September.
        ({"UnixStartTime": "1000000000", "TimeZoneString": "Europe/Stockholm", "TimeZone": "3600"}, 1e9 - 7200),
    ],
)
def test_a_date_is_in_the_logs_time_zone(header: dict[str, str], unix: float) -> None:
    """1e9 is 9 September 2001, 1:46:40 in UTC."""
    trace = log({"submit": unix - 1e9 + 1e5 - 1}, {"submit": unix - 1e9 + 1e5}, header=header | {"UnixStartTime": "999900000"})
    assert numbers(trace, begin="2001-09-09T01:46:40") == [2]


@pytest.mark.parametrize(
    ("date", "unix"),
    [
        ("1996-10-27T02:30", 846376200),  # the first of two such times, in summer time
        ("1996-10-27T03:00", 846381600),
        ("1997-03-30T02:30", 859685400),  # there is none: the clocks went from 2:00 to 3:00
        ("1997-03-30T03:30", 859685400),
    ],
)
def test_dates_at_the_change_of_summer_time(date: str, unix: int) -> None:
    start = int(HEADER["UnixStartTime"])
    trace = log({"submit": unix - start - 1}, {"submit": unix - start}, {"submit": unix - start + 1})
    assert numbers(trace, begin=date) == [2, 3]


def test_submissions_in_unix_time() -> None:
    trace = log({"submit": 1e9}, {"submit": 1e9 + 1}, header={"UnixStartTime": "0"})
    assert numbers(trace, begin="2001-09-09T01:46:41") == numbers(trace, begin="1000000001") == [2]


def test_an_offset_counts_from_the_windows_beginning() -> None:
    assert numbers(HOURLY, offset=5, jobs=2) == [6, 7]
    assert numbers(HOURLY, begin="7200", offset=5, jobs=2) == [8, 9]
    # Other filters do not move it.
    assert numbers(HOURLY, offset=5, jobs=2, queues=("1",)) == [7, 10]
    assert numbers(HOURLY, offset=5, jobs=2, min_runtime=40) == [41, 42]


def test_queues_and_users() -> None:
    frame, left_out = choose(HOURLY, Selection(queues=("2",), users=("0", "3"), end="43200"))
    assert frame["job_number"].to_list() == [5, 8]
    assert left_out == {"of another queue": 8, "of another user": 2}


@pytest.mark.parametrize("name", ["1", "batch", "BATCH"])
def test_a_queue_by_its_number_or_name(name: str) -> None:
    assert numbers(HOURLY, queues=(name,), jobs=2) == [1, 4]


def test_a_queue_by_a_name_of_several_words() -> None:
    assert numbers(HOURLY, queues=("test jobs", "fque:2"), jobs=3) == [2, 3, 5]
    assert numbers(HOURLY, queues=("test", "2"), jobs=3) == [2, 3, 5]


def test_jobs_without_a_submission_time_are_counted() -> None:
    trace = log({"submit": -1}, {"submit": 5}, {"submit": -1}, {"submit": 7})
    frame, left_out = choose(trace, Selection(end="6"))
    assert (frame["job_number"].to_list(), left_out) == ([2], {"no submission time": 2})


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"jobs": 0}, "JOBS: 0 may be"),
        ({"jobs": 49}, "JOBS: 49 may be up to 48, the log has no more usable jobs from OFFSET=0 on"),
        ({"offset": -1}, "OFFSET: -1 may be"),
        ({"offset": 48}, "OFFSET: 48 may be up to 47, the log has 48 jobs"),
        ({"offset": 10, "end": "36000"}, "OFFSET: 10 may be up to 9, the window has 10 jobs"),
        ({"min_runtime": float("inf")}, "MIN_RUNTIME: inf may be"),
        ({"min_runtime": 48}, "MIN_RUNTIME: none of the log's jobs from OFFSET=0 on can be used with 48"),
        ({"begin": "2", "end": "2"}, "FROM: 2 is not before TO=2"),
        ({"begin": "1996-10-01", "end": "7200"}, "FROM: 1996-10-01 is not before TO=7200"),
        ({"begin": "1996-10-32"}, "FROM: '1996-10-32' is neither seconds of the trace nor a date"),
        (
            {"begin": "1996-10-01"},
            r"FROM: no job was submitted from 1996-10-01; it may be within the log, which spans 0 to 169200 "
            r"\(1996-09-23T14:00:31 to 1996-09-25T13:00:31\)$",
        ),
        ({"end": "1996-09-01"}, "TO: no job was submitted before 1996-09-01; it may be within"),
        ({"queues": ("4",)}, r"QUEUES: the log has no job of the queue '4'; it may be 1 \(batch\), 2 \(fque:2\), 3 \(test jobs\)$"),
        ({"queues": ("long",)}, "QUEUES: the log has no job of the queue 'long'; it may be 1 "),
        ({"queues": ("1",), "end": "7200", "offset": 1}, "QUEUES: no job from TO=7200, OFFSET=1 on is of queue 1; it may be 2$"),
        ({"users": ("4",)}, "USERS: the log has no job of the user '4'; it may be 0, 1, 2, 3$"),
        ({"users": ("root",)}, "USERS: the log has no job of the user 'root'; it may be"),
        ({"users": ("3",), "queues": ("1",), "end": "7200"}, "USERS: no job from TO=7200, OFFSET=0 on is of user 3; it may be 0$"),
    ],
)  # fmt: skip
def test_wrong_use_names_the_knob_and_possible_values(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongUse, match=f"^{message}"):
        choose(HOURLY, Selection(**knobs))


def test_selecting_by_data_that_the_log_lacks_is_refused() -> None:
    bare = log({"submit": 3}, {"submit": 8}, header={"UnixStartTime": "0"})
    with pytest.raises(WrongUse, match=r"^TO: 1996-10-01 is a date, but the log has no UnixStartTime; .* which spans 3 to 8$"):
        choose(bare, Selection(end="1996-10-01"))
    with pytest.raises(WrongUse, match=r"^QUEUES: the log does not say of which queue its jobs are"):
        choose(bare, Selection(queues=("1",)))
    with pytest.raises(WrongUse, match=r"^TRACE: the log has no jobs"):
        choose(log(), Selection())


jobs_of_a_log = st.lists(
    st.fixed_dictionaries(
        {
            "submit": st.integers(-1, 40),
            "run_time": st.integers(-1, 9),
            "queue": st.integers(1, 2),
            "user": st.integers(1, 3),
        }
    ),
    min_size=1,
    max_size=30,
)
choices = st.fixed_dictionaries(
    {},
    optional={
        "begin": st.integers(0, 20).map(str),
        "end": st.integers(21, 41).map(str),
        "offset": st.integers(0, 5),
        "queues": st.just(("1",)),
        "users": st.sampled_from([("1",), ("2", "3")]),
        "min_runtime": st.integers(0, 9),
        "jobs": st.integers(1, 5),
    },
)


@given(jobs_of_a_log, choices)
@settings(deadline=None)
def test_a_selection_divides_the_log(jobs: list[dict[str, int]], knobs: dict[str, Any]) -> None:
    """Every job is outside of the searched part, left out for a reason, or selected, as in a slow simple implementation."""
    trace = log(*jobs)
    order = sorted(range(len(jobs)), key=lambda place: jobs[place]["submit"])
    begin, end = float(knobs.get("begin", -2)), float(knobs.get("end", 99))
    timeless = [n for n in order if jobs[n]["submit"] < 0] if "begin" in knobs or "end" in knobs else []
    inside = [n for n in order if begin <= jobs[n]["submit"] < end and n not in timeless][knobs.get("offset", 0) :]
    chosen: list[int] = []
    looked_at = 0
    for n in inside:
        job = jobs[n]
        if len(chosen) < knobs.get("jobs", 99):
            looked_at += 1
            of_these = str(job["queue"]) in knobs.get("queues", "12") and str(job["user"]) in knobs.get("users", "123")
            if of_these and max(job["run_time"], 0) >= knobs.get("min_runtime", 0):
                chosen.append(n)
    try:
        taken = take(trace, Selection(**knobs))
    except WrongUse:
        lacking = {f"user {user}" for user in knobs.get("users", ())} | {f"queue {queue}" for queue in knobs.get("queues", ())}
        lacking -= {f"user {job['user']}" for job in jobs} | {f"queue {job['queue']}" for job in jobs}
        assert lacking or len(chosen) < knobs.get("jobs", 1)
        return
    assert taken.jobs["job_number"].to_list() == [n + 1 for n in chosen]
    # With JOBS, jobs left out after the last selected one are not counted.
    last = inside.index(chosen[-1]) + 1 if "jobs" in knobs else looked_at
    assert sum(taken.left_out.values()) == last - len(chosen) + len(timeless)
    above = order[: order.index(chosen[0])]
    assert set(taken.before["job_number"]) <= {n + 1 for n in above}
    assert taken.instant == (begin if "begin" in knobs and not knobs.get("offset") else jobs[chosen[0]]["submit"])
