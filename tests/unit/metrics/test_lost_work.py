"""Work that was lost by requeues, preemptions and node failures, and waits for processors by jobs that are not eligible."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from schedules import frame, stops

from mirage.metrics import metrics
from mirage.metrics.formulas import NO_INSTANTS


def lost(*rows: tuple[int, float, float]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=metrics.EXECUTIONS_SCHEMA, orient="row")


# It ran from 0 to 90, was requeued, and ran from 100 to 200.
REQUEUED = frame({"submit": 0, "start": 100, "end": 200})
EARLIER = lost((1, 0.0, 90.0))


def values(jobs: pl.DataFrame, processors: int = 1, **tables: Any) -> dict[str, Any]:
    found: dict[str, Any] = metrics.compute(jobs, processors, processors, **tables)["metrics"]
    return found


def test_lost_work_is_wait_and_wasted_processor_time() -> None:
    found = values(REQUEUED, executions=EARLIER)
    assert (found["wait_mean"], found["response_mean"], found["slowdown_mean"], found["W1"]) == (100, 200, 2.0, 1.0)
    assert (found["utilisation"], found["goodput"]) == (0.95, 0.5)
    assert found["wasted_fraction"] == pytest.approx(0.9 / 1.9)


def test_requeueing_wins_nothing_against_waiting() -> None:
    requeued, waited = values(REQUEUED, executions=EARLIER), values(frame({"submit": 0, "start": 100, "end": 200}))
    for name in ("wait_mean", "slowdown_mean", "bounded_slowdown_mean", "goodput", "W1"):
        assert requeued[name] == waited[name], name
    assert (waited["utilisation"], waited["wasted_fraction"]) == (0.5, 0.0)


def test_the_processors_of_an_earlier_execution_are_busy_and_its_job_does_not_wait() -> None:
    # Beside it on a machine of two processors a job waits for both from 0 to 200.
    jobs = pl.concat([REQUEUED, frame({"id": 2, "submit": 0, "start": 200, "end": 300, "processors": 2})])
    result = metrics.compute(jobs, 2, 2, executions=EARLIER)
    # One of two is idle from 0 to 90 and from 100 to 200, both from 90 to 100.
    assert result["metrics"]["loss_of_capacity"] == pytest.approx((90 + 2 * 10 + 100) / (2 * 300))
    assert result["distribution"] == {"nodes": [0, 1, 2], "share": pytest.approx([10 / 300, 190 / 300, 100 / 300])}
    alone = values(REQUEUED, processors=2, executions=EARLIER)
    assert alone["loss_of_capacity"] == pytest.approx(10 / (2 * 200))


def test_earlier_executions_count_for_what_lies_in_the_window() -> None:
    # From 50 to 190: 40 s of the lost execution, 90 s of the other one. Another job is submitted in it.
    jobs = pl.concat([REQUEUED, frame({"id": 2, "submit": 95, "start": 95, "end": 95})])
    found = values(jobs, executions=EARLIER, warmup_cut=50, cooldown_cut=10)
    assert found["utilisation"] == pytest.approx(130 / 140)
    assert found["goodput"] == pytest.approx(90 / 140)
    assert found["wasted_fraction"] == pytest.approx(40 / 130)


def test_a_suspended_execution_wastes_what_it_held() -> None:
    found = values(REQUEUED, executions=EARLIER, suspensions=stops((1, 20.0, 50.0)))
    assert found["wasted_fraction"] == pytest.approx(60 / 160)
    assert (found["suspensions_mean"], found["suspended_mean"]) == (0, 0)  # of the last execution
    unknown = metrics.compute(REQUEUED, 1, 1, executions=EARLIER, suspensions=stops((1, None, 50.0)))
    assert unknown["null_reasons"]["wasted_fraction"] == unknown["null_reasons"]["goodput"] == NO_INSTANTS


@pytest.mark.parametrize(
    ("state", "wasted"), [("PREEMPTED", 1.0), ("NODE_FAIL", 1.0), ("TIMEOUT", 0.0), ("FAILED", 0.0), ("CANCELLED", 0.0)]
)
def test_the_last_execution_is_wasted_if_the_system_ended_it(state: str, wasted: float) -> None:
    found = values(frame({"submit": 0, "start": 0, "end": 60, "state": state, "suspended": 10}), suspensions=stops((1, 5.0, 15.0)))
    assert (found["utilisation"], found["wasted_fraction"]) == (pytest.approx(50 / 60), wasted)
    assert found["goodput"] == pytest.approx((1 - wasted) * 50 / 60)


def test_a_job_cancelled_in_the_queue_after_a_requeue_never_finished() -> None:
    given_up = frame({"submit": 0, "end": 70, "state": "CANCELLED"}, {"submit": 0, "start": 60, "end": 100})
    result = metrics.compute(given_up, 1, 1, executions=lost((1, 10.0, 60.0)))
    assert result["excluded"] == {"cancelled in the queue after a requeue": 1}
    assert result["censored"] == {"jobs": 1, "share": 0.5}
    found = result["metrics"]
    assert (found["utilisation"], found["goodput"]) == (pytest.approx(0.9), pytest.approx(0.4))
    assert found["wasted_fraction"] == pytest.approx(50 / 90)
    # Until 10 it waits for the idle processor, as does the other job.
    assert found["loss_of_capacity"] == pytest.approx(0.1)


# Eligibility.


def test_a_job_that_is_not_eligible_is_no_demand() -> None:
    """Of two processors one is idle, and the only job that is not running depends on the other one."""
    jobs = frame({"submit": 0, "eligible": 0, "start": 0, "end": 1000}, {"submit": 0, "eligible": 1000, "start": 1000, "end": 1100})
    found = values(jobs, processors=2)
    assert (found["loss_of_capacity"], found["wait_mean"]) == (0, 500)
    late = jobs.with_columns(eligible=pl.Series([0.0, 900.0]))
    assert values(late, processors=2)["loss_of_capacity"] == pytest.approx(100 / (2 * 1100))
    assert values(jobs.with_columns(eligible=None), processors=2)["loss_of_capacity"] == pytest.approx(1000 / (2 * 1100))


def test_a_job_that_was_never_eligible_is_no_demand() -> None:
    jobs = frame({"submit": 0, "eligible": 0, "start": 0, "end": 1000}, {"submit": 0, "end": 500, "state": "CANCELLED"})
    assert values(jobs, processors=2)["loss_of_capacity"] == 0
    unknown = jobs.with_columns(eligible=pl.lit(None, pl.Float64))
    assert values(unknown, processors=2)["loss_of_capacity"] == pytest.approx(500 / (2 * 1000))
