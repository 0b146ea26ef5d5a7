"""Variables of the knobs in the roles and in inventories/common: each is read somewhere, with the default of its knob."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from mirage.knobs.knob import Knob
from mirage.knobs.table import TABLE

ROOT = Path(__file__).parents[3]
COMMON = ROOT / "inventories/common/group_vars/all.yml"
FILES = [COMMON, *sorted(path for place in ("", "mirage_extras/*/") for path in ROOT.glob(f"{place}roles/*/defaults/main.yml"))]
KNOBS = [knob for knob in TABLE if knob.variable]


OWN = {"roles/openpbs_server": {"CONFIG": "pbs-easy"}}
"""Roles of OpenPBS have other defaults of these knobs."""


def defaults(knob: Knob) -> list[str]:
    """Defaults of the knob's variable: values in inventories/common, and arguments of the filter `default`."""
    found = [str(value) for name, value in yaml.safe_load(COMMON.read_text()).items() if name == knob.variable]
    for path in FILES:
        if knob.name in OWN.get(str(path.relative_to(ROOT).parents[1]), {}):
            continue
        found += [str(yaml.safe_load(text)) for text in re.findall(rf"\b{knob.variable} \| default\((.*?)\)", path.read_text())]
    return found


CHOSEN = {"SPEED": "1"}
"""Default of the roles for knobs for which make chooses a value: the roles cannot."""


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: str(knob.name))
def test_roles_have_the_default_of_the_knob(knob: Knob) -> None:
    """A knob without a default has 0 in the roles."""
    assert set(defaults(knob)) == {CHOSEN.get(knob.name) or knob.default or "0"}


@pytest.mark.parametrize(("role", "name", "value"), [(role, *item) for role, own in OWN.items() for item in own.items()])
def test_a_role_of_openpbs_has_its_own_default(role: str, name: str, value: str) -> None:
    variable = next(knob.variable for knob in KNOBS if knob.name == name)
    text = (ROOT / role / "defaults/main.yml").read_text()
    assert re.findall(rf"\b{variable} \| default\('(.*?)'\)", text) == [value]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_variables_without_a_value_in_common_have_a_default(path: Path) -> None:
    """ansible-playbook is also called without make, which gives all knobs values."""
    given = yaml.safe_load(COMMON.read_text()) if path == COMMON else {}
    for knob in KNOBS:
        read = re.findall(rf"\b{knob.variable}\b(?! *\| *default)(?!:)", path.read_text())
        assert not read or knob.variable in given, knob.variable
