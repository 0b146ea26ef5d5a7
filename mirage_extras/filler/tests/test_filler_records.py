"""Filler jobs in the records of a run: fillers.csv, and that no work is counted twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from filler_folders import FillerFolder
from run_folders import ORIGIN, MadeFolder

from mirage.records.record import RunRecord
from mirage.records.run_folder import RunFolder
from mirage.verdict.run_results import results
from mirage.verdict.start_latency import start_latencies
from mirage_extras.filler import verdict
from mirage_extras.filler.records import Fillers
from slurm_mirage.extras.filler.filler_log import Cause
from slurm_mirage.rm.evidence import Layout

MACHINE = Layout.of_equal(64, 4)
WORDS = "work=200 save=10 restore=5 interval=0 slot=100 speed=0.5"


def filled(folder: Path, **values: Any) -> FillerFolder:
    """A run of one job that takes 300 s, on a machine with fillers."""
    made = FillerFolder(folder, **values)
    made.settings["filler"] = {"variant": "slots", "words": WORDS, "grace": 0}
    made.job(due=0.0, runtime=300.0)
    made.played(1, start=0.0)
    return made


def slot(
    made: FillerFolder, start: float, before: float, after: float, *, number: int = 1, state: str = "PENDING", **values: Any
) -> None:
    """A slot of a filler: 5 s restored, 85 s of work, 10 s saved."""
    made.filler_run(number, start, start + 100.5, state)
    begun = {"start": start + 0.25, "ready": start + 5.25}
    made.filler_record(number, Cause.READY, **begun, before=before, after=before)
    times = {"from": start + 5.25, "to": start + 90.25, "saved": start + 100.25}
    made.filler_record(number, Cause.SLOT, **begun, **times, worked=85.0, before=before, after=after)


def table(run: RunRecord) -> list[dict[str, Any]]:
    fillers = run.of(Fillers)
    assert fillers is not None
    return fillers.executions.to_dicts()


def faults(run: RunRecord) -> list[str]:
    fillers = run.of(Fillers)
    assert fillers is not None
    return fillers.faults


def test_without_fillers_there_is_no_table(tmp_path: Path) -> None:
    made = MadeFolder(tmp_path)
    made.job(due=0.0)
    made.played(1, start=0.0)
    assert made.collect().of(Fillers) is None


def test_a_slot_is_restored_worked_and_saved(tmp_path: Path) -> None:
    made = filled(tmp_path)
    slot(made, 20.0, 0.0, 42.5)
    run = made.collect()
    [row] = table(run)
    assert faults(run) == []
    assert run.tables.foreign.is_empty()
    assert row["start"] == pytest.approx(ORIGIN + 20.25)
    assert row["ready"] == pytest.approx(ORIGIN + 25.25)
    assert (row["filler"], row["execution"], row["node"], row["processors"], row["outcome"]) == (1, 1, "n1", 4, "slot")
    assert (row["saves"], row["failed_saves"]) == (1, 0)
    known = {"restoring": 5.0, "useful": 85.0, "saving": 10.0, "work": 42.5, "progress": 42.5, "lost": 0.0}
    assert {name: row[name] for name in known} == pytest.approx(known)
    assert row["end"] - row["start"] == pytest.approx(
        sum(row[name] for name in ("restoring", "useful", "saving", "waiting", "lost"))
    )
    assert run.jobs.height == 1


def test_work_after_the_last_save_is_lost(tmp_path: Path) -> None:
    """Slurm kills the filler 50 s after it was ready; its only record is that of its start."""
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 75.0, "PREEMPTED")
    made.filler_record(1, Cause.READY, start=20.25, ready=25.25)
    slot(made, 100.0, 0.0, 42.5)
    run = made.collect()
    first, second = table(run)
    assert faults(run) == []
    assert (first["outcome"], first["progress"], first["work"]) == ("preempted", 0.0, 0.0)
    assert first["lost"] == pytest.approx(75.0 - 25.25, abs=0.5)
    assert (second["execution"], second["progress"]) == (2, pytest.approx(42.5))


def test_a_filler_that_was_killed_before_it_was_ready_has_restored_only(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 23.0, "PREEMPTED")
    run = made.collect()
    [row] = table(run)
    assert (row["restoring"], row["lost"], row["node"], row["ready"]) == (
        pytest.approx(3.0, abs=1.0),
        pytest.approx(0.0),
        "n1",
        None,
    )


def test_the_time_until_it_is_killed_is_waiting(tmp_path: Path) -> None:
    """It saved on request, 60 s before it was killed."""
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 120.0, "PREEMPTED")
    times = {"from": 25.25, "to": 50.25, "saved": 60.25}
    made.filler_record(1, Cause.REQUEST, start=20.25, ready=25.25, **times, worked=25.0, after=12.5)
    [row] = table(made.collect())
    assert (row["waiting"], row["lost"]) == (pytest.approx(60.0, abs=0.5), pytest.approx(0.0))


def test_a_failed_save_is_counted_and_its_work_is_in_the_next(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 120.0)
    begun = {"start": 20.25, "ready": 25.25}
    first = {"from": 25.25, "to": 55.25, "saved": 65.25}
    made.filler_record(1, Cause.INTERVAL, **begun, **first, worked=30.0, failed=True)
    second = {"from": 25.25, "to": 100.25, "saved": 110.25}
    made.filler_record(1, Cause.SLOT, **begun, **second, worked=65.0, after=32.5)
    run = made.collect()
    [row] = table(run)
    assert faults(run) == []
    assert (row["saves"], row["failed_saves"], row["saving"]) == (1, 1, pytest.approx(20.0))
    assert (row["useful"], row["work"]) == (pytest.approx(65.0), pytest.approx(32.5))


def test_a_filler_completes_with_exactly_its_work(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 426.0, "COMPLETED")
    begun = {"start": 20.25, "ready": 25.25}
    made.filler_record(1, Cause.END, **begun, **{"from": 25.25, "to": 425.25, "saved": 425.25}, worked=400.0, after=200.0)
    run = made.collect()
    assert faults(run) == []
    assert table(run)[0]["outcome"] == "completed"


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"before": 0.0, "after": 42.5}, "1 records of fillers do not begin where the save before ended, first of filler 1"),
        ({"before": 42.5, "after": 100.0}, "1 records of fillers have another progress than the work of their time"),
    ],
)
def test_work_that_counts_twice_is_found(tmp_path: Path, second: dict[str, float], words: str) -> None:
    made = filled(tmp_path)
    slot(made, 20.0, 0.0, 42.5)
    slot(made, 150.0, **second)
    run = made.collect()
    assert any(words in one for one in faults(run))
    assert "the records of filler jobs contradict each other" in verdict.reasons(run, MACHINE)[0]


def test_two_executions_at_a_time_are_found(tmp_path: Path) -> None:
    made = filled(tmp_path)
    slot(made, 20.0, 0.0, 42.5)
    made.filler_run(1, 60.0, 70.0)
    assert any("began before the one before had ended" in one for one in faults(made.collect()))


def test_a_completed_filler_without_its_own_record_is_found(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 40.0, "COMPLETED")
    assert any("completed with another progress" in one for one in faults(made.collect()))


def test_a_record_of_no_execution_is_found(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.filler_record(7, Cause.READY, start=20.25, ready=25.25)
    assert any("of no execution" in one for one in faults(made.collect()))


def test_the_gain_stands_beside_its_bound(tmp_path: Path) -> None:
    """A machine of 64 processors, 4 of them busy for 300 s, and a filler on 4 others for two slots."""
    made = filled(tmp_path)
    for place in range(2):
        slot(made, 20.0 + 110 * place, 42.5 * place, 42.5 * (place + 1))
    found = results(RunFolder(made.write()), 64, 4, 10.0, {}).metrics
    fillers, values = found["fillers"], found["metrics"]
    assert (fillers["fillers"], fillers["executions"], fillers["saves"]) == (1, 2, 2)
    assert fillers["outcomes"]["slot"] == 2
    assert (fillers["restore_mean"], fillers["save_mean"], fillers["slot"]) == (pytest.approx(5), pytest.approx(10), 100)
    assert (fillers["t"], fillers["c"]) == (pytest.approx(0.15), 0.5)
    bound = fillers["bound"]
    assert bound["idle"][0] == pytest.approx(60 / 64, abs=0.002)
    assert bound["value"][0] == pytest.approx(bound["idle"][0] * 0.85 * 0.5, abs=1e-5)
    assert bound["gain"][0] == pytest.approx(values["filler_useful"], abs=1e-5)
    assert values["filler_useful"] == pytest.approx(85 * 4 / (64 * 300), abs=1e-4)
    assert bound["difference"][0] == pytest.approx(-sum(bound["because"].values()), abs=1e-5)
    assert sum(part["filler"] for part in fillers["over_time"]) / 20 == pytest.approx(values["filler_load"], abs=1e-5)
    assert found["errors"]["filler_load"]["emulation"] == pytest.approx(2 * 4 * 0.25 / (64 * 300), rel=0.01)


@pytest.mark.parametrize(("cause", "outcome"), [(Cause.SLOT, "slot"), (Cause.REQUEST, "request"), (None, "slot")])
def test_a_filler_that_leaves_by_itself_has_not_failed(tmp_path: Path, cause: Cause | None, outcome: str) -> None:
    """Slurm 22.05 writes FAILED of an execution that it requeues for its exit code; a slot too short has no record."""
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 120.0, "FAILED", code=99)
    if cause is not None:
        times = {"from": 25.25, "to": 110.25, "saved": 120.25}
        made.filler_record(1, cause, start=20.25, ready=25.25, **times, worked=85.0, after=42.5)
    run = made.collect()
    assert table(run)[0]["outcome"] == outcome
    assert verdict.reasons(run, MACHINE) == []


def test_the_time_until_fillers_have_left_is_no_start_latency(tmp_path: Path) -> None:
    """A job on two nodes starts 40 s after its submission: 0.5 s after the last filler left them."""
    made = filled(tmp_path)
    number = made.job(due=20.0, runtime=50.0)
    made.slurm(number, start=60.0, end=110.0)
    made.record(number, 60.25, 110.25)
    made.filler_run(1, 1.0, 45.0, "PREEMPTED", node="n1")
    made.filler_run(2, 1.0, 59.0, "PREEMPTED", node="n2")
    made.filler_run(3, 1.0, 60.0, "PREEMPTED", node="n3")
    latency = start_latencies(made.collect(), MACHINE).to_list()
    assert latency[1] == pytest.approx(0.75, abs=0.5)
    # Another job of the workload was on its nodes after the fillers: it waited for that.
    between = made.job(due=20.0, runtime=0.1)
    made.slurm(between, start=59.0, end=60.0)
    assert max(start_latencies(made.collect(), MACHINE)) < 1 < latency[1]


def test_failed_executions_make_a_run_invalid(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.filler_run(1, 20.0, 40.0, "FAILED")
    run = made.collect()
    assert verdict.reasons(run, MACHINE) == ["1 executions of filler jobs failed: see the logs of slurmd"]
