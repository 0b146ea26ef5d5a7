"""How late an end may be in the record of a manager that ends a job when its processors are free, and in one that does not."""

from __future__ import annotations

import polars as pl
import pytest

from mirage.records.disagreements import contradictions
from mirage.records.run_records import NS
from mirage.records.time_map import TimeMap
from slurm_mirage.clock.clock import Clock
from slurm_mirage.rm.api import Records
from slurm_mirage.rm.registry import IMPLEMENTATIONS

SPEED, JOBS = 20.0, 40
OPENPBS, SLURM = (IMPLEMENTATIONS[name].records for name in ("openpbs", "slurm"))


def joined(ends: list[float]) -> pl.DataFrame:
    """Jobs that ran from 100 s to 200 s after each other; launches took 0.04 real seconds, and the record's ends come so many real
    seconds after sigsleep's."""
    count = len(ends)
    start = [1000 * NS * (number + 1) for number in range(count)]
    late = [round((0.04 + 0.001 * (number % 7)) * SPEED * NS) for number in range(count)]
    return pl.DataFrame(
        {
            "id": range(count),
            "s_start": start,
            "r_start": [begun + more for begun, more in zip(start, late, strict=True)],
            "r_end": [begun + 100 * NS for begun in start],
            "s_end": [begun + 100 * NS + round(end * SPEED * NS) for begun, end in zip(start, ends, strict=True)],
            "s_submit": start,
            "v_began": start,
            "v_accepted": [one + NS for one in start],
            "v_submit": start,
        }
    ).with_columns(
        r_stopped=pl.lit(0),
        c_suspended=pl.lit(0),
        r_pauses=pl.lit(0),
        restarts=pl.lit(0),
        limit_minutes=pl.lit(60),
        state=pl.lit("COMPLETED"),
        s_state=pl.lit("COMPLETED"),
        recorded=pl.lit(True),
        completed=pl.lit(True),
        unsure=pl.lit(False),
        s_sizes=pl.lit(1),
        r_sizes=pl.lit(1),
        s_ran=pl.lit(True),
        submit_untold=pl.lit(False),
        start_untold=pl.lit(False),
        end_untold=pl.lit(False),
    )


def kinds(ends: list[float], records: Records, speed: float = SPEED) -> list[str]:
    time = TimeMap(Clock(0, 0, speed=speed, shrink=100.0), origin=0.0)
    return contradictions(joined([end * speed / SPEED for end in ends]), time, records)["kind"].to_list()


# Ends around 0.1 s, as a busy host has them, and one of 0.6 s.
SPREAD = [0.05 + 0.005 * (number % 20) for number in range(JOBS)] + [0.6]


@pytest.mark.parametrize(("records", "found"), [(OPENPBS, []), (SLURM, ["end"])])
def test_an_end_may_be_as_late_as_the_ends_of_the_run_where_the_record_waits_for_them(records: Records, found: list[str]) -> None:
    assert kinds(SPREAD, records) == found


@pytest.mark.parametrize(("records", "found"), [(OPENPBS, []), (SLURM, ["end"] * 3)])
def test_a_node_of_openpbs_tells_an_end_up_to_two_seconds_of_the_clusters_time_later(records: Records, found: list[str]) -> None:
    ends = [0.02 + 0.5 * (number % 2) for number in range(JOBS)]
    assert kinds([*ends, 1.013, 1.5, 2.01], records, speed=1.0) == found


def test_no_end_may_be_later_than_a_second_of_real_time() -> None:
    assert kinds([*SPREAD, 1.2], OPENPBS) == ["end"]


@pytest.mark.parametrize(("records", "found"), [(OPENPBS, []), (SLURM, ["start"])])
def test_a_program_may_begin_before_a_start_that_is_written_when_the_node_has_taken_the_job(
    records: Records, found: list[str]
) -> None:
    early = joined([0.1] * JOBS).with_columns(
        r_start=pl.when(pl.col("id") == 3).then(pl.col("s_start") - round(0.035 * SPEED * NS)).otherwise("r_start")
    )
    time = TimeMap(Clock(0, 0, speed=SPEED, shrink=100.0), origin=0.0)
    assert contradictions(early, time, records)["kind"].to_list() == found


def test_a_job_that_only_one_record_has_is_named_after_the_manager() -> None:
    time = TimeMap(Clock(0, 0, speed=SPEED, shrink=100.0), origin=0.0)
    lost = joined([0.1] * JOBS).with_columns(recorded=pl.col("id") > 0)
    assert contradictions(lost, time, OPENPBS)["kind"].to_list() == ["in OpenPBS's record only"]
