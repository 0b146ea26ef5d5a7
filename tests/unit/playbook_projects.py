"""Small projects whose playbooks a test runs through ansible-runner on this machine."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from mirage.experiment import playbook
from mirage.terminal.screen import Screen

ROOT = Path(__file__).parents[2]


def project_with(folder: Path, monkeypatch: pytest.MonkeyPatch, playbooks: Mapping[str, str]) -> Path:
    """A project in `folder` with these playbooks, and the real configuration and inventories."""
    (folder / "playbooks").mkdir()
    for name, text in playbooks.items():
        (folder / f"playbooks/{name}.yml").write_text(textwrap.dedent(text))
    (folder / "ansible.cfg").write_text((ROOT / "ansible.cfg").read_text())
    (folder / "inventories").symlink_to(ROOT / "inventories")
    monkeypatch.setattr(playbook, "ROOT", folder)
    return folder


def run(project: Path, name: str, stream: io.StringIO | None = None, **variables: object) -> playbook.Watcher:
    screen = Screen(stream or io.StringIO())
    inventory = project / "inventories/local"
    return playbook.run_playbook(name, {"folder": str(project), **variables}, inventory, screen, project / "log")
