"""Processes of an instance, and signals that reach no other process than the one that is meant."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from visible import visible

from slurm_mirage.base import processes


@pytest.fixture
def sleeping(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of an instance in tmp_path."""
    (tmp_path / "run").mkdir()
    with visible(subprocess.Popen(["sleep", "600"], env={processes.INSTANCE_VARIABLE: str(tmp_path)})) as started:
        yield started
        started.kill()


def test_processes_of_an_instance_have_their_start_times(sleeping: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert processes.of_instance(str(tmp_path)) == {sleeping.pid: processes.start_time(sleeping.pid)}


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_a_signal_reaches_only_the_process_that_began_then(
    sleeping: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, has_descriptors: bool
) -> None:
    """With and without pidfd_open, which old kernels do not have."""
    if not has_descriptors:

        def cannot(_: int) -> int:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(os, "pidfd_open", cannot)
    began = processes.start_time(sleeping.pid)
    assert began is not None
    processes.send(sleeping.pid, began - 1, signal.SIGKILL)
    assert processes.end({sleeping.pid: began - 1}, 1.0) == set()
    assert sleeping.poll() is None
    assert processes.end({sleeping.pid: began}, 60.0) == {sleeping.pid}
    assert sleeping.wait() == -signal.SIGTERM
    processes.send(sleeping.pid, began, signal.SIGKILL)
