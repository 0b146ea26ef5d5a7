"""Text in extra variables is data: Ansible runs no template in it, wherever it goes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from hypothesis import given
from hypothesis import strategies as st
from other_managers import OTHERS
from playbook_projects import project_with, run

from mirage.experiment.extra_variables import untrusted

ROOT = Path(__file__).parents[3]
TEMPLATES = (
    "{{ 7 * 191 }}",
    "{% set x = 1 %}x",
    "{# x #}y",
    "{{ lookup('ansible.builtin.pipe', 'echo ran') }}",
    "{{",
    "a {{ b }} c",
)
TEXTS = st.one_of(st.sampled_from(TEMPLATES), st.text(max_size=20), st.text(max_size=8).map(lambda text: "{{" + text + "}}"))
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("variables")


@given(value=VALUES)
def test_a_value_comes_out_of_ansible_letter_by_letter(folder: Path, value: Any) -> None:
    """Loaded as ansible-playbook loads a file of extra variables, which it trusts, and used in a template."""
    path = folder / "extra.json"
    path.write_text(json.dumps(untrusted({"planted": value})))
    loader = DataLoader()
    loader.set_basedir(str(folder))
    variables = loader.load_from_file(str(path), cache="none", trusted_as_template=True)
    templar = Templar(loader, variables)
    assert templar.template(variables) == {"planted": value}


def test_a_template_in_a_trusted_file_is_run(folder: Path) -> None:
    """The test above can fail: without the mark the same loader runs the template."""
    path = folder / "trusted.json"
    path.write_text('{"planted": "{{ 7 * 191 }}"}')
    loader = DataLoader()
    variables = loader.load_from_file(str(path), cache="none", trusted_as_template=True)
    assert Templar(loader, variables).template(variables) == {"planted": 1337}


def test_a_key_that_ansible_keeps_for_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="__ansible_vault"):
        untrusted({"settings": {"__ansible_vault": "x"}})


PLAYBOOK = """
- name: Use the variables
  hosts: all
  gather_facts: false
  vars:
    joined: "{{ text }}-{{ settings.Reason }}"
    merged: "{{ settings | combine({'Own': text}) }}"
  tasks:
    - name: Read a file
      ansible.builtin.set_fact:
        fact: "{{ joined }}"
        read: "{{ lookup('ansible.builtin.file', configuration) | ansible.builtin.from_yaml }}"
    - name: Write what the variables hold
      ansible.builtin.copy:
        content: "{{ dict(text=text, joined=joined, merged=merged, fact=fact, read=read, items=settings | dict2items) | to_json }}"
        dest: "{{ out }}"
        mode: "0600"
    - name: Say it
      ansible.builtin.debug:
        msg: "{{ fact }}"
"""


def test_planted_templates_arrive_in_a_playbook_as_their_own_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = project_with(tmp_path, monkeypatch, {"use": PLAYBOOK})
    text = f"{{{{ lookup('ansible.builtin.pipe', 'touch {project}/ran; echo x') }}}}"
    settings = {"Reason": text, text: "key"}
    (project / "configuration.yml").write_text(yaml.safe_dump({"settings": settings}))
    run(
        project,
        "use",
        text=text,
        settings=settings,
        configuration=str(project / "configuration.yml"),
        out=str(project / "out.json"),
    )
    assert json.loads((project / "out.json").read_text()) == {
        "text": text,
        "joined": f"{text}-{text}",
        "merged": {**settings, "Own": text},
        "fact": f"{text}-{text}",
        "read": {"settings": settings},
        "items": [{"key": key, "value": value} for key, value in settings.items()],
    }
    assert not (project / "ran").exists()


def test_the_marked_variables_are_the_only_way_to_ansible() -> None:
    """One place calls ansible-runner; no role or playbook reads a file of variables, which Ansible would trust."""
    callers = {path.name: text for path in ROOT.glob("mirage/**/*.py") if "ansible_runner.run(" in (text := path.read_text())}
    assert list(callers) == ["playbook.py"]
    assert callers["playbook.py"].count("extravars=untrusted(") == callers["playbook.py"].count("extravars=") == 1
    readers = r"^ *(?:ansible\.builtin\.)?include_vars:|vars_files:|trust_as_template|lookup\('(?:ansible\.builtin\.)?template'.*"
    found = [line.strip() for line in re.findall(readers, tasks(), re.MULTILINE)]
    assert found == ["lookup('ansible.builtin.template', 'user-data.yml.j2') }}\""]  # a role's own template


def test_shell_lines_of_playbooks_quote_what_they_get() -> None:
    """lookup('pipe') hands its line to a shell."""
    text = tasks()
    lines = re.findall(r"lookup\('(?:ansible\.builtin\.)?pipe', ('.*?')( ~ .*?\))?\)", text)
    assert len(lines) == len(re.findall(r"lookup\('(?:ansible\.builtin\.)?pipe'", text)) > 0
    quoted = {f" ~ ({name}_source_archive | quote)" for name in ("slurm", *OTHERS)}
    assert {values for _, values in lines if values} <= quoted
    assert not re.search(r"ansible\.builtin\.(shell|raw):", text)


def tasks() -> str:
    """The text of all roles, playbooks and inventories."""
    folders = [
        path
        for name in ("roles", "playbooks", "inventories", "tasks")
        for path in (ROOT / name, *ROOT.glob(f"mirage_extras/*/{name}"))
    ]
    return "\n".join(path.read_text() for folder in folders for path in sorted(folder.rglob("*.yml")))
