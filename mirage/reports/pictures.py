"""Draws charts as SVG, with title and description for screen readers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

import altair as alt
import vl_convert

from mirage.reports.theme import CONFIG

# Pixels of the PNG per pixel of the SVG, for print.
_SCALE = 2.0


@dataclass(frozen=True)
class Picture:
    """A drawn chart.

    name: name of its files, and prefix of its ids within a page
    title: what it shows
    description: text that replaces the picture for readers who do not see it
    svg: the picture as an SVG element
    """

    name: str
    title: str
    description: str
    svg: str

    def png(self) -> bytes:
        """The picture as PNG."""
        return vl_convert.svg_to_png(self.svg, scale=_SCALE)


def draw(chart: Any, name: str, title: str, description: str) -> Picture:
    """Draws an altair chart. `name` consists of letters, digits, - and _; `title` and `description` are plain text."""
    with alt.data_transformers.enable("default", max_rows=None):  # a comparison of many configurations has many rows
        specification = {**chart.to_dict(), "config": CONFIG}
    return Picture(name, title, description, _described(vl_convert.vegalite_to_svg(specification), name, title, description))


def warm_up() -> None:
    """Start the program that draws, which takes half a second."""
    vl_convert.vegalite_to_svg({"data": {"values": []}, "mark": "point"})


def _described(svg: str, name: str, title: str, description: str) -> str:
    """The SVG as an image element with title and description, and with ids that are unique within a page.

    Its width and height are kept; pages use them as the maximum size.
    """
    # Vega numbers ids over all pictures of a process.
    for number, old in enumerate(re.findall(r'\bid="([^"]+)"', svg), 1):
        svg = svg.replace(f'id="{old}"', f'id="{name}-{number}"').replace(f"url(#{old})", f"url(#{name}-{number})")
    svg = svg.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "", 1)
    # Drop the empty elements that Vega creates.
    svg = re.sub(r'<path class="(?:background|foreground)"[^>]*\bd="(?:M0,0h0v0h0Z)?"[^>]*/>', "", svg)
    svg = re.sub(r' (?:aria-hidden|aria-roledescription|role|pointer-events|class)="[^"]*"', "", svg)
    texts = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    opening = f'<svg role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    head, rest = svg.split(">", 1)
    return f"{head.replace('<svg', opening, 1)}>{texts}{rest}"
