"""The program that creates the database of an OpenPBS instance: what it waits for."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from slurm_mirage.extras.openpbs import addresses, datastore
from slurm_mirage.extras.openpbs.daemons import DATABASE, DATABASE_SETTINGS, database_server
from slurm_mirage.extras.openpbs.home import Homes
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


@pytest.mark.skipif(not PROGRAMS, reason="skipped: PostgreSQL is not installed")
def test_a_database_server_takes_roots_settings_and_the_permissions_of_its_folder(tmp_path: Path) -> None:
    """PostgreSQL itself says which files it reads. It refuses root, so it runs as its own account where the test is root."""
    account = pwd.getpwnam(datastore.USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    owner: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid} if os.geteuid() == 0 else {}
    instance = Path(tempfile.mkdtemp(dir="/tmp"))  # the account cannot enter pytest's folders
    try:
        homes = Homes()
        homes.add_server(instance, tmp_path, "")
        settings, mode = homes.files[instance / DATABASE_SETTINGS]
        (instance / "etc").mkdir()
        (instance / DATABASE_SETTINGS).write_text(settings)
        (instance / DATABASE_SETTINGS).chmod(mode)
        data = instance / DATABASE
        data.mkdir(parents=True)
        for folder in (instance, data):
            os.chown(folder, account.pw_uid, account.pw_gid)
        subprocess.run(datastore.initdb(PROGRAMS, data), check=True, capture_output=True, **owner)

        def value(name: str) -> str:
            command = [*database_server(instance, f"{PROGRAMS}/postgres", data), "-C", name]
            return subprocess.run(command, check=True, capture_output=True, text=True, **owner).stdout.strip()

        assert value("config_file") == str(instance / DATABASE_SETTINGS)
        assert value("hba_file") == str(data / "pg_hba.conf")
        assert value("listen_addresses") == addresses.HEAD_ADDRESS
    finally:
        shutil.rmtree(instance)
