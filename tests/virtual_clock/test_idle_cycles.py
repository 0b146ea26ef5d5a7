"""Which backfill cycles are left out (idle_cycles.c) and which seconds are slept through (idle_seconds.c), by a program with the
threads and variables of slurmctld by which they are known."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from slurm_mirage.clock import clock_page
from slurm_mirage.rm.slurm.wait_reasons import FORMATS

from .event_instance import Instance

END = 310
ALL = list(range(30, END, 30))
VARIABLES = {"SLURM_MIRAGE_LOG_LINES": FORMATS, "SLURM_MIRAGE_BF_WINDOW": "86400"}


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


def run(instance: Instance, program: Path, jobs: str, actions: str, variables: dict[str, str]) -> tuple[list[int], list[int]]:
    """The seconds of the cycles that were run, and those in which the thread looked for work."""
    words = [word.replace("~", " ") for word in actions.split()]
    lines = instance.run(program, str(END), *jobs.split(), *words, environment=variables).splitlines()
    looks = [line for line in lines if line.startswith("look")]
    return [int(line) for line in lines if line.isdecimal()], [int(line.split()[1]) for line in looks]


def cycles(instance: Instance, program: Path, jobs: str, actions: str, variables: dict[str, str]) -> list[int]:
    """The seconds of the cycles that were run; all others were counted as left out."""
    before = instance.figures()["left_out"]
    ran, _ = run(instance, program, jobs, actions, variables)
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
        # No node stays planned: each cycle may be the last for now.
        ("40 allocated", ALL),
        ("100 allocated", [30, *range(120, END, 30)]),
        # But each cycle sets the time of jobs, because of which another one follows.
        ("40 allocated 40 updates", [30, 60]),
        ("40 allocated 40 updates 100 job", [30, 60, 120]),
        ("40 allocated 40 updates 100 pass", [30, 60]),
        ("40 allocated 40 updates 60.5 message", [30, 60, 90]),
        ("100 job 104 job 200 node", [30, 120, 210]),
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
        # One has no planned start: it may get one when a plan that is after the window comes near.
        ("3 2 0 100000", [30]),
        ("3 2 0 86500", ALL),
        ("3 2 0 87140", [30, *range(150, END, 30)]),
        ("2 2 0 200", [30, *range(210, END, 30)]),  # a start that was planned is over
        ("2 2 0 Unknown", ALL),
        ("0 0 0 100000", ALL),
        ("2 2 0 86500+", ALL),  # one starts after the window, which it may be in soon
        ("2 2 0 87140+", [30, *range(150, END, 30)]),
        ("2 2 0 90000+", [30]),
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


QUIET, GRID = 10, 30


def seconds(*works: float) -> list[int]:
    """When a thread looks for work each second if there is some at these instants: for QUIET after each, then each GRID seconds."""
    looks, second = [], 0
    while second < END:
        since = [second - work for work in (0, *works) if work <= second]
        step = 1 if min(since) < QUIET else GRID
        # Work ends a long wait at the next of its seconds.
        next_work = min((work for work in works if work > second), default=END)
        second = min(second + step, max(second + 1, math.ceil(next_work)))
        looks.append(second)
    return [second for second in looks if second < END]


@pytest.mark.parametrize(
    ("actions", "works"),
    [
        ("", ()),
        ("55.5 message", (55.5,)),
        ("55.5 InitPrio", (55.5,)),
        ("55.2 job", ()),
        ("55.2 node 58 partition 200.5 message", (200.5,)),
        ("100.5 pass", ()),
    ],
)
def test_seconds_without_work_are_slept_through(
    bpf_instance: Instance, slurmctld: Path, actions: str, works: tuple[float, ...]
) -> None:
    _, looks = run(bpf_instance, slurmctld, "0 0 0 0", actions, VARIABLES)
    assert looks == seconds(*works)


@pytest.mark.parametrize(
    ("interval", "pings"),
    [("", ()), ("0", ()), ("100", (104, 204, 304)), ("86", (90, 176, 262)), ("1000", ()), ("56", (60, 116, 172, 228, 284))],
)
def test_the_main_thread_looks_each_thirty_seconds_and_when_it_pings_nodes(
    bpf_instance: Instance, slurmctld: Path, interval: str, pings: tuple[int, ...]
) -> None:
    """The first ping is 4 s after its start, before it sleeps through seconds."""
    variables = {**VARIABLES, "SLURM_MIRAGE_PINGS": interval}
    _, looks = run(bpf_instance, slurmctld, "0 0 0 0", "0 watch", variables)
    assert [look for look in looks if look < END] == sorted({*range(1, 11), *range(30, END, 30), *pings})


def test_the_main_thread_is_served_after_those_who_wait_longer_than_its_second(bpf_instance: Instance, slurmctld: Path) -> None:
    """Its prolonged wait begins before the long one. The last second of it would begin later."""
    lines = bpf_instance.run(slurmctld, str(END), *"00000", "watch", environment=VARIABLES).splitlines()
    for second in range(30, END, 30):
        assert lines.index(f"long {second}") < lines.index(f"look {second}")


@pytest.mark.parametrize("actions", ["5 reserved", "5 requeue"])
def test_no_second_is_slept_through_where_something_may_change_by_itself(
    bpf_instance: Instance, slurmctld: Path, actions: str
) -> None:
    assert run(bpf_instance, slurmctld, "0 0 0 0", actions, VARIABLES)[1] == list(range(1, END))


def test_no_second_is_slept_through_without_the_variable(bpf_instance: Instance, slurmctld: Path) -> None:
    variables = {"SLURM_MIRAGE_LOG_LINES": FORMATS}
    assert run(bpf_instance, slurmctld, "0 0 0 0", "", variables)[1] == list(range(1, END))
