"""Numbers as text for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.text.words import two_digits


@given(st.floats(min_value=1e-3, max_value=1e5))
def test_two_digits_are_never_more(value: float) -> None:
    shown = two_digits(value, down=True)
    assert 0.9 * value < float(shown) <= value * (1 + 1e-8)
    assert len(shown.replace(".", "").strip("0")) <= 2


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (0.165, "0.17"), (0.000123, "0.00012"), (9.96, "10"), (1234.0, "1200"), (61.0, "61")]
)
def test_two_digits_of_the_nearest_number(value: float, shown: str) -> None:
    assert two_digits(value) == shown
