"""Draws pictures over time with a common time axis; a script zooms all of them together. Without it they are static.

Each picture is an SVG that is stretched to the width of the window. Its labels are HTML text beside it, so that their size does not
depend on the width. The script reads values from the drawn paths, so that the page holds the data once.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.reports.theme import COLOURS, DASHES
from mirage.text.words import duration as duration_words

Floats = NDArray[np.float64]

# Width and height of a drawing in its own coordinates.
ACROSS, DOWN = 10_000, 1000
# A line with more than MOST_CHANGES changes is drawn as means over STRETCHES equal intervals.
MOST_CHANGES, STRETCHES = 3000, 2000
# Areas are drawn as means over so many equal intervals.
AREAS = 500

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_UNITS = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", 1))
_STEPS = (
    *(1, 2, 5, 10, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(days * _DAY for days in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)),
)
_TICKS = 5


@dataclass(frozen=True)
class Steps:
    """A step function over time.

    times: seconds, ascending, one more than values
    values: values[k] holds from times[k] to times[k + 1]
    mean_over: length in seconds of the interval of which each value is the mean; None for exact values
    """

    name: str
    times: Floats
    values: Floats
    mean_over: float | None = None

    def reduced(self) -> Steps:
        """This function, or, if it has more than MOST_CHANGES changes, its means over STRETCHES equal intervals."""
        if self.values.size <= MOST_CHANGES:
            return self
        edges = np.linspace(self.times[0], self.times[-1], STRETCHES + 1)
        sums = np.concatenate([[0], np.cumsum(self.values * np.diff(self.times))])
        means = np.diff(np.interp(edges, self.times, sums)) / np.diff(edges)
        return Steps(self.name, edges, means, float(edges[1] - edges[0]))

    def mean(self, begin: float, end: float) -> float:
        """Mean between two instants; the function is 0 outside of its times."""
        sums = np.concatenate([[0], np.cumsum(self.values * np.diff(self.times))])
        before, after = np.interp([begin, end], self.times, sums)
        return float(after - before) / (end - begin) if end > begin else 0.0


@dataclass(frozen=True)
class Panel:
    """One picture of a timeline.

    name: letters, digits and -
    body: SVG elements in the drawing's coordinates
    ticks: y axis: share of the height from the top, and text
    legend: name, colour and dashes of each series
    notes: sentences about how it is drawn
    height: pixels
    is_filled: whether the series are areas
    """

    name: str
    title: str
    description: str
    body: str
    ticks: Sequence[tuple[float, str]]
    legend: Sequence[tuple[str, str, str]] = ()
    notes: str = ""
    height: int = 150
    is_filled: bool = False


@dataclass(frozen=True)
class Timeline:
    """Pictures with the time axis from `begin` to `end` (seconds); its labels count from `begin`."""

    begin: float
    end: float
    panels: Sequence[Panel] = field(default_factory=list)

    @property
    def length(self) -> float:
        return max(self.end - self.begin, 1.0)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Ticks of the time axis: position from 0 to 1, and text."""
        step = next((step for step in _STEPS if self.length / step <= _TICKS), _STEPS[-1])
        return [(second / self.length, moment(second)) for second in np.arange(0, self.length * 0.97, step).tolist()]

    def x(self, times: Any) -> Floats:
        """Instants in the drawing's coordinates."""
        across = (np.asarray(times, np.float64) - self.begin) / self.length * ACROSS
        return np.asarray(across.clip(0, ACROSS), np.float64)

    def lines(
        self, name: str, title: str, description: str, series: Sequence[Steps], unit: str, *, top: float | None = None
    ) -> Panel:
        """A picture of up to six series in one unit; its y axis reaches from 0 to `top` or the largest value."""
        drawn = [steps.reduced() for steps in series if steps.values.size]
        largest = max([float(steps.values.max()) for steps in drawn] + [top or 0.0]) or 1.0
        ticks = y_ticks(largest, is_count=all((steps.values % 1 == 0).all() for steps in series))
        height = max(largest, ticks[-1]) * 1.04
        grid = "".join(f"M0 {_y(value, height):.0f}H{ACROSS}" for value in ticks)
        body = [f'<path class="grid" d="{grid}"/>']
        legend: list[tuple[str, str, str]] = []
        # The first series is drawn last, above the others.
        for place, steps in reversed(list(enumerate(drawn))):
            dash = " ".join(str(part) for part in DASHES[place])
            data = f'data-name="{escape(steps.name)}" data-top="{height:.6g}" data-unit="{escape(unit)}"'
            style = f'stroke="{COLOURS[place]}"' + (f' stroke-dasharray="{dash}"' if place else "")
            body.append(f'<path class="line" {data} {style} d="{self._path(steps, height)}"/>')
            legend.insert(0, (steps.name, COLOURS[place], dash if place else ""))
        means = {duration for steps in drawn if (duration := steps.mean_over)}
        notes = f"Each point is the mean of {duration_words(max(means))}." if means else ""
        return Panel(
            name,
            title,
            description,
            "".join(body),
            [(_y(value, height) / DOWN, axis_text(value)) for value in ticks],
            legend,
            notes,
        )

    def areas(self, name: str, title: str, description: str, series: Sequence[Steps], colours: Sequence[str], unit: str) -> Panel:
        """A picture of series in one unit, on top of each other, the first one lowest, as means over equal intervals."""
        edges = np.linspace(self.begin, self.end, AREAS + 1)
        levels = np.zeros((len(series) + 1, AREAS))
        for place, steps in enumerate(series):
            sums = np.concatenate([[0], np.cumsum(steps.values * np.diff(steps.times))])
            levels[place + 1] = levels[place] + np.diff(np.interp(edges, steps.times, sums)) / np.diff(edges)
        largest = float(levels[-1].max(initial=0.0)) or 1.0
        ticks = y_ticks(largest)
        height = max(largest, ticks[-1]) * 1.04
        across, down = self.x(edges), DOWN * (1 - levels / height)
        body = [f'<path class="grid" d="{"".join(f"M0 {_y(value, height):.0f}H{ACROSS}" for value in ticks)}"/>']
        for place, steps in enumerate(series):
            there = "".join(f"L{across[k]:.5g} {down[place + 1, k]:.4g}H{across[k + 1]:.5g}" for k in range(AREAS))
            back = "".join(f"L{across[k + 1]:.5g} {down[place, k]:.4g}H{across[k]:.5g}" for k in reversed(range(AREAS)))
            data = f'data-name="{escape(steps.name)}" data-top="{height:.6g}" data-unit="{escape(unit)}"'
            ink, title_of = f'fill="{colours[place]}" stroke="none"', f"<title>{escape(steps.name)}</title>"
            body.append(f'<path class="area" {data} {ink} d="M{there[1:]}{back}Z">{title_of}</path>')
        labels = [(_y(value, height) / DOWN, axis_text(value)) for value in ticks]
        legend = [(steps.name, colour, "") for steps, colour in zip(series, colours, strict=True)]
        notes = f"Each value is the mean of {duration_words(self.length / AREAS)}."
        return Panel(name, title, description, "".join(body), labels, legend, notes, is_filled=True)

    def _path(self, steps: Steps, height: float) -> str:
        across, down = self.x(steps.times), (DOWN * (1 - steps.values / height)).clip(0, DOWN)
        parts = [f"M{across[0]:.6g} {down[0]:.4g}"]
        for place in range(1, len(down)):
            if down[place] != down[place - 1]:
                parts.append(f"H{across[place]:.6g}V{down[place]:.4g}")
        parts.append(f"H{across[-1]:.6g}")
        return "".join(parts)


def y_ticks(largest: float, most: int = 4, *, is_count: bool = False) -> list[float]:
    """About `most` round numbers from 0 to `largest`; whole ones of a count."""
    rough = max(largest / most, 1.0 if is_count else 0.0)
    power = 10.0 ** np.floor(np.log10(rough))
    steps = [power * factor for factor in (1, 2, 2.5, 5, 10) if not is_count or power * factor % 1 == 0]
    step = float(next(step for step in steps if step >= rough * 0.999))
    return [step * k for k in range(int(largest / step * 1.001) + 1)]


def axis_text(value: float) -> str:
    """The text of a tick: 12,000; 0.25; 1.5 M."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"


def moment(seconds: float) -> str:
    """A time in up to three units, not rounded (1 d 6 h); the script has the same function."""
    rest = round(seconds)
    parts = []
    for unit, length in _UNITS:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:3]) or "0"


def _y(value: float, height: float) -> float:
    return DOWN * (1 - value / height)


def grey_png(shares: Floats) -> str:
    """Draws shares from 0 (white) to 1 (dark blue), rows from top to bottom, in 16 shades; returns a data URL of a PNG."""
    levels = np.round(shares * 15).astype(np.uint8)
    rows, columns = levels.shape
    if columns % 2:
        levels = np.pad(levels, ((0, 0), (0, 1)))
    packed = (levels[:, 0::2] << 4) | levels[:, 1::2]
    data = np.insert(packed, 0, 0, axis=1).tobytes()
    # A palette from white to dark blue; its shades also differ in black-and-white print.
    palette = bytes(round(255 + (dark - 255) * level / 15) for level in range(16) for dark in (0, 52, 92))
    header = struct.pack(">IIBBBBB", columns, rows, 4, 3, 0, 0, 0)
    parts = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b"")
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content)) for kind, content in parts
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()
