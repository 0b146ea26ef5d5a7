"""The module slurm_node_removal where no slurmctld runs; with one: tests/infra and molecule/local."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from modules import Caller


@pytest.mark.parametrize("state", ["leaving", "staying"])
@pytest.mark.parametrize("pid_file", [None, "", "no number\n", "{own}\n"])
def test_nothing_to_do_where_no_slurmctld_of_the_instance_runs(
    call: Caller, tmp_path: Path, state: str, pid_file: str | None
) -> None:
    """Neither is a process of that number that is another's taken for it."""
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
def test_classes_that_cannot_be_are_told_before_anything_is_done(
    call: Caller, tmp_path: Path, nodes: list[dict[str, Any]], message: str
) -> None:
    assert call("slurm_node_removal", directory=str(tmp_path), nodes=nodes)["msg"] == message
