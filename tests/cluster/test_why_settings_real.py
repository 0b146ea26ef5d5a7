"""The changes that `make why` proposes, on a real cluster: each one moves the job for which it is proposed, and no other one.

Needs root and an instance of tests/cluster/why.conf (test_why_real.py), and is skipped otherwise. Each part of a workload has a job
that one limit, or one setting of the backfill scheduler, keeps from starting at once.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_why_real import CONFIGURATION, ROOT, STEP, Workload, cluster, experiment, results

from mirage.experiment import wait_trials
from mirage.records.run_folder import RunFolder
from mirage.verdict.wait_settings import trials

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
    before = starts(results)
    assert sorted(found) == sorted(held)
    for place in (0, 1):
        lifted = sorted(held)[place::2]
        lines = [set(_events_with(results, found[name])) for name in lifted]
        other = results.with_name(f"{results.name}-{place}")
        events.write_text(
            "\n".join(["instant,action,target,argument", *set.intersection(*lines), *(found[name].event for name in lifted)]) + "\n"
        )
        experiment(other, **machine, EVENTS=events)
        after = starts(other)
        for name, job in held.items():
            moved = before[job] - after[job]
            assert moved > RUNS / 2 if name in lifted else abs(moved) < STEP, (name, before[job], after[job])
        shutil.rmtree(other)
    shutil.rmtree(results)


def _events_with(folder: Path, trial: Any) -> list[str]:
    """The lines of the file of events with which the command tries a setting."""
    wait_trials.command(RunFolder(folder), trial)
    return (folder / f"why-{trial.name}.csv").read_text().splitlines()[1:]
