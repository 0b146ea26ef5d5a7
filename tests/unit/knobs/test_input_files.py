"""Knobs that name a file: what is not a regular file, or too large, is refused in one line, and nothing waits for it."""

from __future__ import annotations

import gzip
import io
import os
import signal
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_managers import SOURCES

from mirage.commands import main
from mirage.site import conf_lines, site_conf
from mirage.terminal.screen import Screen
from mirage.text import yaml_input
from mirage.text.input_file import read_input
from slurm_mirage.base.errors import WrongUse

READ_BY = {
    "TRACE": "metrics",
    "CLASSES": "cluster",
    "SLURM_CONF": "cluster",
    **dict.fromkeys(SOURCES, "cluster"),
    "INVENTORY": "status",
    "RUN_FILE": "workload",
}
SWF = "1 0 5 10 4 -1 -1 4 20 -1 1 3 1 -1 -1 -1 -1 -1\n"


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """A reader that waits for ever ends with an error instead."""

    def expired(*_: object) -> None:
        pytest.fail("still reading after 20 s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refusal(monkeypatch: pytest.MonkeyPatch, target: str, **knobs: str) -> str:
    """The message with which a target ends whose knobs are given so."""
    monkeypatch.setenv("MIRAGE_GIVEN", " ".join(knobs))
    for name, value in knobs.items():
        monkeypatch.setenv(name, value)
    ending = main.run([target], Screen(io.StringIO()))
    assert ending.line.startswith("wrong use: "), ending.line
    assert len(ending.line.splitlines()) == 1
    return ending.line.removeprefix("wrong use: ")


def made(kind: str, path: Path) -> Path:
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.relpath(path))
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", ["a FIFO", "a directory", "a socket", "a character device"])
@pytest.mark.parametrize("knob", READ_BY)
def test_what_is_no_regular_file(knob: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(kind, tmp_path / "input")
    if (knob, kind) == ("INVENTORY", "a directory"):  # which may be an inventory: its files are looked at
        path, kind = made("a FIFO", path / "hosts"), "a FIFO"
    given = path.parent if path.name == "hosts" else path
    line = refusal(monkeypatch, READ_BY[knob], **{knob: str(given)})
    assert line == f"{knob}: {path}: is {kind}; it must be a regular file"


@pytest.mark.parametrize("kind", ["a FIFO", "a directory", "a socket", "a character device"])
@pytest.mark.parametrize("target", ["metrics", "workload", "simulate"])
def test_a_device_is_not_replaced_by_results(target: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.swf").write_text(SWF)
    path = made(kind, tmp_path / "out")
    line = refusal(monkeypatch, target, TRACE=str(tmp_path / "a.swf"), OUT=str(path))
    assert line == f"OUT: {path}: is {kind}; it must be a regular file, or a new one"
    assert path.is_symlink() or not path.is_file()


@pytest.mark.parametrize("knob", READ_BY)
def test_a_huge_file(knob: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "input"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    line = refusal(monkeypatch, READ_BY[knob], **{knob: str(path)})
    assert line.startswith(f"{knob}: {path}")
    assert "is too large" in line or (knob == "TRACE" and "is not a text file" in line)


@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/pagemap", "/proc/kcore"])
@pytest.mark.parametrize("knob", ["TRACE", "CLASSES", "SLURM_CONF", *SOURCES, "RUN_FILE"])
def test_endless_files_of_the_kernel(knob: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(monkeypatch, READ_BY[knob], **{knob: path}).startswith(f"{knob}: {path}")


@pytest.mark.parametrize("knob", ["CLASSES", "SLURM_CONF", *SOURCES, "TRACE"])
def test_a_path_with_characters_that_would_break_the_line(knob: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(monkeypatch, READ_BY[knob], **{knob: "/nowhere/a\rb\x1b[2J"}).isprintable()


# ---- slurm.conf and what it includes ----

NODES = "NodeName=a1\nPartitionName=p Nodes=ALL\n"


@pytest.mark.parametrize("kind", ["a FIFO", "a directory", "a character device"])
def test_a_file_that_slurm_conf_includes(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "more")
    (tmp_path / "slurm.conf").write_text(f"{NODES}Include more\n")
    what = f"leads out of {tmp_path}" if (tmp_path / "more").is_symlink() else f"is {kind}; it must be a regular file"
    with pytest.raises(WrongUse, match=rf"slurm_conf: {tmp_path}/slurm\.conf line 3: Include: {what}"):
        site_conf.read(tmp_path / "slurm.conf")


def test_files_that_are_included_exponentially_often(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}").write_text(f"Include {number + 1}\n" * 30)
    (tmp_path / "7").write_text("SchedulerType=sched/builtin\n")
    with pytest.raises(WrongUse, match=r"Include: with this slurm\.conf has more than 1000 files"):
        site_conf.read(tmp_path / "0")


def test_included_files_count_together(tmp_path: Path) -> None:
    (tmp_path / "half").write_text("# comment\n" * (conf_lines.LARGEST // 20))
    (tmp_path / "slurm.conf").write_text(f"Include half\nInclude half\n{NODES}")
    with pytest.raises(WrongUse, match=r"line 2: Include: with this slurm\.conf has more than 16 MiB"):
        site_conf.read(tmp_path / "slurm.conf")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NodeName=n[1-99999999]\n", "line 1: NodeName: has 99999999 names, at most 65536"),
        (f"NodeName=n[1-{'9' * 200}]\n", "line 1: NodeName: has 9{200} names"),
        (f"NodeName=n[1-{'9' * 5000}]\n", "has a name of more than 255 characters"),
        ("NodeName=n[1-40000]\nNodeName=m[1-40000]\n", "line 2: has more than 65536 nodes, the most that Slurm can have"),
        (f"NodeName=n[{'0' * 4000}1-9]\n", "has a name of more than 255 characters"),
        (f"{NODES}PartitionName=q Nodes=n[1-99999999]\n", "line 3: Nodes: has 99999999 names, at most 65536"),
    ],
)
def test_host_lists_are_counted_before_they_are_expanded(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "slurm.conf").write_text(text + "PartitionName=p Nodes=ALL\n")
    with pytest.raises(WrongUse, match=message):
        site_conf.read(tmp_path / "slurm.conf")


def test_node_sets_that_name_node_sets(tmp_path: Path) -> None:
    sets = "".join(f"NodeSet=s{number} Nodes={','.join([f's{number + 1}'] * 20)}\n" for number in range(30))
    (tmp_path / "slurm.conf").write_text(f"NodeName=a[1-3]\n{sets}NodeSet=s30 Nodes=a[2-3]\nPartitionName=p Nodes=s0,s0\n")
    assert [one["Nodes"] for one in site_conf.read(tmp_path / "slurm.conf").partitions] == ["a[2-3]"]


# ---- archives and YAML ----


def test_an_archive_that_unpacks_to_very_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member = tarfile.TarInfo("slurm-25.11/big")
    member.size = 1 << 40
    path = tmp_path / "slurm.tar.gz"
    path.write_bytes(gzip.compress(member.tobuf()) + gzip.compress(bytes(1 << 26), 1) * 100)
    line = refusal(monkeypatch, "cluster", SLURM_SOURCE=str(path))
    assert line.startswith(f"SLURM_SOURCE: {path}: not an archive that tar can read")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 1]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)),
        "&a [*a]",
        "[" * 100_000,
        "count: " + "9" * 100_000,
    ],
)
def test_small_yaml_that_is_much(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "classes.yml"
    path.write_text(text)
    assert refusal(monkeypatch, "cluster", CLASSES=str(path)).startswith(f"CLASSES: {path}: is not YAML")


def test_the_largest_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"#" * yaml_input.LARGEST)
    assert len(read_input(path, "classes", yaml_input.LARGEST)) == yaml_input.LARGEST
    path.write_bytes(b"#" * (yaml_input.LARGEST + 1))
    with pytest.raises(WrongUse, match="is too large; it may have up to 256 KiB"):
        read_input(path, "classes", yaml_input.LARGEST)
