"""The module munge_key, run in process."""

from __future__ import annotations

import base64
import os
import pwd
import stat
from pathlib import Path

from modules import Caller

USER = pwd.getpwuid(os.getuid()).pw_name
KEY = bytes(range(256)) * 4


def test_the_key_is_written_once_and_readable_by_its_user_only(call: Caller, tmp_path: Path) -> None:
    params = {"path": str(tmp_path / "munge.key"), "user": USER, "key": base64.b64encode(KEY).decode()}
    assert call("munge_key", check=True, **params)["changed"] is True
    assert list(tmp_path.iterdir()) == []
    assert call("munge_key", **params)["changed"] is True
    assert ((tmp_path / "munge.key").read_bytes(), stat.S_IMODE((tmp_path / "munge.key").stat().st_mode)) == (KEY, 0o600)
    assert call("munge_key", **params)["changed"] is False
    other = {**params, "key": base64.b64encode(KEY[::-1]).decode()}
    assert call("munge_key", **other)["changed"] is True
    assert (tmp_path / "munge.key").read_bytes() == KEY[::-1]
    (tmp_path / "munge.key").chmod(0o640)
    assert call("munge_key", **other)["changed"] is True
    assert stat.S_IMODE((tmp_path / "munge.key").stat().st_mode) == 0o600


def test_a_missing_account_is_an_error_except_in_check_mode(call: Caller, tmp_path: Path) -> None:
    params = {"path": str(tmp_path / "munge.key"), "user": "slurm-nobody-has-this-name", "key": base64.b64encode(KEY).decode()}
    assert call("munge_key", check=True, **params)["changed"] is True
    assert call("munge_key", **params)["msg"].startswith("user: there is no account")
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_is_not_base64_is_refused(call: Caller, tmp_path: Path) -> None:
    assert call("munge_key", path=str(tmp_path / "munge.key"), user=USER, key="?")["msg"] == "key: is not base64"
