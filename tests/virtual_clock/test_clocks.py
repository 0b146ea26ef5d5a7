"""Programs under a virtual clock read the times that clock.py computes from the same clock file, to the nanosecond."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_mirage.clock.clock import Clock

from .clocked import SECOND, Line, Under, lines

CALENDAR = {"realtime", "realtime-coarse", "tai", "time", "gettimeofday", "gettimeofday-zone", "timespec_get"}
UPTIME = {"monotonic", "monotonic-coarse", "monotonic-raw", "boottime", "sysinfo"}
INSTANTS = st.integers(0, 2**63 - 1)
SPEEDS = st.one_of(st.sampled_from([0.5, 1.0, 2.5, 100.0, 1e6, 1e-9]), st.integers(1, 10**15).map(lambda b: b / SECOND))
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def uptime_at_anchor(clock: Clock) -> int:
    """Return the host's uptime at the anchor, in whole seconds as ns; 0 if the anchor is before the boot or in the future."""
    started = min(time.time_ns() - time.monotonic_ns() for _ in range(20))
    uptime = (clock.real_ns - started) // SECOND * SECOND
    return uptime if 0 < uptime <= time.monotonic_ns() else 0


def virtual_uptime(clock: Clock, real_ns: int) -> int:
    """Return the uptime (ns) that a program under this clock sees. Since the anchor it runs at the clock's speed."""
    anchor = uptime_at_anchor(clock)
    return Clock(anchor, anchor, clock.speed).virtual_at(real_ns) if real_ns > anchor else real_ns


def assert_agrees(clock: Clock, readings: list[Line]) -> None:
    """Assert that every reading is between the clock's times at the real instants just before and after it."""
    for name, reading in readings:
        if name == "cpu":
            assert reading["before"] <= reading["value"] <= reading["after"]
            continue
        show = clock.virtual_at if name in CALENDAR else lambda real: virtual_uptime(clock, real)
        # In readings of whole seconds, a started second of uptime counts, as in sysinfo(2).
        up = SECOND - 1 if name == "sysinfo" else 0
        earliest, latest = ((show(reading[key]) + up) * reading["unit"] // SECOND for key in ("before", "after"))
        assert earliest <= reading["value"] <= latest, (name, clock)


@MANY
@given(real=INSTANTS, virtual=INSTANTS, speed=SPEEDS)
def test_any_clock_agrees_with_clock_py(under: Callable[..., Under], real: int, virtual: int, speed: float) -> None:
    one = under(speed, real, virtual)
    readings = one.probe("clocks")
    assert {name for name, _ in readings} == CALENDAR | UPTIME | {"cpu"}
    assert_agrees(one.clock, readings)


@pytest.mark.parametrize("speed", [0.001, 1.0, 3.7, 1000.0, 1e6])
@pytest.mark.parametrize("ago", [0, 3600, 10**9])
def test_clocks_started_now_an_hour_ago_or_decades_ago(under: Callable[..., Under], speed: float, ago: int) -> None:
    one = under(speed, real_ns=time.time_ns() - ago * SECOND)
    assert_agrees(one.clock, one.probe("clocks"))


def test_uptime_does_not_jump_when_a_clock_starts(under: Callable[..., Under]) -> None:
    """Months of uptime multiplied by a thousand would overflow counters of Python and Slurm."""
    one = under(1e6)
    uptime = dict(one.probe("clocks"))["monotonic"]
    assert uptime["value"] <= uptime["before"] + int(one.clock.real_to_virtual(uptime["after"] - uptime_at_anchor(one.clock)))


def test_processes_started_at_different_times_agree(under: Callable[..., Under]) -> None:
    one = under(1000.0)
    for _ in range(5):
        assert_agrees(one.clock, one.probe("clocks"))
        time.sleep(0.2)


def test_children_agree(under: Callable[..., Under]) -> None:
    """Children after fork, children after fork and exec, and threads."""
    one = under(250.0)
    code = """
import ctypes, os, subprocess, sys, threading, time
libc = ctypes.CDLL(None)
class Spec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("ns", ctypes.c_long)]
def raw():
    spec = Spec()
    libc.syscall(NUMBER, 0, ctypes.byref(spec))
    return spec.seconds * 10**9 + spec.ns
def tell(name):
    before, value, after = raw(), time.time_ns(), raw()
    os.write(1, f"{name} unit=1000000000 before={before} value={value} after={after}\\n".encode())
if sys.argv[1:]:
    tell("exec")
else:
    tell("parent")
    thread = threading.Thread(target=tell, args=("thread",))
    thread.start()
    thread.join()
    if os.fork() == 0:
        tell("fork")
        os._exit(0)
    os.wait()
    subprocess.run([sys.executable, __file__, "x"], check=True)
"""
    number = {"x86_64": 228, "aarch64": 113}[os.uname().machine]
    script = one.file.with_suffix(".py")
    script.write_text(code.replace("NUMBER", str(number)))
    readings = lines(one.run(sys.executable, script))
    assert [name for name, _ in readings] == ["parent", "thread", "fork", "exec"]
    assert_agrees(one.clock, [("realtime", reading) for _, reading in readings])


def test_date(under: Callable[..., Under]) -> None:
    one = under(60.0, virtual_ns=1_700_000_000 * SECOND)
    before = one.clock.virtual_now()
    seconds, nanoseconds = one.run("date", "-u", "+%s %N").split()
    assert before <= int(seconds) * SECOND + int(nanoseconds) <= one.clock.virtual_now()


def test_a_library_that_reads_the_time_before_this_one_is_initialised(under: Callable[..., Under]) -> None:
    one = under(1000.0)
    (name, reading), *_ = one.probe("clocks", beside=(one.builds.beside,))
    assert name == "early"
    assert_agrees(one.clock, [("realtime", {"unit": SECOND, **reading})])


# ---- times of files ----


@MANY
@given(speed=SPEEDS, offset=st.integers(-(10**18), 10**18))
def test_times_of_files(under: Callable[..., Under], tmp_path: Path, speed: float, offset: int) -> None:
    """A file older than the anchor is older by the same time in virtual time; the time of a later file follows the clock."""
    one = under(speed, virtual_ns=1_600_000_000 * SECOND)
    path = tmp_path / "file"
    path.write_text("text")
    modified = one.clock.real_ns + offset
    os.utime(path, ns=(modified, modified))
    real = path.stat()

    def virtual(real_ns: int) -> int:
        since = real_ns - one.clock.real_ns
        return one.clock.virtual_ns + since if since < 0 else one.clock.virtual_at(real_ns)

    answers = one.probe("files", path)
    assert len(answers) >= 8
    expected = {"mtime": virtual(real.st_mtime_ns), "ctime": virtual(real.st_ctime_ns), "atime": virtual(real.st_atime_ns)}
    for name, answer in answers:
        assert answer == {**expected, "size": 4}, name


def test_a_file_with_the_last_representable_time(under: Callable[..., Under]) -> None:
    """Times beyond the last representable second are that second."""
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK):
        pytest.skip("skipped: /dev/shm, whose files can have any date, is missing")
    with NamedTemporaryFile(dir=folder) as file:
        os.utime(file.name, (2**62, 2**62))
        if Path(file.name).stat().st_mtime < 2**61:
            pytest.skip("skipped: files of /dev/shm cannot have any date here")
        modified = {answer["mtime"] for _, answer in under(1e6).probe("files", file.name)}
    assert modified == {2**63 * SECOND - 1}


def test_a_file_written_now_has_the_current_virtual_time(under: Callable[..., Under], tmp_path: Path) -> None:
    """The kernel's resolution of file times is up to 10 ms of real time, which is 10 s of this clock."""
    one = under(1000.0)
    path = tmp_path / "file"
    text = one.python(
        f"import os, time; b = time.time(); open({str(path)!r}, 'w').close(); print(b, os.stat({str(path)!r}).st_mtime)"
    )
    before, modified = map(float, text.split())
    assert before - 12 <= modified <= one.clock.virtual_now() / SECOND
