"""The pages of runs, comparisons, sweeps and workloads in a browser: what is drawn, keys, the pointer, names for screen readers."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import made_runs
import numpy as np
import polars as pl
import pytest
import simulated_runs
from browser import Visit, check_page, visit
from playwright.sync_api import Browser, Locator

from mirage.commands import report as report_command
from mirage.commands import workload_report
from mirage.experiment import runs
from mirage.knobs import resolve as knobs
from mirage.records.run_folder import RunFolder
from mirage.reports.run_data import Run
from mirage.terminal.screen import Screen

PICTURES = {
    "run": [
        *(f"time-{name}" for name in ("busy", "waiting", "fillers", "nodes", "suspended", "shares", "cycle", "depth", "host")),
        *("time-wait-causes", "waits", "slowdowns", "waits-over-time", "differences", "scatter"),
    ],
    "raster": [
        *(f"time-{name}" for name in ("busy", "waiting", "nodes", "cycle", "depth", "host")),
        *("waits", "slowdowns"),
    ],
    "comparison": ["time-busy", "time-waiting", "forest-fifo-backfill", "waits", "slowdowns", "busy", "busy-difference"],
    "sweep": ["wait-mean", "wait-p95", "response-mean", "bounded-slowdown-mean", "utilisation", "makespan"],
    "workload": ["sizes", "service", "hours", "weekdays", "times", "requests", "accuracy", "load", "users"],
}


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Makes the page of a kind, once for all tests."""
    results = tmp_path_factory.mktemp("pages") / "results"
    results.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "RESULTS", results)
        yield cache(lambda kind: make_page(results / kind, kind))


def make_page(folder: Path, kind: str) -> Path:
    """Makes the page of a kind as its command does."""
    log = folder.parent / f"{kind}.swf.gz"
    if kind == "workload":
        made_runs.a_full_log(log)
        given = {"TRACE": str(log), "OUT": str(folder)}
        workload_report.workload_report(knobs.resolve({**given, knobs.GIVEN: " ".join(given)}), Screen(io.StringIO()))
    else:
        if kind == "run":
            made_runs.a_run_with_everything(folder, log)
        elif kind == "raster":
            # So many jobs that the nodes are an image; within the hours of the samples.
            jobs = simulated_runs.jobs_of(2500, 200, 4).with_columns(pl.col("submit", "eligible", "start", "end") / 60)
            simulated_runs.write(folder, jobs, 200, 4)
        else:
            {"comparison": made_runs.a_comparison, "sweep": made_runs.a_sweep}[kind](folder)
        report_command.report(knobs.resolve({"RUN": folder.name, knobs.GIVEN: "RUN"}), Screen(io.StringIO()))
    return folder / "report.html"


@pytest.mark.parametrize("kind", PICTURES)
def test_pictures_are_seen_and_texts_can_be_read(browser: Browser, page_of: Callable[[str], Path], kind: str) -> None:
    check_page(browser, page_of(kind), PICTURES[kind])


def test_a_page_fits_on_the_smallest_telephone_and_is_printed(browser: Browser, page_of: Callable[[str], Path]) -> None:
    with visit(browser, page_of("run"), 320) as shown:
        assert shown.run("document.documentElement.scrollWidth") <= 320
        assert shown.page.pdf().startswith(b"%PDF")


@pytest.fixture
def shown(browser: Browser, page_of: Callable[[str], Path]) -> Iterator[Visit]:
    with visit(browser, page_of("run")) as page:
        yield page
        page.check_quiet()


VIEW = "document.querySelector('#time-busy').getAttribute('viewBox')"


def told(shown: Visit) -> str:
    """What the pointer or a key has read."""
    return shown.page.locator("output").first.text_content() or ""


def plot(shown: Visit, name: str) -> tuple[Locator, dict[str, float]]:
    """A picture over time, scrolled into view, and its box."""
    found = shown.page.locator(f"#time-{name}")
    found.evaluate("(one) => one.scrollIntoView({block: 'center'})")
    box = found.bounding_box()
    assert box is not None
    return found, dict(box)


def test_buttons_zoom_all_pictures_of_a_timeline(shown: Visit) -> None:
    buttons = shown.page.locator(".timeline").first.locator("button")
    assert [button.get_attribute("value") for button in buttons.all()] == ["in", "out", "earlier", "later", "all"]
    buttons.nth(0).click()
    assert shown.run(VIEW) == "2500 0 5000 1000"
    buttons.nth(3).click()
    assert shown.run(VIEW) == "5000 0 5000 1000"
    assert " to " in shown.run("document.querySelector('.shown').textContent")
    buttons.nth(4).click()
    assert shown.run(VIEW) == "0 0 10000 1000"
    assert buttons.nth(1).is_disabled()


def test_dragging_zooms_and_the_pointer_reads_values(shown: Visit) -> None:
    _, box = plot(shown, "busy")
    mouse, middle = shown.page.mouse, box["y"] + box["height"] / 2
    mouse.move(box["x"] + box["width"] / 2, middle)
    assert re.search(r"after the first submission: emulation [\d.,]+ processors, log [\d.,]+ processors", told(shown))
    mouse.move(box["x"] + box["width"] / 4, middle)
    mouse.down()
    mouse.move(box["x"] + box["width"] / 2, middle)
    mouse.up()
    first, _, width, _ = map(float, shown.run(VIEW).split())
    assert first == pytest.approx(2500, abs=30) and width == pytest.approx(2500, abs=30)


def test_values_at_the_pointer_are_the_recorded_ones(shown: Visit, page_of: Callable[[str], Path]) -> None:
    run = Run.of(RunFolder(page_of("run").parent))
    assert run.window is not None
    busy, _ = run.levels()
    _, box = plot(shown, "busy")
    for share in (0.11, 0.37, 0.52):
        shown.page.mouse.move(box["x"] + box["width"] * share, box["y"] + 20)
        match = re.search(r"emulation ([\d.,]+) processors", told(shown))
        assert match is not None
        end = max(run.window.end, *(float(level.times[-1]) for level in run.log_levels() or ()))
        # The pointer is exact to a pixel, and the picture's path to a few digits.
        about = run.window.begin + share * (end - run.window.begin) + np.array([-0.002, 0.002]) * (end - run.window.begin)
        places = np.searchsorted(busy.times, about, side="right") - 1
        near = busy.values[places[0] : places[1] + 1]
        assert near.min() - 0.2 <= float(match[1].replace(",", "")) <= near.max() + 0.2


def test_the_pointer_reads_the_jobs_that_wait_for_each_cause(shown: Visit, page_of: Callable[[str], Path]) -> None:
    """In the middle of the longest span, of the spans that are there."""
    run = Run.of(RunFolder(page_of("run").parent))
    assert run.window is not None
    spans = run.folder.waits
    begin, end = max(zip(spans["from"], spans["to"], strict=True), key=lambda span: span[1] - span[0])
    middle = (begin + end) / 2
    there = spans.filter((spans["from"] <= middle) & (spans["to"] > middle))["cause"].to_list()
    _, box = plot(shown, "wait-causes")
    shown.page.mouse.move(box["x"] + box["width"] * (middle - run.window.begin) / run.window.length, box["y"] + 20)
    words = shown.page.locator("output").nth(1).text_content() or ""
    assert {cause: int(count) for cause, count in re.findall(r"[:,] ([a-z ]+) (\d+) jobs", words)} == {
        cause: there.count(cause) for cause in there
    }


def test_the_pointer_shows_the_facts_of_a_job(shown: Visit) -> None:
    plot(shown, "nodes")
    jobs = [one.bounding_box() for one in shown.page.locator("#time-nodes [data-job] path").all()]
    largest = max((box for box in jobs if box is not None), key=lambda box: box["width"] * box["height"])
    shown.page.mouse.move(largest["x"] + largest["width"] / 2, largest["y"] + largest["height"] / 2)
    assert re.search(r": job \d+, \d+ processors?, waited .*, ran ", told(shown))


def test_keys_read_values(shown: Visit) -> None:
    shown.page.locator(".frame").first.focus()
    shown.page.keyboard.press("ArrowRight")
    first = told(shown)
    shown.page.keyboard.press("Shift+ArrowRight")
    assert "processors" in first and told(shown) != first
    assert shown.run("[...document.querySelectorAll('.frame')].every((one) => one.tabIndex === 0)")


def test_the_first_focus_is_the_skip_link(shown: Visit) -> None:
    shown.page.keyboard.press("Tab")
    assert shown.run("document.activeElement.className") == "skip"
    assert shown.run("document.activeElement.getBoundingClientRect().left") >= 0
    assert shown.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_pictures_and_tables_have_names(shown: Visit) -> None:
    nodes = shown.page.context.new_cdp_session(shown.page).send("Accessibility.getFullAXTree")["nodes"]
    by_role: dict[str, list[str]] = {}
    for node in nodes:
        if not node["ignored"]:
            by_role.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    assert len(by_role["image"]) >= 6 and all(by_role["image"])
    assert len(by_role["table"]) >= 6 and all(by_role["table"])
    assert "main" in by_role and len(by_role["heading"]) > 10
