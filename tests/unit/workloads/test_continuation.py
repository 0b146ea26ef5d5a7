"""Tests of the courses of a site's queue: what runs, what waits, what comes; and whether intervals of starts hold the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import forks
from mirage.simulation.simulation import schedule
from mirage.site.now import Waiting
from mirage.statistics.start_intervals import FIFTY, NINETY, coverage, quantiles
from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads.continuation import DAY, FIRST, WEEK, Queue, queue_of
from mirage.workloads.presets import QUEUED, RUNNING
from mirage.workloads.selection import Selection
from mirage.workloads.workload import prepare
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.jobs.request import Request

NOW = 10_000.0
COMPLETED, RUNS, WAITS = "COMPLETED", "RUNNING", "PENDING"


def log(*rows: dict[str, Any], begin: int = 0) -> Trace:
    """A log of sacct of these jobs; those that wait have neither a wait nor a run time."""
    usual = {**dict.fromkeys(swf.COLUMNS, -1), "requested_time": 3600, "user": 1, "allocated_processors": 1, "state": COMPLETED}
    usual |= {"requested_processors": 1, "array_job": None, "array_task": None, "array_limit": None, "account": "a", "request": ""}
    made = [{**usual, "job_number": number, **row} for number, row in enumerate(rows, 1)]
    more = dict.fromkeys(("array_job", "array_task", "array_limit"), pl.Int64)
    schema: dict[str, Any] = {**swf.SCHEMA, "state": pl.String, **more, "account": pl.String, "request": pl.String}
    return Trace(pl.DataFrame(made, schema=schema), {"UnixStartTime": str(begin)}, {}, "sacct", "")


def ended(submit: float, run: float = 100, **more: Any) -> dict[str, Any]:
    return {"submit": submit, "wait": 0, "run_time": run, "status": 1, **more}


def waiting(number: int, task: int | None = None, **more: Any) -> Waiting:
    return Waiting(**{"number": number, "task": task, "is_held": False, "reason": "Priority", "ahead": 0, "promised": None, **more})


BEFORE = [ended(1000.0 * hour, user=1 + hour % 2) for hour in range(9)]
RUNNING_JOB = {"submit": 9000, "wait": 500, "state": RUNS}
WAITING_JOB = {"submit": 9900, "state": WAITS}


def course(queue: Queue, seed: int = 1, horizon: float = 3600.0) -> Trace:
    return queue.drawn(np.random.default_rng(seed), horizon)


def submitted(trace: Trace) -> pl.DataFrame:
    """The jobs that a run of the course submits."""
    return prepare(trace, Selection(begin=str(int(NOW))), classes=[(10, 16)], slack=10.0, preset="all").jobs


def test_a_run_of_a_course_has_the_running_jobs_the_queue_and_those_that_come() -> None:
    queue = queue_of(log(*BEFORE, RUNNING_JOB, WAITING_JOB), NOW, [waiting(11)], {})
    jobs = submitted(course(queue))
    assert jobs.filter(pl.col("preset") == RUNNING)["id"].to_list() == [10]
    assert jobs.filter(pl.col("preset") == QUEUED)["id"].to_list() == [11]
    assert jobs.filter(pl.col("preset") == RUNNING)["limit_minutes"].item() == pytest.approx((3600 - 500) / 60, abs=1)
    come = jobs.filter(pl.col("preset") == "")
    assert come.height > 0
    assert come["submit"].is_between(NOW, NOW + 3600).all()
    assert come["id"].n_unique() + 2 == jobs["id"].n_unique()


def test_the_same_numbers_give_the_same_course_and_others_another_one() -> None:
    queue = queue_of(log(*BEFORE, RUNNING_JOB, WAITING_JOB), NOW, [waiting(11)], {})
    assert course(queue).frame.equals(course(queue).frame)
    assert not course(queue, 1).frame.equals(course(queue, 2).frame)


def test_the_order_of_the_queue_is_that_of_age_and_fair_share() -> None:
    two = [WAITING_JOB, WAITING_JOB | {"request": "nodes=1 nice=5"}]
    queue = queue_of(
        log(*BEFORE, RUNNING_JOB, *two), NOW, [waiting(12, ahead=700), waiting(11, ahead=300)], {(1, "a"): 40, (2, "a"): 9}
    )
    jobs = course(queue).frame
    nice = {row["job_number"]: Request.parse(row["request"]).nice for row in jobs.iter_rows(named=True)}
    assert (nice[10], nice[11], nice[12]) == (-FIRST, -300, 5 - 700)
    of_users = {row["user"]: nice[row["job_number"]] for row in jobs.filter(pl.col("submit") >= NOW).iter_rows(named=True)}
    assert of_users in ({1: -40, 2: -9}, {1: -40}, {2: -9})


@pytest.mark.parametrize("is_ranked", [True, False])
def test_running_jobs_are_first_also_where_neither_age_nor_fair_share_counts(is_ranked: bool) -> None:
    """With priority/basic no job has a `nice`, whatever sshare shows."""
    shares = {} if is_ranked else {(1, "a"): 40, (2, "a"): 9}
    waits = [waiting(11, ahead=0 if is_ranked else 70)]
    jobs = course(queue_of(log(*BEFORE, RUNNING_JOB, WAITING_JOB), NOW, waits, shares, is_ranked=is_ranked)).frame
    nice = {row["job_number"]: Request.parse(row["request"]).nice for row in jobs.iter_rows(named=True)}
    assert nice.pop(10) == (-FIRST if is_ranked else 0)
    assert set(nice.values()) == {0}


def test_waiting_jobs_are_submitted_in_the_order_of_the_queue() -> None:
    two = [WAITING_JOB, WAITING_JOB | {"submit": 9950}]
    jobs = submitted(course(queue_of(log(*BEFORE, RUNNING_JOB, *two), NOW, [waiting(12), waiting(11)], {})))
    assert jobs.filter(pl.col("preset") == QUEUED)["id"].to_list() == [12, 11]


def test_a_job_that_was_cancelled_while_it_ran_comes_with_its_run_time() -> None:
    """At the instant at which it was cancelled in the record it may still wait here."""
    queue = queue_of(log(*(one | {"status": 5} for one in BEFORE), RUNNING_JOB), NOW, [], {})
    jobs = submitted(course(queue))
    assert jobs.filter(pl.col("preset") == "")["cancel_after_virtual"].null_count() == jobs.height - 1 > 0


def test_a_job_that_only_sacct_believes_to_run_is_left_out() -> None:
    task = RUNNING_JOB | {"array_job": 77, "array_task": 4}
    ended_later = RUNNING_JOB | {"run_time": 600, "status": 1, "state": COMPLETED}
    record = log(*BEFORE, RUNNING_JOB, RUNNING_JOB, task, task | {"array_task": 5}, ended_later)
    queue = queue_of(record, NOW, [], {}, running={(10, None), (77, 4)})
    assert queue.running["job_number"].to_list() == [10, 12, 14]
    assert list(queue.left.values()) == [2] and set(queue.missing) == {"11", "13"}


def test_jobs_that_can_never_run_there_are_counted() -> None:
    wide = {"requested_processors": 500, "allocated_processors": -1}
    record = log(*BEFORE, ended(100, **wide), RUNNING_JOB, WAITING_JOB, WAITING_JOB | wide)
    queue = queue_of(record, NOW, [waiting(12), waiting(13)], {}).without(
        lambda jobs: (jobs["requested_processors"] > 160) | (jobs["run_time"] <= 0)
    )
    assert queue.waiting["name"].to_list() == ["12"] and list(queue.missing) == ["13"]
    assert queue.running.height == 1 and queue.trace.frame.filter(pl.col("requested_processors") == 500).is_empty()


def test_tasks_that_wait_are_jobs_of_their_own() -> None:
    array = WAITING_JOB | {"array_job": 11, "array_limit": 2}
    one_split = WAITING_JOB | {"array_job": 11, "array_task": 7, "array_limit": 2}
    queue = queue_of(log(*BEFORE, RUNNING_JOB, array, one_split), NOW, [waiting(11, task) for task in (4, 5, 7)], {})
    assert queue.waiting["name"].to_list() == ["11_4", "11_5", "11_7"]
    assert queue.waiting["array_task"].to_list() == [4, 5, 7]
    jobs = submitted(course(queue)).filter(pl.col("preset") == QUEUED)
    assert jobs.height == 3
    assert jobs["id"].to_list() == queue.waiting["job_number"].to_list()


def test_jobs_of_this_second_are_in_the_queue() -> None:
    both = [RUNNING_JOB | {"submit": NOW, "wait": 0}, WAITING_JOB | {"submit": NOW}]
    jobs = submitted(course(queue_of(log(*BEFORE, *both), NOW, [waiting(11)], {})))
    assert jobs.filter(pl.col("preset") != "").select("id", "preset").rows() == [(10, RUNNING), (11, QUEUED)]


def test_what_happened_after_the_instant_is_undone() -> None:
    """sacct is asked after squeue: 10 ran until later, 11 started later, 12 was submitted later, 13 was cancelled later."""
    later = [
        {"submit": 9000, "wait": 500, "run_time": 600, "status": 1, "state": COMPLETED},
        {"submit": 9100, "wait": 950, "run_time": 20, "status": 1, "state": COMPLETED},
        {"submit": 10_001, "wait": 0, "run_time": 20, "status": 1, "state": COMPLETED},
        {"submit": 9200, "wait": 900, "run_time": -1, "status": 5, "state": "CANCELLED"},
    ]
    queue = queue_of(log(*BEFORE, *later), NOW, [waiting(11)], {})
    assert queue.running.select("job_number", "elapsed").rows() == [(10, 500.0)]
    assert queue.waiting.select("name", "promised").rows() == [("11", None), ("13", None)]
    assert queue.missing == {}
    jobs = submitted(course(queue))
    assert jobs.filter(pl.col("preset") == QUEUED)["id"].to_list() == [11, 13]
    assert jobs.filter(pl.col("preset") == RUNNING)["id"].to_list() == [10]


def test_a_task_that_left_the_queue_later_has_its_name() -> None:
    later = {"submit": 9100, "wait": 950, "run_time": 20, "status": 1, "array_job": 8, "array_task": 3}
    assert queue_of(log(*BEFORE, later), NOW, [], {}).waiting["name"].to_list() == ["8_3"]


def test_what_is_not_continued_is_counted() -> None:
    queue = queue_of(log(*BEFORE, WAITING_JOB, WAITING_JOB), NOW, [waiting(10, is_held=True), waiting(11), waiting(99)], {})
    assert queue.waiting["name"].to_list() == ["11"]
    assert sorted(queue.left.values()) == [1, 1]


def test_promises_are_seconds_of_the_log() -> None:
    queue = queue_of(log(*BEFORE, WAITING_JOB, begin=500), NOW, [waiting(10, promised=12_500)], {})
    assert queue.waiting["promised"].to_list() == [12_000.0]


@given(st.integers(0, 20), st.sampled_from([3600.0, DAY, 3 * DAY]), st.sampled_from([0.3, 1.0, 5.0, 30.0]))
def test_those_that_come_do_so_at_the_same_time_of_day_as_before(seed: int, horizon: float, days: float) -> None:
    """Jobs come in the first hour of each day of the record; the sixth day has twice as many."""
    instant = days * DAY
    submits = [day * DAY + 60.0 * minute for day in range(int(np.ceil(days))) for minute in range(60 if day % 7 == 5 else 30)]
    record = log(*(ended(submit) for submit in submits if submit < instant))
    come = course(queue_of(record, instant, [], {}), seed, horizon).frame["submit"].to_numpy()
    assert ((come >= instant) & (come < instant + horizon)).all()
    if days >= 2:
        assert (come % DAY < 3600).all()
        assert (
            come.size == sum(1 if days < 21 else 60 if int(day) % 7 == 5 else 30 for day in np.arange(days, days + horizon / DAY))
            or days < 21
            or horizon < DAY
        )


def test_a_record_of_three_weeks_keeps_the_days_of_the_week() -> None:
    record = log(*(ended(week * WEEK + 5 * DAY + 60.0 * minute) for week in range(4) for minute in range(30)))
    come = course(queue_of(record, 4 * WEEK, [], {}), 1, WEEK).frame["submit"].to_numpy()
    assert come.size == 30
    assert ((come % WEEK) // DAY == 5).all()


def test_jobs_from_before_the_record_make_it_no_longer() -> None:
    """sacct has jobs that were submitted long before the window and ran in it: nothing else of that time is known."""
    old = ended(0.0, run=25 * DAY, requested_time=30 * DAY)
    record = log(old, *(ended(20 * DAY + 600.0 * number) for number in range(720)))
    queue = queue_of(record, 25 * DAY, [], {}, begin=20 * DAY)
    for seed in range(10):
        assert course(queue, seed, DAY).frame.height == 144


def test_three_weeks_of_record_are_that_also_if_the_first_job_comes_later() -> None:
    begin = 2 * DAY
    submits = [begin + 60 + week * WEEK + 3600.0 * number for week in range(3) for number in range(24)]
    record = log(ended(0.0, run=5 * DAY), *(ended(submit) for submit in submits))
    queue = queue_of(record, begin + 3 * WEEK, [], {}, begin=begin)
    assert {course(queue, seed, DAY).frame.height for seed in range(5)} == {24}


def test_copies_of_jobs_that_run_are_no_shorter_than_these_so_far() -> None:
    short = [ended(100.0 * number, run=50) for number in range(40)]
    runs = [{"submit": 4100 + 100.0 * number, "wait": 0, "state": RUNS, "requested_time": 40_000} for number in range(20)]
    made = course(queue_of(log(*short, *runs), NOW, [], {})).frame
    drawn = set(made.filter(pl.col("submit") < NOW)["run_time"])
    come = made.filter(pl.col("submit") >= NOW)["run_time"]
    assert min(drawn) > 3900 and set(come) - {50.0} <= drawn and (come != 50).any()


def test_a_run_has_a_job_also_when_none_comes() -> None:
    """Jobs come at noon, and now is midnight."""
    queue = queue_of(log(*(ended(day * DAY + DAY / 2) for day in range(5)), WAITING_JOB), 5 * DAY, [waiting(6)], {})
    made = course(queue)
    jobs = prepare(made, Selection(begin=str(int(5 * DAY))), classes=[(10, 16)], slack=10.0, preset="all").jobs
    assert jobs.filter(pl.col("preset") == "")["submit"].to_list() == [5 * DAY + 3599]
    assert jobs["id"].n_unique() == 2


@pytest.mark.parametrize("state", ["COMPLETING", "POWER_UP_NODE", "EXPEDITING", "SUSPENDED"])
def test_each_state_of_a_job_that_has_nodes_is_known(state: str) -> None:
    queue = queue_of(log(*BEFORE, RUNNING_JOB | {"state": state}), NOW, [], {})
    assert queue.running["job_number"].to_list() == [10]


def test_a_record_without_a_submission_before_now_is_refused() -> None:
    with pytest.raises(WrongUse, match="no job that was submitted before"):
        course(queue_of(log({"submit": NOW, "state": WAITS}), NOW, [waiting(1)], {}))


# ---- whether intervals hold the truth ----

PROCESSORS, USERS, FORKS = 64, 12, 60


def made_truth(seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    """Jobs of users who differ in what they run, on a machine that is nearly full, and their starts by EASY."""
    rng = np.random.default_rng(seed)
    count = 2500
    user = rng.choice(USERS, count, p=(weights := 1 / np.arange(1, USERS + 1)) / weights.sum())
    mean, spread = rng.normal(7.5, 1.0, USERS), rng.uniform(0.3, 1.0, USERS)
    run = np.exp(mean[user] + spread[user] * rng.normal(size=count)).clip(20, 40_000)
    limit = np.maximum(rng.choice([2.0, 4.0, 10.0], USERS)[user] * np.exp(mean + spread)[user], 60)
    run = np.minimum(run, limit)
    wide = 2 ** rng.integers(0, 6, count)
    submit = np.sort(rng.random(count)) * (run * wide).sum() / PROCESSORS / 0.97
    frame = pl.DataFrame({"user": user, "submit": submit, "run": run, "limit": limit, "processors": wide})
    return frame, schedule(submit, wide, run, limit, PROCESSORS, "easy")


def test_intervals_of_starts_hold_the_truth() -> None:
    """Over forks of made truths: the interval of 50 % holds 42 to 58 %, that of 90 % 84 to 96 % of the starts."""
    pairs = []
    for seed in range(6):
        jobs, starts = made_truth(seed)
        last = float(jobs["submit"].max())  # type: ignore[arg-type]
        pairs.append(forks.predicted(jobs, starts, list(np.linspace(0.3, 0.95, FORKS // 6) * last), PROCESSORS))
    waits, courses = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    found = coverage(waits, quantiles(courses, (*FIFTY, *NINETY)))
    assert found.jobs > 500
    assert 0.42 < found.fifty < 0.58
    assert 0.84 < found.ninety < 0.96
