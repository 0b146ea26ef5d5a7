"""Commands with a limit in real seconds, with and without the library of the event clock."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager

import pytest

from slurm_mirage.clock import real_limit, real_time


@pytest.fixture(params=[False, True], ids=["", "preloaded"])
def _clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library its wait in real time is an ordinary one."""

    @contextmanager
    def as_it_is():  # type: ignore[no-untyped-def]
        yield

    monkeypatch.setattr(real_time, "is_preloaded", lambda: request.param)
    monkeypatch.setattr(real_time, "real_time", as_it_is)


@pytest.mark.usefixtures("_clock")
def test_a_command_is_given_its_input_and_ends() -> None:
    done = real_limit.run(["sh", "-c", "cat; echo wrong >&2; exit 3"], "text", 20.0)
    assert (done.returncode, done.stdout, done.stderr) == (3, "text", "wrong\n")


@pytest.mark.usefixtures("_clock")
def test_a_command_that_lasts_too_long_is_killed() -> None:
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        real_limit.run(["sleep", "60"], "", 0.2)
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("_clock")
def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        real_limit.run(["/nosuch/program"], "", 1.0)
