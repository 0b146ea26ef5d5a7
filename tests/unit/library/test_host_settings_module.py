"""The module host_settings, run in process, on files in place of the kernel's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from modules import Caller


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "pid_max"
    path.write_text("100\n")
    return path


def test_claim_and_release(call: Caller, setting: Path, tmp_path: Path) -> None:
    register = str(tmp_path / "register.json")
    claim: dict[str, Any] = {"instance": "a", "settings": {str(setting): "300"}, "register_file": register}
    assert call("host_settings", check=True, **claim)["set"] == [str(setting)]
    assert (setting.read_text(), Path(register).exists()) == ("100\n", False)
    assert call("host_settings", **claim)["changed"] is True
    assert setting.read_text() == "300\n"
    assert call("host_settings", **claim)["changed"] is False
    release = {"instance": "a", "register_file": register}
    assert call("host_settings", check=True, **release)["changed"] is True
    assert setting.read_text() == "300\n"
    assert call("host_settings", **release)["changed"] is True
    assert setting.read_text() == "100\n"
    assert call("host_settings", **release)["changed"] is False


def test_a_claim_below_another_one_changes_the_register_only(call: Caller, setting: Path, tmp_path: Path) -> None:
    register = str(tmp_path / "register.json")
    call("host_settings", instance="a", settings={str(setting): 300}, register_file=register)
    second = call("host_settings", instance="b", settings={str(setting): 200}, register_file=register)
    assert (second["changed"], second["set"]) == (True, [])


def test_a_missing_setting_is_reported_but_not_an_error(call: Caller, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    result = call("host_settings", instance="a", settings={missing: 1}, register_file=str(tmp_path / "register.json"))
    assert (result["changed"], result["refused"]) == (False, {missing: "No such file or directory"})


@pytest.mark.parametrize("value", ["many", None, [1]])
def test_values_must_be_whole_numbers(call: Caller, setting: Path, tmp_path: Path, value: object) -> None:
    result = call("host_settings", instance="a", settings={str(setting): value}, register_file=str(tmp_path / "r.json"))
    assert result["msg"].startswith("wrong use: settings: whole numbers by name")
    assert setting.read_text() == "100\n"
