"""What a renderer of Markdown, like those of GitHub and GitLab, makes of a text."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.token import Token

STRANGE = "PLANTED` ``x`` | <img src=x onerror=y> [a](http://b) ![c](d) **e** @b ~~f~~ &lt; \x1b[2J\r\n# h\n::error::i \u202e"
"""Text with all that Markdown, a terminal and a log of continuous integration give a meaning to."""
ABLE = {"heading", "paragraph", "table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item"}
"""What our own texts are made of, besides text, code and blocks of it."""


def rendered(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def kinds(text: str) -> set[str]:
    """What is in a text: names of its parts, those of its lines included."""
    tokens = rendered(text)
    parts = [part for token in tokens for part in (token.children if token.type == "inline" else [token]) or []]
    return {part.type.removesuffix("_open").removesuffix("_close") for part in parts}
