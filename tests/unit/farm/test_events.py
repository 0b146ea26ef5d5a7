"""The farm's events: what is written, what a reader takes, and the kernel's count of processes without memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slurm_mirage.farm import events
from slurm_mirage.farm.events import FILE, MOST, EventLog, OutOfMemory, how_it_ended, read_events

ENDED = {"daemon": "munged", "kind": "munged", "exit": None, "signal": 9, "out_of_memory": False, "words": ""}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path


def test_events_are_read_back_within_their_span(directory: Path) -> None:
    log = EventLog(directory)
    log.add("ended", **ENDED)
    log.add("full", path="/x")
    first, second = read_events(directory, 0)
    assert (first["daemon"], second["path"]) == ("munged", "/x")
    assert read_events(directory, first["real"], first["real"])[0] == first
    assert read_events(directory, second["real"] + 1) == []


def test_the_number_of_events_is_bounded(directory: Path) -> None:
    log = EventLog(directory)
    for _ in range(MOST + 10):
        log.add("full", path="/x")
    assert len((directory / FILE).read_text().split("\n")) <= MOST + 1


def test_lines_that_are_no_events_are_left_out(directory: Path) -> None:
    """The instance's user can write the file."""
    good = {"event": "full", "real": 5.0, "path": "/x\u001b[31m"}
    lines = ["{", "[]", "null", "1", json.dumps({"event": "full", "real": "x"}), json.dumps(good), json.dumps(good), "\xff\x00"]
    lines += [json.dumps({**ENDED, "event": "ended", "real": 1, "signal": "9"}), '{"event": "ended", "real": 1}']
    (directory / FILE).write_bytes("\n".join(lines).encode("latin-1"))
    assert read_events(directory, 0) == [{**good, "path": "/x\\x1b[31m"}]


def test_a_pipe_and_a_link_in_place_of_the_file(directory: Path) -> None:
    os.mkfifo(directory / FILE)
    assert read_events(directory, 0) == []
    (directory / FILE).unlink()
    (directory / FILE).symlink_to("/etc/passwd")
    assert read_events(directory, 0) == []


def test_the_kernels_count_of_killed_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free 1\noom_kill 3\n")
    monkeypatch.setattr(events, "VMSTAT", vmstat)
    memory = OutOfMemory()
    assert not memory.look()
    vmstat.write_text("nr_free 1\noom_kill 4\n")
    assert memory.look()
    vmstat.unlink()
    assert not OutOfMemory().look()


def test_how_a_daemon_ended() -> None:
    assert how_it_ended({**ENDED, "out_of_memory": True}) == "killed by the kernel, which had no memory left"
    assert how_it_ended({**ENDED, "signal": 11}) == "ended by signal 11"
    assert how_it_ended({**ENDED, "signal": None, "exit": 1, "words": "fatal: no"}) == "exit 1: fatal: no"
    assert how_it_ended({**ENDED, "signal": None}) == "it is not known how"
