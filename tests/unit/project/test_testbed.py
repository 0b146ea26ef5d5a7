"""The test bed's names and numbers; its machines are tried by the scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import layout, trees
from testbed.commands import BedError

LONGEST_INTERFACE = 15
"""Letters; netdevice(7)."""


@pytest.fixture(autouse=True)
def beds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIRAGE_BEDS", str(tmp_path))
    return tmp_path


def test_interfaces_have_names_that_the_kernel_takes() -> None:
    bed = layout.Bed("b", layout.NUMBERS, "bookworm", [f"h{index}" for index in range(99)], {})
    assert len(f"vb-{bed.hosts[-1].machine}") <= LONGEST_INTERFACE


def test_every_bed_has_its_own_number_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "NUMBERS", 12)
    beds = []
    for index in range(layout.NUMBERS):
        beds.append(layout.new(f"bed{index}", "bookworm", ["a"]))
        beds[-1].save()
    assert {bed.number for bed in beds} == set(range(1, layout.NUMBERS + 1))
    assert [layout.load(bed.name) for bed in beds] == beds
    with pytest.raises(BedError, match=f"all {layout.NUMBERS} numbers of beds are in use"):
        layout.new("one-more", "bookworm", ["a"])


def test_a_beds_number_comes_from_its_name() -> None:
    assert layout.new("multihost", "bookworm", []).number == layout.new("multihost", "trixie", ["a"]).number


def test_a_folder_in_which_nothing_was_made_is_no_bed(beds: Path) -> None:
    (beds / "begun").mkdir()
    assert layout.load("begun") is None
    assert layout.all_beds() == []


@pytest.mark.parametrize("name", ["", "A", "1st", "a/b", "..", "a" * 22, "a b"])
def test_names_that_cannot_be_folders_and_hosts_are_refused(name: str) -> None:
    with pytest.raises(BedError, match="wrong use: bed "):
        layout.check_name(name, "bed")


def test_another_recipe_is_another_tree() -> None:
    recipes = [trees.Recipe("bookworm"), trees.Recipe("trixie"), trees.Recipe("bookworm", cluster=())]
    recipes.append(trees.Recipe("bookworm", version=0))
    assert len({recipe.digest for recipe in recipes}) == len(recipes)
    assert trees.Recipe("bookworm").digest == recipes[0].digest
