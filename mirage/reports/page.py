"""Renders a report page: one self-contained HTML file for screens, telephones and print."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from mirage.reports.pictures import Picture
from mirage.reports.timeline import Timeline

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Table:
    """A table of texts. The first column names the row.

    shades: darkness of the other cells by row, from 0 to 1 (None: no shade)
    links: address of the first cell by row
    prose: columns of sentences, which are wrapped and left-aligned
    """

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    shades: Sequence[Sequence[float | None]] = ()
    links: Sequence[str] = ()
    prose: tuple[int, ...] = ()

    def shade(self, row: int, column: int) -> int:
        """Darkness of a cell in per cent of the darkest shade; black text is legible on all of them."""
        value = self.shades[row][column] if self.shades else None
        return 0 if value is None else round(100 * value)


@dataclass(frozen=True)
class Part:
    """A part of a section: a picture, a timeline or a table, with a text.

    words: the text; picture and timeline may have a table with their data
    points: list of sentences after the text
    is_wide: whether the part takes the full width of the page
    """

    words: str
    picture: Picture | None = None
    table: Table | None = None
    timeline: Timeline | None = None
    points: Sequence[str] = ()
    is_wide: bool = False


@dataclass(frozen=True)
class Section:
    """A section of a page. lacks: sentences about data that cannot be shown, with the reason."""

    title: str
    parts: Sequence[Part] = field(default_factory=list)
    lacks: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """The framed text at the top of a page: whether the results are valid, and the reasons if they are not."""

    good: bool
    answer: str
    reasons: Sequence[str] = ()


def report(title: str, summary: Iterable[str], verdict: Verdict, sections: Iterable[Section]) -> str:
    """The page of a run, a sweep or a comparison as HTML."""
    text, digest = script()
    shown = {"title": title, "summary": list(summary), "verdict": verdict, "sections": list(sections)}
    return render("report.html.j2", **shown, script=text, script_hash=digest)


def script() -> tuple[str, str]:
    """The pages' script, and its hash for the Content-Security-Policy, which allows no other script."""
    text = (_TEMPLATES / "timeline.js").read_text()
    return text, "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def render(template: str, **content: Any) -> str:
    """Renders a template of templates/. All content is escaped, except for the SVG of pictures."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_keep_percent_together,
    )
    return environment.get_template(template).render(**content)


def _keep_percent_together(value: Any) -> Any:
    """Replaces the blank before % by a no-break space."""
    return value.replace(" %", "\u00a0%") if isinstance(value, str) else value
