"""Atomic writes."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_mirage.base.files import write_atomically


def test_a_link_with_the_name_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / f".file.{os.getpid()}").symlink_to(secret)
    write_atomically(folder / "file", "text")
    assert (folder / "file").read_text() == "text"
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("secret", 0o600)
