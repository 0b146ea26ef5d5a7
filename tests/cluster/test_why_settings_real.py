"""The changes that `make why` proposes, on a real cluster: each moves the jobs for which it is proposed, and but for `bf_interval`
none that another limit or setting holds. Without `bf_continue` and `bf_max_time`, which hold jobs of large queues only.

Needs root and an instance of tests/cluster/why.conf (test_why_real.py), and is skipped otherwise. Each part of a workload has a job
that one limit, or one setting of the backfill scheduler, keeps from starting at once.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest
from test_why_real import CONFIGURATION, ROOT, STEP, WHOLE, Workload, cluster, experiment, results

from mirage.experiment import wait_trials
from mirage.records.run_folder import RunFolder
from mirage.verdict.wait_settings import Trial, trials

__all__ = ["cluster", "results"]
pytestmark = pytest.mark.cluster

RUNS, PART = 600, 2400
"""Seconds that the jobs before run, and between the beginnings of two parts."""
ONE = "--nodes=1 --ntasks=1 --cpus-per-task=1"
OF_ACCOUNTS = {"GrpJobs": "1", "GrpTRES": "cpu=1", "GrpTRESRunMins": "cpu=125", "GrpWall": "5", "GrpTRESMins": "cpu=5"}
OF_QOS = {"MaxJobsPerUser": "1", "MaxJobsPerAccount": "1", "MaxTRESPerUser": "cpu=1", "MaxTRESPerAccount": "cpu=1", **OF_ACCOUNTS}
LIMITS = {"user": {"MaxJobs": "1", **OF_ACCOUNTS}, "account": OF_ACCOUNTS, "qos": OF_QOS}
"""Limits that allow one job of a processor and two hours, or none after one that ran ten minutes."""
OF_USE = ("GrpWall", "GrpTRESMins")


def name_of(kind: str, name: str, option: str, value: str) -> str:
    """The name of the trial that lifts a limit."""
    return "-".join([kind, name, option, *value.split("=")[:-1]])


@pytest.fixture
def config() -> Iterator[Callable[[Mapping[str, Any]], str]]:
    """Makes a configuration of the scheduler with these settings; its name."""
    made: list[Path] = []

    def make(settings: Mapping[str, Any]) -> str:
        path = ROOT / f"configs/why-settings-{os.getpid()}-{len(made)}.yml"
        path.write_text(json.dumps({"settings": dict(settings)}))
        made.append(path)
        return path.stem

    yield make
    for path in made:
        path.unlink()


def starts(folder: Path) -> dict[int, float]:
    """When each job started, since the first submission."""
    jobs = pl.read_csv(folder / "jobs.csv")
    return dict(jobs.select("id", pl.col("start") - pl.col("submit").min()).iter_rows())


def limits() -> tuple[Workload, dict[str, int]]:
    """The workload, and by the name of the trial the job that it is to move. Those of the QOS follow one another."""
    made, held, number = Workload(), {}, 0
    for kind, options in LIMITS.items():
        for option, value in options.items():
            number += 1
            name = "normal" if kind == "qos" else f"u{number}"
            held[name_of(kind, name, option, value)] = _limited(made, number, f"{kind} {name}", option, value)
            if kind == "qos":
                made.at += PART
        if kind == "account":
            # The limit of an account holds for each user without one.
            number += 1
            made.event(0, f"set,user u{number},MaxJobs=-1")
            held[name_of("user", f"u{number}", "MaxJobs", "1")] = _limited(made, number, f"account u{number}", "MaxJobs", "1")
            made.at += PART
    return made, held


def _limited(made: Workload, number: int, target: str, option: str, value: str) -> int:
    """Two jobs of a user, of which a limit holds the second one; its number."""
    before, after = (900, 1000) if option in OF_USE else (0, 60)
    made.event(before, f"set,{target},{option}={value}")
    made.event(2000, f"set,{target},{option}={'='.join([*value.split('=')[:-1], '-1'])}")
    # The users of a log are numbered in the order of their names.
    made.job(30, RUNS, ONE, user=number + 9)
    return made.job(after, 60, ONE, user=number + 9)


def _moved(before: Path, after: Path, jobs: Iterable[int]) -> float:
    """Seconds by which jobs started earlier on average."""
    one, two = starts(before), starts(after)
    return fmean(one[job] - two[job] for job in jobs)


def _events_with(folder: Path, trial: Trial) -> list[str]:
    """The lines of the file of events with which the command tries a setting."""
    wait_trials.command(RunFolder(folder), trial)
    return (folder / f"why-{trial.name}.csv").read_text().splitlines()[1:]


def test_each_limit_that_is_lifted_moves_its_job(
    cluster: str, config: Callable[[Mapping[str, Any]], str], results: Path, tmp_path: Path
) -> None:
    made, held = limits()
    log, events = made.write(tmp_path)
    # Use hardly decays, and is noted each minute: the use of an account is what its jobs used.
    settings = {"PriorityType": "priority/multifactor", "PriorityDecayHalfLife": "1000-0", "PriorityCalcPeriod": 1}
    machine = {"CLUSTER": cluster, "SLURM_CONF": CONFIGURATION, "ACCOUNTING": "yes", "CONFIG": config(settings), "TRACE": log}
    experiment(results, **machine, EVENTS=events)
    found = {trial.name: trial for trial in trials(RunFolder(results)) if trial.event}
    assert sorted(found) == sorted(held)
    for place in (0, 1):
        lifted = sorted(held)[place::2]
        kept = set.intersection(*(set(_events_with(results, found[name])) for name in lifted))
        lines = ["instant,action,target,argument", *kept, *(found[name].event for name in lifted)]
        events.write_text("\n".join(lines) + "\n")
        other = results.with_name(f"{results.name}-{place}")
        experiment(other, **machine, EVENTS=events)
        for name, job in held.items():
            moved = _moved(results, other, [job])
            assert moved > RUNS / 2 if name in lifted else abs(moved) < STEP, (name, moved)
        shutil.rmtree(other)
    shutil.rmtree(results)


# ---- the backfill scheduler ----

FIRST, WIDE = 1200, 120
"""Seconds that the first job of a part runs, and the jobs that need all nodes."""
DEPTHS = {
    "bf_interval": 30, "bf_max_job_test": 6, "bf_max_job_part": 4, "bf_max_job_user": 3, "bf_max_job_user_part": 2,
    "bf_max_job_start": 1, "bf_window": 60, "bf_node_space_size": 100, "bf_continue": True,
}  # fmt: skip
CYCLES = {
    "bf_interval": 300, "bf_max_job_assoc": 3, "bf_node_space_size": 6, "bf_continue": True, "sched_min_interval": 2000000000,
}  # fmt: skip


def _behind(made: Workload, wide: Iterable[tuple[int, str]], last: tuple[int, str], first: int = FIRST) -> list[int]:
    """The job behind wide ones, each with its user and partition: it fits on the node that the first job left, and would end before
    these can start."""
    made.job(0, first, "--nodes=7 --ntasks=7 --cpus-per-task=4", user=20, limit=first // 60 + 1)
    for place, (user, partition) in enumerate(wide):
        made.job(60 + place, WIDE, user=user, partition=partition, limit=3)
    user, partition = last
    job = made.job(70, 60, WHOLE, user=user, partition=partition, limit=2)
    made.at += 2 * first + 1200
    return [job]


def depths() -> tuple[Workload, dict[str, list[int]]]:
    """The workload for DEPTHS, and by setting the jobs that it holds."""
    made, batch, side = Workload(), "batch", "side"
    held = {
        "bf_max_job_test": _behind(made, [(10, batch), (11, batch), (12, batch), (13, side), (14, side), (15, side)], (16, side)),
        "bf_max_job_part": _behind(made, [(10, batch), (11, batch), (12, batch), (13, batch)], (14, batch)),
        "bf_max_job_user": _behind(made, [(10, batch), (10, batch), (10, side)], (10, side)),
        "bf_max_job_user_part": _behind(made, [(10, batch), (10, batch)], (10, batch)),
    }
    made.job(0, FIRST, WHOLE, user=20, limit=21)
    made.job(60, WIDE, user=21, limit=3)
    held["bf_max_job_start"] = [made.job(70 + place, 600, WHOLE, user=10 + place, limit=11) for place in range(7)][-2:]
    made.at += 3600
    # Nothing is reserved for the wide job, which could start in 100 minutes at the latest: the third one starts before it.
    made.job(0, 1800, "--nodes=4 --ntasks=4 --cpus-per-task=4", user=10, limit=100)
    held["bf_window"] = [made.job(60, WIDE, user=11, limit=3)]
    made.job(70, 3600, "--nodes=4 --ntasks=4 --cpus-per-task=4", user=12, limit=100)
    return made, held


def cycles() -> tuple[Workload, dict[str, list[int]]]:
    """The same for CYCLES."""
    made, batch = Workload(), "batch"
    held = {
        "bf_max_job_assoc": _behind(made, [(10, batch)] * 3, (10, batch), 3600),
        "bf_node_space_size": _behind(made, [(user, batch) for user in range(10, 16)], (16, batch), 3600),
        "bf_interval": [made.job(550 * number, 60, WHOLE) for number in range(6)],
    }
    return made, held


@pytest.mark.parametrize(
    ("parameters", "workload", "groups", "least"),
    [
        (
            DEPTHS,
            depths,
            [["bf_max_job_test", "bf_max_job_user", "bf_max_job_start"], ["bf_max_job_part", "bf_max_job_user_part", "bf_window"]],
            60,
        ),
        (CYCLES, cycles, [["bf_interval"], ["bf_max_job_assoc", "bf_node_space_size"]], 30),
    ],
)
def test_each_setting_moves_its_jobs(
    cluster: str,
    config: Callable[[Mapping[str, Any]], str],
    results: Path,
    tmp_path: Path,
    parameters: Mapping[str, Any],
    workload: Callable[[], tuple[Workload, dict[str, list[int]]]],
    groups: Sequence[Sequence[str]],
    least: float,
) -> None:
    made, held = workload()
    log, _ = made.write(tmp_path)
    machine = {"CLUSTER": cluster, "SLURM_CONF": CONFIGURATION, "ACCOUNTING": "yes", "TRACE": log}
    # Where the scheduler is to look at the queue seldom, jobs start late.
    endings = ["invalid: start latency"] if "sched_min_interval" in parameters else []
    experiment(results, *endings, **machine, CONFIG=config({"SchedulerParameters": parameters}))
    found = {trial.name: trial.parameters for trial in trials(RunFolder(results))}
    assert sorted(found) == sorted(held) == sorted(name for group in groups for name in group)
    for place, group in enumerate(groups):
        changed = {name: value for one in group for name, value in found[one].items()}
        other = results.with_name(f"{results.name}-{place}")
        experiment(other, *endings, **machine, CONFIG=config({"SchedulerParameters": {**parameters, **changed}}))
        for name, jobs in held.items():
            moved = _moved(results, other, jobs)
            # Another length of the cycle moves all jobs that it starts.
            same = "bf_interval" in group or abs(moved) <= parameters["bf_interval"] + 2
            assert moved > least if name in group else same, (name, moved)
        shutil.rmtree(other)
    shutil.rmtree(results)
