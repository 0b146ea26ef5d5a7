"""What a log says of a run's jobs and of those beside them: worked by hand."""

from __future__ import annotations

import polars as pl
import pytest

from mirage.records.recorded import RECORDED_SCHEMA, recorded_of
from mirage.traces import swf
from mirage.traces.trace import Trace
from slurm_mirage.base.errors import WrongUse

# number, submit, wait, run time, processors; 1 ended before the others came, 5 began before, 6 came after all had ended.
LOG = ((1, 0, 0, 10, 1), (5, 50, 10, 100, 4), (2, 100, 60, 100, 2), (3, 110, 0, 30, 2), (4, 120, 120, 10, 2), (6, 900, 0, 10, 1))


def trace(rows: tuple[tuple[int, ...], ...]) -> Trace:
    columns = ("job_number", "submit", "wait", "run_time", "allocated_processors")
    known = pl.DataFrame([dict(zip(columns, row, strict=True)) | {"status": 1} for row in rows])
    frame = known.select((pl.col(n) if n in known.columns else pl.lit(-1)).cast(kind).alias(n) for n, kind in swf.SCHEMA.items())
    return Trace(frame, {}, {}, "swf", "")


def workload(*ids: int, preset: int | None = None) -> pl.DataFrame:
    return pl.DataFrame({"id": list(ids), "preset": ["running" if number == preset else "" for number in ids]})


def test_the_jobs_and_who_was_there_beside_them() -> None:
    recorded = recorded_of(trace(LOG), workload(2, 3, 4))
    assert recorded.schema == RECORDED_SCHEMA
    assert recorded.rows() == [
        (5, 50, None, 60, 160, 4, False),
        (2, 100, None, 160, 260, 2, True),
        (3, 110, None, 110, 140, 2, True),
        (4, 120, None, 240, 250, 2, True),
    ]


def test_presets_are_not_compared() -> None:
    recorded = recorded_of(trace(LOG), workload(5, 2, 3, preset=5))
    assert dict(recorded.select("id", "selected").iter_rows()) == {5: False, 2: True, 3: True, 4: False}


def test_a_log_without_waits_says_so() -> None:
    with pytest.raises(WrongUse, match="does not record how long these jobs waited"):
        recorded_of(trace(((1, 0, -1, 10, 1),)), workload(1))
