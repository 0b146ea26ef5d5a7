"""What a record lacks: models of it, and figures of the machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.cluster_events import user_file
from mirage.traces.trace import read_trace
from slurm_mirage.base.hostlist import expand
from slurm_mirage.jobs.request import Request
from studies import unknowns
from studies.unknowns import BASE, DAY, HOUR, MODELS

RECORD = (
    "ID,Type,Submit Time,Start Time,End Time,Wait Time,Makespan,Turnaround Time,Status,Nodes\n"
    "0,Rigid,0,5,105,5,100,105,completed,72\n"
    "1,Rigid,10,10,20,0,10,10,completed,1\n"
    "2,Rigid,20,110,470,90,360,450,completed,36\n"
    "3,Rigid,30,110,111,80,1,81,completed,40\n"
)


@pytest.fixture
def record(tmp_path: Path) -> pl.DataFrame:
    path = tmp_path / "record.csv"
    path.write_text(RECORD)
    return read_trace(path).frame


def model_log(tmp_path: Path, record: pl.DataFrame, label: str) -> pl.DataFrame:
    path = tmp_path / f"{label}.txt"
    path.write_text(unknowns.log_of(record, MODELS[label], "standard", 36, 1))
    log = read_trace(path)
    assert (log.format, log.unread.count) == ("sacct", 0)
    return log.frame


@pytest.mark.parametrize("label", MODELS)
def test_a_models_log_has_the_waits_sizes_and_run_times_of_the_record(label: str, record: pl.DataFrame, tmp_path: Path) -> None:
    same = ["submit", "wait", "run_time", "allocated_processors"]
    assert model_log(tmp_path, record, label).select(same).equals(record.select(same))


def test_jobs_of_whole_nodes_do_not_share_them(record: pl.DataFrame, tmp_path: Path) -> None:
    asked = [Request.parse(text) for text in model_log(tmp_path, record, BASE)["request"]]
    assert [(one.exclusive, one.tasks, one.sizes[0]) for one in asked] == [(1, 72, 2), (0, 1, 1), (1, 36, 1), (0, 40, 0)]
    shared = [Request.parse(text) for text in model_log(tmp_path, record, "shared")["request"]]
    assert [(one.exclusive, one.tasks, one.sizes[0]) for one in shared] == [(0, 72, 0), (0, 1, 0), (0, 36, 0), (0, 40, 0)]


def test_each_size_has_a_user_only_in_the_model_of_users(record: pl.DataFrame, tmp_path: Path) -> None:
    assert model_log(tmp_path, record, BASE)["user"].n_unique() == 1
    assert model_log(tmp_path, record, "users")["user"].n_unique() == 4


@pytest.mark.parametrize(
    ("how", "run", "limit"),
    [
        ("1", 61, 120), ("2", 61, 180), ("5", 60, 300), ("round", 60, 1200), ("round", 1201, 3600), ("round", 20 * DAY, 20 * DAY),
        ("2", 3 * DAY, 4 * DAY), ("2", 5 * DAY, 10 * DAY), ("5", 5 * DAY, 14 * DAY),
    ],
)  # fmt: skip
def test_a_limit(how: str, run: float, limit: float) -> None:
    assert unknowns.limits_of(np.array([float(run)]), how, 1).tolist() == [limit]


@given(
    st.lists(st.integers(1, int(15 * DAY)), min_size=1, max_size=30),
    st.sampled_from(sorted({one.limits for one in MODELS.values()})),
    st.integers(0, 99),
)
def test_limits_are_whole_minutes_from_the_run_time_to_the_longest(runs: list[int], how: str, seed: int) -> None:
    run = np.array(runs, np.float64)
    limits = unknowns.limits_of(run, how, seed)
    assert (limits >= run).all() and (limits % 60 == 0).all()
    assert (limits <= np.where(run <= 96 * HOUR, 96 * HOUR, np.maximum(14 * DAY, run)) + 60).all()


# ---- the machine ----


def test_the_peak_between_two_instants(record: pl.DataFrame) -> None:
    assert unknowns.peak(record, 0, 1000) == 76
    assert unknowns.peak(record, 6, 9) == 72, "a job that began before"
    assert unknowns.peak(record, 106, 109) == 0
    assert unknowns.peak(record, 500, 600) == 0


def test_idle_processors_while_a_large_job_waits() -> None:
    spans = [(0.0, 0.0, 20.0, 6), (10.0, 30.0, 40.0, 8), (15.0, 15.0, 60.0, 1)]
    jobs = pl.DataFrame(spans, schema=["submit", "start", "end", "processors"], orient="row")
    # From 10 to 30 the second one waits: 4 idle until 15, 3 until 20, 9 until 30.
    expected = (5 * 4 + 5 * 3 + 10 * 9) / 20
    assert unknowns.idle_while_waiting(jobs, 10, 8, 0, 100) == pytest.approx(expected)
    assert unknowns.idle_while_waiting(jobs, 10, 8, 20, 100) == pytest.approx(9)
    assert unknowns.idle_while_waiting(jobs, 10, 9, 0, 100) is None


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10), st.integers(1, 10), st.integers(1, 4)), min_size=1, max_size=8),
    st.integers(0, 15),
    st.integers(1, 20),
)
def test_idle_processors_are_those_of_each_second(jobs: list[tuple[int, int, int, int]], begin: int, length: int) -> None:
    spans = [(submit, submit + wait, submit + wait + run, size) for submit, wait, run, size in jobs]
    frame = pl.DataFrame(spans, schema=dict.fromkeys(("submit", "start", "end", "processors"), pl.Float64), orient="row")
    seconds = [
        40 - sum(size for _, start, end, size in spans if start <= at < end)
        for at in range(begin, begin + length)
        if any(submit <= at < start and size >= 2 for submit, start, _, size in spans)
    ]
    found = unknowns.idle_while_waiting(frame, 40, 2, begin, begin + length)
    assert found == (pytest.approx(sum(seconds) / len(seconds)) if seconds else None)


@given(st.integers(0, 12))
def test_nodes_out_of_service_are_drained_from_the_beginning(number: int) -> None:
    path = Path(__file__).parent / "unused"
    text = unknowns.out_of_service(["a[1-8],b[1-4]"], number)
    lines = list(user_file._lines(path.name, text))
    assert [(one.instant, one.action) for one in lines] == [(0.0, "drain")] * (number > 0)
    drained = [name for one in lines for name in expand(one.target)]
    assert drained == expand("a[1-8],b[1-4]")[12 - number :]
