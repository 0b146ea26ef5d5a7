"""Targets and the functions behind them."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mirage import ROOT
from mirage.commands.main import TARGETS, Command, command, main
from mirage.experiment.endings import Ending


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_a_function(target: str) -> None:
    assert list(inspect.signature(command(target)).parameters)[1] == "screen"


@pytest.mark.parametrize("target", ["teardown", "provision", "deprovision", "status", "watch", "shell", "capture"])
def test_targets_without_a_workload_do_not_load_polars(target: str) -> None:
    program = f"import sys; from mirage.commands.main import command; command({target!r}); sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to mount a small file system")
def test_a_full_disk_is_named_in_one_line(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        with suppress(OSError):
            (tmp_path / "filler").write_bytes(bytes(100_000))
        environment = {**os.environ, "TRACE": "tests/logs/sessions.swf", "OUT": str(tmp_path / "metrics.json")}
        command = [sys.executable, "-m", "mirage", "metrics"]
        ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.splitlines()[-1] == (
        f"failed: no space left on {tmp_path} (0 MiB free): free some, then the same command goes on"
    )


def ends_in(word: str) -> Command:
    """A command that ends so."""
    return lambda _knobs, _screen: Ending(word, "as asked")


fails, undecided, stopped, passed = map(ends_in, ("failed", "gate: undecided", "gate: failed", "gate: passed"))


@pytest.mark.parametrize(("name", "code"), [("fails", 2), ("undecided", 2), ("stopped", 1), ("passed", 0)])
def test_code_1_of_a_gate_says_only_that_a_limit_is_exceeded(name: str, code: int) -> None:
    assert main(["gate"], {"gate": (__name__, name)}) == code


def test_a_failure_of_another_target_has_code_1() -> None:
    assert main(["compare"], {"compare": (__name__, "fails")}) == 1
