"""The module openpbs_cluster where no farm runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from modules import Caller


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "bin").mkdir()
    qmgr = tmp_path / "bin/qmgr"
    qmgr.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-called\n")
    qmgr.chmod(0o755)
    return {"directory": str(tmp_path), "user": "slurm-x", "bin": str(tmp_path / "bin"), "nodes": [{"count": 2, "cpus": 4}]}


@pytest.mark.parametrize("specification", ["", '{"daemons": [], "network": {"address": "10.77.0.1"}}'])
def test_everything_is_a_change_and_nothing_is_asked_without_a_farm(
    call: Caller, params: dict[str, Any], tmp_path: Path, specification: str
) -> None:
    if specification:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/farm.json").write_text(specification)
    answer = call("openpbs_cluster", check=True, **params)
    assert answer["changed"] is True and answer["commands"]
    refused = call("openpbs_cluster", **params)
    assert refused["failed"] is True and "the server cannot be reached" in refused["msg"]
    assert not (tmp_path / "was-called").exists()
