"""Backfill cycles that can decide nothing new are left out (idle_cycles.c), by a program with slurmctld's threads and variables."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slurm_mirage.clock import clock_page
from slurm_mirage.rm.slurm.wait_reasons import FORMATS

from .event_instance import Instance

END = 310
ALL = list(range(30, END, 30))
VARIABLES = {"SLURM_MIRAGE_LOG_LINES": FORMATS, "SLURM_MIRAGE_IDLE_CYCLES": "out"}


@pytest.fixture
def slurmctld(bpf_instance: Instance) -> Path:
    """The program, in a folder of the instance."""
    folder = bpf_instance.folder
    source = Path(__file__).parent / "cycles.c"
    strict = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-format-security", "-Wno-format-nonliteral"]
    subprocess.run([*strict, "-DLIBRARY", "-shared", "-fPIC", "-o", folder / "libcycles.so", source], check=True)
    linked = ["-rdynamic", "-pthread", f"-L{folder}", "-lcycles", f"-Wl,-rpath,{folder}"]
    subprocess.run([*strict, "-o", folder / "slurmctld", source, *linked], check=True)
    bpf_instance.drive()
    return folder / "slurmctld"


def cycles(instance: Instance, program: Path, jobs: str, actions: str, variables: dict[str, str]) -> list[int]:
    """The seconds of the cycles that were run; all others were counted as left out."""
    before = instance.figures()["left_out"]
    words = [word.replace("~", " ") for word in actions.split()]
    ran = [int(line) for line in instance.run(program, END, *jobs.split(), *words, environment=variables).splitlines()]
    assert instance.figures()["left_out"] - before == len(ALL) - len(ran)
    return ran


@pytest.mark.parametrize(
    ("actions", "ran"),
    [
        ("", [30]),
        ("100 job", [30, 120]),
        ("100 node", [30, 120]),
        ("100 partition", [30, 120]),
        ("100 reservation", [30, 120]),
        ("100 job 101 job 200 node", [30, 120, 210]),
        # A change in the second of the cycle does not show in the times, but a message came, a job was submitted or started.
        ("30.5 message", [30, 60]),
        ("30.5 InitPrio", [30, 60]),
        ("30.5 TRACE_JOBS", [30, 60]),
        ("29.5 message", [30]),
        ("100 message", [30]),
        # The main scheduler sets the time of jobs whether or not it has started one.
        ("100 pass", [30]),
        ("100 pass 160 pass 220 pass", [30]),
        ("100 pass 110 job", [30, 120]),
        ("100 job 110 pass", [30, 120]),
        ("100 job 100.5 pass", [30, 120]),
        ("100 message 100.5 pass", [30, 120]),
        ("100 pass 100.5 message", [30, 120]),
        ("100 pass 100.5 Time~limit~exhausted", [30, 120]),
        ("30.5 pass 30.7 message", [30, 60]),
        # From then on anything may change by itself.
        ("95 reserved", [30, *range(120, END, 30)]),
        ("95 requeue", [30, *range(120, END, 30)]),
    ],
)
def test_a_cycle_is_run_after_what_may_change_its_result(
    bpf_instance: Instance, slurmctld: Path, actions: str, ran: list[int]
) -> None:
    assert cycles(bpf_instance, slurmctld, "2 2 0 100000", actions, VARIABLES) == ran


@pytest.mark.parametrize(
    ("jobs", "ran"),
    [
        ("3 2 1 100000", [30]),  # a setting left one out
        ("3 2 0 100000", ALL),  # one has no planned start
        ("2 2 0 200", [30, *range(210, END, 30)]),  # a start that was planned is over
        ("2 2 0 Unknown", ALL),
        ("0 0 0 100000", ALL),
    ],
)
def test_a_cycle_is_run_if_the_one_before_has_not_planned_all_jobs(
    bpf_instance: Instance, slurmctld: Path, jobs: str, ran: list[int]
) -> None:
    assert cycles(bpf_instance, slurmctld, jobs, "", VARIABLES) == ran


@pytest.mark.parametrize("without", VARIABLES)
def test_no_cycle_is_left_out_without_the_variables(bpf_instance: Instance, slurmctld: Path, without: str) -> None:
    variables = {name: value for name, value in VARIABLES.items() if name != without}
    assert cycles(bpf_instance, slurmctld, "2 2 0 100000", "", variables) == ALL


def test_no_cycle_is_left_out_where_jobs_wait_for_an_instant(bpf_instance: Instance, slurmctld: Path) -> None:
    clock_page.set_changes(bpf_instance.folder, True)
    assert cycles(bpf_instance, slurmctld, "2 2 0 100000", "", VARIABLES) == ALL
    clock_page.set_changes(bpf_instance.folder, False)
    assert cycles(bpf_instance, slurmctld, "2 2 0 100000", "", VARIABLES) == [30]


def test_no_cycle_is_left_out_where_the_schedulers_own_time_counts(bpf_instance: Instance, slurmctld: Path) -> None:
    clock_page.set_charge(bpf_instance.folder, True)
    assert cycles(bpf_instance, slurmctld, "2 2 0 100000", "", VARIABLES) == ALL
