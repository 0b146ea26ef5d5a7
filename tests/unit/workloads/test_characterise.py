"""Tests of the characterisation of workloads, against a slow simple computation and known numbers of real logs."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_logs import KTH, real_log

from mirage.metrics import metrics
from mirage.metrics.jobs_frame import frame_from_swf
from mirage.traces import swf
from mirage.traces.local_time import LocalTime
from mirage.traces.trace import Trace, read_trace
from mirage.workloads.characterise import LEVELS, Characterisation, characterise
from mirage.workloads.workload_figures import FIGURES
from slurm_mirage.base.errors import WrongUse

PROCESSORS = 48
JOB = dict.fromkeys(swf.COLUMNS, -1) | {"status": 1}


def frame(*jobs: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([JOB | job for job in jobs], schema=swf.SCHEMA, orient="row", strict=False)


def clock_of(header: dict[str, str], log: pl.DataFrame, kind: str = "swf") -> LocalTime:
    return LocalTime.of(Trace(log, header, {}, kind, ""))


def seconds(most: int) -> st.SearchStrategy[float]:
    """Seconds from -1 to `most`: whole numbers and some fractions."""
    return st.one_of(st.integers(-1, most).map(float), st.integers(0, 4 * most).map(lambda quarter: quarter / 4))


a_job = st.fixed_dictionaries(
    {
        "submit": seconds(300_000),
        "wait": seconds(20_000),
        "run_time": seconds(50_000),
        "allocated_processors": st.integers(-1, 40),
        "requested_processors": st.integers(-1, 40),
        "requested_time": st.sampled_from([-1.0, 0.0, 60.0, 600.0, 900.0, 3600.0, 7200.0]),
        "status": st.sampled_from([-1, 0, 1, 1, 1, 5]),
        "user": st.integers(-1, 14),
    }
)


class Slow:
    """The tables of `characterise`, computed job by job."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.jobs = [self.known(row) for row in rows]

    @staticmethod
    def known(row: dict[str, Any]) -> dict[str, Any]:
        size = next((row[f"{kind}_processors"] for kind in ("allocated", "requested") if row[f"{kind}_processors"] > 0), None)
        never_ran = row["status"] == 5 and row["run_time"] <= 0
        run = None if never_ran or row["run_time"] < 0 else row["run_time"]
        return {
            "submit": row["submit"] if row["submit"] >= 0 else None,
            "size": size,
            "run_time": run,
            "requested_time": row["requested_time"] if row["requested_time"] > 0 else None,
            "wait": None if never_ran or row["wait"] < 0 else row["wait"],
            "user": row["user"] if row["user"] >= 0 else None,
            "service": None if size is None or run is None else size * run,
        }

    def with_all(self, *names: str) -> list[dict[str, Any]]:
        return [job for job in self.jobs if all(job[name] is not None for name in names)]

    def by(self, name: str, *, also_unknown: bool = False) -> dict[Any, tuple[int, float]]:
        totals: dict[Any, tuple[int, float]] = {}
        for job in self.jobs if also_unknown else self.with_all(name):
            count, service = totals.get(job[name], (0, 0.0))
            totals[job[name]] = (count + 1, service + (job["service"] or 0.0))
        return totals

    def quantile(self, name: str, level: float) -> float | None:
        values = sorted(job[name] for job in self.with_all(name))
        for place, value in enumerate(values, 1):
            if place * LEVELS >= round(level * LEVELS) * len(values):
                return float(value)
        return None

    def busy(self, begin: float, end: float) -> float:
        """Processor seconds used between two instants."""
        area = 0.0
        for job in self.with_all("submit", "wait", "service"):
            start = job["submit"] + job["wait"]
            area += job["size"] * max(0.0, min(end, start + job["run_time"]) - max(begin, start))
        return area


@settings(max_examples=40, deadline=None)
@given(st.lists(a_job, min_size=1, max_size=40))
def test_tables_agree_with_a_slow_computation(rows: list[dict[str, Any]]) -> None:
    slow = Slow(rows)
    if not slow.jobs:
        with pytest.raises(WrongUse):
            characterise(frame(*rows), PROCESSORS)
        return
    workload = characterise(frame(*rows), PROCESSORS)
    assert {size: (jobs, service) for size, jobs, service in workload.sizes.iter_rows()} == slow.by("size")
    assert {user: (jobs, service) for user, jobs, service in workload.users.iter_rows()} == slow.by("user", also_unknown=True)
    assert dict(workload.requests.iter_rows()) == Counter(job["requested_time"] for job in slow.with_all("requested_time"))
    for lowest, highest, jobs, service in workload.classes.iter_rows():
        inside = [job for job in slow.with_all("size") if lowest <= job["size"] <= highest]
        assert jobs == len(inside)
        assert service == pytest.approx(sum(job["service"] or 0.0 for job in inside))
    assert workload.classes["jobs"].sum() == len(slow.with_all("size"))
    hours = Counter(int(job["submit"] // 3600 % 24) for job in slow.with_all("submit"))
    assert workload.hours["jobs"].to_list() == [hours[hour] for hour in range(24)]
    assert workload.weekdays.is_empty()
    for lowest, highest, jobs in workload.accuracy.iter_rows():
        both = slow.with_all("run_time", "requested_time")
        limit = math.inf if highest is None else round(highest * 20)
        assert jobs == sum(round(lowest * 20) <= job["run_time"] * 20 / job["requested_time"] < limit for job in both)
    for name in ("size", "run_time", "requested_time", "wait"):
        levels = workload.distribution["level"].to_list()
        assert workload.distribution[name].to_list() == [slow.quantile(name, level) for level in levels]
    check_figures(workload, slow)
    recorded = metrics.compute(frame_from_swf(frame(*rows)), PROCESSORS)["metrics"]["utilisation"]
    assert workload.figures["utilisation"] == pytest.approx(recorded)


def check_figures(workload: Characterisation, slow: Slow) -> None:
    """Compares the figures, and the load in each interval."""
    submits = [job["submit"] for job in slow.with_all("submit")]
    figures = workload.figures
    assert list(figures) == list(FIGURES)
    assert figures["span"] == (max(submits) - min(submits) if submits else None)
    both = slow.with_all("run_time", "requested_time")
    at_limit = sum(job["run_time"] >= job["requested_time"] for job in both) / len(both) if both else None
    assert figures["at_limit"] == pytest.approx(at_limit)
    sizes = [job["size"] for job in slow.with_all("size")]
    powers = sum(size in (1, 2, 4, 8, 16, 32) for size in sizes) / len(sizes) if sizes else None
    assert figures["power_of_two_jobs"] == pytest.approx(powers)
    assert figures["service_hours"] == (
        pytest.approx(sum(job["service"] for job in slow.with_all("service")) / 3600) if slow.with_all("service") else None
    )
    if workload.load.is_empty():
        assert "offered" in workload.missing
        return
    submitted = slow.with_all("submit", "service")
    assert figures["offered_load"] == pytest.approx(
        sum(job["service"] for job in submitted) / PROCESSORS / (max(submits) - min(submits))
    )
    ends = slow.with_all("submit", "wait", "service")
    assert (workload.load["begin"][0], workload.load["end"][-1]) == (min(submits), max(submits))
    assert workload.load["end"].to_list()[:-1] == workload.load["begin"].to_list()[1:]
    last = workload.load.height - 1
    for number, (begin, end, offered, utilisation) in enumerate(workload.load.iter_rows()):
        inside = [job for job in submitted if begin <= job["submit"] and (job["submit"] < end or number == last)]
        capacity = PROCESSORS * (end - begin)
        assert offered == pytest.approx(sum(job["service"] for job in inside) / capacity)
        assert utilisation == (pytest.approx(slow.busy(begin, end) / capacity, abs=1e-9) if ends else None)


def test_run_times_of_service_units() -> None:
    """Of 100 processor seconds 10 run for 10 s, 60 for 20 s, 30 for 30 s."""
    jobs = [{"submit": 0, "allocated_processors": size, "run_time": run} for size, run in ((1, 10), (3, 20), (1, 30), (5, 0))]
    weighted = characterise(frame(*jobs), 8).distribution
    quantiles = dict(weighted.select("level", "run_time_service").iter_rows())
    assert [quantiles[level] for level in (0.0, 0.1, 0.105, 0.7, 0.705, 1.0)] == [10, 10, 20, 20, 30, 30]
    assert weighted["run_time"][0] == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(800_000_000, 1_299_999_999), st.sampled_from(["Europe/Stockholm", "US/Pacific", "Australia/Sydney", "UTC"]))
def test_hours_and_weekdays_are_local(unix: int, zone: str) -> None:
    """Compared with Python's own time zones, summer time included."""
    header = {"UnixStartTime": "800000000", "TimeZone": "3600", "TimeZoneString": zone}
    log = frame({"submit": unix - 800_000_000, "run_time": 1, "allocated_processors": 1})
    workload = characterise(log, 1, clock_of(header, log))
    local = datetime.fromtimestamp(unix, ZoneInfo(zone))
    assert workload.hours.filter(pl.col("jobs") == 1)["hour"].to_list() == [local.hour]
    assert workload.weekdays.filter(pl.col("jobs") == 1)["weekday"].to_list() == [local.isoweekday()]
    assert workload.local.date(unix - 800_000_000) == local.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("header", "submit", "kind", "hour", "words"),
    [
        ({}, 7200, "swf", 2, "counted from the log's second 0, because it does not say when that was"),
        ({"UnixStartTime": "0"}, 7200, "swf", 2, "counted from the log's second 0, because it does not say when that was"),
        ({"UnixStartTime": "soon"}, 7200, "swf", 2, "counted from the log's second 0, because it does not say when that was"),
        ({"UnixStartTime": "0"}, 1_000_000_000, "swf", 1, "UTC; the log names no time zone"),
        ({"UnixStartTime": "1000000000", "TimeZone": "-28800"}, 0, "swf", 17, "UTC-8 h"),
        (
            {"UnixStartTime": "1000000000 (Sunday)", "TimeZoneString": "Nowhere/At all", "TimeZone": "5400"},
            0,
            "swf",
            3,
            "UTC+1.5 h",
        ),
        ({"UnixStartTime": "1000000000"}, 0, "sacct", 1, "the cluster's own clock"),
        ({"UnixStartTime": "1000000000", "TimeZoneString": "Asia/Tokyo"}, 0, "sacct", 10, "Asia/Tokyo"),  # of an archive
        ({"UnixStartTime": "1000000000", "TimeZone": "1e9"}, 0, "swf", 1, "UTC; the log names no time zone"),
    ],
)
def test_the_log_says_when_it_began(header: dict[str, str], submit: int, kind: str, hour: int, words: str) -> None:
    log = frame({"submit": submit, "allocated_processors": 1})
    clock = clock_of(header, log, kind)
    assert clock.words == words
    assert characterise(log, 1, clock).hours["jobs"].arg_max() == hour


def test_dates_beyond_the_calendar_are_unknown() -> None:
    log = frame({"submit": 2.0**52, "allocated_processors": 1}, {"submit": 5, "allocated_processors": 1})
    clock = clock_of({"UnixStartTime": "1000000000"}, log)
    assert characterise(log, 1, clock).hours["jobs"].sum() == 1
    assert clock.date(2.0**52) is None


def test_missing_data_of_a_log_are_named() -> None:
    every = {"submit": -1, "status": 0}
    workload = characterise(frame(every, every), 4)
    nothing = "sizes service hours weekdays run_time requested_time accuracy wait offered utilisation users"
    assert set(workload.missing) == set(nothing.split())
    assert {name for name, value in workload.figures.items() if value is not None} == {"jobs", "processors", "distinct_sizes"}
    assert workload.begin is None


def test_load_is_not_known_without_the_machine() -> None:
    jobs = frame(*({"submit": second, "wait": 0, "run_time": 9, "allocated_processors": 2} for second in range(5)))
    unknown, known = characterise(jobs, None), characterise(jobs, 4)
    different = {name for name in FIGURES if unknown.figures[name] != known.figures[name]}
    assert different == {"processors", "offered_load", "utilisation"}
    assert unknown.load.is_empty() and "NODES and CPUS name it" in unknown.missing["offered"]


def test_a_log_without_jobs_is_refused() -> None:
    with pytest.raises(WrongUse, match="trace: holds no job"):
        characterise(frame(), 4)


def test_the_content_can_be_written_as_json() -> None:
    workload = characterise(frame({"submit": 3, "run_time": 5, "allocated_processors": 2}), 8)
    content = json.loads(json.dumps(workload.as_json(), allow_nan=False))
    assert content["tables"]["sizes"] == {"size": [2], "jobs": [1], "service": [10.0]}
    assert set(content["figures"]) == set(FIGURES)


def log_of(name: str) -> Characterisation:
    trace = read_trace(real_log(name))
    return characterise(trace.frame, trace.machine()[0], LocalTime.of(trace))


def test_kth() -> None:
    """The start is that of the header, the numbers were counted with awk (the log's first submissions are a week apart)."""
    workload = log_of(KTH)
    assert workload.begin is not None
    assert workload.local.date(workload.begin) == datetime(1996, 9, 23, 14, 0, 31)
    assert workload.figures["jobs"] == 28489
    assert workload.figures["one_processor_jobs"] == 9370 / 28489
    assert workload.figures["power_of_two_jobs"] == pytest.approx(0.7344, abs=5e-5)
    assert workload.figures["utilisation"] == pytest.approx(0.68947, abs=5e-6)
    assert workload.missing == {}
    assert workload.hours["jobs"].arg_max() == 14


def test_nasa_has_neither_waits_nor_requested_times() -> None:
    workload = log_of("NASA-iPSC-1993-3.1-cln.swf.gz")
    assert set(workload.missing) == {"wait", "requested_time", "accuracy", "utilisation"}
    assert workload.figures["power_of_two_jobs"] == 1
    assert workload.load["utilisation"].null_count() == workload.load.height


def test_utc_is_the_zone_of_a_log_without_one() -> None:
    moment = datetime(2016, 4, 1, 23, 30, tzinfo=UTC)
    log = frame(*({"submit": 3600 * hour, "allocated_processors": 1} for hour in range(2)))
    workload = characterise(log, 1, clock_of({"UnixStartTime": f"{moment.timestamp():.0f}"}, log))
    days = [moment + timedelta(hours=hour) for hour in range(2)]
    assert [workload.hours["jobs"][day.hour] for day in days] == [1, 1]
    assert [workload.weekdays["jobs"][day.isoweekday() - 1] for day in days] == [1, 1]
