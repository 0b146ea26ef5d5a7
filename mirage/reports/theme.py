"""The appearance of pictures: colours, fonts, and axes with readable ticks.

Blue and orange are from the palette of Okabe and Ito for colour-blind readers. One is dark and the other light, so that they differ
in black-and-white print; lines also differ by their dashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import altair as alt

BLUE, ORANGE, INK = "#0072b2", "#e69f00", "#1a1a1a"
GREEN, RED, PURPLE, SKY = "#009e73", "#d55e00", "#aa4499", "#56b4e9"
# Colours of series, in the order of the series.
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
DASHES = ((1, 0), (6, 3), (2, 2), (9, 2, 2, 2), (12, 4), (1, 3))

# Liberation Sans has the same character widths as Arial, so that text fits on all systems.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
# Size of a plot without its axes in pixels: two fit side by side on a screen, one on a telephone.
WIDTH, HEIGHT = 400, 250

CONFIG: dict[str, Any] = {
    "aria": False,  # the picture as a whole has a description, its marks do not
    "background": "white",
    "font": FONT,
    "padding": 8,
    "view": {"stroke": None},
    "axis": {
        "labelFontSize": 13,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": "#e3e3e3",
        "titlePadding": 8,
        "labelFlush": False,
    },
    "legend": {
        "orient": "top",
        "title": None,
        "labelFontSize": 13,
        "labelColor": INK,
        "labelLimit": 400,
        "symbolSize": 160,
        "offset": 6,
        "columnPadding": 20,
    },
    "bar": {"color": BLUE},
    "line": {"color": BLUE, "strokeWidth": 2.2},
    "text": {"font": FONT, "fontSize": 12, "color": INK},
    "rule": {"color": INK},
}

# Lower end of a logarithmic axis of counts; below 1, so that a count of 1 is visible.
FLOOR = 0.7

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# Ticks of axes of durations: seconds and text.
_DURATIONS = {
    1: "1 s",
    10: "10 s",
    _MINUTE: "1 min",
    10 * _MINUTE: "10 min",
    _HOUR: "1 h",
    6 * _HOUR: "6 h",
    _DAY: "1 d",
    7 * _DAY: "1 week",
    30 * _DAY: "30 d",
    365 * _DAY: "1 year",
    3650 * _DAY: "10 years",
}


def duration_axis(longest: float, title: str) -> tuple[alt.Axis, alt.Scale]:
    """A logarithmic axis of durations from 1 s to `longest` seconds."""
    top = max(60.0, longest)
    ticks = {value: text for value, text in _DURATIONS.items() if value <= top * 1.05}
    axis = alt.Axis(values=list(ticks), labelExpr=_nearest_below(ticks), title=title, labelOverlap=True, grid=True)
    return axis, alt.Scale(type="log", domain=[1, top * 1.05], nice=False)


def _nearest_below(ticks: dict[int, str]) -> str:
    """A labelExpr that labels a tick by the largest of `ticks` below it, as tick values of logarithmic axes are not exact."""
    expression = "''"
    for value, text in ticks.items():
        expression = f"datum.value > {0.99 * value:g} ? '{text}' : {expression}"
    return expression


def size_axis(largest: int, title: str) -> tuple[alt.Axis, alt.Scale]:
    """A logarithmic axis of numbers of processors; ticks are powers of two, or every second or third power."""
    powers = range(max(1, largest.bit_length()) + 1)
    stride = 1 if len(powers) <= 10 else 2 if len(powers) <= 17 else 3
    ticks = [1 << power for power in powers[::stride] if 1 << power <= largest * 1.25]
    axis = alt.Axis(values=ticks, format=",", title=title, labelOverlap=True)
    return axis, alt.Scale(type="log", base=2, domain=[0.8, max(2, largest) * 1.25], nice=False)


def count_axis(largest: int, title: str) -> tuple[alt.Axis, alt.Scale]:
    """A logarithmic axis of counts from FLOOR to `largest`; ticks are powers of ten."""
    ticks = [10**power for power in range(len(str(max(1, largest))) + 1) if 10**power <= largest * 1.5]
    return alt.Axis(values=ticks, format=",", title=title), alt.Scale(type="log", domain=[FLOOR, max(2, largest) * 1.5], nice=False)


def date_axis(first: datetime, last: datetime) -> alt.Axis:
    """An axis of dates, or of times of the day for less than two days."""
    span = last - first
    if span < timedelta(days=2):
        return alt.Axis(
            title=f"time of the day, from {first:%Y-%m-%d} on", format="%H:%M", tickCount=6, grid=False, labelOverlap=True
        )
    if span > timedelta(days=120):
        return alt.Axis(title="date", format="%b %Y", tickCount=4, grid=False, labelOverlap=True)
    years = f"{first.year}" if first.year == last.year else f"{first.year} to {last.year}"
    return alt.Axis(title=f"date, {years}", format="%-d %b", tickCount=5, grid=False, labelOverlap=True)


def line_legend() -> alt.Legend:
    """A legend of lines, also where they have points."""
    return alt.Legend(symbolType="stroke", symbolStrokeWidth=2.5)


def panels(field: str, order: Sequence[str] | None = None) -> alt.Row:
    """Panels one below the other, each with its name above it, so that a picture is as wide as others."""
    header = alt.Header(title=None, labelOrient="top", labelAngle=0, labelAnchor="start", labelFontSize=13, labelColor=INK)
    return alt.Row(field, sort=alt.Undefined if order is None else list(order), header=header)


def from_zero() -> alt.Scale:
    """A linear scale from 0 to a tick."""
    return alt.Scale(zero=True, nice=True)


PERCENT = "format(datum.value * 100, '~r') + ' %'"
"""The labelExpr of an axis of shares."""


def percent_axis(title: str) -> alt.Axis:
    """An axis of shares from 0 to 1."""
    return alt.Axis(labelExpr=PERCENT, title=title, tickCount=5)


def series_colours(names: Iterable[str]) -> tuple[alt.Scale, alt.Scale]:
    """Scales that map names of series to colours and to dashes."""
    domain = list(names)
    return alt.Scale(domain=domain, range=list(COLOURS[: len(domain)])), alt.Scale(
        domain=domain, range=[list(d) for d in DASHES[: len(domain)]]
    )
