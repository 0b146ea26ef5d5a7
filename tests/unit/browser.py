"""Pages as people meet them, in Debian's Chromium without a window: whether their pictures are drawn, and their texts can be read.

Playwright leads the browser that is installed; it needs none of its own.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PROGRAM = shutil.which("chromium")
WIDTHS = (1200, 400)
"""Of a screen and of a telephone, in pixels."""
_PATIENCE = 120_000  # ms until a step is given up: how long a loaded machine may take, not how long it should
_NEAR = 12
"""A pixel has a colour if none of its parts (0 to 255) differs by more."""
_FEWEST = 4
"""Pixels of its colour that a series has at least outside of the legend."""

# What each picture of the page draws: its box, the boxes of its legend's entries with their colours, and the colours of its shapes.
# A colour is what is seen of it on white. The boxes count from the upper left corner of the page.
_PICTURES = """() => {
  const box = (one) => {
    const {x, y, width, height} = one.getBoundingClientRect();
    return {x: x + scrollX, y: y + scrollY, width, height};
  };
  const onWhite = (text, opacity) => {
    const parts = (text.match(/[\\d.]+/g) || []).map(Number);
    if (!/^rgb/.test(text)) return null;
    const alpha = opacity * (parts.length > 3 ? parts[3] : 1);
    return alpha ? parts.slice(0, 3).map((part) => Math.round(255 + (part - 255) * alpha)) : null;
  };
  const colours = (one) => {
    const style = getComputedStyle(one), {width, height} = one.getBoundingClientRect();
    let opacity = 1;
    for (let at = one; at.tagName !== "svg"; at = at.parentNode) opacity *= Number(getComputedStyle(at).opacity);
    const found = [];
    if (one.tagName !== "line" && width > 1 && height > 1) found.push(onWhite(style.fill, opacity * Number(style.fillOpacity)));
    if (parseFloat(style.strokeWidth) >= 1) found.push(onWhite(style.stroke, opacity * Number(style.strokeOpacity)));
    return found.filter((colour) => colour && Math.min(...colour) < 230);
  };
  const shapes = (root) => [...root.querySelectorAll("path, rect, line, circle")].filter((one) => {
    const {width, height} = one.getBoundingClientRect();
    return !one.closest("defs, clipPath") && getComputedStyle(one).visibility === "visible" && (width || height);
  });
  // An entry of a legend of Vega's is a group of a symbol and a text.
  const entries = (svg) => [...svg.querySelectorAll("g")].filter((group) => group.querySelectorAll("text").length === 1
    && group.querySelector("path") && !group.querySelector("line") && group.getBoundingClientRect().height < 30);
  return [...document.querySelectorAll(".panel, .picture")].map((figure) => {
    const plot = figure.querySelector("svg.plot"), svg = plot || figure.querySelector("svg");
    const legend = plot ? [...figure.querySelectorAll(".legend span")] : entries(svg);
    return {
      name: plot ? svg.id : svg.getAttribute("aria-labelledby").replace(/-title$/, ""),
      box: box(svg),
      legend: legend.map((one) => ({text: one.textContent, box: box(one), colours: shapes(one).flatMap(colours)})),
      colours: shapes(svg).filter((one) => !legend.some((entry) => entry.contains(one))).flatMap(colours),
      images: svg.querySelectorAll("image").length,
      outside: shapes(svg).filter((one) => !one.closest(".plot") && !one.closest("[clip-path]")).filter((one) => {
        const at = one.getBoundingClientRect(), edge = svg.getBoundingClientRect();
        return Math.min(at.left - edge.left, edge.right - at.right, at.top - edge.top, edge.bottom - at.bottom) < -1;
      }).length,
    };
  });
}"""

# Texts that are beyond the page's edges, and pairs of texts that overlap. A table that is wider than the screen is scrolled: what
# is beyond its edge is left out. The box of a line is a bit higher than its letters.
_TEXTS = """() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement, text = node.textContent.trim();
    const unseen = parent.closest("script, style, .skip, [hidden], svg title, svg desc") || !parent.checkVisibility();
    if (!text || unseen) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = parent.closest("svg text") ? [parent.closest("svg text").getBoundingClientRect()] : [...range.getClientRects()];
    const wide = parent.closest(".wide"), edge = wide && wide.getBoundingClientRect();
    for (const {left, right, top, bottom} of boxes) {
      if (edge && wide.scrollWidth > wide.clientWidth && right > edge.right - 1) continue;
      const less = parent.closest("svg") ? Math.min(bottom - top, right - left) / 6 : (bottom - top) / 5;
      found.push({text, node, left: left + 1, right: right - 1, top: top + less, bottom: bottom - less});
    }
  }
  const wrong = found.filter(({left, right}) => left < 0 || right > innerWidth).map(({text}) => `cut: ${text}`);
  found.sort((one, other) => one.top - other.top);
  found.forEach((one, place) => {
    for (let next = place + 1; next < found.length && found[next].top < one.bottom; next++) {
      const other = found[next];
      const overlap = one.node !== other.node && other.left < one.right && one.left < other.right;
      if (overlap) wrong.push(`on each other: ${one.text} | ${other.text}`);
    }
  });
  return wrong;
}"""
_SCROLLED = """() => [...document.querySelectorAll(".wide")]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth).map((one) => one.getAttribute("aria-label"))"""
_VIEWS = """() => [...document.querySelectorAll(".timeline")]
  .map((one) => [...new Set([...one.querySelectorAll("svg.plot")].map((plot) => plot.getAttribute("viewBox")))])"""
_WHOLE, _HALF = ["0 0 10000 1000"], ["2500 0 5000 1000"]


@contextmanager
def started() -> Iterator[Browser]:
    """The browser, until the end of the context."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, timeout=_PATIENCE)
        yield browser
        browser.close()


class Visit:
    """A page that is shown. said: what the browser complained about; asked: addresses that the page asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.set_default_timeout(_PATIENCE)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("console", lambda message: self.said.append(message.text))
        page.on("request", lambda request: self.asked.append(request.url[:200]))

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        return self.page.evaluate(expression)

    def check_quiet(self) -> None:
        """Without errors, and without the network."""
        assert self.said == []
        assert [address for address in self.asked if not address.startswith(("file://", "data:"))] == []


@contextmanager
def visit(browser: Browser, path: Path, width: int = WIDTHS[0]) -> Iterator[Visit]:
    """Show a file in a window of that width."""
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        shown = Visit(page)
        page.goto(path.resolve().as_uri())
        yield shown


def check_page(browser: Browser, path: Path, names: Sequence[str]) -> None:
    """Check a page with pictures of these names at all WIDTHS: each shows ink of the colours of its shapes and of its legend, no
    text is cut or lies on another one, and keys zoom each of its timelines."""
    for width in WIDTHS:
        with visit(browser, path, width) as shown:
            assert shown.run("document.documentElement.scrollWidth") <= width
            assert width < 1000 or shown.run(_SCROLLED) == []
            assert shown.run(_TEXTS) == []
            _check_ink(shown, names)
            _check_keys(shown)
            shown.check_quiet()


def _check_ink(shown: Visit, names: Sequence[str]) -> None:
    screen = np.asarray(Image.open(io.BytesIO(shown.page.screenshot(full_page=True))).convert("RGB"), np.int16)
    pictures = shown.run(_PICTURES)
    assert sorted(picture["name"] for picture in pictures) == sorted(names)
    for picture in pictures:
        seen = screen.copy()
        for entry in picture["legend"]:
            seen[_slices(entry["box"])] = 255
        seen = seen[_slices(picture["box"])]
        assert picture["images"] or picture["colours"], picture["name"]
        assert not picture["images"] or (seen.min(axis=2) < 200).any(), picture["name"]
        assert picture["outside"] == 0, picture["name"]
        for colour in {tuple(colour) for colour in picture["colours"]}:
            assert _count(seen, colour) >= _FEWEST, (picture["name"], colour)
        for entry in picture["legend"]:
            assert entry["colours"], (picture["name"], entry["text"])
            assert all(_count(seen, colour) >= _FEWEST for colour in entry["colours"]), (picture["name"], entry["text"])


def _slices(box: dict[str, float]) -> tuple[slice, slice]:
    left, top = max(0, round(box["x"])), max(0, round(box["y"]))
    return slice(top, round(box["y"] + box["height"])), slice(left, round(box["x"] + box["width"]))


def _count(seen: NDArray[np.int16], colour: Sequence[int]) -> int:
    return int((np.abs(seen - np.array(colour, np.int16)).max(axis=2) <= _NEAR).sum())


def _check_keys(shown: Visit) -> None:
    frames = shown.page.locator(".timeline")
    count = frames.count()
    for place in range(count):
        frames.nth(place).locator(".frame").first.focus()
        shown.page.keyboard.press("+")
        assert shown.run(_VIEWS) == [_HALF if other == place else _WHOLE for other in range(count)]
        shown.run("scrollTo(0, 0)")  # where the buttons lie on no picture
        assert shown.run(_TEXTS) == []
        shown.page.keyboard.press("ArrowRight")
        assert "after the first submission" in (frames.nth(place).locator("output").text_content() or "")
        shown.page.keyboard.press("0")
        assert shown.run(_VIEWS) == [_WHOLE] * count
