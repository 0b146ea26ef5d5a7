"""Collection of a run's records, on folders made by hand and on what Slurm 22.05.8 printed."""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folders import ORIGIN, VIRTUAL_ZERO, MadeFolder, kinds, ns, row

from mirage.metrics import metrics
from mirage.records import run_files, run_records
from mirage.records.collect import JOBS_SCHEMA, collect
from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from mirage.records.time_map import TimeMap
from mirage.traces import swf
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import Clock
from slurm_mirage.rm.slurm.commands import Slurm
from slurm_mirage.rm.slurm.records import CONFIGURATION_FILE


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-4)  # an epoch in seconds as a float is good for 0.2 us, times the speed


# ---- which record gives what ----


def accepted(job: dict[str, Any]) -> float:
    """When Slurm accepted a job."""
    return float(job["submit"] + job["submit_lag"])


def test_completed_job_has_its_own_times_and_slurms_state(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.played(made.job(due=0.0, runtime=10.25, limit_extended=True), start=0.02)
    run = made.collect()
    job = row(run, 1)
    assert job["start"] == near(ORIGIN + 0.05) and job["end"] == near(ORIGIN + 10.30)
    assert job["submit"] == near(ORIGIN) and job["submit_lag"] == near(0.01)
    # Slurm printed an instant half a second before the acceptance: the second is the same.
    assert job["eligible"] == near(accepted(job))
    shown = {name: job[name] for name in ("state", "processors", "nodes", "partition", "priority", "suspended", "runtime")}
    assert shown == {
        "state": "COMPLETED", "processors": 4, "nodes": 2, "partition": "batch", "priority": "batch", "suspended": 0.0,
        "runtime": 10.25,
    }  # fmt: skip
    assert kinds(run) == []
    assert run.evidence["limit_extended"].to_list() == [True]
    assert dict(run.jobs.schema) == JOBS_SCHEMA


def test_job_cancelled_while_it_waited_never_started(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, cancel_after=30.0)
    made.slurm(number, start=30.02, end=30.02, state="CANCELLED", ran=False)
    job = row(made.collect(), number)
    assert (job["state"], job["start"], job["suspended"]) == ("CANCELLED", None, 0.0)
    assert job["end"] == near(ORIGIN + 29.5)  # 2000000030, cut off


def test_job_killed_with_sigterm_has_its_incomplete_record(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0, cancel_after=30.0)
    made.record(number, 1.0, 30.25, completed=False)
    made.slurm(number, start=0.9, end=30.2, state="CANCELLED")
    run = made.collect()
    assert row(run, number)["end"] == near(ORIGIN + 30.25)
    assert run.evidence["run_time"].item() == near(29.25)
    assert kinds(run) == []


def test_job_in_slurms_record_only(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.slurm(number, start=0.02, end=10.6)
    run = made.collect()
    job = row(run, number)
    assert (job["start"], job["end"]) == (near(accepted(job)), near(ORIGIN + 10.5))
    assert kinds(run) == [(number, "in Slurm's record only")]
    assert job["suspended"] is None


def test_killed_without_a_record_is_no_disagreement(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.slurm(made.job(due=0.0, runtime=4000.0), start=0.02, end=3610.0, state="TIMEOUT")
    assert kinds(made.collect()) == []


@pytest.mark.parametrize(
    ("completed", "cancel_after", "state"),
    [(True, None, "COMPLETED"), (False, 5.0, "CANCELLED"), (False, None, "FAILED")],
)
def test_job_in_sigsleeps_record_only(tmp_path: Path, completed: bool, cancel_after: float | None, state: str) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, cancel_after=cancel_after)
    made.record(number, 1.0, 11.0, completed=completed)
    run = made.collect()
    job = row(run, number)
    assert (job["state"], job["end"]) == (state, near(ORIGIN + 11.0))
    assert kinds(run) == [(number, "in sigsleep's record only")]


def test_job_in_no_record_is_lost_and_unsubmitted_ones_are_no_jobs(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.job(due=0.0)
    made.job(due=1.0, submitted=False)
    run = made.collect()
    assert run.jobs.select("id", "state", "start", "end").rows() == [(1, "LOST", None, None)]
    assert run.replay.unsubmitted == 1


def test_job_that_has_not_ended(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.scontrol(number, "RUNNING", start=0.1, end=3600.1, suspend_time=None, before=0)
    job = row(made.collect(), number)
    assert (job["state"], job["end"]) == ("RUNNING", None)
    assert job["start"] == near(ORIGIN + 0.01)  # 2000000000, raised to the submission


# ---- both records: sigsleep's instants within Slurm's seconds ----


def test_launch_is_no_wait_on_a_fast_clock(tmp_path: Path) -> None:
    """At 500 times a launch, and the way back, of 0.03 s are 15 s each."""
    made = MadeFolder(tmp_path, speed=500.0)
    number = made.job(due=0.0, runtime=1000.0)
    made.played(number, start=20.0)
    run = made.collect()
    # Slurm printed 2000000020 and 2000001050, which stand for the middles of these seconds; the replay began at 2000000000.5.
    assert (row(run, number)["start"], row(run, number)["end"]) == (near(ORIGIN + 20.0), near(ORIGIN + 1050.0))
    assert run.evidence["run_time"].item() == near(1030.0)
    # What the records say of a launch is not touched.
    assert run.evidence["launch"].item() == near(15.5 / 500)
    assert kinds(run) == []


LAUNCHES = {
    "narrow": {"nodes": 1, "seconds": 0.03, "error": 0.0005, "jobs": 25},
    "wide": {"nodes": 5, "seconds": 0.05, "error": 0.001, "jobs": 15},
    "processors": 16.0,
    "reason": "",
}


def test_what_was_taken_off_each_program_and_which_were_cut_to_nothing(tmp_path: Path) -> None:
    """A launch of 0.03 s is 15 s at 500 times, and 30 s of the log at SHRINK=50."""
    made = MadeFolder(tmp_path, speed=500.0, shrink=50.0, launch_cost=LAUNCHES)
    for runtime in (100.0, 15.0, 5.0):
        made.played(made.job(due=0.0, runtime=runtime), start=20.0)
    made.played(made.job(due=0.0, runtime=100.0, nodes=3), start=20.0)  # halfway between 1 and 5 nodes
    made.played(made.job(due=0.0, runtime=100.0, processors=65), start=20.0)  # 5 nodes
    made.played(made.job(due=0.0, runtime=100.0, nodes=50), start=20.0)  # wider than was measured
    run = made.collect()
    assert run.evidence["launch_cost"].to_list() == [near(cost) for cost in (30.0, 30.0, 10.0, 40.0, 50.0, 50.0)]
    assert run.evidence["launch_error"].to_list() == [near(error) for error in (0.5, 0.5, 0.5, 0.5 * math.hypot(0.5, 1), 1.0, 1.0)]
    assert run.evidence["clipped"].to_list() == [False, False, True, False, False, False]
    assert (run.launches.cost, run.launches.error, run.launches.reason) == (near(230 / 6), near(1.0), "")
    assert run.launches.by_size.record() == LAUNCHES


def test_launches_that_were_not_measured(tmp_path: Path) -> None:
    unknown = {"narrow": None, "wide": None, "processors": 16.0, "reason": "launches on 1 nodes could not be measured"}
    made = MadeFolder(tmp_path, speed=500.0, launch_cost=unknown)
    made.played(made.job(due=0.0), start=20.0)
    run = made.collect()
    assert (run.launches.cost, run.launches.error, run.launches.reason) == (None, None, unknown["reason"])
    assert run.evidence.select("launch_cost", "launch_error", "clipped").rows() == [(0.0, None, False)]


@pytest.mark.parametrize("cost", [0.03, None, {"narrow": 3}])
def test_a_journal_without_the_launch_cost(tmp_path: Path, cost: object) -> None:
    made = MadeFolder(tmp_path, launch_cost=cost)
    made.job(due=0.0)
    with pytest.raises(WrongUse, match=r"journal\.jsonl:1: .*launch_cost.* may be"):
        made.collect()


def test_how_long_processors_were_not_free_after_the_end(tmp_path: Path) -> None:
    """freed.csv has the manager's instants with milliseconds; 2 s at SHRINK=50 are 4 s of the log."""
    made = MadeFolder(tmp_path, speed=500.0, shrink=50.0)
    for _ in range(3):
        made.played(made.job(due=0.0), start=20.0)
    made.freed.clear()
    run = made.collect()
    assert run.evidence["freed"].to_list() == [None, None, None]
    assert run.manager.freed_reason == "the run has no freed.csv"
    lines = ("job_id,ended,freed", "103,2000000060.400,2000000062.400", "101,2000000060.900,2000000061.000")
    (tmp_path / "freed.csv").write_text("\n".join(lines) + "\n")
    run = made.collect()
    assert run.evidence["freed"].to_list() == [near(0.2), None, near(4.0)]
    assert run.manager.freed_reason == ""


@pytest.mark.parametrize(("state", "cancel_after"), [("TIMEOUT", None), ("CANCELLED", 900.0)])
def test_killed_job_ends_when_slurm_ended_it(tmp_path: Path, state: str, cancel_after: float | None) -> None:
    """The signal reaches the job 10 virtual seconds later."""
    made = MadeFolder(tmp_path, speed=500.0)
    number = made.job(due=0.0, runtime=5000.0, limit_minutes=15, cancel_after=cancel_after)
    made.record(number, 35.0, 930.0, completed=False)
    made.slurm(number, start=20.0, end=920.0, state=state)
    run = made.collect()
    assert row(run, number)["end"] == near(ORIGIN + 920.0)
    assert kinds(run) == []


def test_suspension_is_within_a_job_that_was_cancelled_in_it(tmp_path: Path) -> None:
    """Slurm ends such a job at the instant of its suspension."""
    made = MadeFolder(tmp_path, speed=500.0)
    number = made.job(due=0.0, runtime=5000.0, cancel_after=900.0)
    made.record(number, 35.0, 935.0, (400.0, 935.0), completed=False)
    made.slurm(number, start=20.0, end=395.0, state="CANCELLED")
    run = made.collect()
    job = row(run, number)
    assert (job["end"], job["suspended"]) == (near(ORIGIN + 935.0), near(535.0))
    assert run.evidence["run_time"].item() == near(400.0 - 20.0)


def test_start_is_not_before_the_submission_nor_the_end_before_the_start(tmp_path: Path) -> None:
    """Slurm's clock is 0.01 real seconds behind the replay's, which is no disagreement, and 5 s at 500 times."""
    made = MadeFolder(tmp_path, speed=500.0)
    number = made.job(due=0.0, runtime=1.0)
    made.slurm(number, start=-5.0, end=-3.0, submit=-5.0)
    made.record(number, 10.0, 11.0)
    run = made.collect()
    job = row(run, number)
    assert accepted(job) == near(job["start"]) and job["start"] == job["end"] == near(ORIGIN + 2.5)  # when sbatch was called
    assert kinds(run) == []


def test_start_before_the_end_of_sbatch_is_the_submission(tmp_path: Path) -> None:
    """Both are in one second of Slurm's: sbatch may end when the job runs already."""
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, lag=0.3)
    made.played(number, start=0.2)
    assert row(made.collect(), number)["start"] == near(ORIGIN + 0.3)


def test_last_execution_of_a_requeued_job_is_in_slurms_seconds(tmp_path: Path) -> None:
    """As that of a job that was not requeued: the launch belongs to the run time."""
    made = MadeFolder(tmp_path, speed=500.0)
    number = made.job(due=0.0, runtime=1000.0)
    made.record(number, 35.0, 500.0, completed=False)
    made.slurm(number, start=20.0, end=490.0, state="PENDING")
    made.record(number, 1035.0, 2035.0, restart=1)
    made.slurm(number, start=1020.0, end=2050.0, submit=490.0)
    run = made.collect()
    assert (row(run, number)["start"], row(run, number)["end"]) == (near(ORIGIN + 1020.0), near(ORIGIN + 2050.0))
    assert run.evidence["run_time"].item() == near(1030.0)
    assert run.tables.executions.rows() == [(number, near(ORIGIN + 20.0), near(ORIGIN + 490.0))]


def second(instant: float) -> float:
    """Beginning of the second that Slurm prints, in virtual seconds after the replay's start."""
    return math.floor(VIRTUAL_ZERO + instant) - VIRTUAL_ZERO


_TENTHS = st.integers(0, 200).map(lambda tenths: tenths / 10)


@settings(max_examples=40, deadline=None)
@given(
    speed=st.sampled_from([1.0, 20.0, 500.0]),
    state=st.sampled_from(["COMPLETED", "TIMEOUT", "CANCELLED"]),
    drawn=st.lists(
        st.tuples(_TENTHS, _TENTHS, _TENTHS, st.just(0.0) | _TENTHS, _TENTHS | _TENTHS.map(lambda back: -back)),
        min_size=1,
        max_size=8,
    ),
)
def test_instants_of_both_records_are_in_slurms_seconds(speed: float, state: str, drawn: list[tuple[float, ...]]) -> None:
    """Whatever a launch, a suspension and the way back take; where they are in Slurm's seconds anyway they stay what they are."""
    with tempfile.TemporaryDirectory() as folder:
        made = MadeFolder(Path(folder), speed)
        for place, (wait, launch, run, pause, back) in enumerate(drawn):
            number = made.job(due=100.0 * place, runtime=run, lag=0.0, limit_minutes=1)
            begun = made.accepted(number) + wait + launch
            resumed = begun + pause
            ended = resumed + run + max(0.0, -back)
            made.record(number, begun, ended, *([(begun, resumed)] if pause else []), completed=state == "COMPLETED")
            made.slurm(number, begun - launch, ended + back, state=state)
        found = made.collect()
    slack = 1e-3  # the journal's real instants are good for 0.2 us, times the speed
    for job, run_time, (wait, launch, run, pause, back) in zip(
        found.jobs.to_dicts(), found.evidence["run_time"], drawn, strict=True
    ):
        submit, start, end = (job[name] - ORIGIN for name in ("submit", "start", "end"))
        due = 100.0 * (job["id"] - 1)
        begun = due + wait + launch
        resumed = begun + pause if pause else begun
        ended = begun + pause + run + max(0.0, -back)
        first, last = second(begun - launch), second(ended + back)
        assert first - slack <= start <= first + 1 + slack
        assert last - slack <= end <= max(last + 1, start, resumed) + slack
        assert end >= resumed - slack or not pause
        assert submit - slack <= start <= end + slack
        assert run_time == near(end - start - job["suspended"])
        assert job["suspended"] == near(pause)
        if first <= begun < first + 1:
            assert start == pytest.approx(begun, abs=slack)
        if last <= ended < last + 1:
            assert end == pytest.approx(max(ended, start), abs=slack)


# ---- requeues, resubmissions ----


def test_requeued_job_has_the_instants_of_its_last_execution(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=10.0)
    made.record(number, 1.0, 5.0, (2.0, 3.0), completed=False)
    made.slurm(number, start=0.9, end=4.9, state="PENDING")
    made.record(number, 130.0, 142.0, (131.0, 133.0), restart=1)
    # Slurm moves the submission of a job that it requeues.
    made.slurm(number, start=129.9, end=142.1, submit=4.9)
    run = made.collect()
    job = row(run, number)
    assert (job["start"], job["end"]) == (near(ORIGIN + 130.0), near(ORIGIN + 142.0))
    assert (job["state"], job["suspended"]) == ("COMPLETED", near(2.0))
    assert job["eligible"] == near(ORIGIN + 0.01)
    evidence = run.evidence.to_dicts()[0]
    assert (evidence["restarts"], evidence["stretch"], evidence["run_time"]) == (1, near(0.0), near(10.0))
    assert kinds(run) == []
    assert run.tables.executions.rows() == [(number, near(ORIGIN + 1.0), near(ORIGIN + 5.0))]
    assert run.tables.suspensions.rows() == [
        (number, near(ORIGIN + 2.0), near(ORIGIN + 3.0)),
        (number, near(ORIGIN + 131.0), near(ORIGIN + 133.0)),
    ]
    values = metrics.compute(run.jobs, 8, 4, suspensions=run.tables.suspensions, executions=run.tables.executions)["metrics"]
    # On 4 processors: 10 s of work that was kept, 3 s that were lost.
    assert values["wasted_fraction"] == near(3 / 13)
    assert values["goodput"] == near(4 * 10 / (8 * 142.0))


def test_first_execution_killed_before_it_could_write(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.slurm(number, start=0.9, end=4.9, state="NODE_FAIL")
    made.record(number, 130.0, 140.0, restart=1)
    made.slurm(number, start=129.9, end=140.1, submit=4.9)
    run = made.collect()
    job = row(run, number)
    assert (job["start"], job["end"]) == (near(ORIGIN + 130.0), near(ORIGIN + 140.0))
    assert run.tables.executions.rows() == [(number, near(ORIGIN + 0.5), near(ORIGIN + 4.5))]


def test_last_execution_killed_before_it_could_write(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=1000.0)
    made.record(number, 1.0, 5.0, completed=False)
    made.slurm(number, start=0.9, end=4.9, state="PENDING")
    made.slurm(number, start=129.9, end=140.0, state="TIMEOUT", submit=4.9)
    run = made.collect()
    job = row(run, number)
    assert (job["start"], job["end"], job["state"]) == (near(ORIGIN + 129.5), near(ORIGIN + 139.5), "TIMEOUT")
    assert run.evidence["recorded"].to_list() == [False]
    assert kinds(run) == []


@pytest.mark.parametrize(("state", "end"), [("CANCELLED", ORIGIN + 59.5), ("PENDING", None)])
def test_requeued_job_that_did_not_start_again_never_finished(tmp_path: Path, state: str, end: float | None) -> None:
    """It was cancelled in the queue, or the run ended before."""
    made = MadeFolder(tmp_path)
    number, other = made.job(due=0.0, runtime=30.0), made.job(due=0.0, runtime=100.0)
    made.record(number, 1.0, 5.0, completed=False)
    made.slurm(number, start=0.9, end=4.9, state="PENDING")
    if state == "CANCELLED":
        made.slurm(number, start=60.0, end=60.0, state=state, ran=False, submit=4.9)
    made.played(other, start=1.0)
    run = made.collect()
    job = row(run, number)
    assert (job["state"], job["start"], job["end"], job["suspended"]) == (state, None, end and near(end), 0.0)
    assert run.tables.executions.rows() == [(number, near(ORIGIN + 1.0), near(ORIGIN + 5.0))]
    found = metrics.compute(run.jobs, 8, 4, suspensions=run.tables.suspensions, executions=run.tables.executions)
    assert found["censored"] == {"jobs": 1, "share": 0.5}
    assert found["metrics"]["wasted_fraction"] == pytest.approx(4 / 104, rel=0.01)


def test_parts_of_an_execution_before_changes_of_size_are_not_lost(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=29.0)
    made.slurm(number, start=0.9, end=9.9, state="RESIZING")
    made.slurm(number, start=9.9, end=19.9, state="RESIZING")
    made.slurm(number, start=19.9, end=30.1)
    made.record(number, 1.0, 30.0)
    run = made.collect()
    assert (row(run, number)["start"], row(run, number)["end"]) == (near(ORIGIN + 1.0), near(ORIGIN + 30.0))
    assert (run.tables.executions.height, run.evidence["restarts"].item(), kinds(run)) == (0, 0, [])


def test_second_life_of_an_ended_job_does_not_count(tmp_path: Path) -> None:
    """slurmctld was killed, came back with an older state, ran the job again and was told to cancel it."""
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.played(number, start=0.1)
    made.record(number, 20.0, 22.0, completed=False)
    made.slurm(number, start=19.9, end=21.9, state="CANCELLED")
    run = made.collect()
    job = row(run, number)
    assert (job["state"], job["end"]) == ("COMPLETED", near(ORIGIN + 10.13))
    assert kinds(run) == [(number, "ran again after its end")]


def test_resubmitted_job_counts_under_its_last_number(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.submitted(number, 500, lag=8.0, event="resubmitted", retries=3)
    made.record(number, 9.0, 19.0, slurm_job_id=500)
    made.slurm(number, start=8.9, end=19.1, slurm_id=500, submit=8.0)
    run = made.collect()
    job = row(run, number)
    assert (job["state"], job["submit_lag"], job["start"]) == ("COMPLETED", near(8.0), near(ORIGIN + 9.0))
    assert (run.replay.resubmitted, run.replay.retries, kinds(run)) == (1, 3, [])


def test_job_that_ran_twice_and_foreign_records_are_named(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.played(number, start=0.1)
    made.slurm(number, start=0.2, end=10.2, slurm_id=900)
    made.record(number, 0.3, 10.3, slurm_job_id=900)
    made.record(77, 0.3, 10.3)
    assert sorted(kinds(made.collect())) == [(1, "ran under another job number too"), (77, "no job of this run")]


@pytest.mark.parametrize("name", ["OLDER-RUN", "RUN"])
def test_lines_of_other_runs_are_passed_over(tmp_path: Path, name: str) -> None:
    """The completion log is of all runs, and the results of one may have been removed, and its name used again."""
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.slurm(number, start=-50.0, end=-40.0, state="FAILED", submit=-51.0, slurm_id=12)
    made.jobcomp = made.jobcomp.replace("Name=RUN.", f"Name={name}.")
    made.played(number, start=0.1)
    run = made.collect()
    assert (row(run, number)["state"], kinds(run)) == ("COMPLETED", [])


# ---- suspensions ----


def test_suspended_job(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=10.0)
    made.record(number, 1.0, 21.5, (3.0, 10.0), (12.0, 15.5))
    made.slurm(number, start=0.9, end=21.6)
    # 10.5 s in all; Slurm: last resumed at 15.5 after 4 s of execution.
    made.scontrol(number, "COMPLETED", start=0.9, end=21.6, suspend_time=15.5, before=4)
    run = made.collect()
    assert row(run, number)["suspended"] == near(10.5)
    assert run.evidence["run_time"].to_list() == [near(10.0)]
    assert abs(run.evidence["stretch"].item()) <= 1.0
    assert run.tables.suspensions.rows() == [
        (number, near(ORIGIN + 3.0), near(ORIGIN + 10.0)),
        (number, near(ORIGIN + 12.0), near(ORIGIN + 15.5)),
    ]
    assert kinds(run) == []


def test_suspension_that_only_slurm_knows(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=10.0)
    made.played(number, start=0.1)
    made.scontrol(number, "COMPLETED", start=0.1, end=10.2, suspend_time=8.0, before=2)
    run = made.collect()
    assert run.tables.disagreements.rows() == [(number, "suspended", near(-6.0))]


def test_unknown_suspend_instant_is_empty_and_told(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=10.0)
    made.record(number, 1.0, 15.0, (-ns(0) / 1e9, 5.0), inferred=True)
    made.slurm(number, start=0.9, end=15.1)
    run = made.collect()
    assert run.tables.suspensions.rows() == [(number, None, near(ORIGIN + 5.0))]
    assert kinds(run) == [(number, "a suspension that sigsleep could not record")]


def test_suspended_time_of_a_killed_job_is_slurms(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=10000.0)
    made.slurm(number, start=0.9, end=3700.0, state="TIMEOUT")
    made.scontrol(number, "TIMEOUT", start=0.9, end=3700.0, suspend_time=120.0, before=50)
    run = made.collect()
    # Slurm's instants cut off: 120 - 1 - 50, and 3700 - 1 - 69.
    assert row(run, number)["suspended"] == near(69.0)
    assert run.evidence["run_time"].to_list() == [near(3630.0)]


# ---- disagreements and damage ----


@pytest.mark.parametrize(
    ("shift", "speed", "found"),
    [
        (0.0, 1.0, []),
        (0.95, 1.0, []),  # within the second that Slurm cuts off
        (2.5, 1.0, ["start", "end"]),  # a second later than a launch may take
        (2.5, 20.0, []),  # 0.13 real seconds
        (-0.6, 1.0, ["start"]),  # before Slurm's start
        (-0.3, 20.0, []),  # 0.02 real seconds: two processes' clocks
    ],
)
def test_start_and_end_may_differ_by_a_launch(tmp_path: Path, shift: float, speed: float, found: list[str]) -> None:
    made = MadeFolder(tmp_path, speed)
    number = made.job(due=0.0, runtime=100.0, lag=0.001)
    made.record(number, 10.5 + shift, 110.5 + shift)
    made.slurm(number, start=10.5, end=110.6)
    assert [kind for _, kind in kinds(made.collect())] == found


@pytest.mark.parametrize(("launch", "found"), [(0.2, []), (0.24, [(30, "start")])])
def test_how_slow_a_launch_may_be_follows_from_the_launches_of_the_run(
    tmp_path: Path, launch: float, found: list[tuple[int, str]]
) -> None:
    """At 500 times 29 launches of 0.02 s: one may take 0.2 s more, and not a real second."""
    made = MadeFolder(tmp_path, speed=500.0)
    for job in range(29):
        made.played(made.job(due=5000.0 * job, runtime=1000.0), start=5000.0 * job + 10.0, launch=0.02)
    number = made.job(due=150_000.0, runtime=1000.0)
    made.slurm(number, start=150_010.0, end=151_020.0 + 500 * launch)
    made.record(number, 150_010.0 + 500 * launch, 151_010.0 + 500 * launch)
    assert kinds(made.collect()) == found


@pytest.mark.parametrize(
    ("shift", "cycle", "interval", "found"),
    [
        (2.5, 17.7, "", []),  # of a cycle of 17.7 s, which pauses after 2 s
        (4.5, 17.7, "", ["start", "end"]),  # a second later than a launch may take after these 2 s
        (2.5, 0.4, "", ["start", "end"]),  # the whole cycle was shorter
        (2.5, 17.7, "bf_yield_interval=250000", ["start", "end"]),
        (5.5, 17.7, "bf_yield_interval=4000000", []),
    ],
)
def test_a_launch_may_wait_for_a_backfill_cycle_that_holds_the_locks(
    tmp_path: Path, shift: float, cycle: float, interval: str, found: list[str]
) -> None:
    """Seen with CHARGE=yes on 5,544 nodes: nine jobs began 2.0 to 2.2 s after Slurm's start."""
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0, lag=0.001)
    made.record(number, 10.5 + shift, 110.5 + shift)
    made.slurm(number, start=10.5, end=110.6)
    longest = round(cycle * 1e6)
    (tmp_path / "sdiag.csv").write_text(f"bf_last_cycle_us,bf_max_cycle_us,bf_queue_length\n{longest},{longest},1\n")
    (tmp_path / CONFIGURATION_FILE).write_text(f"SchedulerType = sched/backfill\nSchedulerParameters = bf_continue,{interval}\n")
    assert [kind for _, kind in kinds(made.collect())] == found


@pytest.mark.parametrize("printed", ["9026-05-18T03:33:30", "Unknown", "2033-13-45T99:00:00", ""])
@pytest.mark.parametrize(
    ("words", "found"),
    [(("Start",), ["start"]), (("End",), ["end"]), (("Submit",), ["submission"]), (("Start", "End"), ["start", "end"])],
)
def test_an_instant_that_cannot_be_is_a_disagreement(
    tmp_path: Path, printed: str, words: tuple[str, ...], found: list[str]
) -> None:
    made = MadeFolder(tmp_path)
    for start in (10.5, 20.5):
        made.played(made.job(due=0.0, runtime=100.0), start=start)
    first, second = made.jobcomp.splitlines(keepends=True)
    expected = row(made.collect(), 1)
    for word in words:
        second = re.sub(rf"\b{word}Time=\S+", f"{word}Time={printed}", second)
    made.jobcomp = first + second
    run = made.collect()
    assert run.tables.disagreements.rows() == [(2, kind, None) for kind in ["submission", "start", "end"] if kind in found]
    assert row(run, 1) == expected


def test_an_impossible_submission_in_each_line_is_found(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.played(made.job(due=0.0, runtime=100.0), start=10.5)
    made.jobcomp = re.sub(r"SubmitTime=\d{4}", "SubmitTime=9026", made.jobcomp)
    assert made.collect().tables.disagreements.rows() == [(1, "submission", None)]


@pytest.mark.parametrize("state", ["COMPLETED", "NODE_FAIL"])
def test_an_end_before_the_start_is_a_disagreement_without_the_programs_record_too(tmp_path: Path, state: str) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0, runtime=100.0)
    made.slurm(number, start=50.5, end=20.5, state=state)
    assert (number, "end") in kinds(made.collect())


def test_clock_of_slurm_that_is_behind_is_found(tmp_path: Path) -> None:
    """Seen at 20 times: every daemon had begun its own virtual time 0.27 real seconds after the clock file's."""
    made = MadeFolder(tmp_path, speed=20.0)
    number = made.job(due=0.0, runtime=100.0)
    made.slurm(number, start=-4.5, end=95.7, submit=-5.1)
    made.record(number, 1.4, 101.4)
    run = made.collect()
    assert run.tables.disagreements.rows() == [(number, "submission", near(-5.6))]
    assert accepted(row(run, number)) == near(ORIGIN + 0.1)


def test_job_that_the_replay_found_in_slurm_is_no_disagreement(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=5.0, runtime=100.0, submitted=False)
    made.submitted(number, 101, lag=-0.7, found=True)
    made.events[-1]["began"] = made.events[-1]["real"]
    made.lags[0] = 0.3
    made.played(number, start=5.4)
    run = made.collect()
    assert kinds(run) == []
    # It was accepted before the instant to which the interruption postponed it, so it was due then, and its wait is not below 0.
    job = row(run, number)
    assert (job["submit"], job["submit_lag"]) == (near(ORIGIN + 9.3), 0.0)


@pytest.mark.parametrize(("state", "completed"), [("COMPLETED", False), ("FAILED", True), ("TIMEOUT", True)])
def test_records_that_disagree_on_the_end(tmp_path: Path, state: str, completed: bool) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.record(number, 0.2, 10.2, completed=completed)
    made.slurm(number, start=0.1, end=10.3, state=state)
    run = made.collect()
    assert (row(run, number)["state"], kinds(run)) == (state, [(number, "state")])


def test_job_that_completed_while_it_was_killed_at_its_limit(tmp_path: Path) -> None:
    """Slurm looks at limits every 30 s, and at 500 times a job's end takes some 10 s to reach it."""
    made = MadeFolder(tmp_path, speed=500.0)
    number = made.job(due=0.0, runtime=70.0, limit_minutes=1)
    made.record(number, 12.0, 82.0)
    made.slurm(number, start=2.0, end=90.0, state="TIMEOUT")
    run = made.collect()
    assert (row(run, number)["state"], kinds(run)) == ("TIMEOUT", [])


def test_torn_record_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    first, second, third = (made.job(due=float(due)) for due in range(3))
    for number in (first, second, third):
        made.played(number, start=number - 0.5)
    size = len(made.sigsleep) // 3
    made.sigsleep = made.sigsleep[: 2 * size - 40] + made.sigsleep[2 * size :]
    run = made.collect()
    assert run.jobs["state"].to_list() == ["COMPLETED"] * 3
    assert row(run, third)["start"] == near(ORIGIN + 2.53)
    (job, kind), (nobody, told) = kinds(run)
    assert (job, kind, nobody) == (second, "in Slurm's record only", None)
    assert told.startswith(f"sigsleep.log at byte {size}: torn record")


def test_negative_wait_is_not_hidden(tmp_path: Path) -> None:
    """Only the fraction that Slurm cuts off is made up for: a start seconds before the submission stays what it is."""
    made = MadeFolder(tmp_path)
    number = made.job(due=60.0)
    made.slurm(number, start=50.0, end=70.0, state="TIMEOUT")
    job = row(made.collect(), number)
    assert job["start"] - job["submit"] == near(-10.5)


# ---- time ----


def test_clock_and_shrink_are_undone(tmp_path: Path) -> None:
    """SPEED=20, SHRINK=50: a virtual second is 2 trace seconds, a real one 40."""
    made = MadeFolder(tmp_path, speed=20.0, shrink=50.0)
    first, second = made.job(due=0.0, runtime=100.0, lag=0.005), made.job(due=300.0, runtime=50.0, lag=0.1)
    for number, start in ((first, 0.5), (second, 310.0)):
        made.played(number, start)
    run = made.collect()
    job = row(run, second)
    assert job["submit_lag"] == near(4.0) and job["submit"] == near(ORIGIN + 600.0)
    # Slurm printed 2000000310, which ended 310.5 s after the replay's start: sigsleep's 310.6 is after it, so the start is in the
    # middle of Slurm's second. sigsleep's end is in Slurm's.
    assert job["start"] == near(ORIGIN + 620.0)
    assert job["end"] == near(ORIGIN + 620.0 + 0.03 * 40 + 100.0)
    assert run.evidence["limit"].to_list() == [7200.0, 7200.0]
    assert kinds(run) == []


@given(
    trace=st.floats(0, 1e8),
    origin=st.floats(0, 1e6),
    speed=st.floats(0.1, 1000),
    shrink=st.floats(0.1, 100),
)
def test_instants_survive_the_way_to_virtual_time_and_back(trace: float, origin: float, speed: float, shrink: float) -> None:
    time = TimeMap(Clock(1_700_000_000_000_000_000, 1_800_000_000_000_000_000, speed, shrink), origin)
    there = pl.select(time.virtual(pl.lit(origin + trace)))
    back = there.select(time.trace(pl.first())).item()
    # One float of the trace's size, and the rounding to 1 ns.
    assert abs(back - (origin + trace)) <= 1e-6 + 1e-9 * 100 / shrink


@given(real=st.floats(0, 1e6), speed=st.floats(0.1, 1000))
def test_real_instants_become_virtual_ones_as_the_clock_says(real: float, speed: float) -> None:
    clock = Clock(1_700_000_000_000_000_000, 1_800_000_000_000_000_000, speed)
    found = pl.select(TimeMap(clock, 0.0).virtual_of_real(pl.lit(1.7e9 + real))).item()
    # A float of seconds since the epoch has a resolution of a quarter of a microsecond.
    assert abs(found - clock.virtual_at(round((1.7e9 + real) * 1e9))) <= 1e3 * speed + 1e3


@pytest.mark.parametrize("zone", [-8 * 3600, 0, 3600, 20700])
def test_slurms_time_zone_does_not_matter(tmp_path: Path, zone: int) -> None:
    made = MadeFolder(tmp_path, zone=zone)
    for due in (0.0, 40.0, 80.0):
        made.played(made.job(due=due), start=due + 0.1)
    number = made.job(due=90.0, cancel_after=30.0)
    made.slurm(number, start=120.5, end=120.5, state="CANCELLED", ran=False)
    run = made.collect()
    assert kinds(run) == []
    assert row(run, number)["end"] == near(ORIGIN + 120.5)


@pytest.mark.parametrize("zone", [0, 3600])
def test_a_slow_submission_is_no_time_zone(tmp_path: Path, zone: int) -> None:
    """At 500 times most sbatch took 2 real seconds, which is more than a quarter of an hour; one was quick."""
    made = MadeFolder(tmp_path, speed=500.0, zone=zone)
    for job in range(9):
        number = made.job(due=5000.0 * job, runtime=3000.0, lag=2.0)
        made.events[-1]["began"] -= 1.99
        made.slurm(number, start=5000.0 * job + 30.0, end=5000.0 * job + 3060.0, submit=5000.0 * job + 20.0)
        made.record(number, 5000.0 * job + 45.0, 5000.0 * job + 3045.0)
    made.played(made.job(due=50_000.0, runtime=3000.0), start=50_010.0)
    # A job that was found after an interruption: nobody knows when it was submitted.
    number = made.job(due=60_000.0, runtime=3000.0, submitted=False)
    made.submitted(number, 100 + number, lag=9.0, found=True)
    made.events[-1]["began"] = made.events[-1]["real"]
    made.lags[number - 1] = 0.01
    made.played(number, start=60_010.0)
    run = made.collect()
    assert kinds(run) == []
    assert accepted(row(run, 1)) == near(ORIGIN + 20.5)  # Slurm printed 2000000020


def test_submission_is_not_after_the_second_that_slurm_recorded(tmp_path: Path) -> None:
    """At 1000 times, an sbatch that ended 60 ms after the job was accepted would give a start before the submission."""
    made = MadeFolder(tmp_path, speed=1000.0)
    number = made.job(due=0.0, runtime=500.0, lag=0.08)
    made.events[-1]["began"] -= 0.06
    made.slurm(number, start=30.0, end=560.0, submit=21.0)
    made.record(number, 50.0, 550.0)
    job = row(made.collect(), number)
    assert accepted(job) == near(ORIGIN + 21.5)  # Slurm printed 2000000021, so it was before 2000000022
    assert job["submit_lag"] == near(21.5)


def test_a_wait_counts_from_the_due_instant(tmp_path: Path) -> None:
    """Not from acceptance: a scheduler that accepts jobs late would otherwise shorten their waits."""
    made = MadeFolder(tmp_path, speed=10.0)
    made.played(made.job(due=0.0, lag=0.001), start=0.5)
    number = made.job(due=20.0, lag=30.0)
    made.played(number, start=322.0)
    job = row(made.collect(), number)
    assert (job["submit"], job["submit_lag"]) == (near(ORIGIN + 20.0), near(300.0))
    assert job["start"] - job["submit"] == near(302.3)


def test_interruption_moves_dues_and_is_no_lag(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path, speed=2.0)
    made.played(made.job(due=0.0), start=0.1)
    number = made.job(due=20.0, submitted=False)
    made.events.append({"event": "resumed", "real": made.events[-1]["real"] + 5.0, "gap": 5.0})
    made.submitted(number, 102)
    for name in ("due", "began", "real"):
        made.events[-1][name] += 5.0
    made.slurm(number, start=30.1, end=40.2, submit=30.05)
    made.record(number, 30.12, 40.12)
    run = made.collect()
    assert run.replay.interrupted == near(10.0)
    assert (row(run, number)["submit"], row(run, number)["submit_lag"]) == (near(ORIGIN + 30.0), near(0.02))


# ---- wrong use ----


def spoil_settings(folder: Path) -> None:
    (folder / "run.json").write_text('{"speed": 1}')


def spoil_journal(folder: Path) -> None:
    (folder / "journal.jsonl").write_text('{"event": "submitted"}\n')


def spoil_plan(folder: Path) -> None:
    (folder / "plan.csv").write_text((folder / "plan.csv").read_text().replace("0,1,", "0,99,"))


def spoil_records(folder: Path) -> None:
    (folder / "jobcomp.log").unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_settings, r"run\.json: shrink_percent is missing"),
        (spoil_journal, r"journal\.jsonl"),
        (spoil_plan, r"plan\.csv: its jobs may be those of the workload"),
        (spoil_records, r"jobcomp\.log: cannot be read \(No such file or directory\)"),
    ],
)
def test_folder_that_is_no_run_is_wrong_use(tmp_path: Path, spoil, message: str) -> None:  # type: ignore[no-untyped-def]
    made = MadeFolder(tmp_path)
    made.played(made.job(due=0.0), start=0.1)
    made.write()
    spoil(tmp_path)
    with pytest.raises(WrongUse, match=message):
        collect(RunFolder(tmp_path))


def test_torn_last_lines_are_passed_over(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    number = made.job(due=0.0)
    made.played(number, start=0.1)
    made.write()
    for name in ("journal.jsonl", "suspended.jsonl", "jobcomp.log"):
        with (tmp_path / name).open("a") as stream:
            stream.write('{"event": "subm' if name != "jobcomp.log" else "JobId=101 Name=RUN.1 JobState=FAI")
    assert row(collect(RunFolder(tmp_path)), number)["state"] == "COMPLETED"


# ---- files ----


def full_run(folder: Path) -> MadeFolder:
    made = MadeFolder(folder, shrink=50.0)
    made.played(made.job(due=0.0, user=7, group=3, executable=None, queue=1), start=0.1)
    number = made.job(due=3.0, cancel_after=5.0, user=8, group=3, executable=4, queue=1)
    made.slurm(number, start=8.0, end=8.0, state="CANCELLED", ran=False)
    number = made.job(due=4.0, runtime=10.0, processors=2)
    made.record(number, 5.0, 20.0, (7.0, 12.0))
    made.slurm(number, start=4.9, end=20.1)
    number = made.job(due=5.0, runtime=4000.0)
    made.slurm(number, start=30.5, end=3630.5, state="TIMEOUT")
    made.job(due=6.0)
    return made


def test_jobs_csv_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = full_run(tmp_path).collect()
    (tmp_path / "jobs.csv").write_bytes(run_files.render(run, 64, 4)["jobs.csv"])
    text = (tmp_path / "jobs.csv").read_text()
    assert text.splitlines()[0] == (
        "id,submit,eligible,start,end,suspended,processors,nodes,requested,runtime,priority,partition,state,submit_lag,preset"
    )
    assert "5005.0" not in text.splitlines()[2].split(",")[3]  # cancelled before it started: no start
    back = pl.read_csv(tmp_path / "jobs.csv", schema=JOBS_SCHEMA)
    assert back.equals(run.jobs.with_columns(pl.selectors.float().round(6)))


def test_schedule_is_swf_in_the_traces_own_seconds(tmp_path: Path) -> None:
    run = full_run(tmp_path).collect()
    content = run_files.render(run, 64, 4)
    frame, header, notes, _ = swf.parse_swf(content["schedule.swf"], "schedule.swf")
    shown = frame.select("job_number", "wait", "run_time", "allocated_processors", "requested_processors", "status").rows()
    assert shown == [
        (1, 0.26, 20.0, 4, 4, 1),
        (2, -1.0, -1.0, -1, 4, 5),
        (3, 2.0, 20.0, 2, 2, 1),
        (4, 51.0, -1.0, 4, 4, 0),
        (5, -1.0, -1.0, -1, 4, -1),
    ]
    assert frame.select("user", "executable", "partition").row(0) == (7, -1, 1)
    assert (header["MaxProcs"], header["MaxNodes"], header["Partition"]) == ("64", "4", "1 batch")
    assert "SPEED=1 and SHRINK=50 are undone" in header["Note"]
    assert notes.keys() <= {"run_time_unknown", "wait_unknown", "allocated_unknown"}


def test_files_are_the_same_every_time(tmp_path: Path) -> None:
    made = full_run(tmp_path)
    first, second = (run_files.render(made.collect(), 64, 4) for _ in range(2))
    assert first == second


def test_times_printed_by_slurm(tmp_path: Path) -> None:
    """Lines of a real jobcomp.log and of `scontrol show job`: a job suspended twice (7 and 3 s), one requeued by scontrol,
    one requeued by a node failure and cancelled while it waited."""
    made = MadeFolder(tmp_path)
    made.events[0]["virtual"] = 1795199259.0  # 18:27:39 UTC
    for number, runtime in ((6, 15.0), (7, 12.0), (11, 40.0)):
        index = made.job(due=0.0, runtime=runtime, lag=0.0)
        made.events[-1]["slurm_id"] = number
        made.plan[index - 1] = made.plan[index - 1].__class__(**{**vars(made.plan[index - 1]), "name": f"RUN.{number}"})
    tail = "WorkDir=/var/lib/x ReservationName= Tres=cpu=2,mem=1M,node=1,billing=2 Account= QOS= WcKey= Cluster=unknown"
    made.jobcomp = "".join(
        f"JobId={i} UserId=u(999) GroupId=u(995) Name=RUN.{i} JobState={state} Partition=batch TimeLimit=5 "
        f"StartTime=2026-11-20T{start} EndTime=2026-11-20T{end} NodeList={nodes} NodeCnt={cpus // 2} ProcCnt={cpus} {tail} "
        f"SubmitTime=2026-11-20T{submit} EligibleTime=2026-11-20T{eligible} DerivedExitCode=0:0 ExitCode=0:0 \n"
        for i, state, start, end, nodes, cpus, submit, eligible in [
            (7, "PENDING", "18:27:40", "18:27:45", "n2", 2, "18:27:39", "18:27:39"),
            (6, "COMPLETED", "18:27:40", "18:27:55", "n2", 2, "18:27:39", "18:27:39"),
            (7, "COMPLETED", "18:30:21", "18:30:33", "n1", 2, "18:27:45", "18:29:46"),
            (11, "NODE_FAIL", "18:27:40", "18:27:44", "n1", 2, "18:27:39", "18:27:39"),
            (11, "CANCELLED", "18:27:49", "18:27:49", "(null)", 0, "18:27:44", "18:29:45"),
        ]
    )
    suspended = {"slurm_id": 6, "name": "RUN.6", "state": "COMPLETED", "suspend_time": 1795199273, "secs_pre_suspend": 3}
    suspended |= {"submit": 1795199259, "eligible": 1795199259, "start": 1795199260, "end": 1795199275}
    made.suspended = json.dumps(suspended) + "\n"
    run = made.collect()
    assert run.jobs.select("state", "start", "end", "suspended").rows() == [
        ("COMPLETED", ORIGIN + 1, ORIGIN + 16, 10.0),
        ("COMPLETED", ORIGIN + 162, ORIGIN + 174, None),
        ("CANCELLED", None, ORIGIN + 10, 0.0),
    ]
    assert run.tables.suspensions.is_empty()
    assert run.tables.executions.rows() == [(2, ORIGIN + 1, ORIGIN + 6), (3, ORIGIN + 1, ORIGIN + 5)]


def test_the_record_of_a_slurm_that_writes_no_submissions(tmp_path: Path) -> None:
    """Lines as 16.05.6 wrote them, the last one torn: a job's submission is what the journal knows."""
    line = (
        "JobId={0} UserId=slurm(989) GroupId=slurm(988) Name=r.{0} JobState=COMPLETED Partition=batch TimeLimit=1 "
        "StartTime=2026-11-21T08:13:36 EndTime=2026-11-21T08:13:40 NodeList=n[1-17] NodeCnt=17 ProcCnt=64 WorkDir=/var/lib/x \n"
    )
    (tmp_path / "jobcomp.log").write_text(line.format(3) + line.format(4)[:-20])
    accepted = 1_795_248_815_250_000_000
    known = {"name": ["r.3", "r.4"], "id": [3, 4], "slurm_id": [3, 4], "v_began": [accepted] * 2, "v_accepted": [accepted] * 2}
    log = run_records.read_completions(tmp_path / "jobcomp.log", Slurm.records)
    lines, _ = run_records.completions(log, pl.DataFrame(known), accepted - 10**9)
    assert lines.select("id", "s_state", "s_submit", "s_eligible", "s_start", "s_end").rows() == [
        (3, "COMPLETED", 1_795_248_815_000_000_000, 1_795_248_815_000_000_000, 1_795_248_816_000_000_000, 1_795_248_820_000_000_000)
    ]


def foreign(run: RunRecord) -> list[tuple[Any, ...]]:
    return run.tables.foreign.select("name", "slurm_id").rows()


@pytest.mark.parametrize("zone", [0, 7200])
def test_jobs_of_others_count_if_they_were_there_during_the_run(tmp_path: Path, zone: int) -> None:
    made = MadeFolder(tmp_path, zone=zone)
    made.stranger("before", 50, submit=-100, end=-50)
    made.events[0]["completion_offset"] = len(made.jobcomp)
    made.played(made.job(due=0, runtime=500), start=1, launch=0.02)
    made.stranger("ended during it", 51, submit=-100, end=10)
    made.stranger("cancelled while it waited", 200, submit=20, end=30, ran=False)
    made.stranger("requeued", 201, submit=20, end=30)
    made.stranger("requeued", 201, submit=20, end=40)
    made.stranger("ended after it", 202, submit=490, end=5000)
    made.stranger("after the run", 203, submit=700, end=710)
    for own in ("RUN.1", "RUN.skip", "RUN.launch"):
        made.stranger(own, 204, submit=20, end=30)
    made.ended(600)
    queue = [{"job_id": 60, "name": "at work", "user": "a", "submit": round(VIRTUAL_ZERO) - 100}]
    queue += [{"job_id": 205, "name": "too late", "user": "a", "submit": round(VIRTUAL_ZERO) + 700}]
    queue += [
        {"job_id": 206, "name": "unknown", "user": "a", "submit": None},
        {"job_id": 207, "name": "RUN.1", "user": "a", "submit": 0},
    ]
    (tmp_path / "queue.json").write_text(json.dumps(queue))
    during = [("ended during it", 51), ("cancelled while it waited", 200), ("requeued", 201), ("ended after it", 202)]
    assert foreign(made.collect()) == [*during, ("at work", 60), ("unknown", 206)]


def test_a_completion_log_that_was_begun_anew_is_of_the_run(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.events[0]["completion_offset"] = 10**6
    made.played(made.job(due=0), start=1, launch=0.02)
    made.stranger("other", 51, submit=1, end=10)
    made.ended(600)
    assert foreign(made.collect()) == [("other", 51)]


def test_an_offset_within_a_line_leaves_the_next_line_whole(tmp_path: Path) -> None:
    """The controller was writing a line when the replay looked."""
    made = MadeFolder(tmp_path)
    made.stranger("before", 50, submit=-100, end=-50)
    made.events[0]["completion_offset"] = len(made.jobcomp) - 20
    made.played(made.job(due=0), start=1, launch=0.02)
    made.stranger("other", 51, submit=1, end=10)
    made.ended(600)
    assert foreign(made.collect()) == [("other", 51)]
