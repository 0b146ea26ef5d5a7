"""The role job_users and the source folder that it builds."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def test_all_source_files_are_copied_to_the_host() -> None:
    tasks = yaml.safe_load((ROOT / "roles/job_users/tasks/main.yml").read_text())
    source = ROOT / "files/job_users"
    copied = {name for task in tasks for name in task["vars"]["compiled_files"]}
    assert copied == {path.name for path in (*source.glob("*.c"), source / "Makefile")}
