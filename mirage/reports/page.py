"""A page: one HTML file that needs nothing besides, legible on paper and in a narrow window."""

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
    """Texts. The first column names the row.

    shades: for the cells behind it, how dark they are, from 0 to 1 (None: not at all); links: address of the first cell by row;
    prose: columns with words instead of figures
    """

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    shades: Sequence[Sequence[float | None]] = ()
    links: Sequence[str] = ()
    prose: tuple[int, ...] = ()

    def shade(self, row: int, column: int) -> int:
        """Per cent of the darkest shade, on which black text is legible."""
        value = self.shades[row][column] if self.shades else None
        return 0 if value is None else round(100 * value)


@dataclass(frozen=True)
class Part:
    """A picture, what is to be known of it, and its numbers; or a table and what is to be known of that; or pictures over time.

    is_wide: it takes all of the page's width; points: sentences after the words, as a list
    """

    words: str
    picture: Picture | None = None
    table: Table | None = None
    timeline: Timeline | None = None
    points: Sequence[str] = ()
    is_wide: bool = False


@dataclass(frozen=True)
class Section:
    """lacks: what cannot be shown here, and why, in sentences."""

    title: str
    parts: Sequence[Part] = field(default_factory=list)
    lacks: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """What stands in a frame at the top: whether the results can be trusted, and what speaks against it."""

    good: bool
    answer: str
    reasons: Sequence[str] = ()


def report(title: str, summary: Iterable[str], verdict: Verdict, sections: Iterable[Section]) -> str:
    """The page of a run, a sweep or a comparison."""
    text, digest = script()
    shown = {"title": title, "summary": list(summary), "verdict": verdict, "sections": list(sections)}
    return render("report.html.j2", **shown, script=text, script_hash=digest)


def script() -> tuple[str, str]:
    """The pages' script, and its hash as a Content-Security-Policy names it: nothing else is ever run in a page."""
    text = (_TEMPLATES / "timeline.js").read_text()
    return text, "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
