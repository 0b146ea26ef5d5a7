"""The estimate of a run's length as a range of real seconds."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.experiment import run_length
from mirage.experiment.host_pace import AROUND_BUSY
from mirage.experiment.run_length import Length, around_of, in_words, total
from mirage.experiment.standing import Work


@pytest.mark.parametrize("slow", [1.0, 2.0, 5.5])
def test_a_range_is_at_most_three_wide_and_grows_on_a_busy_host(slow: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_length, "slowness", lambda: slow)
    least, most = Length(5.0, 15.0, 10.0).range()
    assert most / least == pytest.approx(3)
    assert least == pytest.approx((5 + 15 * slow + 10 * slow**AROUND_BUSY) / 3**0.5)
    least, most = Length(100.0, 0.0, 12.0, 1.25, 1.2).range()
    assert least == pytest.approx(80 + 10 * slow**AROUND_BUSY) and most == pytest.approx(125 + 14.4 * slow**AROUND_BUSY)


@given(st.floats(0, 1))
def test_the_share_of_a_processor_that_a_program_gets(share: float) -> None:
    """Each look at the clock takes 10 ms, in which the program has computed for its share of them."""
    now = itertools.count(7.0, 0.01)
    computed = [0.0]

    def monotonic() -> float:
        computed[0] += 0.01 * share
        return next(now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_length.time, "monotonic", monotonic)
        patch.setattr(run_length.time, "process_time", lambda: computed[0])
        expected = 1 / share if share > 0.00125 else 800
        assert run_length.measured_slowness() == pytest.approx(expected, rel=0.05)


def test_more_work_on_the_cluster_takes_longer() -> None:
    seconds = [around_of(100, left, is_event=False) for left in (Work.NONE, Work.CONFIGURE, Work.BUILD)]
    assert seconds == sorted(set(seconds)) and seconds[0] == run_length.STANDING
    assert around_of(100, Work.NONE, is_event=True) < around_of(1000, Work.NONE, is_event=True)
    assert around_of(100, Work.BUILD, is_event=True) > seconds[2]


@given(st.floats(1, 1e6), st.floats(0, 1e6), st.floats(10, 1e3))
def test_words_give_a_range_that_is_at_most_three_wide_and_within_the_numbers(steady: float, rest: float, around: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_length, "slowness", lambda: 1.0)
        length = Length(steady, rest, around)
        words = length.in_words().split()
        unit = {name: size for size, name in run_length.UNITS}[words[3]]
        least, most = float(words[0]) * unit, float(words[2]) * unit
        assert most <= 3 * least * (1 + 1e-9)
        assert length.range()[0] <= least * (1 + 1e-9) and most <= length.range()[1] * (1 + 1e-9)
        assert least <= 1.11 * length.range()[0] and most >= length.range()[1] / 1.11


def test_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_length, "slowness", lambda: 1.0)
    assert in_words("event", 7200.0, Length(20.0, 30.0, 10.0)) == "2 h of the cluster's time: 35 to 100 s"
    assert in_words(Decimal(20), 7200.0, Length(360.0, 0.0, 10.0, 1.25)) == "2 h of the cluster's time: 4.9 to 7.7 min at SPEED=20"
    assert in_words("auto", 7200.0, None) == "2 h of the cluster's time, at a speed to be picked"
    assert total([Length(50.0, 4.0, 10.0, 1.4), Length(30.0, 2.0, 10.0, 1.5, 1.6)], 2) == Length(40.0, 3.0, 10.0, 1.5)
    assert Length(50.0, 4.0, 10.0, 1.4).times(3) == Length(150.0, 12.0, 10.0 + 2 * run_length.STANDING, 1.4)
