"""`make bench PART=NAME`: each part is a program of benchmarks/, and another name is refused with the names that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import PARTS, main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", PARTS)
def test_each_part_is_a_program(name: str) -> None:
    assert 'if __name__ == "__main__":' in (ROOT / PARTS[name].replace(".", "/")).with_suffix(".py").read_text()


def test_help_and_the_table_of_benchmarks_name_the_parts() -> None:
    told = re.search(r"^bench: .*## PART of (.*); without", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert told is not None
    assert [word.partition(" ")[0] for word in told[1].split(", ")] == list(PARTS)
    listed = re.findall(r"^\| `make bench PART=(\w+)", (ROOT / "docs" / "development.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(PARTS)


def test_another_name_is_refused_with_the_names_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scael"]) == 2
    assert capsys.readouterr().err == f"wrong use: PART=scael; it may be one of: {', '.join(PARTS)}\n"
