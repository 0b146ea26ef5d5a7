"""The module compiled_program, run in process, with a real compiler."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from modules import Caller

FILES = {
    "a.c": '#include <stdio.h>\nint main(void) { puts("one"); return 0; }\n',
    "Makefile": "a: a.c\n\tcc -o $@ a.c\nb: a.c\n\tcc -o $@ a.c\n",
}


def params(tmp_path: Path, **more: Any) -> dict[str, Any]:
    results = [{"path": str(tmp_path / "bin/a")}, {"path": str(tmp_path / "lib/b"), "mode": "0644"}]
    return {"build": str(tmp_path / "src"), "files": FILES, "results": results, **more}


def test_programs_are_built_once_for_each_source(call: Caller, tmp_path: Path) -> None:
    program = tmp_path / "bin/a"
    assert call("compiled_program", check=True, **params(tmp_path))["built"] == [str(program), str(tmp_path / "lib/b")]
    assert list(tmp_path.iterdir()) == []
    assert call("compiled_program", **params(tmp_path))["changed"] is True
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"one\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (program, tmp_path / "lib/b")] == [0o755, 0o644]
    for check in (True, False):
        assert call("compiled_program", check=check, **params(tmp_path))["changed"] is False
    program.unlink()
    assert call("compiled_program", **params(tmp_path))["built"] == [str(program)]
    changed = {**FILES, "a.c": FILES["a.c"].replace("one", "two")}
    assert len(call("compiled_program", **params(tmp_path, files=changed))["built"]) == 2
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"two\n"


def test_a_source_that_cannot_be_compiled_leaves_the_old_program(call: Caller, tmp_path: Path) -> None:
    call("compiled_program", **params(tmp_path))
    result = call("compiled_program", **params(tmp_path, files={**FILES, "a.c": "int main"}))
    assert result["failed"] and result["msg"].startswith("a cannot be built: ")
    assert subprocess.run([tmp_path / "bin/a"], capture_output=True, check=True).stdout == b"one\n"
    assert call("compiled_program", **params(tmp_path))["changed"] is False


@pytest.mark.parametrize("name", ["../a.c", "src/a.c", "..", ""])
def test_a_file_outside_of_the_folder_is_refused(call: Caller, tmp_path: Path, name: str) -> None:
    assert "is not a file name" in call("compiled_program", **params(tmp_path, files={**FILES, name: ""}))["msg"]
    assert list(tmp_path.iterdir()) == []
