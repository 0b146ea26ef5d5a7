"""The judgement of the fault suite, and its page."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirage import ROOT
from slurm_mirage.base.files import write_json
from tests.faults import __main__ as suite
from tests.faults import lane as lanes
from tests.faults.lane import Command, Ended, Lane, Snapshot, expect
from tests.faults.table import FAULTS, Result, Wrong, page


def ended(line: str, output: str = "") -> Ended:
    word, _, message = line.partition(": ")
    return Ended("make experiment", word, message, output or line, 1.0, 100.0)


def test_the_document_names_each_fault_in_the_row_of_its_kind() -> None:
    rows = [line for line in (ROOT / "docs/development.md").read_text().splitlines() if line.startswith("| ")]
    by_kind = {row.split(" | ")[0].removeprefix("| "): row for row in rows}
    assert [name for name, fault in FAULTS.items() if f"`{name}`" not in by_kind.get(fault.group, "")] == []


def test_the_page_has_a_row_for_each_result_and_none_for_a_fault_without_one() -> None:
    injected = list(FAULTS)[::7]
    rows = [line for line in page({name: Result(name, "right") for name in injected}).splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == injected


def test_a_cell_of_the_page_cannot_end_its_row() -> None:
    results = {name: Result(name, "right", ["make cluster: failed: a|b `c`\nd"]) for name in FAULTS}
    rows = [line for line in page(results).splitlines() if line.startswith("| `")]
    assert len(rows) == len(FAULTS)
    assert all("`make cluster: failed: a\\|b 'c' d`" in row for row in rows)


@pytest.mark.parametrize(
    ("line", "words", "pattern", "why"),
    [
        ("failed: the disk of runs is full", ("failed",), "no space|full", ""),
        ("failed: the replay was killed", ("failed",), "no space|full", "does not match"),
        ("ok: 10 jobs", ("invalid",), "", "wanted invalid"),
    ],
)
def test_the_word_and_the_reason_are_judged(line: str, words: Sequence[str], pattern: str, why: str) -> None:
    if not why:
        expect(ended(line), words, pattern)
        return
    with pytest.raises(Wrong, match=why):
        expect(ended(line), words, pattern)


def write_run(folder: Path, ids: Sequence[int], completed: Sequence[tuple[int, int]]) -> None:
    """A run's files, with these jobs in jobs.csv and these (Slurm id, job) in Slurm's record of completed jobs."""
    folder.mkdir(parents=True)
    for name, found in (("plan.csv", range(1, lanes.JOBS + 1)), ("jobs.csv", ids)):
        with (folder / name).open("w", newline="") as stream:
            csv.writer(stream).writerows([["id", "name", "state"], *([number, f"r.{number}", "COMPLETED"] for number in found)])
    write_json(folder / "metrics.json", {"jobs": {"lost": 0}})
    write_json(folder / "status.json", {})
    lines = [f"JobId={slurm} Name=r.{job} JobState=COMPLETED NodeList=n1 WorkDir=/ ExitCode=0:0" for slurm, job in completed]
    lines += [f"JobId={slurm} Name=r.launch JobState=COMPLETED NodeList=n1 WorkDir=/ ExitCode=0:0" for slurm in (901, 902)]
    (folder / "jobcomp.log").write_text("\n".join(lines) + "\n")


ALL = list(range(1, lanes.JOBS + 1))


@pytest.mark.parametrize(
    ("ids", "completed", "why"),
    [
        (ALL, [(number, number) for number in ALL], ""),
        (ALL[1:], [], "lost Counter\\({'1': 1}\\)"),
        ([*ALL, 3], [], "doubled Counter\\({'3': 1}\\)"),
        (ALL, [(7, 3), (9, 3)], "two job ids: r.3"),
        # A requeued job keeps its id.
        (ALL, [(7, 3), (7, 3)], ""),
    ],
)
def test_lost_and_doubled_jobs_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: list[int], completed: list[tuple[int, int]], why: str
) -> None:
    monkeypatch.setattr(lanes, "RESULTS", tmp_path)
    lane = Lane("tested")
    write_run(lane.results(), ids, completed)
    if not why:
        lane.complete()
        return
    with pytest.raises(Wrong, match=why):
        lane.complete()


def test_a_changed_mode_or_content_outside_the_instance_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    snapshot = Snapshot(tmp_path)
    snapshot.unchanged()
    path.chmod(0o604)
    with pytest.raises(Wrong, match="file: "):
        snapshot.unchanged()


def test_a_command_that_does_not_end_is_killed_and_named(tmp_path: Path) -> None:
    """With its descendants in sessions of their own."""
    script = 'setsid sleep 1000 & echo $! > "$0"; echo first; exec sleep 1000'
    command = Command("nothing", {}, ("sh", "-c", script, str(tmp_path / "pid")))
    lanes.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "start")
    found = command.end(0.2)
    assert (found.word, found.message) == ("hangs", "for more than 0 s; its last line was: first")
    pid = int((tmp_path / "pid").read_text())
    lanes.until(lambda: lanes.processes.start_time(pid) is None, "end of the descendant")


def test_an_unknown_fault_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FAULTS", "key-short no-such-fault")
    assert suite.main([]) == 2
    assert capsys.readouterr().out.startswith("wrong use: FAULTS: there is no fault no-such-fault; it may be some of: ")
