"""The costs of a replay on the event clock."""

from __future__ import annotations

import pytest

from mirage.experiment.prepare import Prepared, source
from mirage.experiment.replay_costs import costs
from mirage.knobs import resolve as knobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.replay.real_left import Costs

LUBLIN = {"MODEL": "lublin", "JOBS": "150", "NODES": "16", "CPUS": "4"}
MEASURED = [
    ({}, 17.2),
    ({**LUBLIN, "NODES": "8", "LOAD": "1.2"}, 3.1),
    ({**LUBLIN, "LOAD": "1.2", "SEED": "4", "OVERRUN": "kill"}, 4.4),
    ({**LUBLIN, "LOAD": "1.5", "SEED": "10"}, 3.1),
    ({"MODEL": "raijin", "JOBS": "200", "NODES": "20", "CPUS": "8", "LOAD": "2"}, 2.8),
]
"""Runs with Slurm's defaults on 2 processors, and slurmctld's processor time in them."""


@pytest.mark.parametrize(("words", "scheduler"), MEASURED)
def test_the_scheduler_of_measured_runs_is_within_the_range(words: dict[str, str], scheduler: float) -> None:
    values = knobs.resolve({**words, "SPEED": "event"})
    predicted = Prepared.make(values, source(values.workload, values.nodes.machine).trace, values.jobs.shrinks[0]).predicted
    assert scheduler / 3**0.5 <= predicted.scheduler <= scheduler * 3**0.5


def test_more_of_anything_costs_more() -> None:
    def seconds(nodes: int = 100, cpus: int = 1, jobs: int = 100, virtual: float = 1e5, waiting: int = 9) -> float:
        of_run = costs(nodes, nodes * cpus, 30.0, 500, backfills=True)
        return of_run.real(jobs, virtual, 1e4 * of_run.cycles.tests(waiting, 5))

    for more in ({"jobs": 200}, {"nodes": 1000}, {"cpus": 8}, {"waiting": 10}, {"virtual": 1e6}):
        assert seconds(**more) > seconds()  # type: ignore[arg-type]


def test_the_scheduler() -> None:
    """Half as many cycles cost half as much; sched/builtin less than backfilling; no cycles nothing."""
    often, rarely = (costs(100, 400, interval, 500, backfills=True) for interval in (30.0, 60.0))
    assert often.tested == pytest.approx(2 * rarely.tested) and often.job == rarely.job
    assert 0 < costs(100, 400, 30.0, 500, backfills=False).tested < often.tested
    assert costs(100, 400, None, 500, backfills=True).tested == 0


def test_a_queue_makes_tests_longer_on_large_machines() -> None:
    """On 16 nodes of 4 a waiting job among 60 costs little more than one alone, on 5,544 of 16 a hundred times as much (0.12 s)."""

    def test_among(waiting: int, nodes: int, cpus: int) -> float:
        of_run = costs(nodes, nodes * cpus, 30.0, 500, backfills=True)
        return of_run.real(0, 0, 30.0 * of_run.cycles.tests(waiting, 5)) / waiting

    assert test_among(60, 16, 4) < 4 * test_among(1, 16, 4)
    assert 0.06 <= test_among(59, 5544, 16) <= 0.24
    assert 0.008 <= test_among(13, 3600, 16) <= 0.032


def test_costs_in_run_json() -> None:
    assert Costs.of({}) == Costs()
    assert Costs.of({"job": 1, "second": 2.0, "tested": 3, "depth": 4, "other": None}) == Costs(1, 2.0, 3, 4)
    assert Costs.of({"doubled": 7.5, "until": 90}) == Costs(doubled=7.5, until=90)
    for wrong in ({"doubled": 0}, {"until": -1}, {"job": None}, {"second": -1.0}, {"tested": "1"}, {"depth": 1.5}, {"job": True}):
        with pytest.raises(WrongUse, match=r"run\.json: costs"):
            Costs.of(wrong)
