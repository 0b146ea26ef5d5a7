"""What a job's state in sacct's output does to the metrics: each state of the table in docs/formats.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mirage.metrics import metrics
from mirage.records.schedule import read_schedule
from mirage.traces import states

TABLE = (Path(__file__).parents[3] / "docs/formats.md").read_text().split("<!-- states:")[1].split("\n\n")[1]
GROUPS = re.findall(r"^\| ([A-Z_, ]+) \| (.*?) \| (.*?) \| (.*?) \|$", TABLE, re.MULTILINE)
ROWS = [(state, *treatment) for named, *treatment in GROUPS for state in named.split(", ")]
DAY = "2026-03-01T"
# Another job of the same area, which ends last.
OTHER = f"1|{DAY}00:00:00|{DAY}01:00:00|{DAY}02:00:00|COMPLETED|4|4"


def measured(folder: Path, *lines: str) -> dict[str, Any]:
    path = folder / "log"
    path.write_text("\n".join(("JobID|Submit|Start|End|State|NCPUS|ReqCPUS", OTHER, *lines)) + "\n")
    schedule = read_schedule(path)
    found = metrics.compute(schedule.jobs, 8, 8, executions=schedule.executions)
    found["jobs"].pop("submitted")
    found["jobs"]["completed"] -= 1
    return found


def test_the_table_has_all_states_once() -> None:
    assert sorted(state for state, *_ in ROWS) == sorted(states.KNOWN)


@pytest.mark.parametrize(("state", "counted", "work", "wait"), ROWS, ids=[row[0] for row in ROWS])
def test_a_state(state: str, counted: str, work: str, wait: str, tmp_path: Path) -> None:
    ended = work.startswith(("used", "wasted"))
    ran = measured(tmp_path, f"2|{DAY}00:00:00|{DAY}00:00:00|{DAY + '01:00:00' if ended else 'Unknown'}|{state}|4|4")
    assert {name for name, count in ran["jobs"].items() if count} == {counted}
    assert ran["metrics"]["wasted_fraction"] == (0.5 if work.startswith("wasted") else 0)
    assert ran["metrics"]["utilisation"] == (0.5 if ended else 0.25)
    assert ran["censored"]["jobs"] == (1 if "waits" in work or (not ended and wait == "censored") else 0)
    end = "Unknown" if state in states.LIVE else f"{DAY}01:30:00"
    waited = measured(tmp_path, f"2|{DAY}00:00:00|Unknown|{end}|{state}|0|4")
    assert {name for name, count in waited["jobs"].items() if count} == {counted}
    assert waited["censored"]["jobs"] == (wait == "censored")
    assert waited["metrics"]["wait_mean"] == 3600
    assert sum(waited["excluded"].values()) == 1
