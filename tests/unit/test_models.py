"""Generated workloads: the thesis's shares, the same bytes everywhere, and a default run that ends in time."""

from __future__ import annotations

import hashlib
import heapq
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from slurm_mirage import models, swf, workload
from slurm_mirage.errors import WrongUse

MACHINES = [1, 2, 4, 16, 48, 64, 100, 1000, 5760, 57472]


def first_come_first_served(jobs: pl.DataFrame, processors: int, overhead: float = 0.0) -> tuple[list[float], float]:
    """Waits and makespan under the simplest scheduler: in order of submission, nobody overtakes."""
    free, now, last = processors, 0.0, 0.0
    running: list[tuple[float, int]] = []
    waits = []
    for submit, size, run in jobs.select("submit", "allocated_processors", "run_time").rows():
        now = max(now, submit)
        while running and (running[0][0] <= now or free < size):
            end, released = heapq.heappop(running)
            now, free = max(now, end), free + released
        heapq.heappush(running, (now + run + overhead, size))
        free -= size
        waits.append(now - submit)
        last = max(last, now + run + overhead)
    return waits, last


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("processors", MACHINES)
def test_the_default_workload_is_over_in_time(processors: int, seed: int) -> None:
    jobs = models.default_workload(processors, seed)
    waits, makespan = first_come_first_served(jobs, processors)
    assert 100 <= makespan <= 210
    assert sum(wait > 0 for wait in waits) >= 10
    assert jobs["allocated_processors"].is_between(1, processors).all()
    assert jobs["run_time"].is_between(4, 60).all()
    assert 100 <= jobs["submit"].max() < 120  # type: ignore[operator]
    assert jobs.height == 200 if processors >= 1000 else 20 <= jobs.height <= 200


def test_the_default_machine_is_busy_and_queues() -> None:
    jobs = models.default_workload(360 * 16, 1)
    waits, makespan = first_come_first_served(jobs, 360 * 16)
    assert sum(wait > 0 for wait in waits) >= 50
    used = (jobs["allocated_processors"] * jobs["run_time"]).sum()
    assert 0.5 <= used / (360 * 16 * makespan) <= 0.9


def test_the_default_workload_can_be_submitted() -> None:
    for processors, cpus in ((5760, 16), (100, 1), (4, 2)):
        jobs = models.default_workload(processors, 1)
        ready = workload.prepare(jobs, classes=[(processors // cpus, cpus)], slack=5)
        assert ready.excluded == {}
        assert ready.jobs.height == jobs.height
        assert "renumbered" not in ready.notes


@pytest.mark.parametrize("processors", [48, 57472])
def test_raijins_shares_of_sizes(processors: int) -> None:
    jobs = models.generate("raijin", 20000, 1, processors)
    counts = dict(jobs["allocated_processors"].value_counts().iter_rows())
    fitting = {size: share for size, share in models.default.RAIJIN_SIZES.items() if size <= processors}
    total = sum(fitting.values()) + models.default.RAIJIN_OTHERS
    for size, share in fitting.items():
        assert counts.pop(size) / 20000 == pytest.approx(share / total, abs=0.01)
    assert sum(counts.values()) / 20000 == pytest.approx(models.default.RAIJIN_OTHERS / total, abs=0.01)
    assert max(counts) <= processors


def test_raijins_one_core_jobs_have_the_share_of_service_units_that_the_thesis_names() -> None:
    jobs = models.generate("raijin", 50000, 1, 57472).with_columns(units=pl.col("allocated_processors") * pl.col("run_time"))
    share = jobs.filter(pl.col("allocated_processors") == 1)["units"].sum() / jobs["units"].sum()
    assert share == pytest.approx(0.016, abs=0.002)


def test_arrivals_are_uniform_and_offer_the_load() -> None:
    jobs = models.generate("raijin", 20000, 1, 5760)
    span: float = jobs["submit"].max()  # type: ignore[assignment]
    quarters = (jobs["submit"] / span * 4).floor().clip(0, 3).value_counts()["count"]
    assert all(count / 20000 == pytest.approx(0.25, abs=0.02) for count in quarters)
    used = (jobs["allocated_processors"] * jobs["run_time"]).sum()
    assert used / (5760 * span) == pytest.approx(0.8, rel=0.01)


@pytest.mark.parametrize(
    "jobs", [models.generate("raijin", 2000, 7, 100), models.default_workload(100, 7)], ids=["generate", "default"]
)
def test_form_of_a_generated_workload(jobs: pl.DataFrame) -> None:
    assert jobs.schema == swf.SCHEMA
    assert jobs["job_number"].to_list() == list(range(1, jobs.height + 1))
    assert jobs["submit"][0] == 0
    assert all(a <= b for a, b in pairwise(jobs["submit"]))
    assert (jobs["run_time"] >= 1).all()
    assert (jobs["requested_time"] >= jobs["run_time"]).all()
    assert (jobs["requested_time"] % 60 == 0).all()
    assert jobs["allocated_processors"].equals(jobs["requested_processors"], check_names=False)
    assert set(jobs["status"]) == {1}
    assert set(jobs["wait"]) == {-1}


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    def digest(jobs: pl.DataFrame) -> str:
        swf.write_swf(jobs, {}, tmp_path / "w.swf")
        return hashlib.sha256((tmp_path / "w.swf").read_bytes()).hexdigest()

    # Fixed here, so that another platform, or a change made by mistake, shows.
    assert digest(models.generate("raijin", 1000, 1, 5760)) == "b57df95e5387151dd027d6d3f8b1f99989db714dcff2ebd8bcaddc8b8f168c65"
    assert digest(models.default_workload(5760, 1)) == "423b69b8b423d864b2a7327257f49fcda4b84e6fe4ae4f8bf65be19afdf700ac"
    assert digest(models.default_workload(5760, 2)) != digest(models.default_workload(5760, 1))
    assert digest(models.generate("raijin", 1000, 2, 5760)) != digest(models.generate("raijin", 1000, 1, 5760))


def test_one_processor_and_one_job() -> None:
    assert models.generate("raijin", 1, 1, 1)["allocated_processors"].to_list() == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lublin", 10, 1, 100), "MODEL: 'lublin' may be raijin"),
        (("raijin", 0, 1, 100), "JOBS: 0 may be 1 or more"),
        (("raijin", 10, 1, 0), "CPUS: 0 processors in all"),
    ],
)
def test_wrong_use(arguments: tuple[str, int, int, int], message: str) -> None:
    with pytest.raises(WrongUse, match=f"^{message}"):
        models.generate(*arguments)
