"""The verdict on a run: its figures worked out by hand, each bound from both sides, and the module over it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modules import Caller
from run_folders import MadeFolder, beside

from mirage.records import run_samples
from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from mirage.verdict import advice
from mirage.verdict.start_latency import start_latencies
from mirage.verdict.thresholds import Thresholds
from mirage.verdict.validity import judge
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.collection import archive
from slurm_mirage.jobs.sigsleep_log import scan
from slurm_mirage.rm.evidence import Layout
from slurm_mirage.rm.slurm.commands import Slurm

FINISHED: dict[str, Any] = {"ended": 1.0, "released": 0, "messages": {}}
LAYOUT = Layout.of_equal(64, 4)
MEMBERS = {
    "verdict", "valid", "reasons", "inconclusive", "inconclusive_metrics",
    "submit_lag_p99", "start_latency_p50", "launch_latency_p50", "runtime_stretch_p50", "runtime_stretch_p99",
    "nodes_not_responding", "backfill_cycle_max", "retries", "resubmitted", "limits_extended", "host_cpu", "clock_speed",
    "disagreements", "requeued", "interrupted", "halted", "host_cpu_saturated", "messages", "released", "broken", "bounds",
    "launch_cost", "clock_offset_max", "copies_cancelled", "reruns_cancelled", "disagreements_by_kind", "suspended_compared",
    "suspended_apart_max", "daemons_ended", "foreign_jobs", "resolution", "submit_lag_mean", "submit_lag_p50", "submit_lag_of_wait",
    "start_latency_jobs", "runtime_stretch_p1", "stretch_share_p1", "stretch_share_p50", "stretch_share_p99", "stretch_classes",
    "launch_cost_share", "launch_cost_error", "clipped", "freed_p50", "freed_p99",
    "start_latency_mean", "start_latency_p99", "stretch_of_load", "stretch_known", "freed_known", "backfill_cycle_mean",
    "dispatch_gap_mean", "dispatch_gap_p99", "dispatch_gap_of_load", "dispatch_gap_jobs", "nodes_lacking", "nodes_lacking_most",
}  # fmt: skip


def samples(not_responding: int = 0, busy: float = 0.5) -> pl.DataFrame:
    return pl.DataFrame({"nodes_not_responding": [0, not_responding, 0], "cpu_busy": [busy] * 3})


def diagnostics(last: list[float], largest: list[float]) -> pl.DataFrame:
    columns = {"backfill_last_cycle_us": last, "backfill_max_cycle_us": largest}
    return pl.DataFrame(columns, schema_overrides={"backfill_last_cycle_us": pl.Float64})


def verdict(run: RunRecord, result: dict[str, Any] | None = None, **bounds: Any) -> dict[str, Any]:
    return judge(beside(samples(), pl.DataFrame(), FINISHED if result is None else result), run, LAYOUT, Thresholds.of(bounds))


def reasons(run: RunRecord, result: dict[str, Any] | None = None, **bounds: Any) -> list[str]:
    found: list[str] = verdict(run, result, **bounds)["reasons"]
    return found


def good_run(folder: Path, speed: float = 1.0, launch: float = 0.03, runtime: float = 200.0) -> MadeFolder:
    """Ten pairs of jobs on an idle machine: a small one, which starts at once, and one of the whole machine, which waits for it.

    The mean wait is 100 virtual seconds if launches take no time.
    """
    made = MadeFolder(folder, speed)
    for pair in range(10):
        due = max(600.0, 3 * runtime) * pair
        made.played(made.job(due=due, runtime=runtime), start=due + 0.02 * speed, launch=launch)
        after = due + runtime + 1.0 + 2 * launch * speed
        made.played(made.job(due=due + 1.0, runtime=runtime, processors=64), start=after, launch=launch)
    return made


def test_launch_latency_is_freed_of_slurms_whole_seconds(tmp_path: Path) -> None:
    """Forty jobs that start evenly over the fractions of a second: Slurm cuts half a second off in the mean."""
    made = MadeFolder(tmp_path, 1.0)
    for job in range(40):
        start = 50.0 * job + job / 40 + 0.01
        made.played(made.job(due=start - 0.01, runtime=10.0), start=start, launch=0.25)
    assert verdict(made.collect())["launch_latency_p50"] == pytest.approx(0.25, abs=0.05)


def test_good_run_is_valid(tmp_path: Path) -> None:
    found = verdict(good_run(tmp_path).collect())
    assert found.keys() == MEMBERS
    assert (found["valid"], found["reasons"]) == (True, [])
    assert found["submit_lag_p99"] == pytest.approx(0.01, abs=1e-5)
    assert found["start_latency_p50"] == pytest.approx(0.04, abs=1e-5)
    assert abs(found["runtime_stretch_p50"]) <= 1 and found["runtime_stretch_p99"] <= 1
    assert found["clock_speed"] == pytest.approx(1.0, abs=1e-3)
    assert (found["nodes_not_responding"], found["host_cpu"], found["backfill_cycle_max"]) == (0, 0.5, None)
    assert (found["retries"], found["resubmitted"], found["limits_extended"], found["disagreements"]) == (0, 0, 0, 0)
    json.dumps(found, allow_nan=False)


# ---- what must not happen ----


def test_jobs_that_the_run_did_not_submit_make_it_invalid_and_are_named(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    for number in range(1, 6):
        made.stranger(f"job {number}", 900 + number, submit=100.0, end=200.0)
    found = verdict(made.collect())
    assert (found["valid"], found["foreign_jobs"]) == (False, 5)
    [reason] = found["reasons"]
    names = "job 1 901 somebody, job 2 902 somebody, job 3 903 somebody, ..."
    words = f"5 jobs that this run did not submit ran or waited in the cluster ({names})"
    assert reason == f"{words}: cancel what is left of them, and repeat the run"


def lost(made: MadeFolder) -> None:
    made.job(due=7000.0)


def unsubmitted(made: MadeFolder) -> None:
    made.job(due=7000.0, submitted=False)


def pending(made: MadeFolder) -> None:
    made.scontrol(made.job(due=7000.0), "PENDING", start=8000.0, end=9000.0, suspend_time=None, before=0)


def false_timeout(made: MadeFolder) -> None:
    number = made.job(due=7000.0, runtime=55.0, limit_minutes=1)
    made.slurm(number, start=7000.1, end=7070.0, state="TIMEOUT")


def launch_failure(made: MadeFolder) -> None:
    made.slurm(made.job(due=7000.0), start=7000.1, end=7000.1, state="FAILED")


def failure(made: MadeFolder) -> None:
    number = made.job(due=7000.0, runtime=100.0)
    made.record(number, 7000.2, 7020.0, completed=False)
    made.slurm(number, start=7000.1, end=7020.1, state="FAILED")


def node_failure(made: MadeFolder) -> None:
    made.slurm(made.job(due=7000.0, runtime=100.0), start=7000.1, end=7020.1, state="NODE_FAIL")


def stray_cancel(made: MadeFolder) -> None:
    made.slurm(made.job(due=7000.0), start=7000.1, end=7000.1, state="CANCELLED", ran=False)


@pytest.mark.parametrize(
    ("spoil", "kind", "reason"),
    [
        (lost, "lost", "1 job submitted and not in any record"),
        (unsubmitted, "not submitted", "1 job of the plan never submitted"),
        (pending, "not ended", "1 job not ended when the records were collected"),
        (
            false_timeout,
            "false timeout",
            "1 job killed at a time limit above the run time: OVERRUN=extend gives limits slack, or raise SHRINK",
        ),
        (launch_failure, "launch failure", "1 job failed at launch, without a record of sigsleep: see the logs of slurmd"),
        (failure, "failure", "1 job failed after the start, which sigsleep does not do by itself: see the logs of slurmd"),
        (node_failure, "node failure", "1 job ended by a node failure"),
        (stray_cancel, "cancelled", "1 job cancelled, but not by the workload"),
    ],
)
def test_what_must_not_happen(tmp_path: Path, spoil, kind: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    made = good_run(tmp_path)
    spoil(made)
    found = verdict(made.collect())
    assert found["reasons"] == [reason] and found["valid"] is False
    assert {name: count for name, count in found["broken"].items() if count} == {kind: 1}


def test_what_the_workload_asks_for_is_valid(tmp_path: Path) -> None:
    """Under OVERRUN=kill Slurm kills a job that runs longer than its limit; a cancellation of the log is carried out."""
    made = good_run(tmp_path)
    number = made.job(due=7000.0, runtime=90.0, limit_minutes=1)
    made.slurm(number, start=7000.1, end=7070.0, state="TIMEOUT")
    number = made.job(due=7001.0, cancel_after=5.0)
    made.slurm(number, start=7006.1, end=7006.1, state="CANCELLED", ran=False)
    assert reasons(made.collect()) == []


@pytest.mark.parametrize("shrink", [0.3, 1 / 3, 7.0, 33.3, 100.0])
def test_run_time_that_is_the_limit_is_not_below_it(tmp_path: Path, shrink: float) -> None:
    """Under OVERRUN=kill, whatever the last digits of the shrunk run time are."""
    made = MadeFolder(tmp_path, shrink=shrink)
    for job, minutes in enumerate((1, 3, 7)):
        number = made.job(due=1000.0 * job, runtime=60.0 * minutes, limit_minutes=minutes)
        made.slurm(number, start=1000.0 * job + 0.1, end=1000.0 * job + 60.0 * minutes + 20, state="TIMEOUT")
    assert verdict(made.collect())["broken"]["false timeout"] == 0


def test_complaints_of_the_daemons(tmp_path: Path) -> None:
    run = good_run(tmp_path).collect()
    told = {"time-out": 1, "munge": 1, "other error": 50}
    found = verdict(run, FINISHED | {"messages": told})
    assert found["messages"] == told
    assert found["reasons"] == ["slurmctld and slurmd complained 2 times, over 1 (0.05 of the jobs): time-out: 1, munge: 1"]
    assert reasons(run, FINISHED | {"messages": told}, messages_share=0.1) == []

    (tmp_path / "complaints.json").write_text(json.dumps({"head": "h1", "counts": {"h1": {"munge": 9}, "c1": {"munge": 2}}}))
    of_hosts = judge(
        beside(samples(), pl.DataFrame(), {"messages": {"munge": 1}}, complaints=RunFolder(tmp_path).complaints), run, LAYOUT
    )
    assert of_hosts["messages"] == {"munge": 3}


KILLED = {"event": "ended", "real": 3661.5, "daemon": "munged", "kind": "munged", "exit": None, "signal": 9}
KILLED |= {"out_of_memory": False, "words": ""}


def slow_run(folder: Path) -> RunRecord:
    made = MadeFolder(folder, 2.0)
    for job in range(20):
        made.played(made.job(due=50.0 * job, runtime=100.0, lag=20.0), start=50.0 * job + 20.1, launch=0.03)
    return made.collect()


def judged(run: RunRecord, *events: dict[str, Any], **more: list[dict[str, Any]]) -> dict[str, Any]:
    told = {"head": "h", "counts": {}, "events": {"h": list(events), **more}}
    return judge(beside(samples(), pl.DataFrame(), FINISHED, complaints=told), run, LAYOUT)


def test_the_end_of_a_daemon_is_named_before_its_effects(tmp_path: Path) -> None:
    run = slow_run(tmp_path)
    assert any("lower SPEED" in reason for reason in judged(run)["reasons"])
    found = judged(run, KILLED)
    assert found["daemons_ended"] == {"munged": 1}
    assert found["reasons"][0] == (
        "munged ended 1 time (killed by signal 9, by a user or by the kernel, at 01:01:01 UTC): repeat the run"
    )
    assert len(found["reasons"]) > 1 and not any("SPEED" in reason for reason in found["reasons"])


def test_the_causes_of_an_invalid_run(tmp_path: Path) -> None:
    run = slow_run(tmp_path)
    nodes = [KILLED | {"daemon": f"n{number}", "kind": "slurmd"} for number in range(1, 8)]
    controller = KILLED | {"daemon": "slurmctld", "kind": "slurmctld", "signal": None, "exit": 1, "words": "fatal: no"}
    full = {"event": "full", "real": 60.0, "path": "/x/log"}
    found = judged(run, *nodes, controller, full, c1=[KILLED | {"out_of_memory": True}])["reasons"][:4]
    assert found == [
        "no space was left on /x/log on h at 00:01:00 UTC: free some, and repeat the run",
        "munged ended 1 time (killed by the kernel, which had no memory left, at 01:01:01 UTC on c1): "
        "take fewer NODES, or a host with more memory",
        "slurmctld ended 1 time (exit 1: fatal: no, at 01:01:01 UTC on h): repeat the run",
        "slurmd of n1, n2, n3, n4, n5 ... ended 7 times (killed by signal 9, by a user or by the kernel, at 01:01:01 UTC on h): "
        "repeat the run",
    ]


def test_the_end_of_a_daemon_that_disturbed_nothing_is_no_reason(tmp_path: Path) -> None:
    found = judged(good_run(tmp_path).collect(), KILLED)
    assert (found["valid"], found["reasons"], found["daemons_ended"]) == (True, [], {"munged": 1})


def test_nodes_that_did_not_respond(tmp_path: Path) -> None:
    run = good_run(tmp_path).collect()
    found = judge(beside(samples(3), pl.DataFrame(), FINISHED), run, LAYOUT)
    assert found["nodes_not_responding"] == 3
    assert found["reasons"] == ["3 nodes did not respond at some time of the run; allowed: 0"]
    assert judge(beside(samples(3), pl.DataFrame(), FINISHED), run, LAYOUT, Thresholds.of({"nodes_not_responding": 3}))["valid"]
    assert judge(beside(pl.DataFrame(), pl.DataFrame(), FINISHED), run, LAYOUT)["reasons"] == [
        "no sample of the nodes in samples.csv: whether all of them responded is not known"
    ]


def test_replay_that_did_not_finish_or_met_failed_launches(tmp_path: Path) -> None:
    run = good_run(tmp_path).collect()
    assert reasons(run, {"phase": "failed", "message": "no disk"}) == ["the replay has not finished (no disk)"]
    assert reasons(run, {"ended": 1.0, "released": 2}) == [
        "2 launch failures after which Slurm held the job: see the logs of slurmd"
    ]


# ---- bounds ----


@pytest.mark.parametrize(
    ("lags", "names"),
    [
        ([9.8] * 10, []),
        ([10.6] * 10, ["mean submit lag", "submit lag p99"]),
        ([*[0.1] * 9, 15.0], ["submit lag p99"]),
    ],
)
def test_submit_lag_is_measured_by_the_waits(tmp_path: Path, lags: list[float], names: list[str]) -> None:
    """The mean wait is 100 s, and 200 s are the waits' 99th percentile. Half of the jobs are accepted late, which delays none."""
    made = MadeFolder(tmp_path)
    for pair in range(10):
        due = 600.0 * pair
        made.played(made.job(due=due, runtime=199.0, lag=0.01), start=due + 0.02)
        made.played(made.job(due=due + 0.01, runtime=199.0, processors=64, lag=lags[pair]), start=due + 200.0)
    found = verdict(made.collect())
    assert found["submit_lag_mean"] == pytest.approx(sum(lags) / 20, abs=0.01)
    assert found["submit_lag_of_wait"] == pytest.approx(sum(lags) / 20 / 100, rel=0.02)
    assert [reason.split(" is ")[0] for reason in found["reasons"]] == names


@pytest.mark.parametrize(
    ("speed", "cycle", "is_named"),
    [
        (1.0, 11.0, True),
        (1.0, 10.0, False),  # a cycle that was shorter than the lag did not cause it
        (20.0, 11.0, False),  # a lower SPEED is enough
    ],
)
def test_a_late_submission_may_have_waited_for_a_long_cycle(tmp_path: Path, speed: float, cycle: float, is_named: bool) -> None:
    """All jobs start within 1 s, so a lag of 10.6 s is too long."""
    made = MadeFolder(tmp_path, speed)
    for due in range(0, 1000, 50):
        made.played(made.job(due=float(due), lag=10.6), start=due + 10.7)
    found = judge(beside(samples(), diagnostics([cycle * 1e6], [cycle * 1e6]), FINISHED), made.collect(), LAYOUT)["reasons"]
    words = "or lower bf_yield_interval in CONFIG: submissions wait for it, and the longest backfill cycle took 11 trace s"
    of_lag = [reason for reason in found if "submit lag" in reason]
    assert len(of_lag) == 2
    assert all(reason.endswith(words) == is_named for reason in of_lag)


def test_the_remedy_names_speed_where_there_is_one(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path, speed=20.0)
    for job in range(20):
        made.played(made.job(due=50.0 * job, runtime=100.0), start=50.0 * job + 60.0)
    found = reasons(made.collect())
    assert found[-4:] == [
        "start latency p50 is 59.8 trace s, over 4 s (4 s of Slurm's time)",
        "mean start latency is 59.8 trace s, over 4 s (4 s of Slurm's time)",
        "start latency p99 is 59.8 trace s, over 4 s (4 s of Slurm's time)",
        "lower SPEED to 1 or less",
    ]


def test_the_smallest_speed_is_named_once() -> None:
    found = ["a is 3: lower SPEED to 230 or less (busy)", "b: lower SPEED to 32 or less", "c", "d: leave out, or lower SPEED"]
    assert advice.with_one_speed(found) == ["a is 3 (busy)", "b", "c", "d: leave out", "lower SPEED to 32 or less"]
    assert advice.with_one_speed(found[1:3]) == found[1:3]
    assert advice.with_one_speed(["a: lower SPEED", "b: lower SPEED"]) == ["a: lower SPEED", "b: lower SPEED"]
    shrunk = ["a: lower SPEED to 9 or less, or raise SHRINK", "b: lower SPEED to 80 or less, or raise SHRINK"]
    assert advice.with_one_speed(shrunk) == ["a", "b", "lower SPEED to 9 or less, or raise SHRINK"]


def test_launches_are_no_start_latency(tmp_path: Path) -> None:
    """At 500 times a launch of 0.03 s is 15 s, in which Slurm holds the processors: a stretch, not a wait."""
    made = MadeFolder(tmp_path, speed=500.0)
    for job in range(20):
        made.played(made.job(due=5000.0 * job, runtime=2000.0), start=5000.0 * job + 8.0)
    found = verdict(made.collect())
    # From the submission (5.0) to the middle of the second in which Slurm started it.
    assert found["start_latency_p50"] == pytest.approx(3.0, abs=1e-3)
    assert found["launch_latency_p50"] == pytest.approx(15.0, abs=1e-3)
    assert found["runtime_stretch_p50"] == pytest.approx(30.0, abs=1e-3)


def test_the_event_clock_is_the_first_remedy_where_it_can_be(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path, speed=500.0)
    made.hosts = [{"name": "one"}]
    made.played(made.job(due=0.0), start=0.1)
    assert advice.remedy(made.collect(), 3.0) == "take SPEED=event, or lower SPEED to 160 or less"
    (tmp_path / "experiment.json").write_text('{"clock": {"asked": "auto"}}')
    assert advice.remedy(made.collect(), 3.0) == "lower SPEED to 160 or less", "it was chosen because the event clock cannot be"
    (tmp_path / "experiment.json").unlink()
    made.hosts.append({"name": "two"})
    assert advice.remedy(made.collect(), 3.0) == "lower SPEED to 160 or less"
    both = ["a is 3: take SPEED=event, or lower SPEED to 9 or less", "b: take SPEED=event, or lower SPEED to 8 or less"]
    assert advice.with_one_speed(both) == ["a is 3", "b", "take SPEED=event, or lower SPEED to 8 or less"]


@pytest.mark.parametrize(
    ("speed", "shrink", "too_large", "words"),
    [
        (1.0, 100.0, 3.0, "raise SHRINK"),
        (500.0, 100.0, 3.0, "lower SPEED to 160 or less"),
        (500.0, 50.0, 3.0, "lower SPEED to 160 or less, or raise SHRINK"),
        (500.0, 100.0, 600.0, "lower SPEED"),  # to less than 1 it is no help to say
        (500.0, 100.0, 0.0, "lower SPEED"),
    ],
)
def test_remedies(tmp_path: Path, speed: float, shrink: float, too_large: float, words: str) -> None:
    made = MadeFolder(tmp_path, speed, shrink)
    made.played(made.job(due=0.0), start=0.1)
    assert advice.remedy(made.collect(), too_large) == words


def test_lag_of_jobs_that_slurmctld_lost(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    number = made.job(due=7000.0, runtime=100.0)
    made.submitted(number, 900, lag=40.0, event="resubmitted")
    made.record(number, 7040.1, 7140.1, slurm_job_id=900)
    made.slurm(number, start=7040.05, end=7140.2, slurm_id=900, submit=7040.0)
    (reason,) = reasons(made.collect())
    assert reason.startswith("submit lag p99 is 32 trace s, over 10 s (5 % of the waits' p99): slurmctld lost 1 job")


def test_nothing_below_slurms_own_second_is_invalid(tmp_path: Path) -> None:
    """Jobs of 2 s that wait 1 s: 5 % would be a tenth of a second. Nothing is wrong, but nothing is known."""
    made = MadeFolder(tmp_path)
    for job in range(20):
        number = made.job(due=50.0 * job, runtime=2.0, lag=0.9)
        made.played(number, start=50.0 * job + 0.95)
    found = verdict(made.collect())
    assert found["verdict"] == "inconclusive" and found["reasons"] == found["inconclusive"]
    assert found["reasons"][0].startswith("too coarse: this run resolves 1 trace s")


def test_start_latency_is_measured_by_the_wait(tmp_path: Path) -> None:
    """Thirty seconds are too much where nobody waits for longer, and nothing where the mean wait is an hour."""
    made = MadeFolder(tmp_path)
    for job in range(20):
        made.played(made.job(due=200.0 * job, runtime=2000.0), start=200.0 * job + 30.0)
    found = verdict(made.collect())
    assert found["start_latency_p50"] == pytest.approx(30.02, abs=1e-4)
    words = "is 30.02 trace s, over 4 s (4 s of Slurm's time): raise SHRINK"
    assert found["reasons"] == [f"{name} {words}" for name in ("start latency p50", "mean start latency", "start latency p99")]
    # Forty jobs of the whole machine come now, and wait for each other.
    for job in range(40):
        number = made.job(due=4001.0 + job, runtime=100.0, processors=64)
        made.played(number, start=7000.0 + 105.0 * job)
    later = verdict(made.collect())
    assert later["start_latency_p50"] == found["start_latency_p50"]
    assert later["reasons"] == []


def test_stretch(tmp_path: Path) -> None:
    """At 20 times and launches of 0.1 s, Slurm holds the processors for 4 s longer: 2 % of each run time."""
    run = good_run(tmp_path, speed=20.0, launch=0.1).collect()
    found = verdict(run)
    assert found["runtime_stretch_p50"] == pytest.approx(4.0, abs=0.1)
    assert found["stretch_share_p50"] == pytest.approx(0.02, abs=0.001)
    assert found["stretch_share_p99"] == pytest.approx(0.015, abs=0.001), "less a second of Slurm's record"
    assert found["reasons"] == [
        "run-time stretch p50 is 2 % of a job's run time, over 1 %",
        "run-time stretch of all jobs together is 2 % of their processor time, over 1 %",
        "lower SPEED to 10 or less",
    ]
    more = {"stretch_p50_share": 0.05, "stretch_of_load_share": 0.05}
    assert reasons(run, **more) == []
    names = [reason.split(" is ")[0] for reason in reasons(run, **more, stretch_tail_share=0.01)[:2]]
    assert names == ["run-time stretch p1", "run-time stretch p99"]


@pytest.mark.parametrize(
    ("beyond", "configuration", "invalid"),
    [(400.0, "", True), (30.0, "", False), (60.0, "", False), (-60.0, "", True), (400.0, "OverTimeLimit = 6 min\n", False)],
)
def test_jobs_that_are_killed_at_their_limit(tmp_path: Path, beyond: float, configuration: str, invalid: bool) -> None:
    """Every second job has a limit of 600 s. Slurm may take a minute to kill it, and as long as OverTimeLimit says."""
    made = MadeFolder(tmp_path, speed=20.0)
    (tmp_path / "scontrol.txt").write_text(configuration)
    for pair in range(50):
        due = 3000.0 * pair
        number = made.job(due=due, runtime=1800.0, limit_minutes=10)
        made.slurm(number, start=due + 0.4, end=due + 600.4 + beyond, state="TIMEOUT")
        made.played(made.job(due=due + 1.0, runtime=600.0, processors=64), start=due + 1010.0)
    found = verdict(made.collect())
    assert found["stretch_known"] == 1
    assert (found["verdict"] == "invalid") == invalid
    words = [reason.startswith("run-time stretch of") for reason in found["reasons"]]
    assert any(words) == invalid


def test_clock_that_runs_at_another_speed(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path, speed=10.0)
    for job in range(20):
        number, late = made.job(due=50.0 * job, runtime=100.0), job * 1.0
        made.slurm(number, start=50.0 * job + late, end=50.0 * job + late + 101, submit=51.0 * job)
        made.record(number, 50.0 * job + late + 0.3, 50.0 * job + late + 100.3)
    found = verdict(made.collect())
    assert found["clock_speed"] == pytest.approx(10.2, abs=0.02)
    clock, records = found["reasons"]
    assert clock == "Slurm's clock ran 10.2 times as fast as real time, not 10 times (to 1.00%)"
    assert records.endswith("submission: 19 (median 9.4 s)")


def test_speed_of_a_short_run_is_only_as_sure_as_slurms_second(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    for due in (0.0, 1.4):  # Slurm prints 0 and 1, so the speed seems to be 1.4 times slower
        made.played(made.job(due=due), start=due + 0.1)
    assert not any("clock" in reason for reason in reasons(made.collect()))


def test_a_disagreement_that_is_not_about_a_time_is_never_allowed(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    made.record(999, 0.1, 1.0)
    run = made.collect()
    assert reasons(run, disagreements_share=1.0) == [
        "sigsleep's and Slurm's records disagree 1 time, none is allowed: no job of this run: 1"
    ]


def test_one_disagreement_about_a_time_in_a_hundred_jobs_is_allowed(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    number = made.job(due=7000.0, runtime=100.0)
    made.slurm(number, start=7000.1, end=7100.2)
    made.record(number, 7004.2, 7100.2)
    run = made.collect()
    assert reasons(run) == ["sigsleep's and Slurm's records disagree 1 time, over 0.21 (0.01 of the jobs): start: 1 (median 4.7 s)"]
    assert reasons(run, disagreements_share=0.05) == []


def test_interruption_of_the_replay(tmp_path: Path) -> None:
    made = good_run(tmp_path)
    made.events.append({"event": "resumed", "real": made.events[-1]["real"] + 60.0, "gap": 60.0})
    assert reasons(made.collect()) == [
        "the replay's interruption is 60 trace s, over 5.003 s (5 % of the mean wait): repeat the run"
    ]


def clock(host: str, offset: float | None, error: float | None) -> dict[str, Any]:
    return {"host": host, "offset": offset, "error": error, "answers": 0 if offset is None else 20}


def test_clocks_of_several_hosts(tmp_path: Path) -> None:
    """The largest difference from the head's, before or after the run, less what it may be wrong; on Slurm's clock."""
    run = good_run(tmp_path, speed=100.0, launch=0.001, runtime=2000.0).collect()

    def judged(*after: dict[str, Any]) -> dict[str, Any]:
        offsets = {"before": [clock("c1", 0.001, 0.0002), clock("c2", None, None)], "after": list(after)}
        return judge(beside(samples(), pl.DataFrame(), FINISHED, clock_offsets=offsets), run, LAYOUT)

    assert judged()["clock_offset_max"] == pytest.approx(0.08)
    assert judged(clock("c1", 0.0001, 0.5))["clock_offset_max"] == pytest.approx(0.08)
    assert judged(clock("c1", -0.0502, 0.0002))["reasons"] == []
    spoilt = judged(clock("c1", -2.0002, 0.0002))
    assert spoilt["clock_offset_max"] == pytest.approx(200.0)
    assert spoilt["reasons"] == [
        "the difference between the hosts' clocks is 200 trace s, over 100 s (5 % of the median run time): have the hosts keep "
        "time by NTP, or lower SPEED to 50 or less"
    ]
    assert (verdict(run)["clock_offset_max"], verdict(run)["verdict"]) == (None, "valid")
    unknown = {"before": [clock("c2", None, None)], "after": []}
    found = judge(beside(samples(), pl.DataFrame(), FINISHED, clock_offsets=unknown), run, LAYOUT)
    assert found["reasons"] == ["the hosts' clocks could not be compared: have them keep time by NTP, and repeat the run"]


def test_time_without_slurmctld(tmp_path: Path) -> None:
    """Real seconds: virtual time goes on while nothing can start."""
    made = good_run(tmp_path, speed=10.0)
    last = made.events[-1]["real"]
    made.events.append({"event": "closed", "real": last + 1, "partitions": ["batch"]})
    made.events.append({"event": "restarted", "real": last + 1, "since": last, "boot_time": 7})
    made.events.append({"event": "opened", "real": last + 4})
    found = verdict(made.collect())
    assert found["halted"] == pytest.approx(40.0, abs=1e-4)
    assert found["reasons"] == [
        "the time without a slurmctld that starts jobs is 40 trace s, over 5.035 s (5 % of the mean wait): repeat the run"
    ]
    made.events.pop()
    assert verdict(made.collect())["halted"] == pytest.approx(10.0, abs=1e-4)


def test_a_slurmctld_that_did_not_answer_is_named_before_what_follows_from_it(tmp_path: Path) -> None:
    made = good_run(tmp_path, speed=10.0)
    made.submitted(20, 120, lag=20.0, event="resubmitted")
    began = made.events[0]["real"]
    halt = {"event": "halted", "what": "controller", "since": began + 90.0, "real": began + 110.0}
    made.events.append(halt)
    found = verdict(made.collect())
    assert found["halted"] == pytest.approx(200.0, abs=1e-3)
    assert found["reasons"][0] == (
        "slurmctld was halted for 20 s (from 18:29:09 UTC): the time in which no job could start is 200 trace s, over 5.035 s "
        "(5 % of the mean wait): repeat the run"
    )
    assert not any("lower SPEED" in reason for reason in found["reasons"])
    made.events[-1:] = [
        halt | {"what": "replay"},
        halt | {"since": began + 120.0, "real": began + 127.0},
        halt | {"since": began + 130.0, "real": began + 140.0},
    ]
    assert verdict(made.collect())["reasons"][0].startswith(
        "slurmctld was halted for 17 s (2 times, the longest from 18:29:49 UTC) and the replay's host or process was suspended "
        "for 20 s (from 18:29:09 UTC): the time in which no job could start is 370 trace s"
    )


def test_the_replays_own_cancellations_after_a_restart_are_no_reason(tmp_path: Path) -> None:
    """A job ended while slurmctld was dead: only its own record has its end, and its second run was cancelled."""
    made = good_run(tmp_path)
    number = made.job(due=7000.0, runtime=100.0)
    made.record(number, 7000.05, 7100.05)
    made.slurm(number, start=7200.0, end=7200.0, state="CANCELLED", ran=False)
    pairs = {"surplus": [[0, 300]], "stale": [[number - 1, 100 + number]]}
    made.events.append({"event": "removing", "real": made.events[-1]["real"] + 2.0, **pairs})
    run = made.collect()
    assert run.jobs.filter(id=number).select("state", "start").row(0)[0] == "COMPLETED"
    found = verdict(run)
    assert (found["reruns_cancelled"], found["copies_cancelled"], found["broken"]["cancelled"]) == (1, 1, 0)
    made.events.pop()
    assert verdict(made.collect())["broken"]["cancelled"] == 1, "somebody else did it"


def test_saturated_samples(tmp_path: Path) -> None:
    run = good_run(tmp_path).collect()
    busy = pl.DataFrame({"nodes_not_responding": [0.0] * 4, "cpu_busy": [0.1, 0.96, 0.95, None]})
    found = judge(beside(busy, pl.DataFrame(), FINISHED), run, LAYOUT)
    assert (found["host_cpu"], found["host_cpu_saturated"]) == (pytest.approx(0.67), pytest.approx(1 / 3, abs=1e-5))
    assert judge(beside(busy, pl.DataFrame(), FINISHED), run, LAYOUT, Thresholds(host_cpu_full=0.97))["host_cpu_saturated"] == 0


def test_bounds_are_told_in_trace_seconds(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path, speed=500.0, shrink=50.0)
    for job in range(4):
        made.played(made.job(due=10000.0 * job, runtime=5000.0), start=10000.0 * job + 1000.0)
    found = verdict(made.collect())["bounds"]
    wait = 0.05 * 2 * 1000.5  # to the end of the second in which Slurm started them
    of_waits = ("submit_lag_mean", "submit_lag_p99", "start_latency_p50", "backfill_cycle_mean", "interrupted", "halted")
    of_waits += ("start_latency_mean", "start_latency_p99", "dispatch_gap_mean")
    assert found == {
        **dict.fromkeys([*of_waits, "freed_p50", "freed_p99"], pytest.approx(wait, rel=1e-3)), "clock_offset_max": 500.0,
        "stretch_share_p1": 0.25, "stretch_share_p50": 0.01, "stretch_share_p99": 0.25, "launch_cost_share": 0.1,
        "stretch_of_load": 0.01, "dispatch_gap_of_load": 0.01, "launch_cost_error": 100.0, "clipped": 0.01,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("configuration", "seconds"),
    [
        ("", 30.0),
        ("SchedulerParameters     = (null)\n", 30.0),
        ("SchedulerParameters     = batch_sched_delay=0,bf_continue,bf_interval=5,bf_window=10080\n", 5.0),
        ("SchedulerParameters=bf_interval=60\n", 60.0),
        ("SchedulerParameters = bf_yield_interval=7\n", 30.0),
    ],
)
def test_a_cycle_may_take_as_long_as_the_pause_in_force(configuration: str, seconds: float) -> None:
    scheduling = Slurm.records.scheduling(configuration)
    assert Thresholds.in_force({}, scheduling).backfill_cycle_seconds == seconds
    assert Thresholds.in_force({"backfill_cycle_seconds": 7}, scheduling).backfill_cycle_seconds == 7


def test_backfill_cycle_is_of_this_run_and_in_trace_seconds(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path, shrink=50.0)
    for due in (0.0, 50.0):
        made.played(made.job(due=due), start=due + 0.1)
    run = made.collect()

    def cycle(*columns: list[float]) -> float | None:
        found: float | None = judge(beside(samples(), diagnostics(*columns), FINISHED), run, LAYOUT)["backfill_cycle_max"]
        return found

    # The largest value that the first sample found may be of an earlier run.
    assert cycle([1e6, 2e6, 1e6], [50e6, 50e6, 50e6]) == 4.0
    assert cycle([1e6, 2e6, 1e6], [3e6, 3e6, 4e6]) == 8.0
    slow = judge(beside(samples(busy=0.97), diagnostics([31e6], [31e6]), FINISHED), run, LAYOUT)
    assert slow["reasons"] == [
        "mean backfill cycle is 62 trace s, over 60 s (30 s of Slurm's time): "
        "raise SHRINK (the host's processors were busy to 97%, and saturated in 100% of the samples)"
    ]


def test_thresholds_that_do_not_exist_are_wrong_use() -> None:
    with pytest.raises(WrongUse, match=r"'lag' may be one of resolution_share, submit_lag_share"):
        Thresholds.of({"lag": 1})
    for value in (-1, "1", True, float("nan")):
        with pytest.raises(WrongUse, match=r"submit_lag_share: .* may be a number, 0 or more"):
            Thresholds.of({"submit_lag_share": value})


# ---- start latency ----


def test_latency_counts_jobs_that_the_idle_machine_could_start(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    # Of 64 processors: the first two fill the machine, the third and fourth wait, the fifth finds room again.
    for due, start, runtime, processors in (
        (0.0, 1.0, 100.0, 40), (0.5, 2.0, 100.0, 24), (50.0, 101.1, 10.0, 64), (60.0, 111.3, 10.0, 4), (200.0, 203.0, 10.0, 64),
    ):  # fmt: skip
        made.played(made.job(due=due, runtime=runtime, processors=processors, lag=0.0), start=start, launch=0.0)
    assert start_latencies(made.collect(), LAYOUT).to_list() == pytest.approx([1.0, 1.5, 3.0], abs=1e-5)


def test_latency_shows_where_launches_are_slower_than_submissions(tmp_path: Path) -> None:
    """The queue is never empty here, but it is the launches that hold it up."""
    made = MadeFolder(tmp_path)
    for job in range(8):
        made.played(made.job(due=1.0 * job, processors=1, lag=0.0), start=1.0 * job + 20.0, launch=0.0)
    assert start_latencies(made.collect(), LAYOUT).to_list() == pytest.approx([20.0] * 8, abs=1e-5)


def test_latency_counts_whole_nodes_and_suspended_jobs(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    # One processor, but three of the four nodes; then two whole nodes have to wait.
    made.played(made.job(due=0.0, processors=1, nodes=3, runtime=100.0, lag=0.0), start=1.0, launch=0.0)
    made.played(made.job(due=5.0, processors=1, nodes=2, lag=0.0), start=101.5, launch=0.0)
    made.jobcomp = made.jobcomp.replace("NodeCnt=2", "NodeCnt=3", 1)
    # A job of the whole machine that is suspended leaves room.
    number = made.job(due=200.0, processors=64, runtime=50.0, lag=0.0)
    made.record(number, 200.0, 290.0, (210.0, 250.0))
    made.slurm(number, start=200.0, end=290.0)
    made.played(made.job(due=220.0, processors=64, runtime=5.0, lag=0.0), start=222.0, launch=0.0)
    assert start_latencies(made.collect(), LAYOUT).to_list() == pytest.approx([1.0, 0.0, 2.0], abs=1e-5)


def test_latency_is_not_that_of_jobs_that_waited_for_others(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.played(made.job(due=0.0, processors=1, runtime=100.0, lag=0.0), start=1.0, launch=0.0)
    made.played(made.job(due=5.0, processors=1, lag=0.0, dependency="afterany:1"), start=101.0, launch=0.0)
    made.played(made.job(due=6.0, processors=1, lag=0.0, memory=900), start=7.5, launch=0.0)
    assert start_latencies(made.collect(), LAYOUT).to_list() == pytest.approx([1.0, 1.5], abs=1e-5)


def slow_latencies(jobs: list[tuple[float, float, float, int]], processors: int) -> list[float]:
    """The rule once more, looking at every job from every other's submission."""
    found = []
    for index, (submit, start, _, width) in enumerate(jobs):
        waiting = [w for i, (a, s, _, w) in enumerate(jobs) if s > submit and (a < submit or (a == submit and i < index))]
        busy = [w for a, s, e, w in jobs if a <= submit and s <= submit < e]
        if sum(waiting) + sum(busy) + width <= processors:
            found.append(start - submit)
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 20), st.integers(1, 64)), min_size=1, max_size=12))
def test_latencies_agree_with_a_slow_search(drawn: list[tuple[int, int, int, int]]) -> None:
    jobs = [(float(a), float(a + wait), float(a + wait + run), width) for a, wait, run, width in sorted(drawn)]
    columns = {"submit": 0, "start": 1, "end": 2, "processors": 3}
    frame = pl.DataFrame({name: [job[place] for job in jobs] for name, place in columns.items()}).with_row_index("id")
    frame = frame.with_columns(
        pl.col("id").cast(pl.Int64),
        nodes=1,
        state=pl.lit("COMPLETED"),
        eligible="submit",
        submit_lag=0.0,
        partition=pl.lit("batch"),
    )
    run = RunRecord(
        jobs=frame,
        evidence=frame.select(
            "id", whole_nodes=pl.lit(False), dependent=pl.lit(False), memory=pl.lit(None, pl.Int64), limited=pl.lit(False),
            restarts=pl.lit(0), request=pl.lit(""), array=pl.lit(None, pl.Int64), at_once=pl.lit(None, pl.Int64),
            limit=pl.lit(None, pl.Float64),
        ),
        time=None,  # type: ignore[arg-type]
    )  # fmt: skip
    assert start_latencies(run, LAYOUT).to_list() == slow_latencies(jobs, 64)


# ---- files and the module ----


def test_figures_of_files_that_are_missing_empty_or_torn(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    assert run_samples.read_figures(path).is_empty()
    path.write_text("")
    assert run_samples.read_figures(path).is_empty()
    path.write_text("real,nodes_not_responding,cpu_busy\n1.5,0,0.25\n2.5,3,None\n3.5,4,0.")
    assert run_samples.read_figures(path).rows() == [(1.5, 0.0, 0.25), (2.5, 3.0, None)]


def test_shares_of_a_file_that_is_missing_or_torn(tmp_path: Path) -> None:
    path = tmp_path / "shares.csv"
    assert run_samples.read_figures(path, texts=("account",)).is_empty()
    lines = ["1.5,lab1,0.5,0.25,0.125", "1.5,lab2,0.5,1.75,0.5", "1.5,lab2,0.5,0.75,inf", "2.5,lab1,0.5,0.25,x", "2.5,lab1,0.5"]
    path.write_text("virtual,account,share,usage,factor\n" + "\n".join(lines))
    assert run_samples.read_figures(path, texts=("account",)).rows() == [(1.5, "lab1", 0.5, 0.25, 0.125)]


def test_nothing_is_made_of_a_row_that_a_full_disk_has_torn(tmp_path: Path) -> None:
    """Wherever it is torn, it and the row after it in its line are left out; so are rows with numbers that cannot be."""
    path, heading = tmp_path / "samples.csv", "real,virtual,nodes_not_responding,cpu_busy\n"
    rows = [f"17960000{number}.5,20000000{number}.5,0,0.25" for number in range(10, 15)]
    whole = [(float(f"17960000{number}.5"), float(f"20000000{number}.5"), 0.0, 0.25) for number in range(10, 15)]
    for cut in range(1, len(rows[2]) + 1):
        path.write_text(heading + "\n".join([*rows[:2], rows[2][:cut] + rows[3], rows[4]]) + "\n")
        assert run_samples.read_figures(path).rows() == [*whole[:2], whole[4]], cut
    for wrong in ("inf", "nan", "-1", "1e400", "x", "9" * 25):
        path.write_text(heading + f"{rows[0]}\n1796000011.5,2000000011.5,{wrong},0.25\n")
        assert run_samples.read_figures(path).rows() == whole[:1], wrong
    path.write_text("real,real\n1,2\n")
    with pytest.raises(WrongUse, match=r"samples\.csv line 1: names a column twice"):
        run_samples.read_figures(path)


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} & {"jobs.csv", "suspensions.csv", "schedule.swf", "metrics.json"}


def test_module_joins_the_records_of_several_hosts(call: Caller, tmp_path: Path) -> None:
    """A record that is torn at the end of one host's hides none of the next one's."""
    good_run(tmp_path).write()
    arguments = {"run_dir": str(tmp_path), "processors": 64, "nodes": 4}
    whole = call("run_collection", **arguments)["metrics"]
    data = (tmp_path / "sigsleep.log").read_bytes()
    records = [data[begin:end] for begin, end in itertools.pairwise([*(found.offset for found in scan(data)), len(data)])]
    parts = [b"".join(records[:7]), b"".join(records[7:12]) + records[12][:50], b"".join(records[12:])]
    for host, part in zip(("c1", "c2", "c3"), parts, strict=True):
        (tmp_path / "sigsleep.log").write_bytes(part)
        archive.write(tmp_path / f".records/{host}.tar.gz", [(tmp_path, "sigsleep.log")], {})
    (tmp_path / "sigsleep.log").unlink()
    assert call("run_collection", check=True, **arguments)["metrics"]["validity"]["valid"] is False, "check mode joins nothing"
    joined = call("run_collection", **arguments)["metrics"]
    assert (tmp_path / "sigsleep.log").read_bytes() == b"".join(parts)
    assert not (tmp_path / ".records").exists()
    # Sums over jobs are not always taken in the same order, which shows in the last digit.
    assert joined["metrics"] == pytest.approx(whole["metrics"], rel=1e-12)
    assert joined["validity"]["disagreements"] == 1, "the torn record"


def test_module_writes_only_what_differs_and_nothing_in_check_mode(call: Caller, tmp_path: Path) -> None:
    good_run(tmp_path).write()
    (tmp_path / "samples.csv").write_text("real,nodes_not_responding,cpu_busy\n1.5,0,0.25\n")
    (tmp_path / "result.json").write_text(json.dumps(FINISHED))
    (tmp_path / "scontrol.txt").write_text("SchedulerParameters     = bf_continue,bf_interval=5\n")
    (tmp_path / "sdiag.csv").write_text("bf_last_cycle_us,bf_max_cycle_us,bf_queue_length\n1000,1000,1\n")
    arguments = {"run_dir": str(tmp_path), "processors": 64, "nodes": 4, "thresholds": {"submit_lag_share": 0.1}}
    assert call("run_collection", check=True, **arguments)["changed"] is True
    assert written(tmp_path) == set()
    first = call("run_collection", **arguments)
    assert first["changed"] is True and first["disagreements"] == {}
    assert written(tmp_path) == {"jobs.csv", "suspensions.csv", "schedule.swf", "metrics.json"}
    kept = json.loads((tmp_path / "metrics.json").read_text())
    assert kept == first["metrics"]
    assert kept["jobs"]["submitted"] == kept["jobs"]["completed"] == 20
    assert kept["validity"].keys() == {*MEMBERS, "thresholds", "uncertain_metrics"} and kept["validity"]["valid"] is True
    assert kept["validity"]["bounds"]["backfill_cycle_mean"] == pytest.approx(0.05 * kept["metrics"]["wait_mean"], abs=1e-6)
    assert kept["metrics"]["wait_mean"] == pytest.approx(100.0, abs=0.5)
    assert kept["settings"]["immediate_below"] == 60.0 and kept["metrics"]["immediate_fraction"] == 0.5
    assert call("run_collection", **arguments)["changed"] is False


def test_module_cuts_the_schedule_before_it_is_measured(call: Caller, tmp_path: Path) -> None:
    good_run(tmp_path).write()
    arguments = {"run_dir": str(tmp_path), "processors": 64, "nodes": 4}
    whole = call("run_collection", **arguments)["metrics"]
    assert whole["settings"]["window"] is not None and whole["settings"]["warmup_cut"] == 0
    cut = call("run_collection", **arguments | {"warmup_cut": "20%", "cooldown_cut": "10"})["metrics"]
    assert cut["settings"]["cooldown_cut"] == 10
    assert cut["metrics"]["makespan"] == pytest.approx(0.8 * whole["metrics"]["makespan"] - 10)
    assert cut["validity"]["inconclusive"] == whole["validity"]["inconclusive"]
    # Cuts that leave nothing do not lose the run.
    nothing = call("run_collection", **arguments | {"warmup_cut": "1000000"})["metrics"]
    assert nothing["metrics"] == whole["metrics"]
    assert nothing["validity"]["verdict"] != "valid"
    assert "leave nothing of the schedule's" in nothing["validity"]["inconclusive"][-1]
    assert nothing["validity"]["inconclusive"][-1].endswith("the whole schedule is measured")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"thresholds": {"lag": 1}}, "wrong use: thresholds: 'lag' may be one of resolution_share"),
        ({"run_dir": "/nonexistent"}, "wrong use: RUN: /nonexistent/workload.csv: cannot be read"),
    ],
)
def test_module_answers_wrong_use_in_a_line(call: Caller, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    good_run(tmp_path).write()
    answer = call("run_collection", **{"run_dir": str(tmp_path), "processors": 64, "nodes": 4} | change)
    assert answer["failed"] and answer["msg"].startswith(message)
    assert written(tmp_path) == set()
