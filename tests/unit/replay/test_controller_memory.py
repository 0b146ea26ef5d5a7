"""The memory of the controller, of a real process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from slurm_mirage.replay.monitor import ControllerMemory


def test_it_is_that_of_the_process_of_this_name(tmp_path: Path) -> None:
    program = tmp_path / "controller-25"
    shutil.copy(Path(sys.executable).resolve(), program)
    memory = ControllerMemory(program.name)
    assert memory.look() == 0
    script = "data = b'x' * (30 << 20); print(len(data), flush=True); del data; input()"
    with subprocess.Popen([program, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        largest = memory.look()
        assert 30 << 10 < largest < 200 << 10, "it keeps what the process has given back"
        process.communicate(b"\n")
    assert memory.look() == 0
