"""What a log or sigsleep's record says of a schedule, as a jobs frame."""

from __future__ import annotations

from typing import Any

import polars as pl

from mirage.metrics import metrics
from mirage.metrics.jobs_frame import (
    EXECUTIONS_SCHEMA,
    JOBS_SCHEMA,
    executions_from_sigsleep,
    frame_from_sigsleep,
    frame_from_swf,
    suspensions_from_sigsleep,
)
from mirage.traces import swf
from slurm_mirage.jobs.sigsleep_log import Record, Suspension


def swf_frame(*jobs: dict[str, Any]) -> pl.DataFrame:
    base = dict.fromkeys(swf.COLUMNS, -1)
    return pl.DataFrame([{**base, **job} for job in jobs], schema=swf.SCHEMA)


def test_schedule_of_a_log() -> None:
    jobs = frame_from_swf(
        swf_frame(
            {"job_number": 1, "submit": 5, "wait": 2, "run_time": 3, "allocated_processors": 4, "status": 1},
            {"job_number": 2, "submit": 5, "wait": 9, "requested_processors": 8, "status": 5},
            {"job_number": 3, "submit": 5, "wait": -4, "run_time": 3, "status": 0},
            {"job_number": 4, "submit": 5, "run_time": 3, "status": 1},
        )
    )
    assert jobs.schema == JOBS_SCHEMA
    assert jobs.select("id", "start", "end", "processors", "state").rows() == [
        (1, 7, 10, 4, "COMPLETED"),
        (2, None, 14, 8, "CANCELLED"),
        (3, 1, 4, None, "FAILED"),
        (4, None, None, None, "COMPLETED"),
    ]


def test_suspended_time_of_a_log_is_part_of_its_schedule() -> None:
    log_frame = swf_frame({"job_number": 1, "submit": 0, "wait": 2, "run_time": 3, "allocated_processors": 1})
    jobs = frame_from_swf(log_frame.with_columns(suspended=pl.lit(10.0)))
    assert jobs.select("start", "end", "suspended").row(0) == (2, 15, 10)


def record(number: int, submission: float, start: float, end: float, executed: float, **more: Any) -> Record:
    """A record with times in seconds after some instant."""
    base = 1_700_000_000 * 10**9

    def ns(seconds: float) -> int:
        return base + round(seconds * 1e9)

    periods = tuple(Suspension(*(0 if i is None else ns(i) for i in p)) for p in more.pop("suspensions", ()))
    fields = {"cores": 2, "priority": "normal", "completed": True, "runtime_ns": round(executed * 1e9), **more}
    return Record(
        id=number,
        submission_ns=ns(submission),
        start_ns=ns(start),
        end_ns=ns(end),
        executed_ns=round(executed * 1e9),
        suspensions=periods,
        **fields,
    )


def test_schedule_of_a_sigsleep_log() -> None:
    records = [
        record(7, 3, 4, 9.5, 5.5, completed=False),
        record(5, 1, 2, 12, 7, suspensions=[(3, 4), (6, 8)]),
        record(6, 2, 2, 12, 6, suspensions=[(None, 8)], cores=4),
    ]
    jobs = frame_from_sigsleep(records)
    assert jobs.schema == JOBS_SCHEMA
    columns = ["id", "submit", "start", "end", "suspended", "processors", "runtime", "state"]
    assert jobs.select(columns).rows() == [
        (5, 0, 1, 11, 3, 2, 7, "COMPLETED"),
        (6, 1, 1, 11, 4, 4, 6, "COMPLETED"),
        (7, 2, 3, 8.5, 0, 2, 5.5, "CANCELLED"),
    ]
    assert suspensions_from_sigsleep(records).rows() == [(5, 2, 3), (5, 5, 7), (6, None, 7)]
    assert jobs.equals(frame_from_sigsleep(records[::-1]))


def test_a_requeued_job_is_one_job() -> None:
    records = [
        record(5, 0, 20, 30, 8, restart=2, suspensions=[(21, 23)]),
        record(5, 0, 1, 5, 4, completed=False),
        record(6, 2, 3, 4, 1),
        record(5, 0, 8, 11, 2, restart=1, completed=False, suspensions=[(9, 10)]),
    ]
    rows = frame_from_sigsleep(records).with_columns(pl.col("start", "end", "suspended").round(6))
    assert rows.select("id", "start", "end", "suspended", "state").rows() == [
        (5, 20, 30, 2, "COMPLETED"),
        (6, 3, 4, 0, "COMPLETED"),
    ]
    earlier = executions_from_sigsleep(records)
    assert earlier.schema == EXECUTIONS_SCHEMA
    assert earlier.rows() == [(5, 1, 5), (5, 8, 11)]
    assert executions_from_sigsleep([]).schema == EXECUTIONS_SCHEMA


def test_an_empty_sigsleep_log() -> None:
    jobs = frame_from_sigsleep([])
    assert jobs.height == 0
    assert metrics.compute(jobs, 4, 4)["jobs"]["submitted"] == 0
