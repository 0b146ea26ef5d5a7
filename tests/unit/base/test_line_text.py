"""What a line of a text file cannot hold."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from line_values import values

from slurm_mirage.base import line_text
from slurm_mirage.base.errors import WrongUse


@given(values)
def test_what_a_line_can_hold_is_one_line_to_every_reader(text: str) -> None:
    if not line_text.fault(text):
        assert text.splitlines() == ([text] if text else [])
        assert io.StringIO(f"{text}\n", newline=None).read() == f"{text}\n"
        assert text.encode().decode() == text and b"\0" not in text.encode()


@pytest.mark.parametrize("text", ["", "a b", "\u00e4\u3000", "a\tb", "\ufeff", "\U0001f600", "\ue000", "\u0378"])
def test_letters_blanks_and_tabs_are_no_fault(text: str) -> None:
    assert line_text.check("x", text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secret\n", "x.conf: Key: has the control character U+000A"),
        ("a\0", "x.conf: Key: has the control character U+0000"),
        ("a\x85", "x.conf: Key: has the control character U+0085"),
        ("a\u2028", "x.conf: Key: has the line separator U+2028"),
        ("a\u2029", "x.conf: Key: has the paragraph separator U+2029"),
        ("a\ud800", "x.conf: Key: has the half of a surrogate pair U+D800"),
    ],
)
def test_the_message_names_the_place_and_not_the_text(text: str, words: str) -> None:
    with pytest.raises(WrongUse) as refused:
        line_text.check("x.conf: Key", text)
    assert str(refused.value) == words
