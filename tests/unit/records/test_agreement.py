"""What a log says of a run's jobs, beside what happened to them in the run: worked by hand."""

from __future__ import annotations

import polars as pl
import pytest

from mirage.records import agreement as module
from mirage.traces import swf
from mirage.traces.trace import Trace
from mirage.workloads.not_played import Count
from slurm_mirage.base.errors import WrongUse

# number, submit, wait, run time, processors; 1 ended before the others came, 5 began before, 6 came after all had ended.
LOG = ((1, 0, 0, 10, 1), (5, 50, 10, 100, 4), (2, 100, 60, 100, 2), (3, 110, 0, 30, 2), (4, 120, 120, 10, 2), (6, 900, 0, 10, 1))


def trace(rows: tuple[tuple[int, ...], ...]) -> Trace:
    columns = ("job_number", "submit", "wait", "run_time", "allocated_processors")
    known = pl.DataFrame([dict(zip(columns, row, strict=True)) | {"status": 1} for row in rows])
    frame = known.select((pl.col(n) if n in known.columns else pl.lit(-1)).cast(kind).alias(n) for n, kind in swf.SCHEMA.items())
    return Trace(frame, {}, {}, "swf", "")


def workload(*ids: int, preset: int | None = None) -> pl.DataFrame:
    return pl.DataFrame({"id": list(ids), "preset": ["running" if number == preset else "" for number in ids]})


def test_the_jobs_and_who_was_there_beside_them() -> None:
    recorded = module.recorded_of(trace(LOG), workload(2, 3, 4))
    assert recorded.rows() == [
        (5, 50, 60, 160, 4, False),
        (2, 100, 160, 260, 2, True),
        (3, 110, 110, 140, 2, True),
        (4, 120, 240, 250, 2, True),
    ]


def test_presets_are_not_compared() -> None:
    recorded = module.recorded_of(trace(LOG), workload(5, 2, 3, preset=5))
    assert dict(recorded.select("id", "selected").iter_rows()) == {5: False, 2: True, 3: True, 4: False}


def test_a_log_without_waits_says_so() -> None:
    with pytest.raises(WrongUse, match="does not record how long these jobs waited"):
        module.recorded_of(trace(((1, 0, -1, 10, 1),)), workload(1))


def test_agreement_by_hand() -> None:
    recorded = module.recorded_of(trace(LOG), workload(2, 3, 4))
    jobs = pl.DataFrame({"id": [4, 3, 2], "submit": [120.0, 110.0, 100.0], "start": [125.0, 211.0, 160.0]})
    pairs = module.paired(jobs, recorded)
    assert pairs.select("id", "log", "emulation", "difference").rows() == [(4, 120, 5, -115), (3, 0, 101, 101), (2, 60, 60, 0)]
    told = module.agreement(pairs, recorded, {})
    assert told["inconclusive"] == ""
    assert told["jobs"] == 3
    assert (told["log_mean"], told["emulation_mean"]) == (60, pytest.approx(166 / 3))
    assert (told["within_minute"], told["shorter"], told["longer"]) == (pytest.approx(1 / 3),) * 3
    assert told["rank_correlation"] == pytest.approx(-1)
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
    pairs = pl.DataFrame({"log": [0.0] * len(differences), "emulation": differences, "difference": differences})
    recorded = module.recorded_of(trace(LOG), workload(2))
    told = module.agreement(pairs, recorded, {})
    assert sum(told["classes"].values()) == len(differences)
    # Of each edge the value itself is with its neighbour towards zero.
    assert told["classes"]["within 1 min"] == 4
    assert told["classes"]["over 6 h longer"] == told["classes"]["over 6 h shorter"] == 1
    assert told["rank_correlation"] is None


@pytest.mark.parametrize(("share", "verdict"), [(0.05, False), (0.051, True)])
def test_requests_that_are_not_played_make_it_inconclusive(share: float, verdict: bool) -> None:
    recorded = module.recorded_of(trace(LOG), workload(2))
    pairs = pl.DataFrame({"log": [0.0], "emulation": [1.0], "difference": [1.0]})
    asked = {"gres": Count(jobs=1, share=share), "any": Count(jobs=1, share=share)}
    told = module.agreement(pairs, recorded, asked)["inconclusive"]
    assert bool(told) is verdict
    if verdict:
        assert told.startswith(
            "jobs with 5.1 % of the processor time have requests that are not emulated (GPUs or other GRES 5.1 %"
        )
