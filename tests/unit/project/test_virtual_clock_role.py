"""The role virtual_clock and the source folder that it builds."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def test_all_source_files_are_copied_to_the_host() -> None:
    files = yaml.safe_load((ROOT / "roles/virtual_clock/vars/main.yml").read_text())["_virtual_clock_files"]
    source = ROOT / "files/virtual_clock"
    assert set(files) == {path.name for path in (*source.glob("*.c"), *source.glob("*.h"), source / "Makefile")}
