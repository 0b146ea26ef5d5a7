"""The rules of logs: each fires for a log that is so, and not for an ordinary one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_logs import KTH, real_log

from mirage.traces import sacct, swf
from mirage.traces.trace import Trace, read_trace
from mirage.workloads import log_rules as rules
from mirage.workloads.log_rules import RULES, Finding, Log, judged, severe
from mirage.workloads.selection import Selection

HOUR, DAY = 3600, 86400
HEADER = {
    "MaxProcs": "8",
    "MaxJobs": "600",
    "UnixStartTime": "843480031",
    "TimeZoneString": "Europe/Stockholm",
    "StartTime": "Mon Sep 23 14:00:31 CEST 1996",
    "EndTime": "Tue Dec 31 20:00:31 CET 1996",
}
JOBS, INTERVAL = 600, HOUR
"""The ordinary log: a job each hour for 25 days, of four processors for an hour, which is half of the machine."""

Change = Callable[[pl.DataFrame, dict[str, str]], tuple[pl.DataFrame, dict[str, str]]]


def ordinary(jobs: int = JOBS, interval: float = INTERVAL) -> pl.DataFrame:
    number = pl.int_range(jobs, dtype=pl.Int64)
    known = {
        "job_number": number + 1, "submit": number * interval, "wait": (number % 7) * 60, "run_time": pl.lit(HOUR),
        "allocated_processors": pl.lit(4), "requested_processors": pl.lit(4), "requested_time": pl.lit(3 * HOUR),
        "status": pl.lit(1), "user": number % 9,
    }  # fmt: skip
    columns = (known.get(name, pl.lit(-1)).cast(kind).alias(name) for name, kind in swf.SCHEMA.items())
    return pl.DataFrame({"n": range(jobs)}).select(columns)


def of(frame: pl.DataFrame, header: dict[str, str] | None = None, processors: int | None = 8, form: str = "swf") -> list[Finding]:
    """What the rules say of a log whose reader has counted its oddities."""
    notes = {name: count for name, count in swf.oddities(frame).items() if count}
    trace = Trace(frame, HEADER | {"MaxJobs": str(frame.height)} if header is None else header, notes, form, "")
    return judged(Log.of(trace, Selection(), processors))


def with_(rows: pl.Expr, **columns: object) -> Change:
    """The log in which some rows have other values."""
    values = [
        pl.when(rows).then(pl.lit(value)).otherwise(name).cast(swf.SCHEMA[name]).alias(name) for name, value in columns.items()
    ]
    return lambda frame, header: (frame.with_columns(values), header)


def labels(**changed: str | None) -> Change:
    return lambda frame, header: (frame, {k: v for k, v in (header | changed).items() if v is not None})


def moved(when: pl.Expr, seconds: float) -> Change:
    """Submissions from some on are later."""
    return lambda frame, header: (
        frame.with_columns(submit=pl.when(when).then(pl.col("submit") + seconds).otherwise("submit")),
        header,
    )


def first_day_lacks(frame: pl.DataFrame, header: dict[str, str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """Ten times as many jobs, each a tenth as long, but of the first three days only two."""
    many = ordinary(JOBS * 10, INTERVAL / 10).with_columns(run_time=pl.lit(HOUR / 10.0))
    return many.filter((pl.col("submit") >= 3 * DAY) | (pl.col("job_number") <= 2)), header


def last_days_lack(frame: pl.DataFrame, header: dict[str, str]) -> tuple[pl.DataFrame, dict[str, str]]:
    many = ordinary(JOBS * 10, INTERVAL / 10).with_columns(run_time=pl.lit(HOUR / 10.0))
    last = JOBS * INTERVAL
    return many.filter((pl.col("submit") < last - 2 * DAY) | (pl.col("job_number") > JOBS * 10 - 2)), header


def burst(frame: pl.DataFrame, header: dict[str, str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """200 jobs of the user 77 within an hour of the sixth day."""
    more = ordinary(200, 10).with_columns(
        submit=pl.col("submit") + 5 * DAY + 60, user=pl.lit(77, pl.Int64), job_number=pl.col("job_number") + 10**6
    )
    return pl.concat([frame, more]).sort("submit"), header  # fmt: skip


ROW = pl.int_range(pl.len())
FIRES: dict[str, tuple[Change, int, str]] = {
    "header-contradicts": (labels(MaxProcs="2"), 1, "MaxProcs is 2, a job has 4 processors"),
    "header-jobs": (labels(MaxJobs="700"), 100, "MaxJobs is 700, the log has 600"),
    "no-machine": (labels(MaxProcs=None), 1, "MaxProcs"),
    "no-date": (labels(UnixStartTime="0"), 1, "UnixStartTime"),
    "too-wide": (with_(ROW == 5, requested_processors=9), 1, "the first is job 6"),
    "no-processors": (with_(ROW > 597, allocated_processors=-1, requested_processors=0), 2, "the first is job 599"),
    "no-run-time": (with_(ROW.is_in([3, 4, 9]), run_time=0), 3, "the first is job 4"),
    "cancelled-waiting": (with_(ROW.is_in([3, 4]), run_time=0, status=5), 2, "the first is job 4"),
    "hole": (moved(ROW > 299, 2 * DAY), 1, "the first has 2 d 1 h from 1996-10-06T01:00:31 on, all together 7.6 % of the log"),
    "thin-begin": (first_day_lacks, 2, "FROM=1996-09-26T14:00:31 leaves out these 3 d"),
    "thin-end": (last_days_lack, 2, "TO=1996-10-16T13:54:31 leaves out these 2 d"),
    "flurry": (burst, 200, "the first are 200 of user 77 within 1 d from 1996-09-28T14:00:31 on"),
    "over-limit": (with_(ROW.is_in([1, 2]), requested_time=HOUR - 1), 2, "the first is job 2"),
    "no-estimates": (with_(ROW > 199, requested_time=-1), 400, "the first is job 201"),
    "exact-estimates": (with_(ROW > 199, requested_time=HOUR), 400, "the first is job 201"),
    "overload": (with_(ROW >= 0, run_time=2.1 * HOUR), 600, "offered load 105.2 % of 8 processors"),
    "low-load": (with_(ROW >= 0, run_time=0.5 * HOUR), 600, "offered load 25.0 % of 8 processors"),
    "no-waits": (with_(ROW >= 0, wait=-1), 600, "the first is job 1"),
    "impossible-times": (with_(ROW.is_in([7, 8]), wait=-20), 2, "the first is job 8"),
    "no-users": (with_(ROW > 299, user=-1), 300, "the first is job 301"),
    "repeated-numbers": (with_(ROW.is_in([7, 8]), job_number=3), 2, "the first is job 3"),
    "unsorted": (moved(ROW == 7, -1.5 * HOUR), 1, "the first is job 8"),
}


def test_an_ordinary_log_has_nothing() -> None:
    assert of(ordinary()) == []


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_fires_alone(name: str) -> None:
    """It finds what the log has; the others find nothing, save those that the same change concerns."""
    change, count, example = FIRES[name]
    frame, header = change(ordinary(), HEADER)
    findings = of(frame, header | ({"MaxJobs": str(frame.height)} if name != "header-jobs" else {}))
    found = {finding.rule: finding for finding in findings}
    finding = found[name]
    assert (finding.count, finding.example) == (count, example)
    allowed = {"too-wide": {"header-contradicts"}, "thin-begin": {"hole"}, "thin-end": {"hole"}}
    assert set(found) - {name} <= allowed.get(name, set()), found


def test_every_rule_is_tested() -> None:
    assert {*FIRES, "unread-lines"} == {rule.name for rule in RULES}
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {rule.severity for rule in RULES} <= set(rules.SEVERITIES)


def test_lines_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = [" ".join(["1", *"000"] + ["1"] * 14) for _ in range(20)]
    path.write_text("\n".join([*lines, "2 3 4"]) + "\n")
    trace = read_trace(path)
    found = next(one for one in judged(Log.of(trace, Selection(), None)) if one.rule == "unread-lines")
    assert (found.count, found.of, found.severity, found.amount) == (1, 21, "warning", "1 line (4.8 %)")
    assert found.example == "the first is line 21: has 3 fields, a job in SWF has 18"


# ---- what does not fire ----

QUIET: dict[str, tuple[str, pl.DataFrame]] = {
    "a day without submissions in a log of few jobs": ("hole", ordinary(60, 12 * HOUR)),
    "weekends of a log that has jobs in working hours": (
        "hole", ordinary(24 * 7 * 8).filter((pl.col("submit") // DAY % 7 < 5) & (pl.col("submit") % DAY < 10 * HOUR)),
    ),
    "a log that begins on a weekend": (
        "thin-begin", ordinary(24 * 21 * 10, 360).filter((pl.col("submit") // DAY % 7 >= 2) | (pl.col("job_number") % 20 == 1)),
    ),
    "two days": ("thin-begin", ordinary(600, 300).filter((pl.col("submit") > DAY) | (pl.col("job_number") == 1))),
    "a user who submits all of few jobs": ("flurry", ordinary(99, 1).with_columns(user=pl.lit(3, pl.Int64))),
    "a user who submits all jobs, evenly": ("flurry", ordinary().with_columns(user=pl.lit(3, pl.Int64))),
    "a burst of jobs without a user": ("flurry", burst(ordinary(), {})[0].with_columns(user=pl.lit(-1, pl.Int64))),
    "a few exact requests": ("exact-estimates", with_(ROW < 200, requested_time=HOUR)(ordinary(), {})[0]),
    "an empty cluster": ("no-waits", ordinary(20).with_columns(wait=pl.lit(0.0))),
    "jobs that all began at once": ("low-load", ordinary().with_columns(submit=pl.lit(5.0))),
}  # fmt: skip


@pytest.mark.parametrize("case", QUIET)
def test_what_is_ordinary_too(case: str) -> None:
    rule, frame = QUIET[case]
    assert rule not in {finding.rule for finding in of(frame)}


def test_a_few_are_a_note() -> None:
    frame, header = with_(ROW.is_in([3, 4]), run_time=0)(ordinary(), HEADER)
    assert [(one.rule, one.severity, one.share) for one in of(frame, header)] == [("no-run-time", "note", 2 / 600)]
    assert [finding.rule for finding in severe(Log.of(Trace(frame, header, {}, "swf", ""), Selection(), 8))] == []


def test_errors_come_first_and_a_line_has_all() -> None:
    frame, header = with_(ROW == 5, requested_processors=9, wait=-20)(*labels(MaxJobs="700")(ordinary(), HEADER))
    findings = of(frame, header | {"MaxProcs": "9"})
    assert [one.rule for one in findings] == ["too-wide", "header-jobs", "impossible-times"]
    assert findings[0].line == (
        "error: too-wide: jobs wider than the machine: 1 job (0.2 %), the first is job 6; no run can start them: SIZES=fit leaves "
        "them out, SIZES=scale fits all sizes to the machine, or take more NODES"
    )
    assert findings[0].as_json()["share"] == 1 / 600


def test_without_a_machine_there_is_no_load() -> None:
    frame, header = with_(ROW >= 0, run_time=9 * HOUR, requested_processors=900)(ordinary(), {**HEADER, "MaxProcs": "900"})
    assert {one.rule for one in of(frame, header, None)} == {"over-limit"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"StartTime": "Tue Sep 24 14:00:31 1996"}, ""),
        ({"StartTime": "Sun Sep 29 14:00:31 CEST 1996"}, "StartTime is 1996-09-29, UnixStartTime 1996-09-23"),
        ({"StartTime": "Sun Foo 99 14:00:31 CEST 1996", "EndTime": "\x1b[2J"}, ""),
        ({"StartTime": "Sun Feb 31 14:00:31 CEST 1996"}, ""),
        ({"EndTime": "Tue Oct 1 14:00:31 CEST 1996"}, "EndTime is 1996-10-01, a job was submitted on 1996-10-18"),
        ({"UnixStartTime": "999999999999999"}, ""),
    ],
)
def test_dates_of_a_header(changed: dict[str, str], words: str) -> None:
    found = [one.example for one in of(ordinary(), HEADER | changed | {"MaxJobs": "600"}) if one.rule == "header-contradicts"]
    assert found == ([words] if words else [])


def test_submissions_in_unix_time() -> None:
    frame = ordinary().with_columns(submit=pl.col("submit") + 843480031)
    assert [one.example for one in of(frame)] == ["UnixStartTime is 843480031, and submissions are in Unix time"]


def test_a_generated_workload_and_sacct_need_no_labels_of_swf() -> None:
    assert of(ordinary().with_columns(wait=pl.lit(-1.0)), {}, form="generated") == []
    assert [(one.rule, one.example) for one in of(ordinary(), {"UnixStartTime": "843480031", "MaxJobs": "1"}, form="sacct")] == [
        ("no-machine", "MaxProcs")
    ]


def test_output_of_sacct() -> None:
    heading = "JobIDRaw|Submit|Start|End|State|AllocCPUS|TimelimitRaw|User"
    lines = [f"{n}|2026-03-01T10:00:{n:02}|2026-03-01T11:00:00|2026-03-01T12:00:00|COMPLETED|4|60|a" for n in range(20)]
    lines[4] = "4|2026-03-01T10:00:04|None|2026-03-01T12:00:00|CANCELLED by 7|0|60|"
    frame, header, notes, unread = sacct.parse_sacct("\n".join([heading, *lines, ""]).encode(), "x")
    found = {one.rule: one for one in judged(Log.of(Trace(frame, header, notes, "sacct", "", unread), Selection(), None))}
    assert set(found) == {"no-machine", "cancelled-waiting", "no-processors", "no-users", "exact-estimates"}
    assert found["cancelled-waiting"].amount == "1 job (5.0 %)"


# ---- against slow computations ----

VALUES = st.sampled_from([-20, -1, 0, 1, 5, HOUR])
ROWS = st.lists(
    st.tuples(st.integers(0, 60 * DAY), VALUES, VALUES, VALUES, VALUES, VALUES, st.sampled_from([0, 1, 5]), st.integers(-1, 2)),
    min_size=1,
    max_size=40,
)
NAMES = ("submit", "wait", "run_time", "allocated_processors", "requested_processors", "requested_time", "status", "user")


def frame_of(rows: Sequence[tuple[int, ...]]) -> pl.DataFrame:
    given = pl.DataFrame([(number, *row) for number, row in enumerate(rows, 1)], schema=["job_number", *NAMES], orient="row")
    columns = [pl.col(name) if name in given.columns else pl.lit(-1).alias(name) for name in swf.SCHEMA]
    return given.select(columns).cast(swf.SCHEMA)  # type: ignore[arg-type]


SLOW: dict[str, tuple[Callable[[dict[str, float]], bool], Callable[[dict[str, float]], bool]]] = {
    "too-wide": (lambda j: max(j["allocated_processors"], j["requested_processors"]) > 4, lambda _: True),
    "no-processors": (lambda j: max(j["allocated_processors"], j["requested_processors"]) <= 0, lambda _: True),
    "no-run-time": (lambda j: j["run_time"] <= 0 and j["status"] != 5, lambda _: True),
    "cancelled-waiting": (lambda j: j["run_time"] <= 0 and j["status"] == 5, lambda _: True),
    "over-limit": (lambda j: j["run_time"] > j["requested_time"], lambda j: j["run_time"] > 0 and j["requested_time"] > 0),
    "no-estimates": (lambda j: j["requested_time"] <= 0, lambda j: j["run_time"] > 0),
    "impossible-times": (lambda j: min(j["wait"], j["run_time"]) < -1, lambda _: True),
    "no-users": (lambda j: j["user"] < 0, lambda _: True),
}


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_counts_are_those_of_a_loop(rows: list[tuple[int, ...]]) -> None:
    frame = frame_of(rows)
    found = {one.rule: one for one in of(frame, {}, 4)}
    for name, (is_bad, is_one) in SLOW.items():
        among = [job for job in frame.sort("submit", maintain_order=True).iter_rows(named=True) if is_one(job)]
        bad = [job for job in among if is_bad(job)]
        if not bad:
            assert name not in found
            continue
        one = found[name]
        assert (one.count, one.of, one.example) == (len(bad), len(among), f"the first is job {bad[0]['job_number']}")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 40 * DAY), min_size=2, max_size=200), st.floats(0, 1e6))
def test_holes_are_those_of_a_loop_wherever_the_log_begins(submits: list[float], shift: float) -> None:
    rows = [(0, 1, HOUR, 1, 1, HOUR, 1, 1)] * len(submits)
    times = sorted(round(one) // HOUR * HOUR for one in submits)
    shift = round(shift) // HOUR * HOUR
    found = {}
    for by in (0, shift):
        frame = frame_of(rows).with_columns(submit=pl.Series([float(time + by) for time in times]))
        found[by] = [one for one in of(frame, {}) if one.rule == "hole"]
    span = times[-1] - times[0]
    busy = len(set(times)) / max(1, span / HOUR)
    gaps = [b - a for a, b in pairwise(times) if span >= DAY and b - a >= max(DAY, 24 * HOUR / min(1, busy))]
    assert [one.count for one in found[0]] == ([len(gaps)] if gaps else [])
    assert [one.count for one in found[shift]] == [one.count for one in found[0]]


# ---- real logs ----


def test_the_log_of_kth() -> None:
    """Its first ten jobs were submitted in a week, with gaps of 3.8 and 2 days; the others in eleven months."""
    trace = read_trace(real_log(KTH))
    found = {one.rule: one for one in judged(Log.of(trace, Selection(), trace.machine()[0]))}
    assert {name: one.count for name, one in found.items()} == {
        "hole": 2, "thin-begin": 10, "header-jobs": 1, "no-run-time": 8, "over-limit": 475,
    }  # fmt: skip
    later = judged(Log.of(trace, Selection(begin="1996-09-30T09:08:23"), trace.machine()[0]))
    assert {one.rule for one in later} == {"header-jobs", "no-run-time", "over-limit"}


def test_the_log_of_nasa() -> None:
    trace = read_trace(real_log("NASA-iPSC-1993-3.1-cln.swf.gz"))
    found = {one.rule: one for one in judged(Log.of(trace, Selection(), trace.machine()[0]))}
    assert set(found) == {"hole", "no-estimates", "no-waits", "header-jobs", "no-run-time"}
    assert found["hole"].example.startswith("the first has 6 d from 1993-12-23T22:40:19 on")


def test_the_rules_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/workloads.md").read_text()
    assert [rule.name for rule in RULES if f"`{rule.name}`" not in page] == []
