"""Targets and the functions behind them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mirage import ROOT
from mirage.commands.main import TARGETS, Command, command, main
from mirage.experiment.endings import CODES, Ending
from mirage.knobs.resolve import resolve


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_a_function(target: str) -> None:
    assert list(inspect.signature(command(target)).parameters)[1] == "screen"


@pytest.mark.parametrize("target", ["teardown", "provision", "deprovision", "status", "watch", "shell", "capture"])
def test_targets_without_a_workload_do_not_load_polars(target: str) -> None:
    program = f"import sys; from mirage.commands.main import command; command({target!r}); sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to mount a small file system")
def test_a_full_disk_is_named_in_one_line(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        with suppress(OSError):
            (tmp_path / "filler").write_bytes(bytes(100_000))
        environment = {**os.environ, "TRACE": "tests/logs/sessions.swf", "OUT": str(tmp_path / "metrics.json")}
        command = [sys.executable, "-m", "mirage", "metrics"]
        ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.splitlines()[-1] == (
        f"failed: no space left on {tmp_path} (0 MiB free): free some, then the same command goes on"
    )


def ends_in(word: str) -> Command:
    """A command that ends so."""
    return lambda _knobs, _screen: Ending(word, "as asked")


ok, invalid, inconclusive, failed, wrong_use = map(ends_in, ("ok", "invalid", "inconclusive", "failed", "wrong use"))


def endings_of_readme() -> list[tuple[str, int]]:
    """Words and codes of the table in README.md."""
    rows = re.findall(r"^\| `([a-z ]+):` \|.*\| (\d) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    return [(word, int(code)) for word, code in rows]


def test_there_is_one_set_of_endings() -> None:
    assert dict(endings_of_readme()) == CODES and len(endings_of_readme()) == len(CODES)
    (row,) = re.findall(r"^\| last line of a command \|(.*)\|$", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)
    assert re.findall(r"`([a-z ]+):`", row) == list(CODES)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("word", "code"), endings_of_readme())
def test_each_target_ends_by_this_table(
    target: str, word: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirage.commands.main.resolve.resolve", lambda *_: resolve({}, "gate"))
    assert main([target], {target: (__name__, word.replace(" ", "_"))}) == code
    assert capsys.readouterr().out.splitlines()[-1] == f"{word}: as asked"
