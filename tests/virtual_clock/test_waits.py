"""Waits under a virtual clock: they are never shorter than requested, and are interrupted and refused as without the library."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from .clocked import HERE, PATIENCE, SECOND, Builds, Line, Under, without_clock

# The names of the table `waits` in probe.c; those with a colon are deadlines.
WAITS = re.findall(r'^    \{"([\w:-]+)", (?:[wu]|do|set)_', (HERE / "probe.c").read_text(), re.MULTILINE)
LENGTHS = [name for name in WAITS if ":" not in name]
DEADLINES = [name for name in WAITS if ":" in name]
ETIMEDOUT, EAGAIN, EINTR = 110, 11, 4
SPEEDS = st.integers(1, 10**15).map(lambda billionths: billionths / SECOND)
MANY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def only(parsed: list[Line]) -> dict[str, int]:
    """Return the values of the only line."""
    ((_, values),) = parsed
    return values


def expected(name: str) -> tuple[int, int]:
    """Return result and errno of a wait that ends because its time has passed."""
    if name.startswith("pthread"):
        return ETIMEDOUT, ETIMEDOUT
    return {"sem": (-1, ETIMEDOUT), "sig": (-1, EAGAIN)}.get(name[:3], (0, 0))


def test_the_table_was_found() -> None:
    assert len(LENGTHS) >= 20
    assert len(DEADLINES) >= 13


# ---- by length and until an instant ----


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_on_a_fast_clock(under: Callable[..., Under], name: str) -> None:
    """A minute takes 60 ms. The upper limit of real time is exceeded only by a wait that is not scaled."""
    wanted = 60 * SECOND
    waited = only(under(1000.0).probe("wait", name, wanted))
    assert (waited["result"], waited["error"]) == expected(name)
    assert waited["virtual"] >= wanted
    assert wanted // 1000 <= waited["real"] < 50 * SECOND


def test_select_reports_no_remaining_time(under: Callable[..., Under]) -> None:
    assert only(under(1000.0).probe("wait", "select", 60 * SECOND))["left"] == 0


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_on_a_slow_clock(under: Callable[..., Under], name: str) -> None:
    """The wait is at least a second for functions that take whole seconds."""
    wanted = SECOND if name in ("sleep", "alarm") else SECOND // 20
    waited = only(under(0.4).probe("wait", name, wanted))
    assert (waited["result"], waited["error"]) == expected(name)
    assert waited["virtual"] >= wanted
    assert waited["real"] >= wanted / 0.4


@pytest.mark.parametrize("name", DEADLINES)
def test_a_deadline_that_has_passed(under: Callable[..., Under], name: str) -> None:
    """The deadline is later than the host's boot: the kernel refuses earlier instants with EINVAL."""
    waited = only(under(1000.0).probe("wait", name, -60 * SECOND))
    assert (waited["result"], waited["error"]) == expected(name)


@pytest.mark.parametrize("name", ["sleep", "alarm", "poll", "nanosleep"])
def test_waits_that_are_shorter_than_the_real_resolution(under: Callable[..., Under], name: str) -> None:
    """At a speed of a million, a second is a microsecond."""
    waited = only(under(1e6).probe("wait", name, SECOND))
    assert waited["virtual"] >= SECOND


# ---- exact arguments, with a C library that prints them instead of sleeping ----


def c_library_calls(one: Under, *arguments: object) -> dict[str, int]:
    """Return the arguments with which the library calls the C library for the probe, and the probe's own results."""
    parsed = one.probe(*arguments, beside=(one.builds.beside,))
    return {key: value for name, values in parsed if name != "early" for key, value in values.items()}


@MANY
@given(speed=SPEEDS, real=st.integers(0, 2**62), virtual=st.integers(0, 2**62), instant=st.integers(1, 2**63 - 1))
@example(speed=1e-9, real=0, virtual=0, instant=2**63 - 1)
@example(speed=1000.0, real=1, virtual=2**62, instant=1)
@example(speed=1e-9, real=16_504_999_961_873, virtual=0, instant=9_223_372_036_854_759_304)
def test_the_real_instant_of_a_deadline(under: Callable[..., Under], speed: float, real: int, virtual: int, instant: int) -> None:
    """It is the first real instant at or after the deadline. Instants before 1970 are replaced by the first nanosecond of 1970, and
    those that time_t cannot hold by the last nanosecond that it can."""
    one = under(speed, real, virtual)
    values = c_library_calls(one, "until", instant)
    expected_ns = min(max(1, one.clock.real_at(instant)), 2**63 * SECOND - 1)
    assert (values["clock"], values["absolute"]) == (0, 1)
    assert (values["seconds"], values["nanoseconds"]) == divmod(expected_ns, SECOND)


@MANY
@given(speed=SPEEDS, length=st.integers(0, 2**63 - 1))
def test_the_real_duration_of_a_sleep(under: Callable[..., Under], speed: float, length: int) -> None:
    """The remaining time of a sleep interrupted immediately is not larger, and as long in real time (up to a million years)."""
    one = under(speed)
    values = c_library_calls(one, "wait", "nanosleep", length)
    billionths = round(one.clock.speed * SECOND)
    real = -(-length * SECOND // billionths)
    assert (values["seconds"], values["nanoseconds"]) == divmod(real, SECOND)
    assert (values["result"], values["error"]) == (-1, EINTR)
    assert values["left"] <= length
    if real < 2**75:
        assert -(-values["left"] * SECOND // billionths) == real


def test_an_unlimited_wait_stays_unlimited(under: Callable[..., Under]) -> None:
    """Programs use the last representable second for an unlimited wait. A fast clock must not reach it."""
    values = c_library_calls(under(1e6), "until", 2**63 - 1)
    assert values["seconds"] * SECOND > time.time_ns()


# ---- interrupted ----


@pytest.mark.parametrize("name", [name for name in WAITS if not name.startswith(("pthread", "alarm", "setitimer", "timer"))])
def test_an_interrupted_wait(under: Callable[..., Under], builds: Builds, name: str) -> None:
    """It returns the same result as without the library, and the remaining time that it reports completes the wait."""
    wanted = 4000 * SECOND
    waited = only(under(100.0).probe("interrupt", name, wanted))
    usual = only(without_clock(builds, "interrupt", name, wanted))
    assert (waited["result"], waited["error"]) == (usual["result"], usual["error"])
    assert (waited["left"] > 0) == (usual["left"] > 0)
    if waited["left"]:
        # sleep(3) returns whole seconds, rounded down.
        assert wanted - (SECOND if name == "sleep" else 0) <= waited["left"] + waited["virtual"]
        assert waited["left"] <= wanted


def test_select_reports_the_remaining_time(under: Callable[..., Under]) -> None:
    wanted = 1000 * SECOND
    answer = only(under(50.0).probe("ready", wanted))
    assert answer["result"] == 1
    assert wanted - answer["virtual"] <= answer["left"] <= wanted


@pytest.mark.parametrize("speed", [0.001, 7.0, 1000.0])
def test_timers_report_the_remaining_time(under: Callable[..., Under], speed: float) -> None:
    """It is not less than the remaining time, and at most the requested one rounded up to a real microsecond (setitimer) or
    nanosecond."""
    wanted = 10_000 * SECOND
    answers = dict(under(speed).probe("timers", wanted))
    assert len(answers) == 8
    for name, answer in answers.items():
        if "stopped" in name:
            assert answer["left"] == 0, name
            continue
        finest = int(speed * 1000) + 1000
        rounding = SECOND // 2 if name == "alarm" else 0
        assert wanted - answer["virtual"] - rounding <= answer["left"] <= wanted + finest + rounding, name
        if name != "alarm":
            assert wanted <= answer["interval"] <= wanted + finest, name


# ---- wrong arguments ----


@pytest.mark.parametrize("speed", [0.5, 1000.0])
def test_wrong_arguments_cause_the_same_errors_as_without_the_library(
    under: Callable[..., Under], builds: Builds, speed: float
) -> None:
    usual = without_clock(builds, "wrong")
    assert len(usual) > 150
    assert under(speed).probe("wrong") == usual


# ---- programs of others ----


def test_sleep_of_coreutils(under: Callable[..., Under]) -> None:
    one = under(1000.0)
    before = one.clock.virtual_now()
    began = time.monotonic()
    one.run("sleep", "300.5")
    assert one.clock.virtual_now() - before >= 300.5 * SECOND
    assert time.monotonic() - began < 250


def test_timeout_of_coreutils(under: Callable[..., Under]) -> None:
    one = under(1000.0)
    before = one.clock.virtual_now()
    process = one.start("timeout", "100", "sleep", "1000000")
    assert process.wait(timeout=PATIENCE) == 124
    assert one.clock.virtual_now() - before >= 100 * SECOND


PYTHON = {
    "sleep": "time.sleep(60)",
    "select": "select.select([], [], [], 60)",
    "poll": "select.poll().poll(60_000)",
    "epoll": "select.epoll().poll(60)",
    "event": "threading.Event().wait(60)",
    "sigtimedwait": "signal.sigtimedwait([signal.SIGUSR2], 60)",
    "alarm": "signal.signal(signal.SIGALRM, lambda *_: None); signal.alarm(60); signal.pause()",
    "setitimer": "signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 60); signal.pause()",
    "subprocess": "subprocess.run(['sleep', '60'], check=True)",
}


@pytest.mark.parametrize("way", PYTHON)
def test_waits_of_python(under: Callable[..., Under], way: str) -> None:
    one = under(500.0)
    code = f"import select, signal, subprocess, threading, time; b = time.time_ns(); {PYTHON[way]}; print(time.time_ns() - b)"
    assert int(one.python(code)) >= 60 * SECOND


def test_a_shell_reads_with_a_timeout(under: Callable[..., Under]) -> None:
    one = under(500.0)
    command = ["bash", "-c", "b=$EPOCHSECONDS; read -t 60 line; echo $? $((EPOCHSECONDS - b))"]
    process = one.start(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    code, took = process.stdout.read().split()
    process.communicate(timeout=PATIENCE)
    assert int(code) > 128
    assert int(took) >= 59  # whole seconds, both rounded down


@pytest.mark.parametrize(("wait", "error"), [("pthread_cond_timedwait:realtime", ETIMEDOUT), ("usleep", 0)])
def test_slurmstepds_sampler_wakes_up_each_second_of_real_time(under: Callable[..., Under], wait: str, error: int) -> None:
    """Once per second of a fast clock, it would load the host without a purpose. Before 17.11 it sleeps.

    A C program, because an interpreter's thread may wait for its turn before it can give itself the name.
    """
    one = under(speed=1000)
    sampler = one.probe("named", "acctg_prof", wait, SECOND)
    another = one.probe("named", "another", wait, SECOND)
    assert [waited["error"] for _, waited in sampler + another] == [error] * 4
    assert min(waited["real"] for _, waited in sampler) >= SECOND
    assert min(waited["real"] for _, waited in another) < SECOND
