"""How near a run comes to what the log says of its jobs: worked by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
import schedules

from mirage.records import agreement as module
from mirage.records.recorded import RECORDED_SCHEMA, schedule_of
from mirage.statistics.nearness import pairs_of
from mirage.workloads.not_played import Count

# id, submit, eligible, start, end, processors, selected: job 5 ran beside the others.
ROWS = [
    (5, 50, None, 60, 160, 4, False),
    (2, 100, None, 160, 260, 2, True),
    (3, 110, None, 110, 140, 2, True),
    (4, 120, None, 240, 250, 2, True),
]
RECORDED = pl.DataFrame(ROWS, schema=RECORDED_SCHEMA, orient="row")
JOBS = schedules.frame(
    {"id": 4, "submit": 120.0, "start": 125.0, "end": 135.0, "processors": 2},
    {"id": 3, "submit": 110.0, "start": 211.0, "end": 241.0, "processors": 2},
    {"id": 2, "submit": 100.0, "start": 160.0, "end": 260.0, "processors": 2},
)


WORKLOAD = pl.DataFrame({"id": [2, 3, 4]})


def measured(**more: Any) -> dict[str, Any]:
    return {"settings": {"window": [100.0, 260.0], "processors": 8}, "not_played": {}, **more}


def test_waits_in_the_log_and_who_was_there_beside_the_jobs() -> None:
    told = module.agreement(pairs_of(JOBS, schedule_of(RECORDED)), RECORDED)
    assert told["whole_minutes"] is True
    assert {name: count for name, count in told["classes"].items() if count} == {
        "1 to 10 min shorter": 1,
        "within 1 min": 1,
        "1 to 10 min longer": 1,
    }
    # Job 5 ran at second 100; until 120 it used 4 x 20, job 3 used 2 x 10.
    assert (told["others_at_begin"], told["others_processors_at_begin"]) == (1, 4)
    assert told["others_share"] == pytest.approx(80 / 100)


def test_classes_have_every_job_once() -> None:
    edges = [edge for edge in module.CLASSES.values() if edge is not None]
    differences = [value + step for value in edges for step in (-1.0, 0.0, 1.0)]
    pairs = pl.DataFrame({"record": [1.0] * len(differences), "difference": differences})
    told = module.agreement(pairs, RECORDED)
    assert sum(told["classes"].values()) == len(differences)
    assert told["whole_minutes"] is False
    # Of each edge the value itself is with its neighbour towards zero.
    assert told["classes"]["within 1 min"] == 4
    assert told["classes"]["over 6 h longer"] == told["classes"]["over 6 h shorter"] == 1


def test_nearness_to_the_log() -> None:
    near = module.nearness_of(JOBS, RECORDED, WORKLOAD, measured())
    assert near is not None
    # Waits 60, 101 and 5 in the run, 60, 0 and 120 in the log.
    assert near["waits"]["jobs"] == 3
    assert near["waits"]["wait_mean"] == {
        "run": pytest.approx(166 / 3),
        "record": 60,
        "difference": pytest.approx(-14 / 3),
    }
    shares = [near["differences"][name]["value"] for name in ("within_minute", "shorter", "longer")]
    assert shares == pytest.approx([1 / 3] * 3)
    assert near["rank_correlation"] == {"value": -1.0}
    # From 100 to 120 no job ran here, and in the log job 3 for 10 s.
    used = near["utilisation"]
    assert used == {"run": 0, "record": pytest.approx(20 / 160), "difference": pytest.approx(-20 / 160)}
    assert (near["inconclusive"], near["played_in_full"]) == ("", 1)


def test_jobs_outside_of_the_window_are_left_out() -> None:
    cut = measured(settings={"window": [105.0, 260.0], "processors": 8})
    near = module.nearness_of(JOBS, RECORDED, WORKLOAD, cut)
    assert near is not None and near["waits"]["jobs"] == 2
    assert module.nearness_of(JOBS, RECORDED, WORKLOAD, measured(settings={"window": [0.0, 1.0], "processors": 8})) is None


def test_groups_by_what_the_workload_says() -> None:
    workload = pl.DataFrame(
        {
            "id": [1, 2, 3, 4, 5, 6],
            "user": [7, -1, 3, 7, 7, 7],
            "partition": [-1, 2, 3, -1, 4, 4],
            "partition_name": ["gpu", "", None, "", "", ""],
            "request": [
                "nodes=1 gres=nvme:1,gpu:a100:4",
                "gpus=2",
                None,
                "gres=nvme:1",
                "cpus_per_task=2 gpus_per_task=1",
                "gres=gpu:1",
            ],
            "begin_virtual": [None, 5.0, None, None, None, None],
            "hold_virtual": [None, None, 0.5, None, None, None],
        }
    )
    assert module.traits_of(workload).rows() == [
        (1, 7, "gpu", True, False),
        (2, None, "2", True, True),
        (3, 3, "3", False, True),
        (4, 7, None, False, False),
        (5, 7, "4", True, False),
        (6, 7, "4", True, False),
    ]
    assert module.traits_of(workload.select("id")).rows() == [(number, None, None, False, False) for number in range(1, 7)]


@pytest.mark.parametrize(("share", "verdict"), [(0.05, False), (0.051, True)])
def test_requests_that_are_not_played_make_it_inconclusive(share: float, verdict: bool) -> None:
    asked = {"gres": Count(jobs=1, share=share), "any": Count(jobs=1, share=share)}
    near = module.nearness_of(JOBS, RECORDED, WORKLOAD, measured(not_played=asked))
    assert near is not None
    assert near["played_in_full"] == pytest.approx(1 - share)
    assert bool(near["inconclusive"]) is verdict
    if verdict:
        assert near["inconclusive"].startswith(
            "jobs with 5.1 % of the processor time have requests that are not emulated (GPUs or other GRES 5.1 %"
        )


def test_all_requests_are_played() -> None:
    near = module.nearness_of(JOBS, RECORDED, WORKLOAD, measured(not_played={}))
    assert near is not None and near["played_in_full"] == 1
