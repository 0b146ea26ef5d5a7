"""The costs of a replay on the event clock."""

from __future__ import annotations

import pytest

from mirage.experiment.replay_costs import costs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.replay.real_left import Costs

# Runs on 2 processors with Slurm's defaults: nodes, processors, jobs, virtual seconds, tests of the cycles of the run's own queue,
# and the replay's real seconds.
MEASURED = [
    (100, 100, 500, 179_970, 154_621, 29),
    (100, 100, 300, 241_980, 118_757, 20),
    (40, 320, 250, 225_480, 258_852, 17),
    (100, 400, 200, 179_970, 314_693, 34),
    (100, 100, 3, 319_680, 0, 6),
]


@pytest.mark.parametrize(("nodes", "processors", "jobs", "virtual", "tested", "real"), MEASURED)
def test_measured_runs_are_within_the_range(
    nodes: int, processors: int, jobs: int, virtual: float, tested: float, real: float
) -> None:
    predicted = costs(nodes, processors, 30.0, 500, backfills=True).real(jobs, virtual, 30.0 * tested)
    assert real / 3**0.5 <= predicted <= real * 3**0.5


def test_more_of_anything_costs_more() -> None:
    def seconds(nodes: int = 100, cpus: int = 1, jobs: int = 100, virtual: float = 1e5, tested: float = 1e5) -> float:
        return costs(nodes, nodes * cpus, 30.0, 500, backfills=True).real(jobs, virtual, tested)

    for more in ({"jobs": 200}, {"nodes": 1000}, {"cpus": 8}, {"tested": 1e6}, {"virtual": 1e6}):
        assert seconds(**more) > seconds()  # type: ignore[arg-type]


def test_the_scheduler() -> None:
    """Half as many cycles cost half as much; sched/builtin less than backfilling; no cycles nothing."""
    often, rarely = (costs(100, 400, interval, 500, backfills=True) for interval in (30.0, 60.0))
    assert often.tested == pytest.approx(2 * rarely.tested) and often.job == rarely.job
    assert 0 < costs(100, 400, 30.0, 500, backfills=False).tested < often.tested
    assert costs(100, 400, None, 500, backfills=True).tested == 0


def test_costs_in_run_json() -> None:
    assert Costs.of({}) == Costs()
    assert Costs.of({"job": 1, "second": 2.0, "tested": 3, "depth": 4, "other": None}) == Costs(1, 2.0, 3, 4)
    for wrong in ({"job": None}, {"second": -1.0}, {"tested": "1"}, {"depth": 1.5}, {"job": True}):
        with pytest.raises(WrongUse, match=r"run\.json: costs"):
            Costs.of(wrong)
