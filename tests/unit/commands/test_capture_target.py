"""make capture: its checks, and how the script's last line becomes the ending."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from mirage.commands import capture
from mirage.experiment.endings import Failed
from mirage.knobs import resolve
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse


def test_an_archive_is_a_file_in_a_folder(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "is a directory"), (tmp_path / "none" / "a.tar", "it may be a file in an existing folder")):
        with pytest.raises(WrongUse, match=words) as refused:
            capture.capture(resolve.resolve({"ARCHIVE": str(path)}, "capture"), Screen())
        assert refused.value.parameter == "archive"


def test_what_the_script_writes_is_the_archive_and_its_words_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "head -c 22; echo 'sshare.txt 3 rows' >&2; echo 'ok: a.tar' >&2"
    capture._run(["sh", "-c", script], tmp_path / "a.tar", Screen())
    assert (tmp_path / "a.tar").read_text() == "#!/usr/bin/env python3"
    assert "sshare.txt 3 rows" in (shown := capsys.readouterr().out) and "ok:" not in shown


@pytest.mark.parametrize(
    ("line", "code", "error", "words"),
    [
        ("wrong use: --to is not after --from", 2, WrongUse, "--to is not after --from"),
        ("failed: sacct: Slurm accounting storage is disabled", 1, Failed, "sacct: Slurm accounting storage is disabled"),
        ("", 1, Failed, "the capture was ended"),
    ],
)
def test_an_ending_of_the_script_is_one_of_make(tmp_path: Path, line: str, code: int, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"{words}$"):
        capture._run(["sh", "-c", 'echo "$1" >&2; exit $2', "sh", line, str(code)], tmp_path / "a.tar", Screen())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["2026-11-01", "2026-11-02", "no"], "- --from 2026-11-01 --to 2026-11-02 --out"),
        (["2026-11-01", "", "yes"], "- --from 2026-11-01 --now --out"),
        (["", "", "yes"], r"- --from \d+ --now --out"),
    ],
)
def test_the_script_gets_the_window(tmp_path: Path, words: list[str], expected: str) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\necho "$@"\nfor last; do :; done\necho archive >"$last/a.tar"\n')
    python.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", capture._IN_THE_INSTANCE, "sh", *words], env=environment, capture_output=True, check=True, text=True
    )
    assert re.fullmatch(rf"{expected} /tmp/\S+\n", done.stderr)
    assert done.stdout == "archive\n"


def test_an_archive_of_now_has_no_end(tmp_path: Path) -> None:
    knobs = resolve.resolve({"ARCHIVE": str(tmp_path / "a.tar"), "NOW": "yes", "TO": "2026-11-02"}, "capture")
    with pytest.raises(WrongUse, match="the window ends now with NOW=yes") as refused:
        capture.capture(knobs, Screen())
    assert refused.value.parameter == "to"
