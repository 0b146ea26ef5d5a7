"""Documentation that is data: modules against their argument_spec, roles' argument_specs against their defaults."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest
import yaml
from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring

from mirage.knobs import table as knobs
from mirage.terminal import table
from mirage.verdict.thresholds import Thresholds
from slurm_mirage.rm.slurm import daemon_log

ROOT = Path(__file__).parents[3]
MODULES = sorted(path for path in (ROOT / "library").glob("*.py") if path.stem != "__init__")
ROLES = sorted(path.parent for folder in ("roles", "mirage_extras/*/roles") for path in ROOT.glob(f"{folder}/*/meta"))


class Seen(Exception):
    """Carries what a module gave to AnsibleModule."""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module as Ansible does, with our module_utils beside Ansible's own."""
    folders = [*ansible.module_utils.__path__, str(ROOT / "module_utils")]
    monkeypatch.setattr(ansible.module_utils, "__path__", folders)

    def load_module(path: Path) -> Any:
        specification = importlib.util.spec_from_file_location(f"library_{path.stem}", path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module

    return load_module


def argument_spec(module: Any, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """What main() gives to AnsibleModule; the module goes no further."""

    def give(*_: object, **keywords: object) -> None:
        raise Seen(keywords)

    monkeypatch.setattr("ansible.module_utils.module_main.AnsibleModule", give)
    with pytest.raises(Seen) as seen:
        module.main()
    given: Mapping[str, Any] = seen.value.args[0]
    return given


def documentation_of(path: Path) -> dict[str, Any]:
    """DOCUMENTATION of a module as Ansible reads it, with the fragments that it extends."""
    fragment_loader.add_directory(str(ROOT / "module_utils/doc_fragments"))
    documentation: dict[str, Any] = get_docstring(str(path), fragment_loader, is_module=True)[0]
    return documentation


def comparable(option: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an option that documentation and argument_spec both have, with their defaults filled in."""
    return {
        "type": option.get("type", "str"),
        "required": option.get("required", False),
        "default": option.get("default"),
        "choices": sorted(option.get("choices") or []),
        "elements": option.get("elements"),
        "aliases": sorted(option.get("aliases") or []),
        "options": {name: comparable(inner) for name, inner in (option.get("options") or option.get("suboptions") or {}).items()},
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_documentation_is_its_argument_spec(path: Path, load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    documentation = documentation_of(path)
    given = argument_spec(load(path), monkeypatch)
    assert documentation["module"] == path.stem
    documented = {name: comparable(option) for name, option in documentation["options"].items()}
    assert documented == {name: comparable(option) for name, option in given["argument_spec"].items()}
    support = documentation["attributes"]["check_mode"]["support"]
    assert (support == "full") == given.get("supports_check_mode", False)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_examples_and_returns(path: Path, load: Any) -> None:
    module = load(path)
    options = set(documentation_of(path)["options"])
    examples = yaml.safe_load(module.EXAMPLES)
    uses = [task[path.stem] for task in examples if path.stem in task]
    assert uses, "no example calls the module"
    assert set().union(*uses) <= options
    for name, value in yaml.safe_load(module.RETURN).items():
        assert {"description", "returned", "type"} <= set(value), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_defaults_are_specified_and_nothing_else(role: Path) -> None:
    entry = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]
    options = entry.get("options") or {}
    defaults_file = role / "defaults/main.yml"
    defaults = (yaml.safe_load(defaults_file.read_text()) if defaults_file.exists() else None) or {}
    specified = {name: option["default"] for name, option in options.items() if not option.get("required")}
    assert specified == defaults
    assert not [name for name in options if not name.startswith(f"{role.name}_")]
    assert all(option.get("description") for option in options.values())


def test_the_readme_shows_the_most_used_knobs_as_the_table_has_them() -> None:
    """Name and default of each, in the table's order; docs/knobs.md has all of them."""
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| (.*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    defaults = [(knob.name, f"`{knob.default}`" if knob.default else knob.shown or "-") for knob in knobs.TABLE]
    expected = [row for row in defaults if row[0] in dict(rows)]
    assert len(rows) == 8
    assert rows == expected


def test_the_bounds_of_the_verdict_are_documented() -> None:
    """Each setting, each figure, each kind of complaint."""
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("validity.md",))
    words = set(re.findall(r"`([^`]+)`", pages))
    assert {field.name for field in dataclasses.fields(Thresholds)} <= words
    assert {name for name, _, _ in table.VALIDITY} <= words
    assert set(daemon_log.KINDS) <= words


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere() -> None:
    documents = [
        *ROOT.glob("*.md"),
        *(
            path
            for folder in ("docs", "studies", "files", "roles", "molecule", "mirage_extras")
            for path in (ROOT / folder).rglob("*.md")
        ),
    ]
    broken = []
    for document in documents:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", document.read_text()):
            file = document.parent / target if target else document
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{document.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md" and f"]({page.name})" not in index] == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_role_has_a_page(role: Path) -> None:
    """It names only variables that the role has."""
    text = (role / "README.md").read_text()
    options = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"].get("options") or {}
    named = {name for row in re.findall(r"^\| `(.*?)` \|", text, re.MULTILINE) for name in row.split(", ")}
    assert named
    assert named <= set(options)
