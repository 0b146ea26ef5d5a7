"""Slurm's answers as the feeder of filler jobs sees them, and what it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_mirage.extras.filler.fillers import FillerJob, PlannedJob
from slurm_mirage.extras.filler.filling import Filling, parse_room
from slurm_mirage.rm.api import JobState, Unavailable

QUEUE = """\
12|R|1795380602|1:00|n2|(null)|mirage-filler-1
13|PD|1795390000|365-00:00:00||n[3-4]|mirage-filler-2
14|CG|1795380602|UNLIMITED|n5||mirage-filler-3
20|PD|1795380700|10:00||n[1-2],n7|run.7
21|PD|N/A|10:00||(null)|run.8
22|R|1795380600|10:00|n8|(null)|run.9
"""
"""Answers of Slurm 22.05.8 with SLURM_TIME_FORMAT=%s."""


def test_the_queue() -> None:
    room = parse_room(QUEUE, "1/6/1/8\n")
    assert room.fillers == (
        FillerJob(12, 1, JobState.RUNNING, 60, 1795380602, ("n2",)),
        FillerJob(13, 2, JobState.PENDING, 365 * 86400, 1795390000, ()),
        FillerJob(14, 3, JobState.COMPLETING, None, 1795380602, ("n5",)),
    )
    assert room.planned == (PlannedJob(20, 1795380700, ("n1", "n2", "n7")),)
    assert room.free == 6


@pytest.fixture
def commands(tmp_path: Path) -> Filling:
    """Commands that write down how they were called."""
    for name in ("sbatch", "scancel", "scontrol"):
        program = tmp_path / name
        answer = "12" if name == "sbatch" else ""
        program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" {name} "$@" >> {tmp_path}/called\ntest {name} != scontrol || cat >> {tmp_path}/called\n'
            f"test ! -e {tmp_path}/failing || {{ cat {tmp_path}/failing >&2; exit 1; }}\necho {answer}\n"
        )
        program.chmod(0o755)
    return Filling("/etc/slurm.conf", str(tmp_path), str(tmp_path))


def called(tmp_path: Path) -> list[str]:
    return (tmp_path / "called").read_text().splitlines()


def test_a_filler_is_a_job_of_one_processor_that_is_put_back(commands: Filling, tmp_path: Path) -> None:
    assert commands.submit_filler(7, "exec sigsleep", "/runs/one", 525600, 1, True).job_id == 12
    words = called(tmp_path)
    assert words == [
        "sbatch",
        "--parsable",
        "--job-name=mirage-filler-7",
        "--partition=filler",
        "--nodes=1",
        "--ntasks=1",
        "--requeue",
        "--time=525600",
        "--time-min=1",
        "--signal=B:USR1@0",
        "-D/runs/one",
        "--output=/dev/null",
        "--wrap=exec sigsleep",
    ]


def test_without_grace_there_is_no_signal(commands: Filling, tmp_path: Path) -> None:
    commands.submit_filler(7, "exec sigsleep", "/runs/one", 525600, 1, False)
    assert not any("signal" in word for word in called(tmp_path))


def test_the_batch_script_is_asked(commands: Filling, tmp_path: Path) -> None:
    commands.ask([12, 13])
    assert called(tmp_path) == ["scancel", "--quiet", "--batch", "--signal=USR1", "12", "13"]


def test_time_limits_of_many_are_one_command(commands: Filling, tmp_path: Path) -> None:
    commands.set_limit([12, 13], 525600)
    assert called(tmp_path) == ["scontrol", "--quiet", "update JobId=12 TimeLimit=525600", "update JobId=13 TimeLimit=525600"]


def test_a_filler_that_has_ended_has_no_time_limit_and_that_is_no_error(commands: Filling, tmp_path: Path) -> None:
    (tmp_path / "failing").write_text("Invalid job id specified for job 12\n")
    commands.set_limit([12], 525600)
    (tmp_path / "failing").write_text("slurm_update error: Unable to contact slurm controller (connect failure)\n")
    with pytest.raises(Unavailable):
        commands.set_limit([12], 525600)
