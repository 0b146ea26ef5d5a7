"""Tests of preset jobs: the remainders of jobs that ran or waited when a selection begins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folders import MadeFolder
from schedules import frame

from mirage.metrics import metrics
from mirage.records import run_files
from mirage.records.schedule import read_schedule
from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads import workload
from mirage.workloads.selection import Selection
from slurm_mirage.base.errors import WrongUse

SLACK = 5.0
COLUMNS = ["id", "preset", "submit_virtual", "runtime", "requested", "cancel_after_virtual"]


def log(*jobs: Mapping[str, float], **more: list[float]) -> Trace:
    blank = {**dict.fromkeys(swf.COLUMNS, -1), "submit": 0, "wait": 0, "run_time": 100, "allocated_processors": 1, "status": 1}
    rows = [{**blank, "requested_time": 600, "job_number": number, **job} for number, job in enumerate(jobs, 1)]
    frame = pl.DataFrame(rows, schema=swf.SCHEMA).with_columns(pl.Series(name, values) for name, values in more.items())
    return Trace(frame, {}, {}, "swf", "")


def prepare(trace: Trace, selection: Selection, preset: str = "all", **options: Any) -> workload.Workload:
    return workload.prepare(trace, selection, **{"classes": [(10, 16)], "slack": SLACK, "preset": preset, **options})


SIX = log(
    {"submit": 0, "wait": 0, "run_time": 1000},  # over at 1000, the instant
    {"submit": 10, "wait": 890, "run_time": 200},  # 900 to 1100: half of it is left
    {"submit": 20, "wait": 30, "run_time": 2000, "requested_time": 3000},  # 50 to 2050: 1050 is left, of the request 2050
    {"submit": 30, "wait": 975, "run_time": 50},  # starts at 1005
    {"submit": 1000, "wait": 500, "run_time": 7},
    {"submit": 1200},
)
"""The tests select from job 5 on."""


@pytest.mark.parametrize("selection", [Selection(offset=4), Selection(begin="1000"), Selection(begin="5", offset=3)])
def test_remainders_of_jobs_when_the_selection_begins(selection: Selection) -> None:
    """First the running jobs in the order of their starts (3 ran for 950 s, 2 for 100 s), then queued ones, all at the instant."""
    ready = prepare(SIX, selection)
    assert ready.jobs.select(COLUMNS).rows() == [
        (3, "running", 0.0, 1050.0, 2050.0, None),
        (2, "running", 0.0, 100.0, 500.0, None),
        (4, "queued", 0.0, 50.0, 600.0, None),
        (5, "", 0.0, 7.0, 600.0, None),
        (6, "", 200.0, 100.0, 600.0, None),
    ]
    assert ready.notes == {"preset_running": 2, "preset_queued": 1}
    assert ready.excluded == {}


def test_running_ones_only_or_none() -> None:
    assert prepare(SIX, Selection(offset=4), "running").jobs["id"].to_list() == [3, 2, 5, 6]
    assert prepare(SIX, Selection(offset=4), "none").jobs["id"].to_list() == [5, 6]
    assert prepare(SIX, Selection()).jobs["preset"].to_list() == [""] * 6


def test_jobs_counts_the_selection_and_presets_come_on_top() -> None:
    ready = prepare(SIX, Selection(offset=4, jobs=1))
    assert (ready.jobs["id"].to_list(), ready.presets()) == ([3, 2, 4, 5], 3)


def test_a_window_that_begins_before_its_first_job() -> None:
    """At 950 jobs 1, 2 and 3 run; the first job of the window is submitted 50 s later, without presets at once."""
    ready = prepare(SIX, Selection(begin="950"))
    assert ready.jobs.select("id", "runtime", "submit_virtual").rows() == [
        (1, 50.0, 0.0), (3, 1100.0, 0.0), (2, 150.0, 0.0), (4, 50.0, 0.0), (5, 7.0, 50.0), (6, 100.0, 250.0),
    ]  # fmt: skip
    assert prepare(SIX, Selection(begin="950"), "none").jobs["submit_virtual"].to_list() == [0.0, 200.0]


def test_presets_are_shrunk_as_all_jobs_are() -> None:
    ready = prepare(SIX, Selection(begin="950"), shrink_percent=10)
    assert ready.jobs["runtime_virtual"].to_list() == pytest.approx([5, 110, 15, 5, 0.7, 10])
    assert ready.jobs["submit_virtual"].to_list() == pytest.approx([0, 0, 0, 0, 5, 25])


def test_presets_are_filtered_by_queue_user_and_size() -> None:
    jobs = [{"submit": n, "run_time": 50, "queue": n % 2, "user": n // 2, "allocated_processors": 1 + n} for n in range(9)]
    assert prepare(log(*jobs), Selection(offset=8, queues=("0",))).jobs["id"].to_list() == [1, 3, 5, 7, 9]
    assert prepare(log(*jobs), Selection(offset=8, users=("3", "4"))).jobs["id"].to_list() == [7, 8, 9]
    assert prepare(log(*jobs, {"submit": 9}), Selection(offset=9), sizes="fit", classes=[(1, 4)]).jobs["id"].to_list() == [
        1,
        2,
        3,
        4,
        10,
    ]


def test_a_job_over_its_requested_time_keeps_a_request_of_one_second() -> None:
    late = log({"submit": 0, "run_time": 1000, "requested_time": 300}, {"submit": 600})
    extended, killed = (prepare(late, Selection(offset=1), overrun=overrun).jobs for overrun in ("extend", "kill"))
    assert extended.select("runtime", "requested", "limit_minutes", "limit_extended").row(0) == (400.0, 1.0, 7, True)
    assert killed.select("runtime", "requested", "limit_minutes", "limit_extended").row(0) == (400.0, 1.0, 1, False)


def test_an_unknown_request_stays_unknown() -> None:
    ready = prepare(log({"run_time": 1000, "requested_time": -1}, {"submit": 600}), Selection(offset=1))
    assert (ready.jobs["requested"][0], ready.notes["requested_time_unknown"]) == (400 + SLACK, 1)


def test_remainders_of_requests_are_not_counted_among_the_limits() -> None:
    jobs = [{"submit": 0, "run_time": 1000, "requested_time": 1000 * n} for n in range(1, 5)]
    assert prepare(log(*jobs, {"submit": 5}), Selection(offset=4)).limits == {"before": 1, "after": 1}


def test_cancelled_jobs_keep_the_instant_of_cancellation() -> None:
    """The selection begins at 1000. Job 1 ran from 100 to 1300, 3 from 1100 to 1150; both were cancelled then. Job 2 was cancelled
    in the queue at 1400, job 4 before 1000."""
    cancelled = log(
        {"submit": 0, "wait": 100, "run_time": 1200, "status": 5, "requested_time": 6000},
        {"submit": 10, "wait": 1390, "run_time": -1, "status": 5},
        {"submit": 20, "wait": 1080, "run_time": 50, "status": 5},
        {"submit": 30, "wait": 900, "run_time": -1, "status": 5},
        {"submit": 1000},
    )
    assert prepare(cancelled, Selection(offset=4)).jobs.select(*COLUMNS, "ran").rows() == [
        (1, "running", 0.0, 300.0, 5100.0, 300.0, True),
        (2, "queued", 0.0, 600.0, 600.0, 400.0, False),
        (3, "queued", 0.0, 50.0, 600.0, 150.0, True),
        (5, "", 0.0, 100.0, 600.0, None, True),
    ]


def test_a_suspended_job_has_the_longest_possible_remainder() -> None:
    """It held its processors from 0 to 1300, of which it executed for 1000; at 200 it had 800 to 1000 s left, at 1200 up to 100."""
    jobs = [{"run_time": 1000, "requested_time": 2000}, {"submit": 200}, {"submit": 1200}]
    held = log(*jobs, suspended=[300.0, 0.0, 0.0])
    assert prepare(held, Selection(offset=1)).jobs.select("runtime", "requested").row(0) == (1000.0, 2000.0)
    assert prepare(held, Selection(offset=2)).jobs.select("runtime", "requested").row(0) == (100.0, 1100.0)


def test_a_log_without_waits_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"^preset: all needs recorded waits, and the log has none; it may be none$"):
        prepare(log({"wait": -1}, {"submit": 5, "wait": -1}), Selection(offset=1))
    prepared = prepare(log({"wait": -1}, {"submit": 1}, {"submit": 5, "wait": -1}), Selection(offset=2))
    assert (prepared.jobs["id"].to_list(), prepared.notes) == ([2, 3], {"preset_running": 1, "preset_unknown": 1})


a_job = st.fixed_dictionaries(
    {
        "submit": st.integers(0, 60),
        "wait": st.integers(0, 30),
        "run_time": st.integers(1, 40),
        "requested_time": st.integers(-1, 50),
        "status": st.sampled_from([0, 1, 1, 1, 5]),
    }
)


@given(st.lists(a_job, min_size=2, max_size=30), st.data())
@settings(deadline=None)
def test_presets_are_the_state_of_the_recorded_machine(jobs: list[dict[str, int]], data: st.DataObject) -> None:
    """Compared with a slow evaluation of the recorded schedule at the instant: no job is missing or repeated, remaining run times
    are those of the record, and the running jobs have as many processors as were busy in the record."""
    trace = log(*jobs)
    order = sorted(range(len(jobs)), key=lambda n: jobs[n]["submit"])
    offset = data.draw(st.integers(1, len(jobs) - 1))
    instant = jobs[order[offset]]["submit"]
    ready = prepare(trace, Selection(offset=offset)).jobs
    assert ready["id"].is_unique().all()
    assert ready.filter(pl.col("preset") == "")["id"].to_list() == [n + 1 for n in order[offset:]]
    running, queued = {}, set()
    for n in order[:offset]:
        start = jobs[n]["submit"] + jobs[n]["wait"]
        if start <= instant < start + jobs[n]["run_time"]:
            running[n + 1] = start + jobs[n]["run_time"] - instant
        elif start > instant:
            queued.add(n + 1)
    first = ready.filter(pl.col("preset") == "running")
    assert dict(first.select("id", "runtime").iter_rows()) == running
    assert set(ready.filter(pl.col("preset") == "queued")["id"]) == queued
    assert ready["preset"].to_list() == ["running"] * len(running) + ["queued"] * len(queued) + [""] * (len(jobs) - offset)
    starts = [jobs[n - 1]["submit"] + jobs[n - 1]["wait"] for n in first["id"]]
    assert starts == sorted(starts)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30), st.integers(0, 5)), min_size=2, max_size=30), st.data())
@settings(deadline=None)
def test_running_presets_fit_the_recorded_machine(jobs: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """A first come, first served schedule on 4 processors, with a selection from any instant."""
    free_at = [0] * 4
    rows, clock, earliest = [], 0, 0
    for width, run, gap in jobs:
        clock += gap
        start = max(clock, sorted(free_at)[width - 1], earliest)
        for place in sorted(range(4), key=lambda one: free_at[one])[:width]:
            free_at[place] = start + run
        earliest = start
        rows.append({"submit": clock, "wait": start - clock, "run_time": run, "allocated_processors": width})
    ready = prepare(log(*rows), Selection(offset=data.draw(st.integers(1, len(jobs) - 1))), classes=[(1, 4)]).jobs
    assert ready.filter(pl.col("preset") == "running")["processors"].sum() <= 4


# Preset jobs in a run.


def test_presets_hold_processors_but_their_waits_are_not_measured() -> None:
    """One processor. A preset job runs from 0 to 60, another is cancelled in the queue at 10; job 3 waits from 20 to 60 and runs
    for 40 s: it alone is a job of the selection, and the processor was busy for all of the 100 s."""
    jobs = frame(
        {"submit": 0, "start": 0, "end": 60, "preset": "running"},
        {"submit": 0, "end": 10, "state": "CANCELLED", "preset": "queued"},
        {"submit": 20, "start": 60, "end": 100},
    )
    result = metrics.compute(jobs, processors=1, nodes=1)
    assert (result["metrics"]["wait_mean"], result["metrics"]["slowdown_mean"]) == (40, 2)
    assert (result["metrics"]["utilisation"], result["metrics"]["makespan"]) == (1, 100)
    assert result["excluded"] == {"cancelled before start": 1, "preset: not in metrics over jobs": 1}
    assert result["jobs"]["submitted"] == 3
    without = jobs.with_columns(preset=pl.lit(None, pl.String))
    assert metrics.compute(without, processors=1, nodes=1)["metrics"]["wait_mean"] == 20


def test_a_cut_counts_jobs_of_the_selection() -> None:
    jobs = frame(
        {"submit": 0, "start": 0, "end": 60, "preset": "running"},
        {"submit": 5, "start": 60, "end": 70},
        {"submit": 40, "start": 70, "end": 100},
    )
    result = metrics.compute(jobs, processors=1, nodes=1, warmup_cut=30)
    assert result["metrics"]["wait_mean"] == 30
    assert result["excluded"] == {
        "preset: not in metrics over jobs": 1,
        "submitted in the warm-up: not in metrics over jobs": 1,
    }


def test_the_schedule_of_a_run_marks_preset_jobs(tmp_path: Path) -> None:
    run_folder = MadeFolder(tmp_path)
    first, second = run_folder.job(due=0.0, preset="running"), run_folder.job(due=0.0, preset="")
    for number in (first, second):
        run_folder.played(number, start=0.02)
    run = run_folder.collect()
    assert run.jobs.select("id", "preset").rows() == [(first, "running"), (second, None)]
    note = "; Note: The first 1 jobs are preset: they ran or waited before the selection began, at their submission.\n"
    assert note in run_files.render(run, 64, 4)["schedule.swf"].decode()


def test_a_schedule_says_which_jobs_are_presets(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    jobs = frame({"submit": 0, "start": 1, "end": 60, "preset": "queued"}, {"submit": 0, "start": 2, "end": 9})
    jobs.write_csv(path)
    assert read_schedule(path).jobs["preset"].to_list() == ["queued", None]
    jobs.drop("preset").write_csv(path)
    with pytest.raises(WrongUse, match=r"jobs\.csv line 1: lacks the columns preset"):
        read_schedule(path)
