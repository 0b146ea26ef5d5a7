"""The settings to which the causes of waits point."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from mirage.records.wait_causes import WAITS_SCHEMA
from mirage.verdict.wait_settings import trials


def run(spans: list[tuple[int, float, float, str, str]], *, interval: float = 30.0, longest: float = 700.0) -> Any:
    jobs = pl.DataFrame(
        {"id": [1, 2], "processors": [1, 10], "submit": [0.0, 0.0], "start": [800.0, 900.0], "end": [1000.0, 900.0],
         "requested": [600.0, 90000.0]}
    )  # fmt: skip
    return SimpleNamespace(
        schedule=SimpleNamespace(jobs=jobs),
        waits=pl.DataFrame(spans, schema=WAITS_SCHEMA, orient="row"),
        diagnostics=pl.DataFrame({"backfill_last_depth": [5.0], "backfill_queue_length": [longest]}),
        scheduling=SimpleNamespace(bounds={"backfill_cycle_seconds": interval}),
    )


@pytest.mark.parametrize(
    ("cause", "reason", "change"),
    [
        ("backfill", "bf_max_job_test", "SchedulerParameters=bf_max_job_test=1400"),
        ("backfill", "bf_max_job_user", "SchedulerParameters=bf_max_job_user=0"),
        ("backfill", "bf_max_job_assoc", "SchedulerParameters=bf_max_job_assoc=0"),
        ("backfill", "bf_continue", "SchedulerParameters=bf_continue"),
        ("backfill", "bf_max_time", "SchedulerParameters=bf_max_time=300"),
        ("priority", "bf_window", "SchedulerParameters=bf_window=1560"),
        ("cycle", "", "SchedulerParameters=bf_interval=15"),
        ("user limit", "max jobs per-user for QOS normal", "0,set,qos normal,MaxJobsPerUser=-1"),
        ("user limit", "QOS q max tres(cpu) per user", "0,set,qos q,MaxTRESPerUser=cpu=-1"),
        ("account limit", "max jobs per-acct (u2) for QOS q", "0,set,qos q,MaxJobsPerAccount=-1"),
        ("account limit", "group max jobs for account u2", "0,set,account u2,GrpJobs=-1"),
        ("user limit", "max jobs for user u2 of account a", "0,set,user u2,MaxJobs=1000000"),
        ("user limit", "group max jobs for user u2 of account a", "0,set,user u2,GrpJobs=-1"),
        ("user limit", "group wall for user u2 of account a", "0,set,user u2,GrpWall=-1"),
        ("user limit", "assoc 7(a/u2/(null)) group max tres(cpu)", "0,set,user u2,GrpTRES=cpu=-1"),
        ("user limit", "assoc 7(a/u2/(null)) group max running tres(cpu) minutes", "0,set,user u2,GrpTRESRunMins=cpu=-1"),
        ("user limit", "assoc 7(a/u2/batch) group max tres(cpu) minutes", "0,set,user u2,GrpTRESMins=cpu=-1"),
        ("account limit", "assoc 7(u2/(null)/(null)) group max tres(gres/gpu)", "0,set,account u2,GrpTRES=gres/gpu=-1"),
        ("QOS limit", "QOS q group max tres(cpu)", "0,set,qos q,GrpTRES=cpu=-1"),
        ("QOS limit", "group max jobs for QOS q", "0,set,qos q,GrpJobs=-1"),
    ],
)
def test_what_a_cause_points_to(cause: str, reason: str, change: str) -> None:
    assert [trial.change for trial in trials(run([(1, 0.0, 800.0, cause, reason)]))] == [change]


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("resources", ""),
        ("priority", ""),
        ("held", ""),
        ("backfill", ""),
        ("QOS limit", "QOSGrpCpuLimit"),
        ("unexplained", ""),
        ("user limit", "max jobs for account a"),
    ],
)
def test_causes_that_point_to_nothing(cause: str, reason: str) -> None:
    assert trials(run([(1, 0.0, 800.0, cause, reason)])) == []


def test_the_setting_that_held_most_processors_is_first() -> None:
    spans = [
        (1, 0.0, 800.0, "backfill", "bf_max_job_user"),
        (2, 0.0, 400.0, "backfill", "bf_max_job_test"),
        (2, 400.0, 900.0, "priority", ""),
        (2, 899.0, 900.0, "cycle", ""),
    ]
    first, second = trials(run(spans))
    assert (first.name, second.name) == ("bf_max_job_test", "bf_max_job_user")
    assert first.held == "7 min of the waits of 1 job (1.11 processor hours), in 40.0 % of the run's length"
    assert trials(run([])) == [] and trials(run([(1, 0.0, 800.0, "cycle", "")], interval=1.0)) == []


@pytest.mark.parametrize(
    "reason",
    [
        "group max jobs for account a,b",
        'group max jobs for account a"b',
        "group max jobs for account a\u00e4",
        "QOS a,b max tres(cpu) per user",
    ],
)
def test_names_that_a_file_of_events_cannot_have_point_to_nothing(reason: str) -> None:
    assert trials(run([(1, 0.0, 800.0, "account limit", reason)])) == []


def test_a_name_of_a_trial_is_one_name_of_a_file() -> None:
    reasons = ["assoc 7(u2/(null)/(null)) group max tres(gres/gpu)", "group max jobs for account ../../etc/x"]
    names = [trial.name for reason in reasons for trial in trials(run([(1, 0.0, 800.0, "account limit", reason)]))]
    assert names == ["account-u2-GrpTRES-gres_gpu", "account-.._.._etc_x-GrpJobs"]
