"""libmunge runs in real time, like munged: its retries while munged is busy are delayed by real time."""

from __future__ import annotations

import ctypes.util
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .clocked import PATIENCE, SECOND, Line, Under, lines

EMUNGE_SOCKET = 6
ATTEMPTS = 21  # MUNGE_ATTEMPTS in munge.c, and the first


def talk(one: Under, way: str, busy: int) -> list[Line]:
    """Call munge_encode and munge_decode, linked or from a plugin (`way`), while munged is busy for `busy` calls."""
    builds = one.builds
    command = [builds.munge_linked] if way == "linked" else [builds.munge_host, builds.munge_plugin]
    return lines(one.run(*command, MUNGE_BUSY=str(busy)))


@pytest.mark.parametrize("way", ["linked", "plugin"])
def test_libmunge_uses_real_time(under: Callable[..., Under], way: str) -> None:
    """Clocks and waits in libmunge use real time; after each call the clock is virtual again."""
    one = under(1000.0)
    before = one.clock.virtual_now()
    answers = talk(one, way, 0)
    assert [name for name, _ in answers] == ["encode", "encoded", "decode", "decoded"]
    for _, values in answers[1::2]:
        assert before <= values.pop("value") <= one.clock.virtual_now()
    for call in (answers[0][1], answers[2][1]):
        assert call["raw_before"] <= call["seen_before"]
        assert call["seen_after"] <= call["raw_after"]
        assert call["seen_after"] - call["seen_before"] >= SECOND // 50
    assert answers[1][1] == {"result": 0}
    assert answers[3][1] == {"result": 0, "uid": 11, "gid": 12}


@pytest.mark.parametrize("way", ["linked", "plugin"])
def test_calls_to_a_busy_munged_are_repeated(under: Callable[..., Under], way: str) -> None:
    """Each retry is 0.1 s of real time later."""
    answers = talk(under(1000.0), way, 4)
    calls = [values for name, values in answers if name == "encode"]
    assert [values["call"] for values in calls] == [1, 2, 3, 4, 5]
    assert all(b["raw_before"] - a["raw_after"] >= SECOND // 10 for a, b in itertools.pairwise(calls))
    assert dict(answers)["encoded"]["result"] == 0


def test_calls_to_a_munged_that_stays_busy_fail(under: Callable[..., Under]) -> None:
    answers = talk(under(1000.0), "plugin", ATTEMPTS + 3)
    assert len([name for name, _ in answers if name == "encode"]) == ATTEMPTS
    assert dict(answers)["encoded"]["result"] == EMUNGE_SOCKET
    assert dict(answers)["decoded"]["result"] == 0


def test_without_libmunge_the_error_is_one_line(under: Callable[..., Under]) -> None:
    one = under(10.0)
    code = "import ctypes; ctypes.CDLL(None).munge_encode(None, None, None, 0)"
    process = one.start("python3", "-c", code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (127, "")
    assert errors == f"virtual clock: SLURM_MIRAGE_CLOCK={one.file}: libmunge.so.2 is not loaded\n"


@pytest.fixture
def munged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a munged that the test starts, in real time."""
    program = shutil.which("munged") or shutil.which("munged", path="/usr/sbin")
    if program is None or shutil.which("munge") is None or ctypes.util.find_library("munge") is None:
        pytest.skip("skipped: munge is missing")
    folder = tmp_path_factory.mktemp("munged")
    folder.chmod(0o711)
    key = folder / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = {name: f"--{name}-file={folder / name}" for name in ("key", "log", "pid", "seed")}
    socket = folder / "socket"
    # --force, because munged refuses folders that others may write to, such as /tmp.
    process = subprocess.Popen(
        [program, "--foreground", "--force", f"--socket={socket}", *files.values()], stderr=subprocess.DEVNULL
    )
    try:
        give_up = time.monotonic() + PATIENCE
        while not socket.exists():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < give_up
            time.sleep(0.01)
        yield socket
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def test_credentials_of_a_real_munged(under: Callable[..., Under], munged: Path) -> None:
    """Programs encode and decode them under a clock that is years ahead and a thousand times as fast."""
    one = under(1000.0, virtual_ns=time.time_ns() + 10**17)
    credential = one.run("munge", "--no-input", f"--socket={munged}").strip()
    assert credential.startswith("MUNGE:")
    process = one.start("unmunge", f"--socket={munged}", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, _ = process.communicate(credential, timeout=PATIENCE)
    assert process.returncode == 0
    assert "Success (0)" in output
