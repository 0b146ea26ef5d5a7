"""The tables of the kinds of jobs have each kind that has something for them."""

from __future__ import annotations

from importlib import import_module
from inspect import ismodule
from pathlib import Path

import pytest

from mirage import kinds

FOLDER = Path(kinds.__file__).parent
TABLES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_each_kind_with_a_module_of_its_name(table: str) -> None:
    members = vars(import_module(f"mirage.kinds.{table}")).values()
    names = {member.__name__ for member in members if ismodule(member) and member.__name__.startswith("mirage.kinds.")}
    assert names == {f"mirage.kinds.{path.parent.name}.{table}" for path in FOLDER.glob(f"*/{table}.py")}
