"""sigsleep's command line, clock, log and use of resources. test_signals.py tests its handling of signals."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.sigsleep_vs_sleep import measure
from slurm_mirage.clock.clock import Clock
from slurm_mirage.jobs.sigsleep_log import HEADER, MAX_SIZES, MAX_SUSPENSIONS, read_log

from .conftest import Job, arguments

Start = Callable[..., Job]
HOUR = 3600  # the run time where sigsleep must end before it begins to sleep


# ---- command line ----


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *words], capture_output=True, text=True, timeout=120, check=False)


def test_help_names_every_option(program: Path) -> None:
    answer = run(program, "--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    for option in ("id", "cores", "priority", "submit", "runtime", "log", "clock", "help", "version"):
        assert f"--{option}" in answer.stdout


def test_version(program: Path) -> None:
    answer = run(program, "--version")
    assert answer.returncode == 0
    assert re.fullmatch(r"sigsleep \d+\.\d+\.\d+\n", answer.stdout)


NOT_WHOLE = ["", "x", "-1", "+1", "1.5", "1x", " 1", "1 ", "1e3", "0x10", "nan", "inf"]
NOT_SECONDS = ["", "x", "-1", "-0.5", "+1", "1.", ".5", "1.5x", "1..5", " 1", "1e3", "nan", "inf", "9223372036", "9" * 30]
WRONG = [
    *(("id", value) for value in [*NOT_WHOLE, "9223372036854775808"]),
    *(("cores", value) for value in ["x", "-1", "1.5", "0", "4294967296"]),
    *(("submit", value) for value in ["x", "-1", "nan", "9223372036"]),
    *(("runtime", value) for value in NOT_SECONDS),
    *(("priority", value) for value in ("", "x" * 32)),
    *((option, None) for option in ("id", "cores", "priority", "submit", "runtime", "log")),
]


def assert_wrong_use(code: int, stderr: str, named: str) -> None:
    assert code == 2
    assert stderr.startswith("sigsleep: wrong use: ")
    assert stderr.count("\n") == 1
    assert named in stderr


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_wrong_values(program: Path, tmp_path: Path, option: str, value: str | None) -> None:
    log = tmp_path / "log"
    answer = run(program, *arguments(**{"log": log, "runtime": HOUR, option: value}))
    assert_wrong_use(answer.returncode, answer.stderr, f"--{option}")
    assert not log.exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--nice"], "--nice"),
        (["5"], "5"),
        (["--id", "8"], "--id: may only be given once"),
        (["--clock"], "--clock: needs a value"),
        (["--id=5"], "--id=5"),
    ],
)
def test_wrong_arguments(program: Path, tmp_path: Path, words: list[str], named: str) -> None:
    answer = run(program, *arguments(log=tmp_path / "log", runtime=HOUR), *words)
    assert_wrong_use(answer.returncode, answer.stderr, named)


def test_no_arguments(program: Path) -> None:
    answer = run(program)
    assert_wrong_use(answer.returncode, answer.stderr, "--id: is missing")


# ---- record ----


def test_the_record_contains_the_arguments_and_the_execution(start: Start) -> None:
    slurm = {"SLURM_JOB_ID": "4294967295", "SLURM_RESTART_COUNT": "3", "SLURM_JOB_ID_OTHER": "1"}
    before = time.time_ns()
    job = start("0.050000001", id=2**63 - 1, cores=2**32 - 1, priority="p" * 31, popen={"env": slurm})
    assert job.end() == (0, "")
    record = job.only_record()
    assert (record.id, record.cores, record.priority) == (2**63 - 1, 2**32 - 1, "p" * 31)
    assert (record.submission_ns, record.runtime_ns) == (1_700_000_000_250_000_000, 50_000_001)
    assert (record.slurm_job_id, record.restart) == (2**32 - 1, 3)
    assert before <= record.start_ns <= record.end_ns - 50_000_001
    assert record.end_ns <= time.time_ns()
    assert record.completed
    assert record.executed_ns >= 50_000_001


@pytest.mark.parametrize("value", ["", "x", "-1", "4294967296", "12x"])
def test_malformed_variables_of_slurm_are_ignored(start: Start, value: str) -> None:
    job = start(0, popen={"env": {"SLURM_JOB_ID": value, "SLURM_RESTART_COUNT": value}})
    assert job.end() == (0, "")
    assert (job.only_record().slurm_job_id, job.only_record().restart) == (0, 0)


@pytest.mark.parametrize(
    ("variables", "job_id"),
    [
        ({"PBS_JOBID": "123.pbs-head"}, 123),
        ({"PBS_JOBID": "4294967295.a.b"}, 2**32 - 1),
        ({"PBS_JOBID": "123"}, 123),
        ({"PBS_JOBID": "123.pbs-head", "SLURM_JOB_ID": "7"}, 7),
        ({"PBS_JOBID": "123[4].pbs-head"}, 0),
        ({"PBS_JOBID": "4294967296.pbs-head"}, 0),
        ({"PBS_JOBID": ".pbs-head"}, 0),
        ({"PBS_JOBID": "x.pbs-head"}, 0),
        ({"PBS_JOBID": ""}, 0),
    ],
)
def test_a_job_of_openpbs_has_the_number_in_its_id(start: Start, variables: dict[str, str], job_id: int) -> None:
    job = start(0, popen={"env": variables})
    assert job.end() == (0, "")
    assert (job.only_record().slurm_job_id, job.only_record().restart) == (job_id, 0)


def test_digits_after_nanoseconds_are_dropped(start: Start) -> None:
    job = start(0, submit="5.1234567899999")
    job.end()
    assert job.only_record().submission_ns == 5_123_456_789


# ---- virtual clock ----


def test_a_fast_clock_shortens_the_sleep_and_dates_the_record(start: Start, tmp_path: Path) -> None:
    clock = Clock(time.time_ns(), 1_000_000_000 * 10**9, speed=2000.5)
    clock.write(tmp_path / "clock")
    before = time.monotonic()
    job = start(1000, clock=tmp_path / "clock")  # half a second, real
    assert job.end() == (0, "")
    assert time.monotonic() - before >= clock.virtual_to_real(1000)
    record = job.only_record()
    assert record.runtime_ns == 1000 * 10**9
    assert record.executed_ns >= 1000 * 10**9
    assert record.completed
    assert clock.virtual_ns <= record.start_ns <= record.end_ns - 999 * 10**9
    assert record.end_ns <= clock.virtual_now()


def test_a_slow_clock_lengthens_the_sleep(start: Start, tmp_path: Path) -> None:
    Clock.start_now(speed=0.1).write(tmp_path / "clock")
    before = time.monotonic()
    job = start(0.05, clock=tmp_path / "clock")
    assert job.end() == (0, "")
    assert time.monotonic() - before >= 0.5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mirage-clock 1 1 1\n",
        "mirage-clock 2 1 1 1\n",
        "mirage-clock 1 1 1 0\n",
        "mirage-clock 1 1 1 -1\n",
        "mirage-clock 1 1 1 1e3\n",
        "mirage-clock 1 1 1 1000001\n",
        "mirage-clock 1 1 1 1 1\n",
        "mirage-clock 1 1 1 1\n\n",
        "mirage-clock 1 9223372036854775808 1 1\n",
        "mirage-clock 1 1 1 1\0",
    ],
)
def test_a_malformed_clock_file(start: Start, tmp_path: Path, text: str) -> None:
    (tmp_path / "clock").write_text(text)
    job = start(HOUR, clock=tmp_path / "clock")
    assert_wrong_use(*job.end(), f"--clock {tmp_path}/clock: must be")
    assert not job.log.exists()


def test_a_missing_clock_file(start: Start, tmp_path: Path) -> None:
    job = start(HOUR, clock=tmp_path / "clock")
    assert_wrong_use(*job.end(), f"--clock {tmp_path}/clock: no such file")


def test_a_run_time_too_long_for_the_clock(start: Start, tmp_path: Path) -> None:
    Clock(speed=0.001).write(tmp_path / "clock")
    job = start(9_000_000_000, clock=tmp_path / "clock")
    assert_wrong_use(*job.end(), "--runtime 9000000000: too long")


# ---- log ----


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("missing/log", "no such file or directory"),
        ("", "is a directory"),
        ("file/log", "a part of the path is not a directory"),
        ("x" * 300, "name is too long"),
    ],
)
def test_a_log_that_cannot_be_opened_is_an_error_before_the_sleep(start: Start, tmp_path: Path, log: str, reason: str) -> None:
    (tmp_path / "file").touch()
    job = start(HOUR, log=tmp_path / log)
    assert_wrong_use(*job.end(), f"--log {tmp_path / log}: {reason}")


def test_a_read_only_log_is_an_error_before_the_sleep(start: Start) -> None:
    """The log is a file of the kernel that refuses writers: root ignores file modes."""
    job = start(HOUR, log=Path("/sys/kernel/sigsleep.log"))
    code, stderr = job.end()
    assert_wrong_use(code, stderr, "--log /sys/kernel/sigsleep.log: ")
    assert re.search(r"permission denied|not permitted|read-only", stderr)


def test_a_full_disk_is_reported(start: Start) -> None:
    job = start(0, log=Path("/dev/full"))
    assert job.end() == (1, "sigsleep: record not written: --log /dev/full: no space left on the disk\n")


def limit_file_size(size: int) -> Callable[[], None]:
    """Return a function that sets the limit in a child before exec. Slurm sets its user's limits in the same way."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_an_incomplete_record_is_reported_and_does_not_affect_others(start: Start) -> None:
    first = start(0, id=1)
    assert first.end() == (0, "")
    torn = start(0, id=2, popen={"preexec_fn": limit_file_size(HEADER.size + 50)})
    code, stderr = torn.end()
    assert code == 1
    assert re.fullmatch(r"sigsleep: record not written: --log .*: cut short, is the disk full\?\n", stderr)
    last = start(0, id=3)
    assert last.end() == (0, "")
    records, damage = read_log(first.log)
    assert [record.id for record in records] == [1, 3]
    assert [(bad.offset, bad.length) for bad in damage] == [(HEADER.size, 50)]


def test_a_file_size_limit_is_reported(start: Start) -> None:
    job = start(0, popen={"preexec_fn": limit_file_size(0)})
    code, stderr = job.end()
    assert code == 1
    assert stderr.endswith(": file size limit reached\n")


def test_hundreds_of_writers_share_a_log(start: Start, program: Path) -> None:
    """All of them end at nearly the same time. They get no signals, so they need no preexec_fn, which is slow."""
    writers = 60 if program.name.endswith("sanitize") else 400
    ends_at = time.time() + 2
    popen = {"preexec_fn": None}
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda number: start(max(0.0, ends_at - time.time()), id=number, popen=popen), range(writers)))
    assert {job.end() for job in jobs} == {(0, "")}
    records, damage = read_log(jobs[0].log)
    assert damage == []
    assert sorted(record.id for record in records) == list(range(writers))


# ---- resources ----


def test_the_documented_limits_are_those_of_the_program() -> None:
    source = (Path(__file__).parents[2] / "files" / "sigsleep" / "record.h").read_text()
    assert f"#define MAX_SUSPENSIONS {MAX_SUSPENSIONS}\n" in source
    assert f"#define MAX_SIZES {MAX_SIZES}\n" in source


def test_it_needs_no_more_memory_than_sleep_and_does_not_wake_up(builds: dict[str, Path]) -> None:
    figures = measure(builds["static"], count=5, seconds=0.3)
    assert figures["sigsleep"]["pss_kib"] <= figures["sleep"]["pss_kib"]
    assert figures["sigsleep"]["wake_ups"] == 0


def test_the_program_is_static(builds: dict[str, Path]) -> None:
    """It needs no loader and no libraries: a preloaded clock does not affect it, and it runs on any distribution."""
    assert b"ld-linux" not in builds["static"].read_bytes()
    assert os.access(builds["static"], os.X_OK)
