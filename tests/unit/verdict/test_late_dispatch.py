"""Late starts of waiting jobs, nodes that take no jobs, long cycles, and requeued jobs: each changes the verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_folders import MadeFolder

from mirage.metrics.availability import OF_NO_EVENT
from mirage.records.run_folder import RunFolder
from mirage.records.run_samples import lacking_nodes, mean_cycle
from mirage.verdict import run_results
from mirage.verdict.dispatch_gaps import dispatch_gaps
from slurm_mirage.rm.evidence import Layout, Node, Scheduling

CONFIGURATION = "SchedulerType={scheduler}\nSchedulerParameters=bf_interval=30,batch_sched_delay=0\nPriorityType={priority}\n"


def members(
    made: MadeFolder,
    scheduler: str = "sched/builtin",
    priority: str = "priority/basic",
    enforce: str = "",
    samples: Sequence[dict[str, float]] = ({"nodes_not_responding": 0.0, "cpu_busy": 0.3},) * 3,
    cycles: pl.DataFrame | None = None,
) -> dict[str, Any]:
    """metrics.json of a run on 4 nodes of 4 processors."""
    folder = made.write()
    (folder / "scontrol.txt").write_text(CONFIGURATION.format(scheduler=scheduler, priority=priority))
    if enforce:
        machine = "NodeName=n[1-4] CPUs=4\nPartitionName=batch Nodes=ALL\n"
        (folder / "slurm.conf").write_text(f"{machine}AccountingStorageEnforce={enforce}\n")
    (folder / "result.json").write_text(json.dumps({"ended": 1.0, "released": 0, "messages": {}}))
    pl.DataFrame(samples).write_csv(folder / "samples.csv")
    cycles = pl.DataFrame({"bf_last_cycle_us": [1000], "bf_max_cycle_us": [1000]}) if cycles is None else cycles
    cycles.write_csv(folder / "sdiag.csv")
    return run_results.results(RunFolder(folder), 16, 4, 10.0, {}).metrics


def queue(folder: Path, late: Sequence[float]) -> MadeFolder:
    """A job of the whole machine after the other, each of 100 s, and started so many seconds after the end of the one before it. No
    other job comes while processors are idle."""
    made, last = MadeFolder(folder), 0.0
    for number, seconds in enumerate(late):
        due = 5.0 * number
        start = max(due + 0.02, last + seconds)
        made.played(made.job(due=due, runtime=100.0, processors=16, limit_minutes=600), start=start, launch=0.0)
        last = start + 100
    return made


@pytest.mark.parametrize("scheduler", ["sched/builtin", "sched/backfill"])
def test_a_machine_that_is_always_full_shows_by_its_waiting_jobs_that_it_is_in_time(tmp_path: Path, scheduler: str) -> None:
    found = members(queue(tmp_path, [0.0] * 60), scheduler)
    assert found["validity"]["start_latency_jobs"] == 1 and found["validity"]["dispatch_gap_jobs"] == 59
    assert found["validity"]["verdict"] == "valid", found["validity"]["reasons"]
    assert found["validity"]["dispatch_gap_of_load"] == 0 and found["errors"]["wait_mean"]["emulation"] < 5


@pytest.mark.parametrize(("aside", "is_late"), [(0, True), (1, False)])
def test_no_job_is_late_that_had_to_wait_for_processors_which_jobs_cannot_have(tmp_path: Path, aside: int, is_late: bool) -> None:
    made = MadeFolder(tmp_path)
    made.played(made.job(due=0.0, runtime=100.0, processors=6), start=0.02, launch=0.0)
    made.played(made.job(due=5.0, runtime=100.0, processors=7), start=100.02, launch=0.0)
    layout = Layout({f"n{number}": Node(4, set_aside=aside) for number in range(1, 5)})
    gaps = dispatch_gaps(made.collect(), layout, Scheduling(by_submission=True), 0.0)["gap"]
    assert (gaps[-1] > 90) is is_late


@pytest.mark.parametrize("scheduler", ["sched/builtin", "sched/backfill"])
@pytest.mark.parametrize(("share", "seconds"), [(1.0, 20.0), (0.45, 60.0), (0.45, 200.0)])
def test_waiting_jobs_that_start_late_make_a_run_invalid_and_the_error_has_it(
    tmp_path: Path, scheduler: str, share: float, seconds: float
) -> None:
    """Also where less than half of them do, so that a median shows nothing, and where the scheduler backfills."""
    late = np.where(np.random.default_rng(1).random(60) < share, seconds, 0.0)
    folders = tmp_path / "late", tmp_path / "true"
    for folder in folders:
        folder.mkdir()
    found, true = (members(queue(folder, some), scheduler) for folder, some in zip(folders, (late, [0.0] * 60), strict=True))
    assert found["validity"]["verdict"] == "invalid"
    assert found["validity"]["dispatch_gap_of_load"] == pytest.approx(late[1:].sum() / 6000, rel=0.1)
    assert any(reason.startswith("the time for which free processors") for reason in found["validity"]["reasons"])
    for name in ("wait_mean", "wait_p95", "utilisation", "makespan"):
        error = abs(found["metrics"][name] - true["metrics"][name])
        assert error < found["errors"][name]["emulation"] < 3 * error, name
    assert "wait_mean" in found["validity"]["uncertain_metrics"]
    assert "emulation may have changed main metrics by more than 5 %" in found["validity"]["inconclusive"][-1]


def test_the_time_until_a_job_could_start_is_not_known_where_priorities_decide(tmp_path: Path) -> None:
    found = members(queue(tmp_path, [0.0] * 60), priority="priority/multifactor")["validity"]
    assert (found["dispatch_gap_jobs"], found["dispatch_gap_mean"], found["verdict"]) == (0, None, "inconclusive")


@pytest.mark.parametrize(("enforce", "known"), [("", 59), ("associations", 59), ("limits", 0)])
def test_accounts_matter_to_when_a_job_could_start_only_where_their_limits_hold(tmp_path: Path, enforce: str, known: int) -> None:
    made = queue(tmp_path, [0.0] * 60)
    made.plan = [replace(row, account="physics") for row in made.plan]
    assert members(made, enforce=enforce)["validity"]["dispatch_gap_jobs"] == known


def test_a_main_metric_that_the_emulation_may_have_changed_too_much_makes_a_run_inconclusive(tmp_path: Path) -> None:
    late = [float(number % 10 == 0) * 8 for number in range(60)]
    assert members(queue(tmp_path, late))["validity"]["verdict"] == "valid"
    found = run_results.results(RunFolder(tmp_path), 16, 4, 10.0, {"error_share": 0.005}).metrics
    share = found["errors"]["wait_mean"]["emulation"] / found["metrics"]["wait_mean"]
    assert 0.005 < share < 0.05 and found["validity"]["verdict"] == "inconclusive"
    [reason] = found["validity"]["reasons"]
    assert reason.startswith("the emulation may have changed main metrics by more than 0.5 % (wait_mean by ")
    assert reason.endswith("): take more JOBS")
    assert f"{100 * share:.2g} % of it; at most 0.5 % is conclusive" in found["validity"]["uncertain_metrics"]["wait_mean"]
    assert (
        "wait_mean"
        not in run_results.results(RunFolder(tmp_path), 16, 4, 10.0, {"error_share": 0.05}).metrics["validity"]["uncertain_metrics"]
    )


# ---- nodes ----


def good(folder: Path, requeued: int = 0, stretch: float = 1.0) -> MadeFolder:
    """Pairs of jobs: one that need not wait, and one that waits for it; of some of these Slurm ended a first execution."""
    made = MadeFolder(folder)
    for pair in range(30):
        due = 1200.0 * pair
        made.played(made.job(due=due, runtime=400.0), start=due + 0.02, launch=0.0)
        number, start = made.job(due=due + 1.0, runtime=400.0, processors=16), due + 400.5
        if pair >= requeued:
            made.played(number, start=start, launch=0.0)
            continue
        made.slurm(number, start, start + 10.0, state="REQUEUED")
        made.record(number, start + 10.5, start + 10.5 + 400.0 * stretch, restart=1)
        made.slurm(number, start + 10.5, start + 10.5 + 400.0 * stretch)
    return made


@pytest.mark.parametrize(
    ("kind", "words"),
    [("drained", "drained"), ("down", "down"), ("reserved", "reserved, failing or otherwise out of service")],
)
def test_nodes_that_took_no_jobs_make_a_run_invalid_and_are_named(tmp_path: Path, kind: str, words: str) -> None:
    sample = {"nodes_not_responding": 0.0, "nodes_drained": 0.0, "nodes_down": 0.0, "nodes_reserved": 0.0, "cpu_busy": 0.3}
    measured = members(good(tmp_path), samples=[sample, sample | {f"nodes_{kind}": 2.0}])
    found = measured["validity"]
    for name in ("absent_fraction", "utilisation_available", "loss_of_capacity_available"):
        assert measured["metrics"][name] is None and measured["null_reasons"][name] == OF_NO_EVENT
    assert measured["metrics"]["utilisation"] is not None
    assert found["verdict"] == "invalid" and found["nodes_lacking"] == 0.25
    assert found["reasons"] == [f"2 of 4 nodes were {words}: the machine lacked 25 % of its node time, over 1 %"]


def test_a_sample_of_nodes_stands_for_the_time_around_it() -> None:
    samples = pl.DataFrame({"virtual": [0.0, 10.0, 20.0, 100.0], "nodes_drained": [0.0, 30.0, 0.0, 0.0], "nodes_down": [0.0] * 4})
    assert lacking_nodes(samples, 60) == (pytest.approx(0.05), {"drained": 30})
    silent = pl.DataFrame({"nodes_down": [2.0], "nodes_not_responding": [3.0]})
    assert lacking_nodes(silent, 10) == (pytest.approx(0.3), {"down": 2, "not_responding": 3})
    assert lacking_nodes(pl.DataFrame(), 10) == lacking_nodes(pl.DataFrame({"cpu_busy": [0.5]}), 10) == (None, {})


def test_a_node_that_slurmctld_took_out_of_service_makes_a_run_invalid(tmp_path: Path) -> None:
    folder = good(tmp_path)
    members(folder)
    told = {"ended": 1.0, "released": 0, "messages": {"node down": 2}}
    (tmp_path / "result.json").write_text(json.dumps(told))
    found = run_results.results(RunFolder(tmp_path), 16, 4, 10.0, {}).metrics["validity"]
    assert found["reasons"] == ["slurmctld set nodes down 2 times: see its log"]


# ---- executions, cycles ----


@pytest.mark.parametrize(("stretch", "verdict"), [(1.0, "valid"), (1.5, "invalid")])
def test_the_last_execution_of_a_requeued_job_counts_for_the_stretch(tmp_path: Path, stretch: float, verdict: str) -> None:
    found = members(good(tmp_path, requeued=30, stretch=stretch))["validity"]
    assert (found["requeued"], found["stretch_known"]) == (30, 1.0)
    assert (found["stretch_of_load"] > 0.3) == (stretch > 1)
    assert found["verdict"] == verdict, found["reasons"]


def test_a_single_long_cycle_is_shown_and_long_ones_are_a_reason(tmp_path: Path) -> None:
    """The mean wait is 200 s."""
    once = pl.DataFrame({"bf_last_cycle_us": [1000] * 99 + [21_000_000], "bf_max_cycle_us": [1000] * 99 + [21_000_000]})
    found = members(good(tmp_path), "sched/backfill", cycles=once)["validity"]
    assert (found["verdict"], found["backfill_cycle_max"]) == ("valid", 21.0)
    assert found["backfill_cycle_mean"] == pytest.approx(0.21, abs=0.001)
    always = pl.DataFrame({"bf_last_cycle_us": [40_000_000], "bf_max_cycle_us": [40_000_000]})
    assert members(good(tmp_path), "sched/backfill", cycles=always)["validity"]["verdict"] == "invalid"


def test_a_cycle_counts_as_much_as_jobs_wait_for_it() -> None:
    cycles = pl.DataFrame({"backfill_last_cycle_us": [1e6, 9e6], "backfill_queue_length": [90.0, 10.0]})
    assert mean_cycle(cycles) == pytest.approx(1.8)
    assert mean_cycle(cycles.drop("backfill_queue_length")) == mean_cycle(cycles.with_columns(backfill_queue_length=0.0)) == 5.0
    assert mean_cycle(pl.DataFrame()) is None
