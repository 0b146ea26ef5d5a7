"""The restart of the controller before a run on the event clock."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from slurm_mirage.base.processes import is_stopped
from slurm_mirage.replay.phase import remove_from

WRITER = """
import pathlib, sys
while True:
    for name in sys.argv[1:]:
        pathlib.Path(name).write_text("jobs")
"""


def test_a_process_does_not_write_files_again_that_are_removed(tmp_path: Path) -> None:
    files = [tmp_path / "job_state", tmp_path / "job_state.old"]
    with subprocess.Popen([sys.executable, "-c", WRITER, *map(str, files)]) as writer:
        try:
            while not files[1].exists():
                time.sleep(0.01)
            remove_from(writer.pid, [*files, tmp_path / "none"])
            assert is_stopped(writer.pid)
            assert list(tmp_path.iterdir()) == []
        finally:
            writer.kill()


def test_files_of_a_process_that_has_ended_stay(tmp_path: Path) -> None:
    """The next controller may have read them."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "job_state").write_text("jobs")
    remove_from(ended.pid, [tmp_path / "job_state"])
    assert (tmp_path / "job_state").exists()
