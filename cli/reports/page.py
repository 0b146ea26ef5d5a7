"""A page: one HTML file that needs nothing besides, legible on paper and in a narrow window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from .pictures import Picture

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Table:
    """Texts. The first column names the row."""

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Part:
    """A picture, what is to be known of it, and its numbers; or a table and what is to be known of that."""

    words: str
    picture: Picture | None = None
    table: Table | None = None


@dataclass(frozen=True)
class Section:
    """lacks: what cannot be shown here, and why, in sentences."""

    title: str
    parts: Sequence[Part] = field(default_factory=list)
    lacks: Sequence[str] = field(default_factory=list)


def render(template: str, **content: Any) -> str:
    """A template of templates/ as HTML. All that is put in is escaped, but for a picture's SVG."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_hold_together,
    )
    return environment.get_template(template).render(**content)


def _hold_together(value: Any) -> Any:
    """Keeps a number and its % on one line."""
    return value.replace(" %", "\u00a0%") if isinstance(value, str) else value
