"""What users see of the event clock: in tables, in make status and make watch, and on the page of a run."""

from __future__ import annotations

import html
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
import simulated_runs

from mirage.records.run_folder import RunFolder
from mirage.reports import run_page
from mirage.reports.run_data import Run
from mirage.terminal import figures, table
from mirage.terminal.live_state import LiveState
from mirage.terminal.screen import Screen, progress_line, time_left
from slurm_mirage.clock import instance_clock

CLOCK = {
    "jumps": 9000,
    "false_quiets": 12,
    "false_quiet_seconds": 30.0,
    "real_seconds": 12.0,
    "virtual_seconds": 7200.0,
    "mode": 1,
    "given_up": 2,
}
LEFT: dict[str, Any] = {"time_left_least": 36_000.0, "time_left_most": 72_000.0, "real_left_least": 20.0, "real_left_most": 50.0}


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        (None, "about 10 to 20 h left"),
        (2000.0, "about 20 to 50 s left"),
    ],
)
def test_the_time_that_is_left_is_real(pace: float | None, words: str) -> None:
    progress = LEFT | {"jobs": 200, "submitted": 100, "done": 100, "elapsed": 36_000.0} | ({} if pace is None else {"pace": pace})
    assert time_left(progress) == words
    assert words in progress_line(progress)


def test_the_expected_end_is_in_real_time() -> None:
    rows = figures.rows(
        {"farm": {"phase": "stopped"}},
        {"run": "one", "phase": "submitting", "jobs": 9, **LEFT, "pace": 3600.0, "real": time.time()},
    )
    [left] = [row.text for row in rows if row.label == "left"]
    assert left.startswith("about 20 to 50 s left, until ") and "-" not in left


def test_both_times_and_the_pace() -> None:
    times = {"speed": "event", "virtual": 2e9, "real": 1.79e9, "pace": 2345.6}
    assert figures.clock(times).endswith(" outside (UTC), SPEED=event, lately 2300 times as fast as real time")
    assert figures.clock(times | {"pace": None}).endswith(" outside (UTC), SPEED=event")
    assert figures.clock(times | {"speed": 20.0}).endswith(", SPEED=20")


def test_the_histories_begin_anew_because_samples_have_the_clusters_time(tmp_path: Path, replaying: Any) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "instance.json").write_text("{}")
    replaying(tmp_path, "one")
    folder = tmp_path / "runs/one"
    (folder / "samples.csv").write_text(f"real,virtual,running,pending,processors_busy\n{time.time() + 1e6:.3f},1,40,2,100\n")
    (folder / "progress.json").write_text(json.dumps({"run": "one"}))
    constant = LiveState(tmp_path)
    constant.read()
    assert len(constant.past) == 1
    instance_clock.set_speed(tmp_path, "event")
    event = LiveState(tmp_path)
    seen = event.read()
    assert seen is not None and seen[0]["clock"]["speed"] == "event"
    assert not event.past


def finished(folder: Path, clock: dict[str, Any] | None = CLOCK) -> Run:
    measured = simulated_runs.write(folder, simulated_runs.jobs_of(20, 4, 4), 4, 4)
    measured["validity"] |= {"event_clock": clock, "false_quiet_share": 0.004}
    measured["validity"]["bounds"]["false_quiet_share"] = 0.01
    (folder / "metrics.json").write_text(json.dumps(measured))
    experiment = json.loads((folder / "experiment.json").read_text())
    experiment["clock"] |= {"asked": "event", "speed": "event"}
    (folder / "experiment.json").write_text(json.dumps(experiment))
    return Run.of(RunFolder(folder))


def test_the_page_of_a_run_on_the_event_clock(tmp_path: Path) -> None:
    run = finished(tmp_path / "one")
    [told, *_] = run_page.summary(run)
    assert told.endswith(", on a clock that waits while the cluster computes (2 h in 12 s of real time).")
    text = run_page.page(run)
    assert "how the clock learns which threads work" in text and "<td>BPF</td>" in text
    assert "Backfill cycles, seconds" in text and "times shorter" not in text
    assert "Slurm's computing takes nearly no time in them." in html.unescape(text)
    [told, *_] = run_page.summary(finished(tmp_path / "other", None))
    assert told.endswith(", on a clock that waits while the cluster computes.")


def test_the_table_has_the_figures_of_the_clock(tmp_path: Path) -> None:
    stream = io.StringIO()
    table.show(dict(finished(tmp_path / "one").metrics), Screen(stream))
    lines = {line.split()[0] + " " + line.split()[1]: line for line in stream.getvalue().splitlines() if len(line.split()) > 2}
    assert " 7200.00 s (2 h) " in lines["event_clock: virtual_seconds"]
    assert lines["event_clock: given_up"].split()[2] == "2"
    assert lines["event_clock: mode"].split()[2] == "BPF"
    assert "0.4 %" in stream.getvalue() and "allowed: 1.0 %" in stream.getvalue()
