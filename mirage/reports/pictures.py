"""A picture: a chart drawn as SVG, with a title and a description in it for those who do not see it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

import vl_convert

from mirage.reports.theme import CONFIG

# Pixels of the PNG for each of the SVG: sharp on paper.
_SCALE = 2.0


@dataclass(frozen=True)
class Picture:
    """name: of its files, and of what it is called within a page; title: what it shows; description: what is to be seen."""

    name: str
    title: str
    description: str
    svg: str

    def png(self) -> bytes:
        """The same as PNG."""
        return vl_convert.svg_to_png(self.svg, scale=_SCALE)


def draw(chart: Any, name: str, title: str, description: str) -> Picture:
    """Draw an altair chart. `name`: letters, digits, - and _; the texts are plain."""
    specification = {**chart.to_dict(), "config": CONFIG}
    return Picture(name, title, description, _described(vl_convert.vegalite_to_svg(specification), name, title, description))


def _described(svg: str, name: str, title: str, description: str) -> str:
    """The SVG as one image with a name and a description; its ids are its own among the pictures of a page.

    Its width and height stay, as what it should be at most.
    """
    # Vega numbers them over all pictures of a process.
    for number, old in enumerate(re.findall(r'\bid="([^"]+)"', svg), 1):
        svg = svg.replace(f'id="{old}"', f'id="{name}-{number}"').replace(f"url(#{old})", f"url(#{name}-{number})")
    svg = svg.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "", 1)
    # Parts without anything in them, of which Vega leaves many.
    svg = re.sub(r'<path class="(?:background|foreground)"[^>]*\bd="(?:M0,0h0v0h0Z)?"[^>]*/>', "", svg)
    svg = re.sub(r' (?:aria-hidden|aria-roledescription|role|pointer-events|class)="[^"]*"', "", svg)
    told = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    opening = f'<svg role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    head, rest = svg.split(">", 1)
    return f"{head.replace('<svg', opening, 1)}>{told}{rest}"
