"""Tests of the common parts of reports: formatting of numbers, pictures, pages, and the folder of a report."""

from __future__ import annotations

import errno
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
from pages import Outline

from mirage.reports import distributions, folder, measures, theme
from mirage.reports.page import Part, Section, Table, render
from mirage.reports.pictures import Picture, draw
from mirage.text import words
from slurm_mirage.base.errors import WrongUse

SVG = "{http://www.w3.org/2000/svg}"


def a_picture(name: str = "some", title: str = "A title", description: str = "What it shows.") -> Picture:
    table = pl.DataFrame({"size": [1, 2, 4, 8], "jobs": [100, 20, 3, 1]})
    chart = alt.Chart(table).mark_bar(clip=True).encode(x="size:O", y="jobs:Q")
    return draw(chart, name, title, description)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0.0, "0 s"), (0.25, "0.25 s"), (42, "42 s"), (60, "1 min"), (75, "75 s"), (90, "2 min"), (3600, "1 h"),
        (4200, "1 h 10 min"), (86399, "1 d"), (86400, "1 d"), (100_000, "1 d 4 h"), (1_209_600, "14 d"), (29_363_618, "340 d"),
        (1e12, "11,574,074 d"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "errors", "text"),
    [
        (
            "wait_mean",
            292.0,
            {"emulation": 9.04, "other_jobs": [231.4, 1352.6]},
            "292 s (5 min) ± 9 s (emulation), other jobs 231 s to 1,350 s",
        ),
        ("wait_max", 16_573.7, {"emulation": 491.0, "other_jobs": None}, "16,574 s (4 h 36 min) ± 490 s (emulation)"),
        ("wait_median", 2.494, {"emulation": 1.28, "replicas": 1204.0}, "2.49 s ± 1.30 s (emulation) ± 1,200 s (replicas)"),
        ("wait_mean", 42.0, {"emulation": 0.0, "other_jobs": None}, "42 s ± 0 s (emulation)"),
        ("utilisation", 0.521, {"emulation": 0.00042, "other_jobs": None}, "52.1 % ± 0.042 % (emulation)"),
        (
            "bounded_slowdown_mean",
            5.0675,
            {"emulation": 0.0824, "other_jobs": [4.1, 6.0123]},
            "5.07 ± 0.082 (emulation), other jobs 4.1 to 6.01",
        ),
        (
            "immediate_fraction",
            0.5,
            {"emulation": 0.0, "other_jobs": [0.25, 0.75]},
            "50.0 % ± 0 % (emulation), other jobs 25 % to 75 %",
        ),
        ("wait_max", 100.0, None, "2 min"),
    ],
)
def test_a_metric_is_told_with_its_errors(name: str, value: float, errors: dict[str, Any] | None, text: str) -> None:
    assert measures.with_errors(name, value, {} if errors is None else {name: errors}) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4_417_018, "", "4,417,018"), (7.668, "", "7.67"), (22.101, "", "22.1"), (562_394.07, "", "562,394"), (None, "", "-"),
        (0.4899, "share", "49.0 %"), (0, "share", "0.0 %"), (0.0001, "share", "< 0.1 %"), (None, "share", "-"), 
        (600, "s", "10 min"),
    ],
)  # fmt: skip
def test_figures_with_their_units(value: float | None, unit: str, text: str) -> None:
    assert words.value(value, unit) == text


@pytest.mark.parametrize(("amount", "text"), [(1, "1 job"), (0, "0 jobs"), (2000, "2,000 jobs")])
def test_counts(amount: int, text: str) -> None:
    assert words.counted(amount, "job") == text


def test_a_picture_is_one_image_with_title_and_description() -> None:
    picture = a_picture(title="Jobs < 5 & more", description='Said "so".')
    root = ET.fromstring(picture.svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    title, description = root[0], root[1]
    assert (title.tag, title.text) == (f"{SVG}title", "Jobs < 5 & more")
    assert (description.tag, description.text) == (f"{SVG}desc", 'Said "so".')
    assert (root.get("aria-labelledby"), root.get("aria-describedby")) == (title.get("id"), description.get("id"))
    assert len(root.get("viewBox", "").split()) == 4
    assert {"size", "jobs"} <= {text.text for text in root.iter(f"{SVG}text")}
    assert len(list(root.iter(f"{SVG}path"))) >= 4


def test_ids_of_two_pictures_differ_and_references_resolve() -> None:
    pictures = [a_picture(name).svg for name in ("one", "two")]
    ids_by_picture = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in pictures]
    assert not ids_by_picture[0] & ids_by_picture[1]
    for svg, ids in zip(pictures, ids_by_picture, strict=True):
        used = set(re.findall(r"url\(#([^)]+)\)", svg))
        assert used and used <= ids


def test_pictures_are_reproducible() -> None:
    assert a_picture().svg == a_picture().svg


def test_the_distributions_of_many_configurations_are_drawn() -> None:
    """More rows than altair accepts by default."""
    picture = distributions.waits({f"c{number}": pl.Series([10.0 * number, 500.0]) for number in range(30)})
    assert picture.description.count("waited for at most") == 30 and picture.svg.count("<path") > 30


def test_a_picture_as_png() -> None:
    assert a_picture().png().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    ("longest", "expected"),
    [(5, ["1 s", "10 s", "1 min"]), (90_000, ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d"])],
)
def test_ticks_of_durations(longest: float, expected: list[str]) -> None:
    axis, scale = theme.duration_axis(longest, "time")
    table = pl.DataFrame({"seconds": [1.0, longest], "y": [0, 1]})
    drawn = draw(
        alt.Chart(table).mark_line().encode(x=alt.X("seconds:Q", axis=axis, scale=scale), y="y:Q").properties(width=600),
        "a",
        "a",
        "a",
    )
    texts = [text.text for text in ET.fromstring(drawn.svg).iter(f"{SVG}text")]
    assert [text for text in texts if text in expected] == expected


@pytest.mark.parametrize(("largest", "ticks"), [(1, [1]), (100, [1, 2, 4, 8, 16, 32, 64]), (57_472, [4**k for k in range(9)][:9])])
def test_ticks_of_sizes(largest: int, ticks: list[int]) -> None:
    axis, scale = theme.size_axis(largest, "processors")
    values = axis.to_dict()["values"]
    assert values[: len(ticks)] == ticks or values == [8**k for k in range(len(values))]
    low, high = scale.to_dict()["domain"]
    assert low < 1 and all(low < tick < high for tick in values) and largest < high


def test_colours_differ_when_printed_without_colours() -> None:
    """Relative luminance (WCAG) of the first two series: contrast of at least 2; each stands out from white."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    first, second = (luminance(colour) for colour in theme.COLOURS[:2])
    assert (max(first, second) + 0.05) / (min(first, second) + 0.05) >= 2
    assert all(1.05 / (luminance(colour) + 0.05) >= 2 for colour in theme.COLOURS)


def test_a_page_escapes_all_but_its_pictures() -> None:
    bad = "<script>alert(1)</script>\"'&"
    table = Table(bad, (bad, bad), [(bad, bad)])
    sections = [Section(bad, [Part(bad, a_picture("p", bad, bad), table), Part(bad, table=table)], [bad])]
    text = render(
        "workload.html.j2",
        name=bad,
        summary=[bad],
        key_figures=[table],
        findings=table,
        sections=sections,
        facts=table,
        oddities=table,
        header=table,
    )
    outline = Outline.of(text)
    assert "script" not in outline.tags
    assert {"html", "main", "h1", "table", "caption", "figure", "svg", "details"} <= set(outline.tags)
    assert outline.references == []
    assert outline.texts.count(bad) > 15


def test_a_number_and_its_per_cent_stay_on_one_line() -> None:
    table = Table("t", ("", ""), [("share", "12.3 %")])
    text = render(
        "workload.html.j2",
        name="n",
        summary=["12 % of it"],
        key_figures=[table],
        findings=table,
        sections=[],
        facts=table,
        oddities=table,
        header=table,
    )
    assert "12.3\u00a0%" in text and "12\u00a0% of it" in text


def test_a_folder_is_written_atomically_and_replaced(tmp_path: Path) -> None:
    out = tmp_path / "report"
    folder.check(out)
    folder.write(out, "workload", {"report.html": "first", "a.png": b"\x89"})
    folder.check(out)
    folder.write(out, "workload", {"report.html": "second"})
    assert {path.name for path in out.iterdir()} == {"report.html", folder.MARK}
    assert (out / "report.html").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_there_is_a_report_at_every_moment_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that has been renamed away is seen by nobody."""
    out, seen = tmp_path / "report", []
    folder.write(out, "workload", {"report.html": "first"})
    for name in ("rename", "replace"):
        original = getattr(Path, name)

        def moved(path: Path, target: Path, original: Any = original) -> Any:
            result = original(path, target)
            seen.append((out / "report.html").is_file())
            return result

        monkeypatch.setattr(Path, name, moved)
    folder.write(out, "workload", {"report.html": "second"})
    assert all(seen) and (out / "report.html").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_file_system_that_cannot_exchange_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: Path) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    out = tmp_path / "report"
    folder.write(out, "workload", {"report.html": "first"})
    monkeypatch.setattr(folder, "exchange", cannot)
    folder.write(out, "workload", {"report.html": "second"})
    assert (out / "report.html").read_text() == "second" and [path.name for path in tmp_path.iterdir()] == ["report"]


def test_an_empty_folder_is_used_and_a_link_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    folder.check(link)
    folder.write(link, "workload", {"report.html": "x"})
    assert link.is_symlink() and (tmp_path / "real/report.html").read_text() == "x"


def foreign(out: Path) -> None:
    out.mkdir()
    (out / "thesis.tex").write_text("mine")


def added(out: Path) -> None:
    folder.write(out, "workload", {"report.html": "x"})
    (out / "notes.txt").write_text("mine")


def other_report(out: Path) -> None:
    """A folder with a report.json of another program."""
    out.mkdir()
    (out / folder.MARK).write_text(json.dumps({"files": ["thesis.tex"]}))


def a_file(out: Path) -> None:
    out.write_text("mine")


@pytest.mark.parametrize("prepare", [foreign, added, other_report, a_file])
def test_folders_with_other_files_are_not_changed(tmp_path: Path, prepare: object) -> None:
    out = tmp_path / "report"
    prepare(out)  # type: ignore[operator]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(WrongUse, match=r"out: .*report"):
        folder.check(out)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"out: .* cannot be made"):
        folder.check(tmp_path / "none/report")
