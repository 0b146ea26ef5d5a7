"""Tests of reading log files: bounded memory, and refusal of files that are not text, with the line."""

from __future__ import annotations

import gzip
import hashlib
import tracemalloc
from pathlib import Path

import pytest

from mirage.traces import log_text
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.farm.pacing import Memory


def load(folder: Path, data: bytes) -> bytes:
    """Writes `data` plain and compressed, reads both, and returns the text, which must be the same."""
    (folder / "log").write_bytes(data)
    (folder / "packed").write_bytes(gzip.compress(data, 1))
    plain, packed = (log_text.load(folder / name) for name in ("log", "packed"))
    assert plain.data == packed.data
    assert plain.sha256 == hashlib.sha256(data).hexdigest()
    assert packed.sha256 == hashlib.sha256((folder / "packed").read_bytes()).hexdigest()
    return plain.data


def refused(folder: Path, data: bytes) -> str:
    """The error message for `data` without the file's name; plain and compressed must give the same."""
    (folder / "log").write_bytes(data)
    (folder / "packed").write_bytes(gzip.compress(data, 1))
    texts = []
    for name in ("log", "packed"):
        with pytest.raises(WrongUse) as error:
            log_text.load(folder / name)
        texts.append(str(error.value).removeprefix(f"trace: {folder / name}"))
    assert texts[0] == texts[1]
    return texts[0]


def test_text_of_several_pieces(tmp_path: Path) -> None:
    data = b"".join(b"%d a line\n" % number for number in range(300_000))
    assert len(data) > 3 * log_text.LONGEST_LINE
    assert load(tmp_path, data) == data


def test_members_of_a_gzip_file_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(b"1 2\n") + gzip.compress(b"3 4\n") + bytes(20))
    assert log_text.load(tmp_path / "log").data == b"1 2\n3 4\n"


def test_lines_that_end_in_a_carriage_return_only(tmp_path: Path) -> None:
    assert load(tmp_path, b"1 2\r3 4\r") == b"1 2\n3 4\n"
    assert load(tmp_path, b"1 2\r\n3 4\r\n") == b"1 2\r\n3 4\r\n"


@pytest.mark.parametrize("before", [b"", b"a\n", b"a line\n" * 200_000])
def test_the_longest_line(tmp_path: Path, before: bytes) -> None:
    longest = b"x" * log_text.LONGEST_LINE
    for data in (before + longest, before + longest + b"\n1 2\n"):
        assert load(tmp_path, data) == data
    number = before.count(b"\n") + 1
    for data in (before + longest + b"x", before + longest + b"x\n1 2\n"):
        assert refused(tmp_path, data) == f" line {number}: is longer than 1048576 bytes, the most that a line may have"


@pytest.mark.parametrize("place", [0, 5, (1 << 20) + 7])
def test_control_characters_are_refused(tmp_path: Path, place: int) -> None:
    data = bytearray(b"abc\n" * 500_000)
    data[place] = 7
    assert refused(tmp_path, bytes(data)).startswith(f" line {place // 4 + 1}: is not a text file (it has the byte 0x07)")


def test_a_text_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_text, "LARGEST_TEXT", 3 << 20)
    assert "is too large" in refused(tmp_path, b"a line\n" * 600_000)


def test_where_a_gzip_file_is_damaged(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(b"%d\n" % (number * 7919 % 100_003) for number in range(400_000)))
    (tmp_path / "log").write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(WrongUse, match=r"truncated gzip file \(.*\), in or after line [1-9]\d{4,}$"):
        log_text.load(tmp_path / "log")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1", "line 1: is longer than 1048576 bytes"),
        (b"1 2\n", r"line \d+: the log is too large, more than 8 MiB; reading it needs 6 times as much memory"),
        (bytes(1), "line 1: is not a text file"),
    ],
)
def test_a_small_file_that_unpacks_to_a_very_large_one_is_refused_after_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, message: str
) -> None:
    monkeypatch.setattr(log_text, "host_memory", lambda: Memory(64, 48))
    (tmp_path / "log").write_bytes(gzip.compress(line * (1 << 24), 1) * 100)
    tracemalloc.start()
    try:
        with pytest.raises(WrongUse, match=message):
            log_text.load(tmp_path / "log")
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_a_text_needs_six_times_its_size() -> None:
    assert log_text.most_text(available=60) == 10 << 20
    assert log_text.most_text(available=1 << 20) == log_text.LARGEST_TEXT
