"""Metrics of filler jobs, worked by hand: they are beside the schedule's own metrics and change none of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from mirage.metrics import metrics
from mirage_extras.filler.metrics import FILLERS_FILE, FILLERS_SCHEMA

JOB = pl.DataFrame(
    [{"id": 1, "submit": 0.0, "start": 0.0, "end": 100.0, "suspended": 0.0, "processors": 2, "state": "COMPLETED"}],
    schema={**metrics.JOBS_SCHEMA},
)
"""A job of 100 s on 2 of 4 processors."""


def fillers(*rows: dict[str, Any]) -> pl.DataFrame:
    common = {"filler": 1, "execution": 1, "node": "n1", "processors": 1, "waiting": 0.0, "outcome": "slot"}
    return pl.DataFrame([common | row for row in rows], schema=FILLERS_SCHEMA)


TWO = fillers(
    {"start": 10.0, "end": 60.0, "restoring": 5.0, "useful": 35.0, "saving": 10.0, "lost": 0.0, "work": 28.0},
    # Slurm ends it 50 s after the window, and the half of all that it did lies outside.
    {
        "start": 50.0,
        "end": 150.0,
        "restoring": 10.0,
        "useful": 0.0,
        "saving": 0.0,
        "lost": 90.0,
        "work": 0.0,
        "outcome": "preempted",
    },
)


def values(table: pl.DataFrame | None, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = metrics.compute(JOB, 4, 4, tables={FILLERS_FILE: table}, **options)["metrics"]
    return found


def test_shares_of_the_machine_over_the_window() -> None:
    found = values(TWO)
    assert found["filler_load"] == pytest.approx((50 + 50) / 400)
    assert found["total_load"] == pytest.approx(0.5 + 0.25)
    assert found["filler_useful"] == pytest.approx(28 / 400)
    assert found["filler_overhead"] == pytest.approx((15 + 5) / 400)
    assert found["filler_lost"] == pytest.approx(45 / 400)
    assert found["filler_preemptions"] == 0


def test_preemptions_within_the_window_count() -> None:
    assert values(TWO.with_columns(end=pl.lit(90.0)))["filler_preemptions"] == 1


def test_cuts_hold_for_fillers_too() -> None:
    longer = pl.concat([JOB, JOB.with_columns(id=pl.lit(2, pl.Int64), submit=30.0, start=30.0, end=70.0)])
    found = metrics.compute(longer, 4, 4, tables={FILLERS_FILE: TWO}, warmup_cut=20, cooldown_cut=20)["metrics"]
    assert found["filler_load"] == pytest.approx((40 + 30) / (4 * 60))


def test_no_other_metric_knows_of_fillers() -> None:
    own = {name: value for name, value in values(TWO).items() if not name.startswith("filler_") and name != "total_load"}
    without = values(None)
    assert own == {name: without[name] for name in own}
    assert without["total_load"] == without["utilisation"]
