"""SPEED=auto: what is read from the records of a calibration, made up here, and what becomes of it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from run_folders import VIRTUAL_ZERO, MadeFolder

from mirage.experiment import calibration, prepare
from mirage.experiment.calibration import ALONE, BURST, QUEUE, SPEED, Replay, measure, plan, speed_for
from mirage.experiment.endings import Failed
from mirage.knobs import resolve as knobs
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.jobs.plan import parse_plan, plan_text

LAUNCH, WAY_BACK, SUBMIT = 0.012, 0.02, 0.006  # real seconds
RATE = 25.0  # jobs a second of the burst


def calibrated(folder: Path, state: str = "COMPLETED") -> MadeFolder:
    """Records of a calibration on a host that does RATE jobs a second and takes LAUNCH and WAY_BACK for each of them alone."""
    made = MadeFolder(folder, float(SPEED))
    for row in plan("RUN", 1, 64):
        number = made.job(row.due, row.runtime, row.processors, lag=SUBMIT)
        waits = max(0, min(row.index - ALONE, BURST)) / RATE if number > ALONE else 0.0
        allocated = row.due + (SUBMIT + waits) * made.speed
        begun = allocated + LAUNCH * made.speed
        last = number == len(plan("RUN", 1, 64))
        ends = begun + row.runtime
        made.record(number, begun, ends)
        made.slurm(number, allocated, ends + WAY_BACK * made.speed, state if last else "COMPLETED")
    return made


def test_the_plan_is_one() -> None:
    rows = plan("r.calibration", 3, 100)
    assert parse_plan(plan_text(rows)) == rows
    assert len(rows) == ALONE + BURST + 1 + QUEUE
    assert [row.processors for row in rows].count(100) == 1
    assert {row.processors for row in rows} == {3, 100}
    # Alone: each has long ended when the next one comes.
    assert all(after.due - row.due > 10 * row.runtime for row, after in pairwise(rows[:ALONE]))


def test_costs_are_read_from_the_records(tmp_path: Path) -> None:
    calibrated(tmp_path).write()
    found = measure(RunFolder(tmp_path))
    cost = found.cost
    # Slurm prints whole seconds, 10 ms at this speed; the run times are spread over one.
    assert cost.hold_p50 == pytest.approx(LAUNCH + WAY_BACK, abs=0.004)
    assert cost.hold_p50 <= cost.hold_p99 <= LAUNCH + WAY_BACK + 0.011
    # A second of Slurm's is taken off: what is left at 12 ms, and at any instant within the second before, is next to nothing.
    assert 0 <= cost.start <= 0.003
    assert cost.submit == pytest.approx(SUBMIT, abs=0.001)
    assert found.rate == pytest.approx(RATE, rel=0.02)
    assert cost.submit + cost.launch == pytest.approx(1 / found.rate)
    assert cost.backfill is None
    assert (found.busy_alone, found.busy_burst) == (None, None)


def test_backfill_and_processors_are_told_where_they_were_sampled(tmp_path: Path) -> None:
    calibrated(tmp_path).write()
    # A cycle of 20 s of the cluster's with 100 waiting; one of 1 s with 10, which is mostly what each cycle costs.
    (tmp_path / "sdiag.csv").write_text("bf_last_cycle_us,bf_queue_length\n20000000,100\n1000000,10\n,\n")
    alone, burst = (VIRTUAL_ZERO + at for at in (100, 80 * ALONE + 250))
    (tmp_path / "samples.csv").write_text(f"virtual,cpu_busy\n{alone},0.2\n{alone + 100},0.4\n{burst},0.9\n{burst + 1e6},0.1\n")
    found = measure(RunFolder(tmp_path))
    assert found.cost.backfill == pytest.approx(20 / 100 / 100)
    assert (found.busy_alone, found.busy_burst) == (0.3, 0.9)
    [words] = found.lines()
    assert words.endswith("(the host's processors busy to 90%); a backfill cycle takes 2.0 ms for each waiting job")
    assert (
        replace(found, busy_alone=0.95)
        .lines()[1]
        .startswith("warning: with one job at a time the host's processors were busy to 95%")
    )


def test_a_job_that_failed_spoils_it(tmp_path: Path) -> None:
    calibrated(tmp_path, state="NODE_FAIL").write()
    with pytest.raises(Failed, match=r"did not complete \(1 NODE_FAIL\): see "):
        measure(RunFolder(tmp_path))


# ---- the run that it is made for ----


def prepared(tmp_path: Path, **given: str) -> prepare.Prepared:
    """Forty jobs of 50 minutes, one after the other, of 2 processors each."""
    swf = "".join(f"{k + 1} {4000 * k} 0 3000 2 -1 -1 2 6000 -1 1 1 1 1 1 1 -1 -1\n" for k in range(40))
    (tmp_path / "log.swf").write_text(swf)
    values = knobs.resolve({"TRACE": str(tmp_path / "log.swf"), "NODES": "64", "CPUS": "1", **given})
    return prepare.Prepared.make(values, prepare.source(values.workload, values.nodes.machine).trace, Decimal(100))


class Host:
    """What stands in for the cluster: it leaves the records above."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Decimal]] = []
        self.narrowest = 0

    def replay(self, run: str, speed: Decimal, folder: Path, more: Mapping[str, Any]) -> None:
        self.asked.append((run, speed))
        rows = parse_plan((folder / "plan.csv").read_text())
        self.narrowest = min(row.processors for row in rows)
        assert pl.read_csv(folder / "workload.csv").height == len(rows)
        calibrated(folder).write()
        (folder / "scontrol.txt").write_text("SchedulerParameters     = batch_sched_delay=0,bf_interval=7,bf_window=10080\n")
        (folder / "sdiag.csv").write_text("bf_last_cycle_us,bf_queue_length\n20000000,100\n")


def never(run: str, speed: Decimal, folder: Path, more: Mapping[str, Any]) -> None:
    raise AssertionError("it is not calibrated again")


def speed_of(folder: Path, run: prepare.Prepared, replay: Replay) -> tuple[Any, list[str]]:
    told = io.StringIO()
    speed = speed_for(run, folder, replay, Screen(told))
    return speed, told.getvalue().splitlines()


def test_a_speed_that_is_given_is_taken(tmp_path: Path) -> None:
    assert speed_of(tmp_path, prepared(tmp_path, SPEED="20"), never) == (Decimal(20), [])


def test_auto_calibrates_once_and_keeps_what_it_picked(tmp_path: Path) -> None:
    run, host, folder = prepared(tmp_path, SPEED="auto"), Host(), tmp_path / "r"
    folder.mkdir()
    write_json(folder / "experiment.json", {"inputs": {"SPEED": "auto"}})
    speed, told = speed_of(folder, run, host.replay)
    assert host.asked == [("r.calibration", SPEED)]
    assert host.narrowest == 2
    # Run times of 3000 s: 1 % is 30 s, and a job is held for 32 ms (and 10 ms that Slurm's seconds are unsure of) beyond its own.
    assert 350 <= speed <= 550
    assert 3 <= len(told) <= 6
    assert told[-1].startswith(f"SPEED={speed} is picked: 0.5 of ")
    stored = read_json(folder / "calibration.json")
    assert stored is not None and Decimal(str(stored["speed"])) == speed
    assert stored["found"]["cost"]["submit"] == pytest.approx(SUBMIT, abs=0.001)
    assert {limit["name"]: limit["bound"] for limit in stored["limits"]} == {
        "mean submit lag": pytest.approx(4000, rel=0.01),  # 0.04 s at the largest speed that is looked at: it never binds
        "submit lag p99": pytest.approx(4000, rel=0.01),
        "start latency p50": pytest.approx(4000, rel=0.01),
        "run-time stretch p50": 30,
        "run-time stretch of short jobs": 151,
        "run-time stretch p99": pytest.approx(4750, rel=0.01),
        "longest backfill cycle": pytest.approx(4000, rel=0.01),
    }
    experiment = read_json(folder / "experiment.json")
    assert experiment == {
        "inputs": {"SPEED": "auto"},
        "clock": {"asked": "auto", "speed": float(speed)},
    }
    again, said = speed_of(folder, run, never)
    assert again == speed
    assert said == [f"SPEED={speed}, which was picked for this run before"]
    on_event_clock = prepared(tmp_path, SPEED="event")
    assert speed_of(folder, on_event_clock, never)[0] == speed, "a run that was begun with SPEED=auto"
    assert speed_of(tmp_path, on_event_clock, never) == ("event", [])


def test_an_interrupted_calibration_leaves_nothing_that_would_be_believed(tmp_path: Path) -> None:
    def interrupted(run: str, speed: Decimal, folder: Path, more: Mapping[str, Any]) -> None:
        raise Failed("interrupted")

    run, host, folder = prepared(tmp_path, SPEED="auto"), Host(), tmp_path / "r"
    folder.mkdir()
    with pytest.raises(Failed):
        speed_of(folder, run, interrupted)
    assert not (folder / "calibration.json").exists()
    first = (folder / "calibration/plan.csv").read_text()
    speed_of(folder, run, host.replay)
    assert parse_plan(first) == plan("r.calibration", 2, 64)


def test_it_takes_about_a_minute() -> None:
    assert 30 <= calibration._duration() <= 60
