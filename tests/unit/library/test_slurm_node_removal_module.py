"""The module slurm_node_removal without a running slurmctld. tests/infra and molecule/local test it with one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from modules import Caller


@pytest.mark.parametrize("state", ["leaving", "staying"])
@pytest.mark.parametrize("pid_file", [None, "", "no number\n", "{own}\n"])
def test_nothing_is_done_without_a_slurmctld_of_the_instance(
    call: Caller, tmp_path: Path, state: str, pid_file: str | None
) -> None:
    """A process with the id in the pid file that is not slurmctld is not mistaken for it."""
    (tmp_path / "run").mkdir()
    if pid_file is not None:
        (tmp_path / "run/slurmctld.pid").write_text(pid_file.format(own=os.getpid()))
    result = call("slurm_node_removal", directory=str(tmp_path), nodes=[{"count": 2, "cpus": 4}], state=state)
    assert (result["changed"], result["leaving"], result["resumed"]) == (False, "", "")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"count": 0, "cpus": 4}], "wrong use: nodes: class 1: count 0: a whole number from 1 on"),
        (
            [{"count": 1, "cpus": 4}, {"count": 1, "cpus": 4, "first": 1}],
            "wrong use: nodes: class 2: n1 would be there twice, see class 1",
        ),
    ],
)
def test_invalid_node_classes_are_refused(call: Caller, tmp_path: Path, nodes: list[dict[str, Any]], message: str) -> None:
    assert call("slurm_node_removal", directory=str(tmp_path), nodes=nodes)["msg"] == message
