"""The module munge_key, in process."""

from __future__ import annotations

import base64
import os
import pwd
import stat
from pathlib import Path

from modules import Caller

USER = pwd.getpwuid(os.getuid()).pw_name
KEY = bytes(range(256)) * 4


def test_writes_the_key_once_for_its_user_alone(call: Caller, tmp_path: Path) -> None:
    given = {"path": str(tmp_path / "munge.key"), "user": USER, "key": base64.b64encode(KEY).decode()}
    assert call("munge_key", check=True, **given)["changed"] is True
    assert list(tmp_path.iterdir()) == []
    assert call("munge_key", **given)["changed"] is True
    assert ((tmp_path / "munge.key").read_bytes(), stat.S_IMODE((tmp_path / "munge.key").stat().st_mode)) == (KEY, 0o600)
    assert call("munge_key", **given)["changed"] is False
    other = {**given, "key": base64.b64encode(KEY[::-1]).decode()}
    assert call("munge_key", **other)["changed"] is True
    assert (tmp_path / "munge.key").read_bytes() == KEY[::-1]
    (tmp_path / "munge.key").chmod(0o640)
    assert call("munge_key", **other)["changed"] is True
    assert stat.S_IMODE((tmp_path / "munge.key").stat().st_mode) == 0o600


def test_without_the_account_only_check_mode_goes_on(call: Caller, tmp_path: Path) -> None:
    given = {"path": str(tmp_path / "munge.key"), "user": "slurm-nobody-has-this-name", "key": base64.b64encode(KEY).decode()}
    assert call("munge_key", check=True, **given)["changed"] is True
    assert call("munge_key", **given)["msg"].startswith("user: there is no account")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_base64_is_refused(call: Caller, tmp_path: Path) -> None:
    assert call("munge_key", path=str(tmp_path / "munge.key"), user=USER, key="?")["msg"] == "key: is not base64"
