"""Starting, forking, cancelling and killing processes: the library shares nothing between processes and holds no locks."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import Clock

from .clocked import PATIENCE, VARIABLE, Builds, Under
from .test_clocks import assert_agrees

# ---- the clock file ----


def start_with(builds: Builds, file: Path | None) -> tuple[int, str, str]:
    """Run a program with this clock file; returns exit code, standard output and standard error."""
    environment = {**os.environ, "LD_PRELOAD": str(builds.library), "LC_ALL": "C"}
    environment.pop(VARIABLE, None)
    if file is not None:
        environment[VARIABLE] = str(file)
    done = subprocess.run(["date"], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "mirage-clock 1 1 1\n",
        "mirage-clock 2 1 1 1\n",
        "mirage-clock 1 1 1 0\n",
        "mirage-clock 1 1 1 0.000000000\n",
        "mirage-clock 1 1 1 -1\n",
        "mirage-clock 1 -1 1 1\n",
        "mirage-clock 1 1 1 1e3\n",
        "mirage-clock 1 1 1 1.\n",
        "mirage-clock 1 1 1 .5\n",
        "mirage-clock 1 1 1 1.0000000001\n",
        "mirage-clock 1 1 1 1000001\n",
        "mirage-clock 1 1 1 1000000.000000001\n",
        "mirage-clock 1 1 1 99999999999999999999\n",
        "mirage-clock 1 1 1 1 1\n",
        "mirage-clock 1 1  1 1\n",
        " mirage-clock 1 1 1 1\n",
        "mirage-clock 1 1 1 1\n\n",
        "mirage-clock 1 1 1 1\r\n",
        "mirage-clock 1 1 1 1\0",
        "mirage-clock 1 1 1 1\n\0",
        "mirage-clock 1 9223372036854775808 1 1\n",
        "mirage-clock 1 1 9223372036854775808 1\n",
        "mirage-clock 1 1 1 1\n" + " " * 200,
        "mirage-clock 1 1 1 1" + "0" * 200,
    ],
)
def test_a_malformed_clock_file(builds: Builds, tmp_path: Path, text: str) -> None:
    """The program does not start. clock.py refuses the same files."""
    file = tmp_path / "clock"
    file.write_text(text)
    assert start_with(builds, file) == (
        127,
        "",
        f"virtual clock: {VARIABLE}={file}: is not one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED\n",
    )
    with pytest.raises(WrongUse):
        Clock.read(file)


@pytest.mark.parametrize(
    "text",
    [
        "mirage-clock 1 1 1 1\n",
        "mirage-clock 1 0 0 0.000000001",
        "mirage-clock 1 9223372036854775807 9223372036854775807 1000000\n",
        "mirage-clock 1 1700000000000000000 1700000000000000000 999999.999999999\n",
        "mirage-clock 1 1 1 0000002.5\n",
    ],
)
def test_a_valid_clock_file(builds: Builds, tmp_path: Path, text: str) -> None:
    file = tmp_path / "clock"
    file.write_text(text)
    assert_agrees(Clock.read(file), Under(Clock.read(file), file, builds).probe("clocks"))


def test_a_clock_file_that_cannot_be_read(builds: Builds, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert start_with(builds, missing) == (127, "", f"virtual clock: {VARIABLE}={missing}: cannot be opened\n")
    code, output, errors = start_with(builds, tmp_path)
    assert (code, output) == (127, "")
    assert errors.startswith(f"virtual clock: {VARIABLE}={tmp_path}: is not one line")
    assert errors.count("\n") == 1


def test_no_clock_file(builds: Builds) -> None:
    assert start_with(builds, None) == (127, "", f"virtual clock: {VARIABLE}: is not set\n")


def test_a_clock_file_is_read_once(under: Callable[..., Under]) -> None:
    """Running programs do not need it any more; programs that start after its removal do not start."""
    one = under(1000.0)
    script = "echo ready; b=$EPOCHSECONDS; read -t 300 line; echo $((EPOCHSECONDS - b)); date"
    process = one.start("bash", "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    one.file.unlink()
    assert int(process.stdout.readline()) >= 300
    output, errors = process.communicate(timeout=PATIENCE)
    assert (output, process.returncode) == ("", 127)
    assert errors == f"virtual clock: {VARIABLE}={one.file}: cannot be opened\n"


# ---- signals ----


def test_killed_processes_do_not_affect_others(under: Callable[..., Under]) -> None:
    """Of hundreds of short processes a third are killed, immediately or at random, many during the library's initialisation."""
    one = under(10_000.0)
    pick = random.Random(1)
    killed: list[subprocess.Popen[str]] = []
    spared: list[subprocess.Popen[str]] = []
    for number in range(400):
        command = ("sleep", "3000") if number % 2 else ("date",)
        process = one.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if number % 3:
            spared.append(process)
            continue
        time.sleep(pick.choice((0.0, pick.random() * 0.003)))
        process.kill()
        killed.append(process)
    assert {process.wait(timeout=PATIENCE) for process in spared} == {0}
    assert {process.wait(timeout=PATIENCE) for process in killed} <= {0, -signal.SIGKILL}
    assert any(process.returncode == -signal.SIGKILL for process in killed)
    assert_agrees(one.clock, one.probe("clocks"))


def test_a_stopped_sleep_ends_when_its_time_has_passed(under: Callable[..., Under]) -> None:
    """As without the library, the time for which the process is stopped counts."""
    one = under(1000.0)
    process = one.start("sleep", "1000")
    time.sleep(0.1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    began = time.monotonic()
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=PATIENCE) == 0
    assert time.monotonic() - began < 100


# ---- threads ----


def test_threads_cancelled_in_the_middle_of_calls(under: Callable[..., Under]) -> None:
    """Every second thread is cancelled asynchronously, as in slurmctld."""
    one = under(1000.0)
    assert_agrees(one.clock, one.probe("cancel", 300))


def test_forks_in_the_middle_of_calls_of_other_threads(under: Callable[..., Under]) -> None:
    one = under(1000.0)
    assert_agrees(one.clock, one.probe("fork", 200))


# ---- what is not reached ----


def test_a_program_without_shared_libraries_stays_in_real_time(under: Callable[..., Under], tmp_path: Path) -> None:
    """This is why sigsleep has the option --clock."""
    one = under(1000.0)
    source = tmp_path / "static.c"
    source.write_text('#include <stdio.h>\n#include <time.h>\nint main(void) { printf("%lld\\n", (long long)time(0)); }\n')
    compiled = subprocess.run(["cc", "-static", "-o", str(tmp_path / "static"), str(source)], capture_output=True, check=False)
    if compiled.returncode != 0:
        pytest.skip("skipped: a static C library is missing")
    before = int(time.clock_gettime(5))  # CLOCK_REALTIME_COARSE, which time(2) reads
    printed = int(one.run(tmp_path / "static"))
    assert before <= printed <= time.time()
