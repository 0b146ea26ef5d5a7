"""Use of classes of nodes, and causes of idle new nodes, of a schedule that is worked by hand."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from grown_runs import a_run
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.records import class_use
from mirage.records.run_folder import RunFolder


def use(run: RunFolder, common: tuple[int, ...] = (1, 2, 3, 4, 5)) -> dict[str, Any]:
    return class_use.of(run, ["n1", "n2"], common)


def test_what_is_known_of_each_class(tmp_path: Path) -> None:
    found = use(a_run(tmp_path / "r"))
    assert (found["nodes"], found["processors"], found["jobs"], found["submissions"]) == (4, 16, 5, 100)
    assert found["wait_mean"] == 22 and found["utilisation"] == pytest.approx(620 / 1600)
    old, new, gpus = found["classes"]
    assert [one["names"] for one in (old, new, gpus)] == ["n[1-2]", "n3", "g1"]
    assert [one["new"] for one in (old, new, gpus)] == [False, True, True]
    assert [one["weight"] for one in (old, new, gpus)] == [1, 5, 1]
    assert (gpus["gpus"], gpus["features"], gpus["partitions"]) == ("a100:2", ["fast"], ["g"])
    assert [one["jobs"] for one in (old, new, gpus)] == [4, 4, 1]
    assert [one["wait_mean"] for one in (old, new, gpus)] == [12.5, 12.5, 60]
    assert [one["utilisation"] for one in (old, new, gpus)] == pytest.approx([440 / 800, 0.4, 20 / 400])
    assert [one["gpu_utilisation"] for one in (old, new, gpus)] == [None, None, pytest.approx(0.1)]
    assert [one["idle"] for one in (old, new, gpus)] == pytest.approx([0.2, 0.6, 0.8])
    # Job 3 waits for half of the time with 4 processors for 40 s; at the last submission no job waits.
    assert new["backlog"] == pytest.approx(4 * 40 / 3600 / 2) and found["backlog_at_end"] == 0


def test_why_new_nodes_were_idle(tmp_path: Path) -> None:
    old, new, gpus = use(a_run(tmp_path / "r"))["classes"]
    assert old["idle_causes"] == []
    assert [(one["cause"], round(one["share"], 9), one["reason"]) for one in new["idle_causes"]] == [
        ("QOS limit", 0.5, "QOSMaxJobsPerUserLimit"),
        ("weight", 0.1, ""),
    ]
    assert [(one["cause"], round(one["share"], 9)) for one in gpus["idle_causes"]] == [
        ("resources", 0.6),
        ("nobody", 0.1),
        ("partitions", 0.1),
    ]
    assert new["idle_causes"][0]["words"] == "jobs that could use them waited: a limit of its QOS"


@pytest.mark.parametrize(
    ("request_", "partition", "cause"),
    [
        ("constraint=fast", "a", "features"),
        ("gres=gpu:1", "a", "GPUs"),
        ("gpus=a100:2", "a", "GPUs"),
        ("", "g", "partitions"),
        ("", "a", "priority"),
    ],
)
def test_what_keeps_waiting_jobs_from_new_nodes(tmp_path: Path, request_: str, partition: str, cause: str) -> None:
    jobs = ((0, 0, 60, 4, "a", "n1", ""), (0, 100, 160, 1, partition, "n2", request_), (100, 100, 110, 1, "a", "n1", ""))
    new = use(a_run(tmp_path / "r", jobs, ((2, 0.0, 100.0, "priority", ""),)))["classes"][1]
    assert [(one["cause"], one["share"]) for one in new["idle_causes"]] == [(cause, 1)]


def test_jobs_behind_others_are_a_cause_only_where_no_other_is(tmp_path: Path) -> None:
    waits = ((3, 0.0, 60.0, "priority", ""), (5, 20.0, 50.0, "resources", ""))
    new = use(a_run(tmp_path / "r", waits=waits))["classes"][1]
    assert {one["cause"]: round(one["share"], 9) for one in new["idle_causes"]} == {"priority": 0.3, "resources": 0.3}


def test_jobs_that_cannot_start_yet_do_not_count(tmp_path: Path) -> None:
    waits = ((3, 10.0, 60.0, "dependency", ""), (4, 20.0, 80.0, "held", ""))
    new = use(a_run(tmp_path / "r", waits=waits))["classes"][1]
    assert [(one["cause"], round(one["share"], 9)) for one in new["idle_causes"]] == [("weight", 0.6)]


def test_waits_are_those_of_common_jobs(tmp_path: Path) -> None:
    found = use(a_run(tmp_path / "r"), (1, 3))
    assert found["wait_mean"] == 25 and found["classes"][2]["wait_mean"] is None


def test_nodes_that_are_not_known(tmp_path: Path) -> None:
    run = a_run(tmp_path / "r")
    (run.path / "jobcomp.log").unlink()
    new = use(run)["classes"][1]
    assert (new["idle"], new["utilisation"], new["idle_causes"]) == (None, None, [])


SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90), st.integers(1, 30)), max_size=20)


@given(SPANS)
def test_busy_nodes_are_counted_once(spans: list[tuple[int, int, int]]) -> None:
    held = pl.DataFrame(
        [(node, float(begin), float(begin + length)) for node, begin, length in spans],
        schema={"node": pl.Int64, "begin": pl.Float64, "end": pl.Float64},
        orient="row",
    ).with_columns(pl.col("end").clip(0, 100))
    times, busy = class_use._busy(held, 0.0, 100.0)
    seconds = {(node, second) for node, begin, length in spans for second in range(begin, min(begin + length, 100))}
    assert float((busy * np.diff(times)).sum()) == len(seconds)
    assert busy.max(initial=0) <= 4


@settings(max_examples=20)
@given(SPANS)
def test_shares_of_causes_make_the_idle_time(spans: list[tuple[int, int, int]]) -> None:
    """Whatever waits for whatever, the causes explain all of the time in which a new node was idle."""
    words = ["priority", "QOS limit", "resources", "held"]
    waits = tuple((1 + one % 5, float(begin), float(begin + length), words[one], "x") for one, begin, length in spans)
    with tempfile.TemporaryDirectory() as folder:
        for kind in use(a_run(Path(folder) / "r", waits=waits))["classes"][1:]:
            total = sum(one["share"] for one in kind["idle_causes"])
            assert total <= kind["idle"] + 1e-9 and total >= kind["idle"] - 0.005 * len(class_use.IDLE_CAUSES) * 3
