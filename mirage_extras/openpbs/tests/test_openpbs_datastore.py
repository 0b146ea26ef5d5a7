"""The program that creates the database of an OpenPBS instance: what it waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from slurm_mirage.extras.openpbs import datastore
from slurm_mirage.extras.openpbs.daemons import DATABASE
from slurm_mirage.extras.openpbs.programs.datastore import Failed, running, succeeds

PROGRAMS = next(iter(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))), "")
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_a_server_is_used_when_it_is_ready_and_ended_afterwards() -> None:
    calls = count(1)
    with running(SLEEP, lambda: next(calls) > 3):
        assert next(calls) == 5


def test_a_server_that_ends_at_once_is_reported_with_its_last_line() -> None:
    command = [sys.executable, "-c", "print('could not bind'); raise SystemExit(1)"]
    with pytest.raises(Failed, match="could not bind"), running(command, lambda: False):
        pytest.fail("it is not ready")


def test_a_server_that_has_ended_before_it_is_answered_is_reported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(subprocess, "Popen", Ended)
    with pytest.raises(Failed, match="could not bind"), running(["/bin/sh", "-c", "echo could not bind; exit 1"], lambda: False):
        pytest.fail("it is not ready")


@pytest.mark.skipif(not PROGRAMS, reason="skipped: PostgreSQL is not installed")
def test_a_database_server_that_starts_up_is_not_ready(tmp_path: Path) -> None:
    """pg_isready fails while nothing runs in the folder, and its command is one that PostgreSQL's program accepts."""
    command = datastore.is_ready(PROGRAMS, tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, ""), "no answer"
    assert not succeeds(command)
    assert succeeds(["true"])


def test_an_existing_database_gets_the_settings_of_this_release(tmp_path: Path) -> None:
    file = tmp_path / DATABASE / "postgresql.conf"
    file.parent.mkdir(parents=True)
    file.write_text("port = 1\n")
    assert datastore.update(tmp_path, write=False) and file.read_text() == "port = 1\n"
    assert datastore.update(tmp_path, write=True) and file.read_text() == datastore.postgresql_conf()
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, file.parent.stat().st_uid)
    assert not datastore.update(tmp_path, write=True)
