"""The role slurm's build: the compiler's flags of each release, and the folder that a build with these flags has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playbook_projects import ROOT, project_with, run

BUILDS = {
    "old": {"slurm_version": "21.08.8"},
    "first": {"slurm_version": "22.05.8"},
    "last": {"slurm_version": "25.11.7"},
    "other": {"slurm_version": "25.11.7", "slurm_compiler_flags": "-O2"},
}
PLAYBOOK = f"""
- hosts: localhost
  gather_facts: false
  vars_files: ["{ROOT}/roles/slurm/vars/main.yml"]
  tasks:
    - ansible.builtin.copy:
        content: "{{{{ __build | to_json }}}}"
        dest: "{{{{ folder }}}}/{{{{ build }}}}.json"
        mode: "0644"
      vars:
        __build:
          flags: "{{{{ _slurm_compiler_flags }}}}"
          prefix: "{{{{ slurm_prefix }}}}"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Flags and folder of each of `BUILDS`."""
    folder = tmp_path_factory.mktemp("builds")
    (folder / "roles").symlink_to(ROOT / "roles")
    with pytest.MonkeyPatch.context() as patch:
        project = project_with(folder, patch, {"flags": PLAYBOOK})
        for build, variables in BUILDS.items():
            run(project, "flags", build=build, **variables)
    return {build: json.loads((folder / f"{build}.json").read_text()) for build in BUILDS}


@pytest.mark.parametrize("build", ["first", "last"])
def test_a_supported_release_is_built_for_pace_with_equal_results(built: dict[str, dict[str, str]], build: str) -> None:
    flags = built[build]["flags"].split()
    assert {"-O3", "-fno-semantic-interposition", "-ffp-contract=off", "-g0"} <= set(flags)
    assert not [flag for flag in flags if flag.startswith(("-march", "-Ofast", "-ffast-math", "-mfma", "-O2"))]


def test_an_old_release_keeps_its_flags(built: dict[str, dict[str, str]]) -> None:
    flags = built["old"]["flags"].split()
    assert "-O2" in flags and "-O3" not in flags


def test_other_flags_are_another_build(built: dict[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's name depends on the flags that are added, and on the role's own."""
    assert built["last"]["prefix"] != built["other"]["prefix"]
    own = ROOT / "roles/slurm"
    for part, text in {"vars/main.yml": "-O2 instead of -O3", "files/build.sh": (own / "files/build.sh").read_text()}.items():
        path = tmp_path / "roles/slurm" / part
        path.parent.mkdir(parents=True)
        path.write_text(text)
    project = project_with(tmp_path, monkeypatch, {"flags": PLAYBOOK})
    run(project, "flags", build="last", **BUILDS["last"])
    assert json.loads((tmp_path / "last.json").read_text())["prefix"] != built["last"]["prefix"]
