"""The shell of a user of a sandbox: what it has of root's, and when it ends. A program of the tests is in the place of bash."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from slurm_mirage.extras.sandbox import users
from slurm_mirage.extras.sandbox.programs import login

ROOT = Path(__file__).parents[3]
PATIENCE = 30.0
RUN = """
import json, os, sys
from slurm_mirage.extras.sandbox.programs import login
os.set_inheritable(int(sys.argv[1]), True)
sys.exit(login.run([sys.executable, "-c", sys.argv[2]], {"PATH": "/usr/bin:/bin"}))
"""
LOOK = """
import os

def can(action):
    try:
        action()
    except OSError:
        return False
    return True

print("descriptor", can(lambda: os.fstat(%d)), "terminal", can(lambda: os.open("/dev/tty", os.O_RDWR)),
      "reads", can(lambda: os.read(1, 0)), "session", os.getsid(0) in (os.getpid(), os.getppid()))
"""


def _seen(stdin: int) -> Mapping[str, bool]:
    """What the program sees that is run by a program with a terminal of its own and a further descriptor."""
    kept, _ = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        os.dup2(kept, kept + 100)
        if stdin >= 0:
            os.dup2(stdin, 0)
        os.environ["PYTHONPATH"] = str(ROOT / "module_utils")
        os.execv(sys.executable, [sys.executable, "-c", RUN, str(kept + 100), LOOK % (kept + 100)])
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:  # the child has ended
        pass
    os.waitpid(child, 0)
    os.close(terminal)
    words = said.decode().split()
    assert len(words) == 8, said
    return {name: value == "True" for name, value in zip(words[::2], words[1::2], strict=True)}


def test_on_a_terminal_it_has_one_of_its_own_and_no_descriptor_of_roots() -> None:
    assert _seen(-1) == {"descriptor": False, "terminal": True, "reads": True, "session": True}


def test_with_a_script_it_has_no_terminal_to_read_from_or_to_type_into() -> None:
    with Path("/dev/null").open() as script:
        assert _seen(script.fileno()) == {"descriptor": False, "terminal": False, "reads": False, "session": True}


@pytest.mark.skipif(os.getuid() != 0, reason="only root changes to a user")
def test_it_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "munge").mkdir()
    words = login.command(os.getpid(), tmp_path, "anna", users.FIRST, {})
    words = [*words[: words.index("env")], "sh", "-c", "echo begun; exec sleep 100"]
    started = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert started.stdout is not None
    if started.stdout.readline() != b"begun\n":
        pytest.skip("this host allows no PID namespace")
    started.kill()
    started.wait()
    # The shell has the other end of the pipe, as long as it is there.
    has_ended, _, _ = select.select([started.stdout], [], [], PATIENCE)
    assert has_ended and started.stdout.read() == b""
