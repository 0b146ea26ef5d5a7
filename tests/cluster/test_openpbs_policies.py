"""OpenPBS's configurations on a real cluster: each job of a small scenario starts when its policy says so.

Needs root, and the archive of OpenPBS's source in the variable OPENPBS_SOURCE. It builds a cluster of its own and removes it:

    OPENPBS_SOURCE=openpbs.tar.gz .venv/bin/pytest -m cluster tests/cluster/test_openpbs_policies.py
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mirage import RESULTS, ROOT

pytestmark = pytest.mark.cluster
CLUSTER = "policies"
MINUTE = 60
NODES, SPEED = 4, 60
JOBS = {"a": (3, 20), "b": (3, 20), "c": (4, 10), "d": (1, 60), "e": (1, 15)}
"""Processors and minutes of each job, in the order of submission, 10 s apart. Each has a time limit of a minute more."""
STARTS = {
    # One after the other: d and e when c has ended.
    "pbs-fifo": {"a": 0, "b": 20, "c": 40, "d": 50, "e": 50},
    # Only b has a reservation. d takes the processor that a and b leave free, and delays c. e runs while c waits for d.
    "pbs-easy": {"a": 0, "b": 20, "c": 60, "d": 0, "e": 40},
    # c has a reservation as well, which d may not delay, and e does not.
    "pbs-conservative": {"a": 0, "b": 20, "c": 40, "d": 50, "e": 0},
}
"""Minutes from the first submission to the start of each job, by configuration."""
TOLERANCE = 1.5
"""Minutes: submissions are up to 40 s apart, and a start and an end take a second or two each."""


def make(target: str, **knobs: object) -> subprocess.CompletedProcess[str]:
    words = [f"{name}={value}" for name, value in {"CLUSTER": CLUSTER, **knobs}.items()]
    return subprocess.run(["make", "--no-print-directory", target, *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The scenario in the Standard Workload Format. The cluster that plays it is removed at the end."""
    path = tmp_path_factory.mktemp("policies") / "scenario.swf"
    lines = [f"; MaxProcs: {NODES}"]
    for number, (processors, minutes) in enumerate(JOBS.values()):
        seconds = minutes * MINUTE
        asked = f"{processors} {seconds + MINUTE}"
        lines.append(f"{number + 1} {10 * number} -1 {seconds} {processors} -1 -1 {asked} -1 1 1 1 -1 -1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")
    yield path
    make("teardown")


@pytest.mark.parametrize(("config", "starts"), STARTS.items())
def test_starts(trace: Path, config: str, starts: Mapping[str, float]) -> None:
    source = os.environ.get("OPENPBS_SOURCE")
    if not source:
        pytest.skip("OPENPBS_SOURCE names no archive of OpenPBS's source")
    run = f"{CLUSTER}-{config}"
    machine = {"RM": "openpbs", "OPENPBS_SOURCE": source, "NODES": NODES, "CPUS": 1, "SPEED": SPEED}
    ended = make("experiment", **machine, CONFIG=config, TRACE=trace, RUN=run)
    try:
        assert (RESULTS / run / "jobs.csv").is_file(), f"{ended.stdout}{ended.stderr}"
        with (RESULTS / run / "jobs.csv").open() as stream:
            rows = sorted(csv.DictReader(stream), key=lambda row: int(row["id"]))
    finally:
        shutil.rmtree(RESULTS / run, ignore_errors=True)
    first = float(rows[0]["submit"])
    found = {name: (float(row["start"]) - first) / MINUTE for name, row in zip(JOBS, rows, strict=True)}
    assert found == pytest.approx(dict(starts), abs=TOLERANCE)
