"""Measuring the offset of a clock that the library has shifted, and the role that refuses hosts with such clocks."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from copies import left_out

from slurm_mirage.clock import clock_offset

from .clocked import PATIENCE, SECOND, Under

ROOT = Path(__file__).parents[2]
ROLE = """
- hosts: all
  gather_facts: false
  roles: [clock_agreement]
  post_tasks:
    - ansible.builtin.file: {path: "{{ clock_agreement_directory }}/went-on-{{ inventory_hostname }}", state: touch}
"""


def ahead(under: Callable[..., Under], seconds: float) -> Under:
    """Return a clock of speed 1 that is `seconds` ahead of this machine's clock (negative: behind)."""
    now = time.time_ns()
    return under(1.0, now, now + round(seconds * SECOND))


@pytest.mark.parametrize("seconds", [3.0, -0.05, 864_000.0])
def test_the_offset_of_a_shifted_clock_is_measured(under: Callable[..., Under], seconds: float) -> None:
    shifted = ahead(under, seconds)
    command = [sys.executable, "-m", "slurm_mirage.programs.clock_answers", "127.0.0.1", "20000", "10000", "600"]
    environment = shifted.environment()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdout is not None
        offset = clock_offset.measure("127.0.0.1", int(program.stdout.readline()))
        program.terminate()
    assert offset is not None
    assert offset.seconds == pytest.approx(-seconds, abs=offset.error + 1e-6)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An instance's directory, which the server's user may enter."""
    directory = Path("/tmp", f"clock-agreement-test-{os.getpid()}-{time.monotonic_ns()}")
    (directory / "run").mkdir(parents=True)
    directory.chmod(0o755)
    shutil.copytree(ROOT / "module_utils/slurm_mirage", directory / "lib/slurm_mirage", ignore=left_out)
    yield directory
    shutil.rmtree(directory)


def play(folder: Path, off: Under) -> subprocess.CompletedProcess[str]:
    """Run the role clock_agreement for a head and two more hosts, all on this machine, the second under the clock `off`."""
    interpreter = folder / "python3-off"
    variables = f"LD_PRELOAD={off.builds.library} SLURM_MIRAGE_CLOCK={off.file}"
    interpreter.write_text(f'#!/bin/sh\nexec env {variables} {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "hosts").write_text(
        f"[head]\nhead\n[compute]\nhead\nc1\nc2 ansible_python_interpreter={interpreter}\n[all:vars]\nansible_connection=local\n"
        f"ansible_python_interpreter={sys.executable}\nclock_agreement_directory={folder}\nclock_agreement_port={port}\n"
        f"clock_agreement_ports=50\nclock_agreement_user={pwd.getpwuid(os.getuid()).pw_name}\n"
    )
    (folder / "play.yml").write_text(ROLE)
    return subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", folder / "hosts", folder / "play.yml"],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )


def test_one_host_with_a_wrong_clock_stops_all_hosts(under: Callable[..., Under], folder: Path) -> None:
    done = play(folder, ahead(under, -0.5))
    assert "wrong use: host c2: its clock is 0.5 s behind the head's (to within " in " ".join(done.stdout.split())
    assert "failed=1" in done.stdout and "host c1:" not in done.stdout
    assert list(folder.glob("went-on-*")) == []


def test_hosts_with_equal_clocks_continue(under: Callable[..., Under], folder: Path) -> None:
    done = play(folder, ahead(under, 0.0))
    assert done.returncode == 0, done.stdout
    assert {path.name for path in folder.glob("went-on-*")} == {"went-on-head", "went-on-c1", "went-on-c2"}
