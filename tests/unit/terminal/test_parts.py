"""Sentences about the part of a schedule that was measured."""

from __future__ import annotations

from schedules import frame

from mirage.metrics import metrics
from mirage.terminal.parts import parts_of

JOBS = frame(
    *({"submit": 10 * n, "start": 10 * n + 4, "end": 10 * n + 20} for n in range(30)),
    {"submit": 30, "end": 90, "state": "CANCELLED"},
)


def test_the_whole_schedule_its_steady_part_and_jobs_that_never_started() -> None:
    measured, steady, censored = parts_of(metrics.compute(JOBS, 4, 4))
    assert measured == "measured: the whole schedule (WARMUP_CUT and COOLDOWN_CUT are 0)"
    assert steady.startswith("without the first and the last tenth of the submissions' time (24 jobs): mean wait 4 s, ")
    assert "utilisation 40.0 %" in steady
    assert censored == "1 job (3.23 %) waited and never started: the mean wait with them is 5.806 s (wait_restricted_mean)"


def test_a_part_of_the_schedule() -> None:
    parts = parts_of(metrics.compute(JOBS, 4, 4, warmup_cut=100, cooldown_cut="10%"))
    cuts = "without its first 100 s (WARMUP_CUT) and its last 31 s (COOLDOWN_CUT)"
    assert parts[0] == f"measured: the schedule from 100 to 279 s, {cuts}"
    assert len(parts) == 2


def test_few_jobs_and_nothing() -> None:
    assert parts_of(metrics.compute(JOBS.head(10), 4, 4))[1].endswith("not measured, fewer than 20 jobs were submitted in it (8)")
    assert parts_of(metrics.compute(JOBS.clear(), 4, 4)) == []
