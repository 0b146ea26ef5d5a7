"""The state of a farm, read from a file into which the instance's user may write anything."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from farm_states import farm_state

from slurm_mirage.farm.farm import read_state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run/farm.json"


def test_a_state(path: Path) -> None:
    path.write_text(json.dumps(farm_state()))
    assert read_state(path.parents[1]) == farm_state()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b" " * (2 << 20),
        json.dumps({"pid": os.getpid(), "start_time": 1}).encode(),
        json.dumps(farm_state(pid="x")).encode(),
        json.dumps(farm_state(pid=-1)).encode(),
        json.dumps(farm_state(daemons={"slurmd": 5})).encode(),
        json.dumps(farm_state(daemons={"slurmd": {"wanted": "many"}})).encode(),
    ],
)
def test_garbage_is_no_state(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert read_state(path.parents[1]) is None


def test_a_fifo_and_a_link_are_no_state(path: Path) -> None:
    os.mkfifo(path)
    assert read_state(path.parents[1]) is None
    path.unlink()
    other = path.with_name("other")
    other.write_text(json.dumps(farm_state()))
    path.symlink_to(other)
    assert read_state(path.parents[1]) is None
