"""Which lines slurmctld writes to its log (log_lines.c), by a program of that name and a library that logs as Slurm's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .clocked import Builds

VALUES = " a 1 b 2 c 3 d 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.000000"
NEEDED = "n:deallocated\nd:to start at\ns:InitPrio\nc:beginning\ne:reached end\np:limit\nk:skipping\nt:test for \nh:being held"
BEGIN, END, LIMIT, SKIP, TEST = "4 beginning", "4 reached end", "4 limit", "4 skipping %pJ", "4 test for %pJ"
HELD, SUBMITTED = "6 %pJ being held", "3 InitPrio"
LINES_A_JOB = 150


@pytest.fixture(scope="module")
def logger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logger")
    source = Path(__file__).parent / "logger.c"
    strict = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-format-nonliteral"]
    subprocess.run([*strict, "-DLIBRARY", "-shared", "-fPIC", "-o", folder / "liblogger.so", source], check=True)
    linked = [f"-L{folder}", "-llogger", f"-Wl,-rpath,{folder}"]
    subprocess.run([*strict, "-o", folder / "slurmctld", source, *linked], check=True)
    (folder / "slurmd").symlink_to("slurmctld")
    return folder


def written(builds: Builds, logger: Path, lines: list[str], needed: str | None = NEEDED, program: str = "slurmctld") -> list[str]:
    """The lines that the program writes of these."""
    clock = logger / "clock"
    clock.write_text("mirage-clock 1 0 0 1\n")
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(builds.library), "SLURM_MIRAGE_CLOCK": str(clock)}
    environment |= {} if needed is None else {"SLURM_MIRAGE_LOG_LINES": needed}
    command = [logger / program]
    done = subprocess.run(command, input="\n".join(lines), env=environment, capture_output=True, text=True, check=True)
    assert all(line.endswith(VALUES) for line in done.stdout.splitlines())
    return [line.removesuffix(VALUES) for line in done.stdout.splitlines()]


def test_lines_of_no_use_are_left_out_and_others_keep_their_values(builds: Builds, logger: Path) -> None:
    lines = [
        "1 fatal",
        "2 error",
        "3 info",
        "4 verbose",
        "5 debug",
        "4 job %u deallocated",
        "6 debug2",
        "3 to start at %s",
        "3 info",
    ]
    assert written(builds, logger, lines) == ["1 fatal", "2 error", "3 info", "4 job %u deallocated", "3 info"]


@pytest.mark.parametrize(("needed", "program"), [(None, "slurmctld"), (NEEDED, "slurmd")])
def test_without_the_variable_and_in_other_programs_all_lines_are_written(
    builds: Builds, logger: Path, needed: str | None, program: str
) -> None:
    lines = ["3 info", "5 debug", "4 verbose", HELD]
    assert written(builds, logger, lines, needed, program) == lines


def test_tests_are_written_while_they_are_allowed(builds: Builds, logger: Path) -> None:
    cycle = [BEGIN, TEST, TEST, SKIP, END]
    assert written(builds, logger, [SUBMITTED, *cycle * 3]) == [SUBMITTED, *cycle * 3]


def test_then_they_are_written_after_a_cycle_that_did_not_test_all_jobs(builds: Builds, logger: Path) -> None:
    """A job allows 150 lines, and each cycle needs as many as the one before had."""
    whole, stopped = [BEGIN, *[TEST] * 100, END], [BEGIN, *[TEST] * 100, LIMIT]
    short = [BEGIN, END]
    found = written(builds, logger, [SUBMITTED, *whole * 4, *stopped, *stopped, SUBMITTED, *stopped])
    assert found == [SUBMITTED, *whole * 2, *short * 2, BEGIN, LIMIT, SUBMITTED, *stopped]


def test_a_cycle_is_written_whole_or_not_at_all(builds: Builds, logger: Path) -> None:
    """A job allows 150 lines. Each cycle needs as many as the one before had: 65."""
    cycle = [BEGIN, *[SKIP] * 65, END]
    found = written(builds, logger, [SUBMITTED, *cycle * 5, SUBMITTED, *cycle * 5])
    assert found == [SUBMITTED, *cycle * 3, SUBMITTED, *cycle * 2]


def test_what_is_said_again_and_again_is_bounded_by_the_number_of_jobs(builds: Builds, logger: Path) -> None:
    assert written(builds, logger, [HELD] * 5) == []
    found = written(builds, logger, [SUBMITTED, *[HELD] * 200, SUBMITTED, *[HELD] * 200])
    assert found == [SUBMITTED, *[HELD] * LINES_A_JOB, SUBMITTED, *[HELD] * LINES_A_JOB]


PLAN = "3 to start at %s, end at %s"
WITH_PLANS = "a:to start at %s, end at\nc:beginning\ne:reached end\ns:InitPrio"
PLANS_A_JOB = 30


def test_planned_starts_are_written_once_after_a_submission(builds: Builds, logger: Path) -> None:
    """Also on a clock of constant speed, where all cycles are run."""
    cycle = [BEGIN, PLAN, END]
    assert written(builds, logger, cycle, WITH_PLANS) == [BEGIN, END]
    found = written(builds, logger, [SUBMITTED, *cycle * 3, SUBMITTED, *cycle * 2], WITH_PLANS)
    assert found == [SUBMITTED, *cycle, *[BEGIN, END] * 2, SUBMITTED, *cycle, BEGIN, END]


def test_planned_starts_are_bounded_by_the_number_of_jobs(builds: Builds, logger: Path) -> None:
    """A cycle needs as many lines as the one before had: here 50, and each job allows 30."""
    cycle = [BEGIN, *[PLAN] * 50, END]
    found = written(builds, logger, [SUBMITTED, *cycle] * 6, WITH_PLANS)
    assert 1 <= found.count(PLAN) / 50 <= 6 * PLANS_A_JOB / 50
    assert [found[place + 1 : place + 51] for place, line in enumerate(found) if line == BEGIN and found[place + 1] == PLAN] == [
        [PLAN] * 50
    ] * (found.count(PLAN) // 50)


def test_a_line_without_a_kind_is_no_pattern(builds: Builds, logger: Path) -> None:
    assert written(builds, logger, ["4 anything", "4 n: text"], "n:\n\nn\nx:anything\nn:text") == ["4 n: text"]
