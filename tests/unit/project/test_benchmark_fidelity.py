"""The benchmark of start times: its workloads, its order of runs, the parts of a difference, and its statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from run_folders import ORIGIN, MadeFolder

from benchmarks import fidelity_differences as differences
from benchmarks.fidelity import Run, Selection, report, select
from benchmarks.fidelity_workload import (
    BURSTS,
    CONFIGS,
    INTERVAL,
    JOBS,
    MACHINE,
    PERIOD,
    SLACK,
    TOLERANCE,
    passes,
    phases,
    simulated,
    to_swf,
    workload,
)
from benchmarks.figures import Figures
from mirage.traces.swf import read_swf, write_swf


@pytest.mark.parametrize("config", list(CONFIGS))
def test_each_burst_finds_an_empty_machine_and_limits_are_whole_minutes(config: str) -> None:
    jobs = workload(config)
    burst = np.arange(jobs.height) // JOBS
    assert jobs.height == BURSTS * JOBS
    assert ((jobs["limit"] % 60 == 0) & (jobs["limit"] - jobs["runtime"] == SLACK)).all()
    for start in phases(jobs, config):
        assert (start >= jobs["submit"].to_numpy()).all()
        assert (start + jobs["runtime"].to_numpy() < (burst + 1) * PERIOD).all()


def test_delays_change_no_order_under_easy() -> None:
    """Random delays of all submissions and ends, other than those that the workload was chosen by."""
    jobs, random = workload("easy"), np.random.default_rng(99)
    wanted = passes(jobs, simulated(jobs, "easy", 0.25))
    assert wanted.sum() > 20
    same = 0
    for _ in range(100):
        late = random.uniform(0, TOLERANCE, (2, jobs.height))
        delayed = jobs.with_columns(
            submit=np.maximum.accumulate(jobs["submit"].to_numpy() + late[0]), runtime=jobs["runtime"].to_numpy() + late[1]
        ).with_columns(limit=pl.max_horizontal("limit", "runtime"))
        same += bool((passes(delayed, simulated(delayed, "easy", random.uniform(0, INTERVAL))) == wanted).all())
    assert same >= 85


def test_the_workload_survives_its_file(tmp_path: Path) -> None:
    jobs = workload("fifo")
    write_swf(to_swf(jobs), {"MaxProcs": str(MACHINE)}, tmp_path / "fifo.swf")
    read = read_swf(tmp_path / "fifo.swf")[0]
    assert read["submit"].to_list() == jobs["submit"].to_list()
    assert read["requested_processors"].to_list() == jobs["processors"].to_list()


def test_each_replica_has_all_runs_in_another_order_which_is_always_the_same() -> None:
    runs = Selection().runs()
    blocks = [[(run.config, run.speed) for run in runs[8 * k : 8 * k + 8]] for k in range(3)]
    assert all(len(set(block)) == 8 for block in blocks)
    assert len({tuple(block) for block in blocks}) == 3
    assert runs == Selection().runs()


def test_arguments() -> None:
    assert select(["easy", "report", "--speeds=20", "--replicas=2"]) == Selection(("easy",), (20,), 2, False)
    assert select(["--speeds=event"]).speeds == ("event",)
    assert select(["fifo", "--speeds=event,20"]) == Selection(("fifo",), ("event", 20), 3, True)
    for wrong in (["quick"], ["--speed=3"], ["--speeds=0"], ["--speeds=event,0"], ["--speeds=events"], ["--replicas=x"]):
        with pytest.raises(ValueError, match=r"may be|whole|literal"):
            select(wrong)


def folder(path: Path, config: str, *, lag: float = 0.0, stretch: float = 0.0, turn: float = 0.0) -> Path:
    """A finished run's files: each job is accepted `lag` late, runs `stretch` longer, and starts `turn` after it could."""
    jobs = workload(config)
    path.mkdir()
    delayed = jobs.with_columns(submit=pl.col("submit") + lag, runtime=pl.col("runtime") + stretch)
    delayed = delayed.with_columns(limit=pl.max_horizontal("limit", "runtime"))
    start = pl.Series(phases(delayed, config).mean(0)) + turn
    records = jobs.select("id", start=start, end=start + jobs["runtime"] + stretch, submit_lag=pl.lit(lag))
    records.write_csv(path / "jobs.csv")
    jobs.select("id", limit_minutes=(pl.col("limit") / 60).cast(pl.Int64)).write_csv(path / "plan.csv")
    return path


def test_the_starts_of_a_run_are_right_on_average(tmp_path: Path) -> None:
    """Jobs that Slurm started evenly over the fractions of its seconds, at SPEED=100, with launches of 30 ms."""
    made = MadeFolder(tmp_path, speed=100.0)
    starts = [600.0 * number + 20 + number / 40 for number in range(40)]
    for number, start in enumerate(starts):
        made.played(made.job(due=600.0 * number, runtime=100.0), start=start, launch=0.03)
    recorded = made.collect().jobs["start"].to_numpy() - ORIGIN
    assert float(np.mean(recorded - starts)) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("config", list(CONFIGS))
def test_the_parts_of_a_difference_are_what_was_injected(tmp_path: Path, config: str) -> None:
    none = differences.of_run(folder(tmp_path / "none", config), config)
    assert none["late"].abs().max() == pytest.approx(0)
    assert none["order"].to_list() == [0] * none.height
    each = differences.of_run(folder(tmp_path / "each", config, lag=2.0, stretch=3.0, turn=4.0), config)
    lag = differences.of_run(folder(tmp_path / "lag", config, lag=2.0), config)
    assert each["turns"].to_list() == pytest.approx([4.0] * each.height)
    assert lag["late"].to_list() == pytest.approx(lag["lag"].to_list())
    assert each["lag"].to_list() == pytest.approx(lag["lag"].to_list())
    assert (each["late"] - each["lag"] - each["runs"] - each["turns"]).abs().max() == pytest.approx(0)
    assert np.mean(each["runs"].to_numpy()) > 3.0  # later jobs wait for several before them


def test_a_chain_counts_the_ends_that_a_start_waited_for(tmp_path: Path) -> None:
    """A burst of FIFO: the first job starts at once, a job that starts when another ends has one end more than that one."""
    frame = differences.of_run(folder(tmp_path / "run", "fifo"), "fifo")
    jobs, start = workload("fifo"), simulated(workload("fifo"), "fifo", 0.0)
    end = start + jobs["runtime"].to_numpy()
    chain = frame["chain"].to_list()
    for job in range(jobs.height):
        before = [chain[other] + 1 for other in np.flatnonzero(end == start[job]) if start[job] > jobs["submit"][job]]
        assert chain[job] == max(before, default=0)
    assert chain[0] == 0
    assert 5 < max(chain) < JOBS


def test_another_workloads_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not the jobs of the workload"):
        differences.of_run(folder(tmp_path / "run", "easy"), "fifo")


def test_order_counts_pairs_that_started_the_other_way_round(tmp_path: Path) -> None:
    path = folder(tmp_path / "run", "easy")
    jobs, records = workload("easy"), pl.read_csv(path / "jobs.csv")
    row, column = (int(found[0]) for found in np.nonzero(passes(jobs, records["start"].to_numpy())))
    wide = int(np.flatnonzero(jobs["processors"].to_numpy() == MACHINE)[row])
    start = records["start"].to_list()
    start[column] = start[wide] + 0.5  # after that wide job, which it passes in the simulation
    records.with_columns(start=pl.Series(start)).write_csv(path / "jobs.csv")
    assert differences.of_run(path, "easy")["order"][0] >= 1


def test_trends_by_hand() -> None:
    """Means 1, 2, 3 and 1, 2, 6 at 100, 200, 300: slope 1.75 per 100, residuals -0.75+..., Kendall's tau-b 12/sqrt(15*12)."""
    rows = [
        {"config": "fifo", "speed": speed, "mean": mean, "turn": mean / 10} for speed, mean in ((100, 1.0), (200, 2.0), (300, 3.0))
    ]
    rows += [
        {"config": "fifo", "speed": speed, "mean": mean, "turn": mean / 10} for speed, mean in ((100, 1.0), (200, 2.0), (300, 6.0))
    ]
    trend, turn = differences.trends(rows)
    assert (turn["figure"], turn["slope"]) == ("a turn", pytest.approx(0.175))
    assert trend["at_zero"] == pytest.approx(-1.0)
    residuals = [1 - 0.75, 2 - 2.5, 3 - 4.25, 1 - 0.75, 2 - 2.5, 6 - 4.25]
    error = (sum(r * r for r in residuals) / 4 / 4) ** 0.5
    assert trend["slope"] == pytest.approx(1.75)
    assert trend["high"] - trend["slope"] == pytest.approx(2.776 * error, rel=1e-3)
    assert trend["runs"] == 6
    assert 0 < trend["p"] < 0.1
    assert trend["tau"] == pytest.approx(12 / (13 * 12) ** 0.5)
    assert differences.trends([*rows, {"config": "fifo", "speed": "event", "mean": 99.0, "turn": 99.0}])[0] == trend
    assert differences.trends(rows[:2]) == []


def test_quantiles_and_the_interval_over_replicas() -> None:
    def frame(late: list[float]) -> pl.DataFrame:
        jobs = {"id": [1, 2, 3], "processors": [1, 1, 1], "wait": [10.0] * 3, "start": [100.0, 101.0, 200.0], "late": late}
        return pl.DataFrame(jobs).with_columns(
            lag=pl.lit(0.0), runs=pl.lit(0.0), turns=pl.col("late"), chain=pl.Series([0, 1, 2]), order=pl.lit(0)
        )

    runs = [({"config": "easy", "speed": 20, "replica": k}, frame([-4.0, 0.0, k + 3.0])) for k in (1, 2)]
    event = ({"config": "easy", "speed": "event", "replica": 1}, frame([2.0, 0.0, 0.0]))
    first, row = differences.quantiles([*runs, event])
    assert (first["speed"], first["spread"], first["half"]) == ("event", None, None)
    assert first["alike"] == pytest.approx(1 / 3)  # one pair of three starts the other way round
    assert (row["alike"], row["spread"]) == pytest.approx((1.0, 1 / 18**0.5))
    assert (row["p50"], row["abs50"], row["mean"], row["percent"]) == pytest.approx((0.0, 4.0, 1 / 6, 100 / 60))
    assert row["turn"] == pytest.approx((8 / 5 + 10 / 5) / 2)
    assert row["half"] == pytest.approx(12.706 * (1 / 18**0.5) / 2**0.5, rel=1e-3)
    [worst] = differences.largest(runs)
    assert (worst["replica"], worst["late"], worst["id"]) == (2, 5.0, 3)
    figures: Figures = {"runs": [], "jobs": [], "largest": [], "trends": []}
    assert report(figures) == "there are no finished runs"


def test_a_run_is_kept_by_its_configuration_speed_and_replica() -> None:
    run = Run("easy", 100, 2)
    assert run.folder.name == "bench-fidelity-easy-100-2"
    assert run.knobs(Path("x.swf"))["CONFIG"] == "easy"
    assert run.knobs(Path("x.swf"))["SEED"] == "2"
