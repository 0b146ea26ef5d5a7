"""A run on the event clock: its records are those of a run at SPEED=1, and the verdict knows what the clock itself reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from run_folders import MadeFolder, beside

from mirage.experiment import runs
from mirage.records.record import RunRecord
from mirage.records.run_clock import speed_of_records
from mirage.records.run_folder import RunFolder
from mirage.verdict import metric_errors, run_results
from mirage.verdict.resolution import Resolution, Scales, metrics_too_coarse, too_coarse
from mirage.verdict.thresholds import Thresholds
from mirage.verdict.validity import judge
from slurm_mirage.rm.evidence import Layout

CLOCK: dict[str, Any] = {
    "jumps": 9000,
    "false_quiets": 12,
    "false_quiet_seconds": 30.0,
    "real_seconds": 12.0,
    "virtual_seconds": 6000.0,
    "busy_real_seconds": 9.0,
    "mode": 1,
    "coordinator_starts": 1,
    "given_up": 0,
    "unlisted": 0,
    "charged_seconds": 0.0,
    "scheduler_seconds": 4.0,
    "reader_steps": 0,
    "idle_cycles": 0,
}
FINISHED: dict[str, Any] = {"ended": 1.0, "released": 0, "messages": {}, "event_clock": CLOCK}


def event_run(folder: Path, **late: float) -> MadeFolder:
    """Ten pairs of jobs on an idle machine: a small one, which starts at once, and one of the whole machine, which waits for it."""
    folder.mkdir(exist_ok=True)
    made = MadeFolder(folder)
    made.clock_kind, made.result = "event", FINISHED
    for pair in range(10):
        due = 600.0 * pair
        made.played(made.job(due=due, runtime=200.0, **late), start=due + late.get("lag", 0.0) + 0.02)
        made.played(made.job(due=due + 1.0, runtime=200.0, processors=64), start=due + 201.2 + late.get("lag", 0.0))
    return made


def verdict(run: RunRecord, clock: dict[str, Any] | None = None, busy: float = 0.5, cycle: float = 0.0) -> dict[str, Any]:
    samples = pl.DataFrame({"nodes_not_responding": [0, 0], "cpu_busy": [busy] * 2})
    cycles = pl.DataFrame({"backfill_last_cycle_us": [cycle * 1e6] * 2, "backfill_max_cycle_us": [cycle * 1e6] * 2})
    result = FINISHED | {"event_clock": clock or CLOCK}
    return judge(beside(samples, cycles, result), run, Layout.of_equal(64, 4), Thresholds())


def test_a_run_on_the_event_clock_is_valid_and_tells_of_its_clock(tmp_path: Path) -> None:
    found = verdict(event_run(tmp_path).collect())
    assert (found["verdict"], found["reasons"]) == ("valid", [])
    assert found["event_clock"] == CLOCK
    assert (found["false_quiet_share"], found["bounds"]["false_quiet_share"]) == (0.005, 0.01)
    assert found["clock_speed"] == pytest.approx(1.0, abs=1e-3)
    json.dumps(found, allow_nan=False)


def test_a_constant_clock_has_no_such_figures(tmp_path: Path) -> None:
    made = event_run(tmp_path)
    made.clock_kind = "constant"
    found = verdict(made.collect())
    assert "event_clock" not in found and "false_quiet_share" not in found["bounds"]


def test_too_many_false_quiets_make_a_run_invalid(tmp_path: Path) -> None:
    run = event_run(tmp_path).collect()
    assert verdict(run, CLOCK | {"false_quiet_seconds": 60.0})["verdict"] == "valid"
    found = verdict(run, CLOCK | {"false_quiet_seconds": 66.0})
    assert found["reasons"] == [
        "the time that the event clock may have let pass while the host worked is 1.1 % of the run's time, over 1 %: repeat the run"
    ]


def test_waits_that_the_clock_had_no_room_for_make_a_run_invalid(tmp_path: Path) -> None:
    found = verdict(event_run(tmp_path).collect(), CLOCK | {"unlisted": 3})
    assert (found["verdict"], found["event_clock"]["unlisted"]) == ("invalid", 3)
    [reason] = found["reasons"]
    assert reason.startswith("3 waits may have ended late, because the event clock has room for 65536 at a time: ")


@pytest.mark.parametrize("clock", [{}, {"false_quiet_seconds": 1.0}, CLOCK | {"virtual_seconds": 0.0}])
def test_unknown_false_quiets_are_inconclusive(tmp_path: Path, clock: dict[str, Any]) -> None:
    run = event_run(tmp_path).collect()
    found = judge(
        beside(
            pl.DataFrame({"nodes_not_responding": [0]}),
            pl.DataFrame(),
            {"ended": 1.0, "released": 0, "messages": {}, "event_clock": clock},
        ),
        run,
        Layout.of_equal(64, 4),
    )
    assert (found["verdict"], found["false_quiet_share"]) == ("inconclusive", None)
    [reason] = found["reasons"]
    assert reason == "what the event clock let pass while the host worked is not known: its figures are not in result.json"


@pytest.mark.parametrize("mode", [2, None])
def test_a_clock_without_bpf_does_not_see_its_false_quiets(tmp_path: Path, mode: int | None) -> None:
    found = verdict(event_run(tmp_path).collect(), CLOCK | {"mode": mode, "false_quiets": 0, "false_quiet_seconds": 0.0})
    assert (found["verdict"], found["false_quiet_share"]) == ("inconclusive", None)
    assert (found["event_clock"]["false_quiets"], found["event_clock"]["jumps"]) == (None, 9000)
    [reason] = found["reasons"]
    assert reason.endswith(" is not known: it had no BPF here (docs/event-clock.md); a constant SPEED needs none")


@pytest.mark.parametrize("told", [None, [], "many", {"virtual_seconds": "9", "false_quiet_seconds": True, "jumps": 1e999}])
def test_what_the_instance_writes_is_not_trusted(tmp_path: Path, told: Any) -> None:
    run = event_run(tmp_path).collect()
    result = {"ended": 1.0, "released": 0, "messages": {}, "event_clock": told}
    found = judge(beside(pl.DataFrame({"nodes_not_responding": [0]}), pl.DataFrame(), result), run, Layout.of_equal(64, 4))
    assert found["verdict"] == "inconclusive"
    json.dumps(found, allow_nan=False)


def test_no_advice_names_a_speed_or_the_hosts_processors(tmp_path: Path) -> None:
    run = event_run(tmp_path, lag=30.0).collect()
    [mean, p99, *_] = verdict(run, busy=1.0)["reasons"]
    assert mean.startswith("mean submit lag is ") and mean.endswith("): repeat the run")
    assert p99.startswith("submit lag p99 is ") and p99.endswith("): repeat the run")


def test_a_long_backfill_cycle_is_the_schedulers_own_where_its_time_counts(tmp_path: Path) -> None:
    run = event_run(tmp_path).collect()
    charged = CLOCK | {"charged_seconds": 55.0}
    [reason] = verdict(run, charged, cycle=40.0)["reasons"]
    assert reason.endswith(": the scheduler's own processor time counts; CHARGE=no leaves it out")
    [reason] = verdict(run, cycle=40.0)["reasons"]
    assert reason.endswith(": repeat the run")


def test_too_coarse_a_run_at_a_constant_speed_names_the_event_clock_first() -> None:
    fast = Resolution(1.0, 20.0, 100.0, may_have_event_clock=True)
    [reason] = too_coarse(fast, Scales(292.0, 500.0, 900.0), 0.0, Thresholds())
    assert reason.endswith(": SPEED=event, or SPEED=360 or less would do")


def test_too_coarse_a_run_names_no_speed() -> None:
    shrunk = Resolution(500.0, 20.0, 0.2, on_event_clock=True)
    [reason] = too_coarse(shrunk, Scales(2000.0, 5000.0, 900.0), 0.0, Thresholds())
    assert reason.endswith(": SHRINK=100 would do")
    assert metrics_too_coarse(shrunk, 60.0, Thresholds())["immediate_fraction"].endswith("SHRINK=100 would do")
    whole = Resolution(1.0, 0.04, 100.0, on_event_clock=True)
    [reason] = too_coarse(whole, Scales(10.0, 50.0, 900.0), 0.0, Thresholds())
    assert "the event clock does not resolve times below 20 s; jobs hardly wait" in reason


def test_false_quiets_widen_the_errors_of_the_metrics(tmp_path: Path) -> None:
    def widths(folder: Path, lost: float) -> tuple[float, float]:
        made = event_run(folder)
        made.result = FINISHED | {"event_clock": CLOCK | {"false_quiet_seconds": lost}}
        found = run_results.results(RunFolder(made.write()), 64, 4, 10.0, {}).metrics
        return found["metrics"]["wait_mean"], found["errors"]["wait_mean"]["emulation"]

    mean, without = widths(tmp_path / "none", 0.0)
    same, some = widths(tmp_path / "some", 30.0)
    assert mean == same
    assert some - without == pytest.approx(0.005 * mean, rel=1e-2)
    assert metric_errors.with_false_quiets({"a": 1.0, "b": "unknown"}, {"a": -10.0}, 0.1) == {"a": 2.0}


def test_experiment_json_says_that_the_clock_was_the_event_clock(tmp_path: Path) -> None:
    event_run(tmp_path).write()
    settings = json.loads((tmp_path / "run.json").read_text()) | {"clock": None}
    (tmp_path / "run.json").write_text(json.dumps(settings))
    (tmp_path / "experiment.json").write_text(json.dumps({"clock": {"asked": "auto"}}))
    runs.complete(tmp_path)
    found = json.loads((tmp_path / "experiment.json").read_text())
    assert {"asked": "auto", "speed": "event", "virtual": True}.items() <= found["clock"].items()
    assert speed_of_records(found) == 1.0
    assert speed_of_records({"clock": {"speed": 50.0}}) == 50.0
    assert speed_of_records({}) == 1.0
