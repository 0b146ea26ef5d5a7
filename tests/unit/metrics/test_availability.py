"""Metrics of what was in service."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import frame

from mirage.metrics import metrics
from mirage.metrics.availability import AVAILABILITY_SCHEMA, EMPTIED, NOT_RECORDED, OUT
from mirage.records.availability import read_availability
from slurm_mirage.base.errors import WrongUse

NAMES = ("absent_fraction", "utilisation_available", "loss_of_capacity_available", "maintenance_idle")
ROWS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40), st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=6)
SPANS = st.lists(st.tuples(st.sampled_from([OUT, EMPTIED]), st.integers(-5, 80), st.integers(1, 60) | st.none()), max_size=4)


def table(*rows: tuple[str, float, float | None, int]) -> pl.DataFrame:
    return pl.DataFrame(
        [(kind, begin, end, "n1", count) for kind, begin, end, count in rows], schema=AVAILABILITY_SCHEMA, orient="row"
    )


def test_a_worked_example() -> None:
    """Of 4 processors 2 are used from 0 to 100, and all from 100 to 150 for a job that asks for them from 60 on. One is out of
    service from 50 to 100, and another one from 40 to 80: 4*40 + 3*10 + 2*30 + 3*20 + 4*50 = 510. One is emptied from 70 on."""
    jobs = frame({"submit": 0, "start": 0, "end": 100, "processors": 2}, {"submit": 60, "start": 100, "end": 150, "processors": 4})
    rows = table((OUT, 50, 100, 1), (OUT, 40, 80, 1), (EMPTIED, 70, 100, 1))
    found = metrics.compute(jobs, 4, 4, availability=rows)["metrics"]
    assert [found[name] for name in NAMES] == pytest.approx([1 - 510 / 600, 400 / 510, 20 / 510, 30 / 600])


@given(ROWS, SPANS, st.sampled_from([0.0, 7.0]))
def test_they_agree_with_a_look_at_each_second(
    rows: list[tuple[int, int, int, int]], spans: list[tuple[str, int, int | None]], cut: float
) -> None:
    jobs = [
        {"submit": submit, "start": submit + wait, "end": submit + wait + run, "processors": size}
        for submit, wait, run, size in rows
    ]
    begin, end = min(job["submit"] for job in jobs) + cut, max(job["end"] for job in jobs)
    rest = [job for job in jobs if begin <= job["submit"] <= end]
    if not rest or begin >= end:
        return
    written = [(kind, float(since), None if length is None else float(since + length), 1) for kind, since, length in spans]
    found = metrics.compute(frame(*jobs), 6, 6, availability=table(*written), warmup_cut=cut)["metrics"]
    service = used = lost = idle = 0
    for second in range(int(begin), end):
        busy = sum(job["processors"] for job in jobs if job["start"] <= second < job["end"])
        waiting = sum(job["processors"] for job in jobs if job["submit"] <= second < job["start"])
        out, emptied = (
            sum(kind == one and since <= second and (until is None or second < until) for one, since, until, _ in written)
            for kind in (OUT, EMPTIED)
        )
        available = max(6 - out, min(6, busy))
        service, used, lost = service + available, used + busy, lost + min(waiting, max(0, available - busy))
        idle += emptied if waiting else 0
    whole = 6 * (end - begin)
    expected = [1 - service / whole, used / service, lost / service, idle / whole]
    assert [found[name] for name in NAMES] == pytest.approx(expected, abs=1e-9)


def test_without_events_they_are_those_of_the_machine() -> None:
    found = metrics.compute(frame({"submit": 0, "start": 0, "end": 10, "processors": 2}), 4)["metrics"]
    assert [found[name] for name in NAMES] == [0, found["utilisation"], found["loss_of_capacity"], 0]


def test_they_are_null_if_the_record_has_no_nodes_out_of_service() -> None:
    found = metrics.compute(frame({"submit": 0, "start": 0, "end": 10, "processors": 2}), 4, availability=NOT_RECORDED)
    assert [found["metrics"][name] for name in NAMES] == [None] * 4
    assert [found["null_reasons"][name] for name in NAMES] == [NOT_RECORDED] * 4


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("out of order,1.0,2.0,n1,4", "kind may be 'out of service' or 'emptied for maintenance', not 'out of order'"),
        ("out of service,3.0,2.0,n1,4", "end 2.0 is before begin 3.0"),
        ("out of service,,2.0,n1,4", "kind, begin or processors is empty"),
        ("out of service,1.0,2.0,n1,-4", "processors may be 0 or more, not -4"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "availability.csv"
    path.write_text(f"kind,begin,end,nodes,processors\nout of service,1.0,,n1,4\n{row}\n")
    with pytest.raises(WrongUse) as refused:
        read_availability(path, "trace")
    assert message in str(refused.value) and "line 3" in str(refused.value)
