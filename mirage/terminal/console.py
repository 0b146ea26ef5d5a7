"""A console of rich that shows texts as they are, each as one line of printable characters."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.style import StyleType
from rich.text import Text

from slurm_mirage.base.printing import one_line


def text_of(text: str, style: StyleType = "", **options: Any) -> Text:
    """The text for a console, with characters escaped by `one_line`. options: of rich's Text"""
    return Text(one_line(text), style, **options)


class PlainConsole(Console):
    """Texts, such as cells of tables, have no markup, emoji or highlighting, and are escaped before their width is measured."""

    def __init__(self, stream: TextIO, **options: Any) -> None:
        super().__init__(file=stream, highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """What rich makes of each text that is not yet one of its own."""
        return super().render_str(one_line(text), **options)
