"""Jobs on other GPUs, and more jobs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.traces.swf import SCHEMA
from mirage.traces.trace import Trace
from mirage.workloads import demand
from mirage.workloads.selection import Selection
from mirage.workloads.workload import prepare


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gres=gpu:a100:2", "gres=gpu:h100:2"),
        ("nodes=2 gres=gpu:2,nvme:1", "nodes=2 gres=gpu:h100:2,nvme:1"),
        ("gpus=8", "gpus=h100:8"),
        ("gpus=a100:8,v100:1", "gpus=h100:8,v100:1"),
        ("tasks=2 gpus_per_task=a100:1", "tasks=2 gpus_per_task=h100:1"),
        ("gres=gpu:v100:2", "gres=gpu:v100:2"),
        ("gres=nvme:1", "gres=nvme:1"),
        ("constraint=a100", "constraint=a100"),
    ],
)
def test_other_types_of_gpus(words: str, expected: str) -> None:
    assert demand.with_type(words, {"a100"}, "h100") == expected


def jobs_of(submits: list[int], *, requested: int = 600, run: int = 300) -> pl.DataFrame:
    rows = {"job_number": range(1, len(submits) + 1), "submit": sorted(submits), "run_time": run, "requested_time": requested}
    unknown = {name: -1 for name in SCHEMA if name not in rows}
    frame = pl.DataFrame({**rows, **unknown, "allocated_processors": 1}).select(pl.col(k).cast(v) for k, v in SCHEMA.items())
    workload = prepare(Trace(frame, {}, {}, "swf", ""), Selection(), classes=[(4, 4)], slack=10.0)
    return workload.jobs.with_columns(request=pl.lit("gres=gpu:a100:1"))


@given(factor=st.sampled_from([0.25, 0.5, 2.0]), rows=st.lists(st.booleans(), min_size=4, max_size=4))
def test_moved_jobs_run_for_another_time(factor: float, rows: list[bool]) -> None:
    before = jobs_of([0, 5, 9, 20])
    flags, words = pl.Series(rows), pl.Series(["gres=gpu:h100:1"] * 4)
    after = demand.moved(before, flags, words, factor, shrink=1.0, slack=10.0, overrun="extend")
    assert after.filter(~flags).equals(before.filter(~flags))
    moved = after.filter(flags)
    assert set(moved["request"]) <= {"gres=gpu:h100:1"}
    assert set(moved["runtime"]) <= {300 * factor} and set(moved["runtime_virtual"]) <= {300 * factor}
    assert set(moved["limit_minutes"]) <= {max(1, int(np.ceil(10 * factor)))}


@given(
    submits=st.lists(st.integers(0, 1000), min_size=1, max_size=30),
    share=st.floats(0, 3),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_more_jobs(submits: list[int], share: float, seed: int, data: st.DataObject) -> None:
    jobs = jobs_of(submits)
    rows = pl.Series(data.draw(st.lists(st.booleans(), min_size=jobs.height, max_size=jobs.height)), dtype=pl.Boolean)
    made = demand.more(jobs, rows, share, np.random.default_rng(seed))
    assert made.height == jobs.height + round(share * rows.sum())
    assert made.filter(pl.col("id").is_in(jobs["id"].implode())).equals(jobs), "the log's jobs stay, in their order"
    assert made["id"].n_unique() == made.height and made["submit_virtual"].is_sorted()
    copies = made.filter(~pl.col("id").is_in(jobs["id"].implode()))
    assert set(copies["submit"]) <= set(jobs.filter(rows)["submit"])
    assert made.schema == jobs.schema
    assert made.equals(demand.more(jobs, rows, share, np.random.default_rng(seed)))


def test_preset_jobs_stay_first_and_are_not_copied() -> None:
    jobs = jobs_of([0, 0, 30]).with_columns(preset=pl.Series(["running", "", ""]))
    made = demand.more(jobs, pl.Series([True, True, True]), 1.0, np.random.default_rng(1))
    assert made["preset"].to_list() == ["running", "", "", "", ""]
