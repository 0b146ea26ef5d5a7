"""What a launch costs: found from records of whole seconds."""

from __future__ import annotations

import json
import math
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import Clock
from slurm_mirage.replay import launch_cost
from slurm_mirage.replay.launch_cost import (
    CUT,
    NARROW_JOBS,
    REAL_TIME,
    WIDE_JOBS,
    LaunchCost,
    Probe,
    Width,
    measure,
    of_jobs,
    run_times,
)
from slurm_mirage.rm.api import Submission
from slurm_mirage.rm.slurm.commands import Slurm
from slurm_mirage.rm.slurm.records import CompletionLog

JOBS = NARROW_JOBS


def held_by(chance: random.Random, runs: list[float], cost: float, speed: float) -> list[float]:
    """Whole seconds for which the manager held the processors of jobs that start at any time."""
    starts = [chance.uniform(0, 1000) for _ in runs]
    return [math.floor(start + run + cost * speed) - math.floor(start) for start, run in zip(starts, runs, strict=True)]


@given(st.floats(0.001, 0.2), st.floats(2, 5000), st.integers(0, 2**32))
def test_the_cost_is_found_to_a_fraction_of_a_second_of_slurms(cost: float, speed: float, seed: int) -> None:
    runs = run_times(speed, JOBS)
    held = held_by(random.Random(seed), runs, cost, speed)
    assert abs(of_jobs(1, held, runs, speed).seconds - cost) * speed < 0.6


@pytest.mark.parametrize(("jobs", "speed"), [(NARROW_JOBS, 20.0), (NARROW_JOBS, 500.0), (WIDE_JOBS, 100.0)])
def test_the_standard_error_is_that_of_repeated_measurements(jobs: int, speed: float) -> None:
    """Launches of about 30 ms, one in ten of them much slower: Student's t times the error covers their mean in 95 % of cases."""
    chance, runs = random.Random(1), run_times(speed, jobs)
    found = []
    for _ in range(1000):
        costs = [chance.gauss(0.03, 0.003) + (chance.expovariate(20) if chance.random() < 0.1 else 0.0) for _ in runs]
        held = [held_by(chance, [run], cost, speed)[0] for run, cost in zip(runs, costs, strict=True)]
        found.append(of_jobs(1, held, runs, speed))
    spread = statistics.stdev(width.seconds for width in found)
    errors = [width.error or 0.0 for width in found]
    assert 0.8 * spread < statistics.fmean(errors) < 1.6 * spread
    middle = statistics.fmean(width.seconds for width in found)
    covered = statistics.fmean(abs(width.seconds - middle) <= 2.2 * error for width, error in zip(found, errors, strict=True))
    assert covered >= 0.93


@given(st.floats(2, 5000), st.lists(st.floats(0, 1e6), min_size=JOBS // CUT, max_size=JOBS // CUT))
def test_a_few_slow_launches_change_nothing(speed: float, slow: list[float]) -> None:
    runs = run_times(speed, JOBS)
    held = [run + 0.03 * speed for run in runs]
    disturbed = [whole + more for whole, more in zip(held, [*slow, *[0.0] * (JOBS - len(slow))], strict=True)]
    assert of_jobs(1, disturbed, runs, speed).seconds == pytest.approx(0.03, rel=1e-6)


def test_a_cost_is_not_negative() -> None:
    assert of_jobs(1, run_times(20, JOBS), [run + 1 for run in run_times(20, JOBS)], 20).seconds == 0.0


def test_the_cost_of_a_job_follows_from_its_nodes() -> None:
    cost = LaunchCost(Width(1, 0.02, 0.001, 25), Width(11, 0.04, 0.003, 15), 16.0)
    assert [cost.nodes_of(*size) for size in ((1, None), (16, None), (17, None), (1, 7))] == [1, 1, 2, 7]
    assert [cost.seconds(nodes) for nodes in (1, 6, 11, 500)] == pytest.approx([0.02, 0.03, 0.04, 0.04])
    assert [cost.error(nodes) for nodes in (1, 6, 11)] == pytest.approx([0.001, math.hypot(0.0005, 0.0015), 0.003])
    narrow = LaunchCost(cost.narrow)
    assert (narrow.seconds(500), narrow.error(500)) == (0.02, 0.001)
    unknown = LaunchCost(None, cost.wide)
    assert (unknown.seconds(11), unknown.error(11)) == (0.0, None)


@pytest.mark.parametrize(
    "cost", [REAL_TIME, LaunchCost(None, None, 4.0, "no job ran"), LaunchCost(Width(1, 0.02, 0.1, 3), Width(2, 0.03, 0.1, 5))]
)
def test_the_record_of_a_cost(cost: LaunchCost) -> None:
    assert LaunchCost.of_record(json.loads(json.dumps(cost.record()))) == cost


@pytest.mark.parametrize("record", [None, [], {}, {"narrow": 1, "wide": None, "processors": 1, "reason": ""}, "0.02", 0.02])
def test_what_is_no_record_of_a_cost(record: object) -> None:
    with pytest.raises(WrongUse, match="launch_cost may not be"):
        LaunchCost.of_record(record)


class Commands:
    """sbatch and scancel as programs: sbatch counts ids, and writes what slurmctld would when the job has ended."""

    def __init__(self, folder: Path, held: int | None) -> None:
        self.folder = folder
        self.log = folder / "jobcomp.log"
        times = f"StartTime=2026-11-21T10:00:00 EndTime=2026-11-21T10:00:{held}"
        record = f'echo "JobId=$id Name=r.launch JobState=COMPLETED {times} NodeList=n1" >> {self.log}'
        count = f"id=$(($(cat {folder}/id 2>/dev/null || echo 0) + 1)); echo $id > {folder}/id; echo $id"
        self.accept = f"{count}; {record if held is not None else ':'}"
        self.program("sbatch", self.accept)
        self.program("scancel", f'echo "$@" > {folder}/cancelled')

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / name).chmod(0o755)

    def measure(self, speed: float, wide: bool = False) -> list[Width | None]:
        def submission(run: float) -> Submission:
            return Submission("r.launch", f"exec sigsleep {run}", 1, None, 10, "", str(self.folder))

        def refused(run: float) -> Submission:
            return replace(submission(run), partition="small")

        slurm = Slurm(str(self.folder / "slurm.conf"), str(self.folder), str(self.folder))
        probes = [Probe(1, NARROW_JOBS, submission), *([Probe(10, WIDE_JOBS, refused)] if wide else [])]
        return measure(slurm, CompletionLog(self.log), Clock(speed=speed), probes, lambda seconds: None)


def test_it_is_measured_from_the_completion_log(tmp_path: Path) -> None:
    (cost,) = Commands(tmp_path, held=30).measure(speed=500)
    assert cost is not None
    assert (cost.nodes, cost.jobs) == (1, NARROW_JOBS)
    assert cost.seconds == pytest.approx((30 - 25.5) / 500, abs=1e-3)
    assert not (tmp_path / "cancelled").exists()


def test_on_a_full_cluster_it_is_not_known(tmp_path: Path) -> None:
    assert Commands(tmp_path, held=None).measure(speed=500) == [None]
    assert (tmp_path / "cancelled").read_text() == "--quiet --name=r.launch\n"


def test_wide_jobs_that_are_refused_leave_the_narrow_ones(tmp_path: Path) -> None:
    commands = Commands(tmp_path, held=30)
    commands.program("sbatch", f'case "$*" in *small*) echo "invalid partition" >&2; exit 1;; esac; {commands.accept}')
    narrow, wide = commands.measure(speed=500, wide=True)
    assert narrow is not None and wide is None


def test_jobs_of_both_widths_take_turns() -> None:
    turns = [place for place, _ in launch_cost._in_turn(100.0, [Probe(1, 25, None), Probe(10, 15, None)])]  # type: ignore[arg-type]
    assert turns.count(0) == 25 and turns.count(1) == 15
    assert all(1 <= turns[first : first + 8].count(1) <= 5 for first in range(0, 40, 8))
