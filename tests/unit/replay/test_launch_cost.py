"""What a launch costs: found from records of whole seconds."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.clock.clock import Clock
from slurm_mirage.replay import launch_cost
from slurm_mirage.replay.launch_cost import CUT, JOBS, measure, of_jobs, run_times
from slurm_mirage.rm.api import Submission
from slurm_mirage.rm.slurm.commands import Slurm
from slurm_mirage.rm.slurm.records import CompletionLog


@given(st.floats(0.001, 0.2), st.floats(2, 5000), st.integers(0, 2**32))
def test_the_cost_is_found_to_a_fraction_of_a_second_of_slurms(cost: float, speed: float, seed: int) -> None:
    chance, runs = random.Random(seed), run_times(speed)
    held = []
    for run in runs:
        start = chance.uniform(0, 1000)
        held.append(math.floor(start + run + cost * speed) - math.floor(start))
    assert abs(of_jobs(held, runs, speed) - cost) * speed < 0.6


@given(st.floats(2, 5000), st.lists(st.floats(0, 1e6), min_size=CUT, max_size=CUT))
def test_a_few_slow_launches_change_nothing(speed: float, slow: list[float]) -> None:
    runs = run_times(speed)
    held = [run + 0.03 * speed for run in runs]
    disturbed = [whole + more for whole, more in zip(held, [*slow, *[0.0] * (JOBS - CUT)], strict=True)]
    assert of_jobs(disturbed, runs, speed) == pytest.approx(0.03, rel=1e-6)


def test_a_cost_is_not_negative() -> None:
    assert of_jobs(run_times(20), [run + 1 for run in run_times(20)], 20) == 0.0


class Commands:
    """sbatch and scancel as programs: sbatch counts ids, and writes what slurmctld would when the job has ended."""

    def __init__(self, folder: Path, held: int | None) -> None:
        self.folder = folder
        self.log = folder / "jobcomp.log"
        times = f"StartTime=2026-11-21T10:00:00 EndTime=2026-11-21T10:00:{held}"
        record = f'echo "JobId=$id Name=r.launch JobState=COMPLETED {times} NodeList=n1" >> {self.log}'
        count = f"id=$(($(cat {folder}/id 2>/dev/null || echo 0) + 1)); echo $id > {folder}/id; echo $id"
        self.program("sbatch", f"{count}; {record if held is not None else ':'}")
        self.program("scancel", f'echo "$@" > {folder}/cancelled')

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / name).chmod(0o755)

    def measure(self, speed: float) -> float:
        def submission(run: float) -> Submission:
            return Submission("r.launch", f"exec sigsleep {run}", 1, None, 10, "", str(self.folder))

        slurm = Slurm(str(self.folder / "slurm.conf"), str(self.folder), str(self.folder))
        return measure(slurm, CompletionLog(self.log), Clock(speed=speed), submission, lambda seconds: time.sleep(seconds / 100))


def test_it_is_measured_from_the_completion_log(tmp_path: Path) -> None:
    cost = Commands(tmp_path, held=30).measure(speed=500)
    assert cost == pytest.approx((30 - 25.5) / 500, abs=1e-3)
    assert not (tmp_path / "cancelled").exists()


def test_on_a_full_cluster_it_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_cost, "PATIENCE", 0.1)
    assert Commands(tmp_path, held=None).measure(speed=500) == 0.0
    assert (tmp_path / "cancelled").read_text() == "--quiet --name=r.launch\n"
