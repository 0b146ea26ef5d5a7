"""How pictures look: colours, fonts, axes whose ticks are those that people read.

Blue and orange are of the palette of Okabe and Ito, which those who confuse colours can tell apart too. One is dark and
the other light, so that they differ in print without colours; lines differ by their dashes besides.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import altair as alt

BLUE, ORANGE, GREY, INK = "#0072b2", "#e69f00", "#8c8c8c", "#1a1a1a"
GREEN, RED, PURPLE, SKY = "#009e73", "#d55e00", "#aa4499", "#56b4e9"
# Of series in the order of their importance.
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
DASHES = ((1, 0), (6, 3), (2, 2), (9, 2, 2, 2), (12, 4), (1, 3))

# Arial and its free twin are equally wide, so that text fits wherever the picture is shown.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
# Of the plot without its axes, in pixels: two pictures side by side on a screen, one on a telephone.
WIDTH, HEIGHT = 400, 250

CONFIG: dict[str, Any] = {
    "aria": False,  # a picture has one description; its marks have none of their own
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

# Where an axis of counts begins, so that a count of 1 has a height.
FLOOR = 0.7

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
# Durations by which people think, in seconds.
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
    """A logarithmic axis of durations in seconds, from 1 s on."""
    top = max(60.0, longest)
    ticks = {value: text for value, text in _DURATIONS.items() if value <= top * 1.05}
    axis = alt.Axis(values=list(ticks), labelExpr=_nearest_below(ticks), title=title, labelOverlap=True, grid=True)
    return axis, alt.Scale(type="log", domain=[1, top * 1.05], nice=False)


def _nearest_below(ticks: dict[int, str]) -> str:
    """An axis's labelExpr: ticks of a logarithmic axis come back a little off, so each is told by the value that it passes."""
    expression = "''"
    for value, text in ticks.items():
        expression = f"datum.value > {0.99 * value:g} ? '{text}' : {expression}"
    return expression


def size_axis(largest: int, title: str) -> tuple[alt.Axis, alt.Scale]:
    """A logarithmic axis of numbers of processors with powers of two as ticks, every second or third if they are many."""
    powers = range(max(1, largest.bit_length()) + 1)
    stride = 1 if len(powers) <= 10 else 2 if len(powers) <= 17 else 3
    ticks = [1 << power for power in powers[::stride] if 1 << power <= largest * 1.25]
    axis = alt.Axis(values=ticks, format=",", title=title, labelOverlap=True)
    return axis, alt.Scale(type="log", base=2, domain=[0.8, max(2, largest) * 1.25], nice=False)


def count_axis(largest: int, title: str) -> tuple[alt.Axis, alt.Scale]:
    """A logarithmic axis of counts from 1 on, powers of ten as ticks. Its floor is FLOOR, so that a count of 1 is seen."""
    ticks = [10**power for power in range(len(str(max(1, largest))) + 1) if 10**power <= largest * 1.5]
    return alt.Axis(values=ticks, format=",", title=title), alt.Scale(type="log", domain=[FLOOR, max(2, largest) * 1.5], nice=False)


def date_axis(first: datetime, last: datetime) -> alt.Axis:
    """An axis of dates, or of times of the day if all are within two days."""
    span = last - first
    if span < timedelta(days=2):
        return alt.Axis(
            title=f"time of the day, from {first:%Y-%m-%d} on", format="%H:%M", tickCount=6, grid=False, labelOverlap=True
        )
    if span > timedelta(days=120):
        return alt.Axis(title="date", format="%b %Y", tickCount=4, grid=False, labelOverlap=True)
    years = f"{first.year}" if first.year == last.year else f"{first.year} to {last.year}"
    return alt.Axis(title=f"date, {years}", format="%-d %b", tickCount=5, grid=False, labelOverlap=True)


def from_zero() -> alt.Scale:
    """A linear scale whose ends are 0 and a tick."""
    return alt.Scale(zero=True, nice=True)


PERCENT = "format(datum.value * 100, '~r') + ' %'"
"""An axis's labelExpr for shares."""


def percent_axis(title: str) -> alt.Axis:
    """An axis of shares from 0 to 1."""
    return alt.Axis(labelExpr=PERCENT, title=title, tickCount=5)


def series_colours(names: Iterable[str]) -> tuple[alt.Scale, alt.Scale]:
    """Scales of colours and of dashes of some series."""
    domain = list(names)
    return alt.Scale(domain=domain, range=list(COLOURS[: len(domain)])), alt.Scale(
        domain=domain, range=[list(d) for d in DASHES[: len(domain)]]
    )
