"""What is printed is one line of printable characters, which is capped and commands nothing."""

from __future__ import annotations

import io
import logging
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.log_file import begin_log
from slurm_mirage.base.printing import LONGEST, log_text, one_line, say

ANYTHING = st.text(st.characters(exclude_categories=[])) | st.text("\x1b[m\r\n:#x \u202e\udc80|\\")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bf_interval=30", "bf_interval=30"),
        ("zwölf ± 3 → 「ジョブ」", "zwölf ± 3 → 「ジョブ」"),
        ("C:\\new \\x1b", "C:\\new \\x1b"),
        ("\x1b[31mRED\x1b]0;title\x07", "\\x1b[31mRED\\x1b]0;title\\x07"),
        ("\x9b31m\x7f\x00\t\x85", "\\x9b31m\\x7f\\x00\\t\\x85"),
        ("one\r\ntwo\u2028three", "one\\r\\ntwo\\u2028three"),
        ("\u202eder\u202c \u2066x\u2069", "\\u202eder\\u202c \\u2066x\\u2069"),
        ("a\u200bb\u200dc\ufeffd\u3164e\ufe0f", "a\\u200bb\\u200dc\\ufeffd\\u3164e\\ufe0f"),
        ("caf\udce9.swf", "caf\\udce9.swf"),
        ("\ue000\U000e0041", "\\ue000\\U000e0041"),
        ("::error file=a::words", "\\::error file=a::words"),
        ("  ::stop-commands::x", "\\  ::stop-commands::x"),
        ("a line with ::error::words", "a line with ::error::words"),
        ("fe80::1 and ::1", "fe80::1 and ::1"),
        ("x ##[set-env name=PATH]y", "x #\\#[set-env name=PATH]y"),
        ("##vso[task.setvariable]", "#\\#vso[task.setvariable]"),
        ("## a heading [1]", "## a heading [1]"),
    ],
)
def test_a_line(text: str, line: str) -> None:
    assert one_line(text) == line


@given(ANYTHING)
def test_any_text_is_one_printable_line_that_commands_nothing(text: str) -> None:
    line = one_line(text)
    assert line.isprintable() and len(line) <= LONGEST
    assert not re.search(r"##\w*\[|^\s*::.*::", line)
    assert one_line(line) == line
    if text.isascii() and text.isprintable() and not re.search("::|##", text):
        assert line == text


@given(ANYTHING, st.integers(60, 200))
def test_a_long_text_is_cut_and_says_by_how_much(text: str, most: int) -> None:
    whole = one_line(text * 20, None)
    line = one_line(text * 20, most)
    assert len(line) <= most and one_line(line, most) == line
    if line != whole:
        kept, count = re.fullmatch(r"(.*) \.\.\. \(([\d,]+) characters more\)", line).groups()  # type: ignore[union-attr]
        assert whole.startswith(kept) and len(kept) + int(count.replace(",", "")) == len(whole)


def test_lines_of_a_program_stay_lines() -> None:
    assert log_text("TASK [a\x1b[2J]\r\nok\rfailed\n::error::x\n") == "TASK [a\\x1b[2J]\nok\\rfailed\n\\::error::x\n"
    assert log_text(long := "x" * (LONGEST + 1)) == long


def test_each_text_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("one\ntwo", "", "\x1b[2J")
    say("three\r", file=sys.stderr)
    assert capsys.readouterr() == ("one\\ntwo\n\n\\x1b[2J\n", "three\\r\n")


def test_a_message_of_a_log_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.WARNING)
    begin_log(tmp_path / "replay.log")
    try:
        raise OSError("no\x1b[1mroom\nin it")
    except OSError:
        root.exception("job %s", "a\nb\x1b")
    root.handlers[0].close()
    lines = (tmp_path / "replay.log").read_text().splitlines()
    assert lines[0].endswith(" ERROR job a\\nb\\x1b") and lines[1].startswith("Traceback")
    assert lines[-2:] == ["OSError: no\\x1b[1mroom", "in it"]


def test_the_value_of_a_wrong_use_is_escaped() -> None:
    error = WrongUse("it may be a path", parameter="trace", value="a\n\x1b[2J")
    assert str(error) == "trace=a\\n\\x1b[2J: it may be a path"
    assert error.module_message() == "wrong use: TRACE=a\\n\\x1b[2J: it may be a path"


def test_escapes_count_for_the_longest_line() -> None:
    say("\x1b" * LONGEST, file=(stream := io.StringIO()))
    assert len(stream.getvalue()) <= LONGEST + 1 and stream.getvalue().endswith("characters more)\n")
