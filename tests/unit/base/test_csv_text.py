"""CSV that is read field by field, whatever the fields are."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from line_values import values

from slurm_mirage.base import csv_text

fields = values.filter(lambda text: "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text))


@given(st.lists(st.lists(fields, min_size=2, max_size=2), min_size=1, max_size=3))
def test_fields_stay_fields(rows: list[list[str]]) -> None:
    text = csv_text.text(rows)
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
    frame = pl.read_csv(f"a,b\n{text}".encode(), infer_schema=False)
    assert [[field or "" for field in row] for row in frame.rows()] == rows


@given(st.lists(fields, min_size=1, max_size=3))
def test_so_do_those_of_a_table_of_results(column: list[str]) -> None:
    """polars writes jobs.csv and the tables beside it."""
    text = pl.DataFrame({"number": range(len(column)), "text": column}).write_csv()
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["number", "text"], *([str(n), one] for n, one in enumerate(column))]


def test_numbers_and_nothing() -> None:
    assert csv_text.text([("a", "b", "c"), (1, None, 0.5)]) == "a,b,c\n1,,0.5\n"


def test_no_other_module_writes_csv() -> None:
    """But for tables of polars."""
    root = Path(__file__).parents[3]
    files = (path for folder in ("mirage", "module_utils", "library", "studies") for path in (root / folder).rglob("*.py"))
    assert [path.name for path in files if re.search(r"csv\.(writer|DictWriter)", path.read_text())] == ["csv_text.py"]
