"""Jobs of SWF that have several lines: parts between which they were swapped out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.metrics import metrics
from mirage.records.schedule import read_schedule
from mirage.traces import swf

SEEN = ("job_number", "submit", "wait", "run_time", "allocated_processors", "status", "suspended")


def line(number: int, submit: float, wait: float, run: float, status: int, processors: int = 4) -> str:
    values = dict.fromkeys(swf.COLUMNS, "-1") | {
        "job_number": number, "submit": submit, "wait": wait, "run_time": run, "allocated_processors": processors, "status": status,
    }  # fmt: skip
    return " ".join(map(str, values.values()))


def parse(*lines: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int]]:
    return swf.parse_swf("\n".join(lines).encode(), "log")[:3]


PARTS = (line(7, 10, 5, 100, 2), line(7, -1, 30, 50, 2, 8), line(7, -1, 20, 25, 3))


@pytest.mark.parametrize(("last", "status"), [(3, 1), (4, 0), (2, -1)])
def test_a_job_that_has_only_parts(last: int, status: int) -> None:
    lines = ("; Preemption: Yes", line(6, 0, 0, 9, 1), *PARTS[:2], line(7, -1, 20, 25, last), line(8, 12, 0, 9, 1))
    frame, header, notes = parse(*lines)
    assert frame.select(SEEN).rows() == [(6, 0, 0, 9, 4, 1, 0), (7, 10, 5, 175, 4, status, 50), (8, 12, 0, 9, 4, 1, 0)]
    assert notes["partial_executions"] == 3 and "Preemption" not in header


def test_a_job_that_has_a_line_of_its_own_too() -> None:
    frame, _, notes = parse("; Preemption: Double", line(7, 10, 5, 175, 1), *PARTS, line(8, 12, 0, 9, 1))
    assert frame.select(SEEN).rows() == [(7, 10, 5, 175, 4, 1, 50), (8, 12, 0, 9, 4, 1, 0)]
    assert notes["partial_executions"] == 3


def test_a_number_that_is_given_again() -> None:
    assert parse(*PARTS, *PARTS)[0].select(SEEN).rows() == [(7, 10, 5, 175, 4, 1, 50)] * 2


def test_parts_of_unknown_length() -> None:
    frame = parse(line(7, 10, 5, -1, 2), line(7, -1, -1, -1, 3))[0]
    assert frame.select(SEEN).rows() == [(7, 10, 5, -1, 4, 1, 0)]


def test_the_metrics_of_a_job_that_was_swapped_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(("; MaxProcs: 4", "; Preemption: Double", line(7, 10, 5, 175, 1), *PARTS)))
    schedule = read_schedule(tmp_path / "log")
    found = metrics.compute(schedule.jobs, 4, 4)["metrics"]
    assert (found["wait_mean"], found["response_mean"], found["suspended_mean"]) == (5, 230, 50)
    assert found["utilisation"] == pytest.approx(175 / 230)


TIMES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4)


@given(st.lists(st.tuples(st.integers(1, 4), TIMES, st.booleans()), max_size=8))
def test_parts_add_up(jobs: list[tuple[int, list[tuple[int, int]], bool]]) -> None:
    """Jobs with 1 to 4 parts of a wait and a run time each; with or without a line for the whole, but alike for each number."""
    whole = {number: has_line for number, _, has_line in jobs}
    lines, expected = [line(99, 0, 0, 1, 1)], [(99, 0, 0, 1, 4, 1, 0)]
    for place, (number, parts, _) in enumerate(jobs):
        run, gaps = sum(run for _, run in parts), sum(wait for wait, _ in parts[1:])
        if whole[number]:
            lines.append(line(number, place, parts[0][0], run, 1))
        for at, (wait, of_part) in enumerate(parts):
            lines.append(line(number, -1 if at else place, wait, of_part, 3 if at == len(parts) - 1 else 2))
        expected.append((number, place, parts[0][0], run, 4, 1, gaps))
    frame = parse(*lines)[0]
    if jobs:
        assert frame.select(SEEN).rows() == expected
    else:
        assert "suspended" not in frame.columns
