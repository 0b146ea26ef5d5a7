"""What the rules of logs say before a run: errors and warnings on the jobs that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.experiment.log_findings import severe
from mirage.knobs.resolve import resolve
from mirage.traces.trace import read_trace

DAY = 86400
LINE = "{} {} 5 3600 {} -1 -1 -1 7200 -1 1 1 1 -1 -1 -1 -1 -1\n"
LINES = (LINE.format(n, 3600 * n + (3 * DAY if n > 100 else 0), 2 if n < 150 else 16) for n in range(200))
LOG = f"; MaxProcs: 8\n; UnixStartTime: 1000000000\n{''.join(LINES)}"


def found(tmp_path: Path, **given: str) -> list[str]:
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    knobs = resolve({"TRACE": str(path), "NODES": "8", "CPUS": "1", **given}, "experiment")
    return [line.split(": ")[1] for line in severe(knobs, read_trace(path))]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["header-contradicts", "hole"]),
        ({"JOBS": "90"}, ["header-contradicts", "low-load"]),
        ({"JOBS": "90", "NODES": "4"}, ["header-contradicts"]),
        ({"JOBS": "90", "NODES": "1"}, ["header-contradicts", "overload"]),
        ({"JOBS": "90", "NODES": "4", "SIZES": "scale"}, ["header-contradicts", "low-load"]),
        ({"SUBMISSION": "period=900"}, ["header-contradicts"]),
        ({"FROM": str(100 * 3600 + 3 * DAY), "SIZES": "fit"}, ["header-contradicts", "overload"]),
    ],
)
def test_of_the_selected_jobs(tmp_path: Path, given: dict[str, str], names: list[str]) -> None:
    """The log has a load of a quarter, a hole of three days, and jobs wider than the machine at its end, which the preparation
    refuses, leaves out or changes."""
    assert found(tmp_path, **given) == names


def test_a_generated_workload_has_none(tmp_path: Path) -> None:
    assert found(tmp_path, TRACE="", MODEL="lublin") == []
