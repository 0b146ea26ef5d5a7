"""Conversions between trace, virtual and real time, and the clock file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock import MAX_SPEED, Clock

SPEEDS = st.floats(min_value=1e-3, max_value=MAX_SPEED)
SHRINKS = st.floats(min_value=0.1, max_value=1000)
INSTANTS = st.integers(min_value=0, max_value=4_000_000_000 * 10**9)
SECONDS = st.floats(min_value=0, max_value=1e9)
CLOCKS = st.builds(Clock, INSTANTS, INSTANTS, SPEEDS, SHRINKS)


def test_durations_of_a_shrunk_trace_on_a_fast_clock() -> None:
    clock = Clock(speed=20, shrink=50)
    assert clock.trace_to_virtual(3600) == 1800
    assert clock.virtual_to_real(1800) == 90
    assert clock.virtual_to_real(clock.trace_to_virtual(3600)) == 90
    assert clock.real_to_virtual(90) == 1800
    assert clock.virtual_to_trace(1800) == 3600
    assert clock.real_to_trace(90) == 3600


def test_instants_follow_from_the_anchor() -> None:
    clock = Clock(real_ns=1_700_000_000_000_000_000, virtual_ns=1_000_000_000_000_000_000, speed=12.5)
    assert clock.virtual_at(1_700_000_000_000_000_000) == 1_000_000_000_000_000_000
    assert clock.virtual_at(1_700_000_000_000_000_002) == 1_000_000_000_000_000_025
    assert clock.real_at(1_000_000_000_000_000_025) == 1_700_000_000_000_000_002
    assert clock.real_at(1_000_000_000_000_000_001) == 1_700_000_000_000_000_001
    assert clock.virtual_at(1_699_999_999_999_999_998) == 999_999_999_999_999_975


def test_the_default_is_real_time() -> None:
    clock = Clock()
    assert clock.virtual_at(123_456_789) == 123_456_789
    assert clock.virtual_to_real(clock.trace_to_virtual(7.25)) == 7.25


def test_a_new_clock_starts_with_both_times_equal() -> None:
    clock = Clock.start_now(speed=100)
    assert clock.real_ns == clock.virtual_ns > 0
    assert clock.virtual_now() >= clock.virtual_ns


@given(clock=CLOCKS, seconds=SECONDS)
def test_conversions_of_durations_have_inverses(clock: Clock, seconds: float) -> None:
    assert clock.virtual_to_trace(clock.trace_to_virtual(seconds)) == pytest.approx(seconds)
    assert clock.real_to_virtual(clock.virtual_to_real(seconds)) == pytest.approx(seconds)
    assert clock.real_to_trace(clock.virtual_to_real(clock.trace_to_virtual(seconds))) == pytest.approx(seconds)


@given(clock=CLOCKS, instant=INSTANTS)
def test_real_at_returns_the_first_instant_at_or_after_the_virtual_one(clock: Clock, instant: int) -> None:
    real = clock.real_at(instant)
    assert clock.virtual_at(real) >= instant
    assert clock.virtual_at(real - 1) < instant


@given(clock=CLOCKS, one=INSTANTS, other=INSTANTS)
def test_virtual_time_never_runs_backwards(clock: Clock, one: int, other: int) -> None:
    early, late = sorted((one, other))
    assert clock.virtual_at(early) <= clock.virtual_at(late)


@given(clock=CLOCKS)
def test_the_clock_file_stores_everything_except_the_shrink_factor(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> None:
    path = tmp_path_factory.mktemp("clock") / "clock"
    clock.write(path)
    assert Clock.read(path, shrink=clock.shrink) == clock


def test_write_replaces_the_file_and_makes_it_readable_by_all(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    path.write_text("the old one")
    Clock(1, 2, 0.5).write(path)
    assert path.read_text() == "mirage-clock 1 1 2 0.5\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["clock"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "clock").mkdir()
    with pytest.raises(OSError):
        Clock().write(tmp_path / "clock")
    assert [entry.name for entry in tmp_path.iterdir()] == ["clock"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "mirage-clock 2 1 1 1\n",
        "mirage-clock 1 1 1\n",
        "mirage-clock 1 1 1 1 1\n",
        "mirage-clock 1 -1 1 1\n",
        "mirage-clock 1 1.5 1 1\n",
        "mirage-clock 1 1 1 0\n",
        "mirage-clock 1 1 1 -2\n",
        "mirage-clock 1 1 1 nan\n",
        "mirage-clock 1 1 1 inf\n",
        "mirage-clock 1 1 1 1e3\n",
        "mirage-clock 1 1 1 1000001\n",
        "mirage-clock 1 9999999999999999999 1 1\n",
        "mirage-clock 1 1 1 1\nmirage-clock 1 1 1 1\n",
        " mirage-clock 1 1 1 1\n",
        "mirage-clock 1 1 1 ٣\n",
    ],
)
def test_the_error_names_a_malformed_clock_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "clock"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WrongUse, match=f"^clock file {path}: "):
        Clock.read(path)


def test_a_missing_clock_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="No such file"):
        Clock.read(tmp_path / "clock")


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf"), 1e-10, MAX_SPEED * 2])
def test_a_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(WrongUse, match=r"^SPEED: "):
        Clock(speed=speed)


@pytest.mark.parametrize("shrink", [0, -1, float("nan"), float("inf")])
def test_a_shrink_factor_out_of_range_is_refused(shrink: float) -> None:
    with pytest.raises(WrongUse, match=r"^SHRINK: "):
        Clock(shrink=shrink)


@pytest.mark.parametrize("anchor", [(-1, 0), (0, -1), (2**63, 0), (0, 2**63)])
def test_an_anchor_out_of_range_is_refused(anchor: tuple[int, int]) -> None:
    with pytest.raises(WrongUse, match="anchor"):
        Clock(*anchor)
