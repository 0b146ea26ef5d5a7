"""The module source_files, run in process."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from modules import Caller


def test_files_are_written_once_and_others_stay(call: Caller, tmp_path: Path) -> None:
    (tmp_path / "built.o").write_text("object")
    params = {"dest": str(tmp_path), "files": {"a.c": "int a;\n", "Makefile": "a:\n\tcc {{ a }}\n"}}
    assert call("source_files", check=True, **params)["changed"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["built.o"]
    assert call("source_files", **params)["changed"] is True
    assert call("source_files", **params)["changed"] is False
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {**params["files"], "built.o": "object"}  # type: ignore[dict-item]
    assert stat.S_IMODE((tmp_path / "a.c").stat().st_mode) == 0o644
    (tmp_path / "a.c").write_text("int b;\n")
    assert call("source_files", **params)["changed"] is True
    assert (tmp_path / "a.c").read_text() == "int a;\n"


@pytest.mark.parametrize("name", ["../a.c", "src/a.c", "..", ""])
def test_a_file_outside_of_the_folder_is_refused(call: Caller, tmp_path: Path, name: str) -> None:
    assert "is no name of a file" in call("source_files", dest=str(tmp_path), files={"b.c": "", name: ""})["msg"]
    assert list(tmp_path.iterdir()) == []
