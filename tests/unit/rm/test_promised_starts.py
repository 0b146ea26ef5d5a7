"""Tests of the starts that slurmctld's log promises."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.rm.slurm import promised_starts
from slurm_mirage.rm.slurm.array_words import id_of
from slurm_mirage.rm.slurm.promised_starts import PROMISES_FILE, promises_in_log, to_csv

ZERO = 1795342656
"""2026-11-22T10:17:36."""
LINE = "[2026-11-22T{at}] sched/backfill: _dump_job_sched: {job} to start at {start}, end at 2026-11-22T13:00:00 on nodes n1"


def promised(folder: Path, *lines: str, since: float = 0.0) -> list[tuple[str, int, int]]:
    log = folder / "log"
    log.mkdir(exist_ok=True)
    (log / "slurmctld.log").write_text("".join(f"{line}\n" for line in lines))
    return promises_in_log(log, 0, since)


def line(at: str = "10:17:36.500", job: str = "JobId=7", start: str = "2026-11-22T10:18:36") -> str:
    return LINE.format(at=at, job=job, start=start)


def test_the_first_plan_and_the_first_of_each_hour_count(tmp_path: Path) -> None:
    times = ("10:17:36.500", "10:18:06.500", "11:17:36.000", "11:17:37.000", "11:20:00.000", "13:30:00.000")
    found = promised(tmp_path, *(line(at=at) for at in times))
    assert found == [(f"{ZERO + later:.3f}", 7, ZERO + 60) for later in (0.5, 3601.0, 11_544.0)]
    assert to_csv(found).splitlines()[:2] == ["virtual,job_id,start", f"{ZERO + 0.5:.3f},7,{ZERO + 60}"]


def test_jobs_are_called_as_elsewhere_and_waiting_arrays_are_left_out(tmp_path: Path) -> None:
    found = promised(tmp_path, line(job="JobId=12_3(15)"), line(job="JobId=12_*"), line(job="JobID=9 State=0x0 NodeCnt=1"))
    assert [job for _, job, _ in found] == [id_of("15", "12", "3"), 9]


def test_other_lines_and_those_before_the_run_are_left_out(tmp_path: Path) -> None:
    wrong = ("torn JobId=7 to start at 2026", line(start="(null)"), line(at="10:17:3"), line(start="2026-13-22T10:18:36"))
    assert promised(tmp_path, *wrong) == []
    assert promised(tmp_path, line(), since=ZERO + 1.0) == []
    assert promises_in_log(tmp_path / "none", 0, 0.0) == []


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_read(lines: list[bytes]) -> None:
    assert isinstance(list(promised_starts._reduced(lines, 0.0)), list)
    assert PROMISES_FILE.endswith(".csv")
