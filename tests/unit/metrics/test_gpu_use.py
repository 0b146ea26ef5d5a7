"""mirage.metrics.gpu_use, on schedules that are worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from mirage.metrics.gpu_use import asked_by, gpu_use
from mirage.metrics.jobs_frame import JOBS_SCHEMA
from mirage.metrics.measured_jobs import Population
from slurm_mirage.jobs.request import Request


def population(*jobs: tuple[int, float, float | None, float | None, int]) -> Population:
    """Jobs as id, submit, start, end and nodes; 4 processors each."""
    rows = [
        {
            "id": job, "submit": submit, "eligible": submit, "start": start, "end": end, "processors": 4, "nodes": nodes,
            "state": "COMPLETED" if end is not None else "CANCELLED",
        }
        for job, submit, start, end, nodes in jobs
    ]  # fmt: skip
    frame = pl.DataFrame(rows, {name: JOBS_SCHEMA[name] for name in rows[0]})
    return Population.of(
        frame.select(
            (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in JOBS_SCHEMA.items()
        ),
        64,
        8,
        "0",
        "0",
    )


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("", {}),
        ("gres=gpu:2", {"": 6}),
        ("gres=gpu:a100:2,nvme:1", {"a100": 6}),
        ("gpus=8", {"": 8}),
        ("gpus=a100:2,v100:1", {"a100": 2, "v100": 1}),
        ("gpus_per_task=a100:1 tasks=2", {"a100": 2}),
        ("gpus_per_task=1 cpus_per_task=4", {"": 3}),
    ],
)
def test_gpus_of_a_job_of_12_processors_on_3_nodes(request_: str, expected: dict[str, int]) -> None:
    assert asked_by(Request.parse(request_), 12, 3) == expected


def test_use_by_type_and_fragments() -> None:
    # Window 0 to 100. Four a100: job 1 has 3 of them from 0 to 50, job 2 asks for 2 from 10 on and gets them from 50 to 100; job 3
    # asks for one v100 of two from 20 on, and gets it from 30 to 100. Job 4 asks for no GPU.
    of = population((1, 0, 0, 50, 1), (2, 10, 50, 100, 1), (3, 20, 30, 100, 1), (4, 0, 0, 100, 1))
    asked = {1: "gres=gpu:a100:3", 2: "gres=gpu:a100:2", 3: "gres=gpu:v100:1", 4: ""}
    rows = gpu_use(of, {job: Request.parse(text) for job, text in asked.items()}, {"a100": 4, "v100": 2})
    every, a100, v100 = rows
    assert (a100["gpus"], a100["jobs"], a100["wait_mean"]) == (4, 2, 20.0)
    assert a100["utilisation"] == pytest.approx((3 * 50 + 2 * 50) / 400)
    assert a100["idle_while_asked"] == 0  # one a100 was idle, and job 2 asks for two
    assert v100["utilisation"] == pytest.approx(70 / 200)
    assert v100["idle_while_asked"] == pytest.approx(2 * 10 / 200)  # both were idle from 20 to 30
    assert (every["type"], every["gpus"], every["jobs"]) == ("", 6, 3)
    assert every["utilisation"] == pytest.approx((250 + 70) / 600)
    # Idle are 3 of all from 10 to 30 and 2 from 30 to 50, and jobs wait that ask for 2 at most.
    assert every["idle_while_asked"] == pytest.approx((3 * 20 + 2 * 20) / 600)


def test_a_job_that_never_started_waited_until_its_cancellation() -> None:
    of = population((1, 0, 0, 100, 1), (2, 0, None, None, 1))
    waits = of.unstarted.with_columns(f=pl.lit(40.0))
    asked = {1: Request.parse("gres=gpu:1"), 2: Request.parse("gres=gpu:1")}
    [row] = gpu_use(Population(of.measured, of.inside, waits, of.window, {}), asked, {"": 2})
    assert row["jobs"] == 2 and row["wait_mean"] == 0
    assert row["utilisation"] == pytest.approx(0.5) and row["idle_while_asked"] == pytest.approx(40 / 200)


def test_a_machine_without_gpus_has_no_rows() -> None:
    assert gpu_use(population((1, 0, 0, 10, 1)), {1: Request.parse("")}, {}) == []
