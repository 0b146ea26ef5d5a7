"""docs/knobs.md and the table that it is generated from."""

from __future__ import annotations

from pathlib import Path

from mirage.knobs.document import document
from mirage.knobs.knob import GROUPS
from mirage.knobs.table import TABLE

ROOT = Path(__file__).parents[3]


def test_the_page_is_generated_from_the_table() -> None:
    """If this fails: .venv/bin/python -m mirage.knobs.document > docs/knobs.md"""
    assert (ROOT / "docs/knobs.md").read_text() == document()


def test_every_knob_has_one_row_below_its_purpose() -> None:
    sections = dict(part.split("\n", 1) for part in document().split("\n## ")[1:])
    assert tuple(sections) == GROUPS
    for knob in TABLE:
        assert [group for group, text in sections.items() if f"\n| `{knob.name}` |" in text] == [knob.group]


def test_cells_do_not_break_the_tables() -> None:
    for knob in TABLE:
        assert not [text for text in (knob.default, knob.shown, knob.meaning, knob.may_be) if "|" in text or "\n" in text]
