"""Targets and the functions behind them."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from mirage.commands.main import TARGETS, command


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_a_function(target: str) -> None:
    assert list(inspect.signature(command(target)).parameters)[1] == "screen"


@pytest.mark.parametrize("target", ["teardown", "provision", "deprovision", "status", "watch", "shell"])
def test_targets_without_a_workload_do_not_load_polars(target: str) -> None:
    program = f"import sys; from mirage.commands.main import command; command({target!r}); sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
