"""Full file systems: real ones, of 64 KiB."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from journals import start_event

from slurm_mirage.base.disk import free_bytes, is_full, no_space, out_of_space
from slurm_mirage.replay.journal import Journal

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="skipped: needs root to mount a small file system")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@needs_root
def test_a_full_folder_is_named_with_its_space(small: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert not is_full(small)
    with pytest.raises(OSError) as raised:
        (small / "filler").write_bytes(bytes(100_000))
    assert is_full(small) and free_bytes(small) == 0
    # An error of write(2) has no file name: the fuller folder is meant.
    message = f"no space left on {small} (0 MiB free): free some"
    assert out_of_space(raised.value, [tmp_path_factory.getbasetemp(), small]) == message
    assert no_space(small / "not/there") == no_space(small)
    with_name = OSError(errno.ENOSPC, "No space left on device", str(small / "other"))
    assert out_of_space(with_name, []) == no_space(small)


def test_other_errors_are_not_about_space(tmp_path: Path) -> None:
    assert out_of_space(FileNotFoundError(errno.ENOENT, "no", "/x"), [tmp_path]) is None
    assert out_of_space(ValueError("no"), [tmp_path]) is None
    assert out_of_space(OSError(errno.EROFS, "Read-only file system", "/x/y"), []) == "/x is read-only: allow it to be written"


@needs_root
def test_a_journal_on_a_full_disk_stays_whole(small: Path) -> None:
    """write(2) may write a part of a line: it is removed, so that the next line is one of its own."""
    journal = Journal(small / "journal.jsonl")
    journal.append(**start_event())
    with pytest.raises(OSError), (small / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    with pytest.raises(OSError) as raised:
        for index in range(100):
            journal.append("failed", real=2.0, message=f"{index}" * 50)
    assert raised.value.errno == errno.ENOSPC
    whole = (small / "journal.jsonl").read_bytes()
    assert whole.endswith(b"}\n")
    (small / "filler").unlink()
    journal.append("failed", real=3.0, message="again")
    assert (small / "journal.jsonl").read_bytes().startswith(whole)
    journal.close()
    Journal(small / "journal.jsonl").close()
