"""Values in Markdown are shown letter by letter, by a renderer of CommonMark with tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it.token import Token
from markdown_parts import rendered

from mirage.text import markdown
from mirage.text.markdown import Markdown
from slurm_mirage.base.printing import one_line

ANYTHING = st.text(max_size=60) | st.text("`|\\<>[]()!*_~&@#;=-+1. ax\n\x1b", max_size=30)
NO_MENTION = "\u200b"
"""Follows each @, so that no one is mentioned."""


def inline(text: str) -> list[Token]:
    """The parts of a text that has to be one paragraph."""
    tokens = rendered(text)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], tokens
    return tokens[1].children or []


def shown(parts: list[Token]) -> str:
    assert {part.type for part in parts} <= {"text"}, parts
    return "".join(part.content for part in parts).replace(NO_MENTION, "")


@given(ANYTHING)
def test_a_value_within_a_line(value: str) -> None:
    assert shown(inline(Markdown("The value {}.").format(value))) == f"The value {one_line(value)}."


@given(ANYTHING)
def test_a_value_at_the_beginning_of_a_line(value: str) -> None:
    assert shown(inline(Markdown("{}: it").format(value))).strip() == f"{one_line(value)}: it".strip()


@given(ANYTHING)
def test_a_value_in_the_type_of_code(value: str) -> None:
    parts = inline(Markdown("x{}y").format(markdown.code(value)))
    if one_line(value).strip(" "):
        assert [part.type for part in parts] == ["text", "code_inline", "text"]
        assert parts[1].content == one_line(value)
    else:
        assert shown(parts) == f"x{value}y"


@given(st.lists(ANYTHING, min_size=2, max_size=2), ANYTHING)
def test_cells_of_a_table(cells: list[str], last: str) -> None:
    code = last.replace("\\", "/")  # before a bar it would be taken for the one that escapes it
    tokens = rendered("\n".join(markdown.table(("a", "b", "c"), [(*cells, markdown.code(code))])))
    assert tokens[0].type == "table_open" and tokens[-1].type == "table_close"
    inlines = [token.children or [] for token in tokens if token.type == "inline"]
    assert [shown(parts) for parts in inlines[:5]] == ["a", "b", "c", *(one_line(cell).strip() for cell in cells)]
    assert len(inlines) == 6
    if one_line(code).strip(" "):
        assert [(part.type, part.content) for part in inlines[5]] == [("code_inline", one_line(code))]


@given(st.lists(ANYTHING, max_size=3))
def test_a_block(lines: list[str]) -> None:
    (token,) = rendered("\n".join(markdown.block(lines)))
    assert token.type == "fence" and token.content == "".join(f"{one_line(line)}\n" for line in lines)


@pytest.mark.parametrize("value", ["wait_p95:+10%", "sched/backfill", "-0.12 to +0.12 %", "a, b (c)", "results/x/gate.md"])
def test_what_is_not_special_stays_readable(value: str) -> None:
    assert Markdown("x {}").format(value) == f"x {value}"


def test_what_is_not_of_the_type_is_escaped_when_it_is_written(tmp_path: Path) -> None:
    markdown.write(tmp_path / "a.md", [Markdown("# {}").format("<b>"), "# <img src=x>\n# b"])  # type: ignore[list-item]
    assert (tmp_path / "a.md").read_text() == "# \\<b\\>\n# \\<img src=x\\>\\n# b\n".replace("\\n#", "\\\\n#")


def test_no_one_is_mentioned() -> None:
    assert Markdown("by {}").format("@all") == "by @&#8203;all"
    assert Markdown("by {}").format(markdown.code("@all")) == "by `@all`"
