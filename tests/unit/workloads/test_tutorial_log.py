"""The log of the tutorial is what the project's own model and simulation give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples/hundred-nodes.swf"
MACHINE = {"NODES": "100", "CPUS": "1"}


def mirage(target: str, folder: Path, **knobs: str) -> None:
    """Run a target that needs no cluster; its files are in the folder."""
    environment = {**os.environ, **MACHINE, **knobs, "MIRAGE_GIVEN": " ".join((*MACHINE, *knobs))}
    done = subprocess.run([sys.executable, "-m", "mirage", target], cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_log_can_be_made_again(tmp_path: Path) -> None:
    mirage("workload", tmp_path, MODEL="lublin", JOBS="1000", LOAD="0.6", ESTIMATES="tsafrir", OUT="lublin.swf")
    mirage("simulate", tmp_path, TRACE="lublin.swf", POLICY="easy", OUT="again.swf")
    assert (tmp_path / "again.swf").read_bytes() == LOG.read_bytes()
