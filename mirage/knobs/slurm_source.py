"""SLURM_SOURCE: the archive of a Slurm release that the cluster's Slurm is built from."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import re
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.input_file import read_input
from slurm_mirage.rm.slurm.setting_names import release_of

FORM = "the path of a release's archive, like slurm-25.11.7.tar.bz2"
# The file META is in the archive's top folder, at any position: its search ends after so many members.
_MAX_MEMBERS = 20_000
# Bytes of the archive (releases have up to 8 MB), and of its unpacked content up to META.
_LARGEST, _LARGEST_UNPACKED = 64 << 20, 256 << 20
_META = re.compile(r"(\./)?[^/]+/META")


@dataclass(frozen=True)
class SlurmSource:
    """An archive: its path, the release according to its META, and the sha256 of its content."""

    path: str
    version: str
    sha256: str

    def role_variables(self) -> dict[str, Any]:
        """Variables of the role slurm."""
        return {
            "slurm_install": "source",
            "slurm_version": self.version,
            "slurm_source_archive": self.path,
            "slurm_source_checksum": f"sha256:{self.sha256}",
        }

    def __str__(self) -> str:
        """Release and checksum: equal for copies of one archive."""
        return f"{self.version} sha256:{self.sha256}"


class _Unpacked:
    """The content of an archive (gzip, bzip2, xz or not compressed) in a file. Raises OSError after `_LARGEST_UNPACKED` bytes."""

    def __init__(self, file: BinaryIO) -> None:
        start = file.read(6)
        file.seek(0)
        openers: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
        opener = next((openers[mark] for mark in openers if start.startswith(mark)), None)
        self._source: BinaryIO = file if opener is None else opener(file)
        self._left = _LARGEST_UNPACKED

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise OSError("unpacks to too much")
        return data


def read(path: str) -> SlurmSource:
    """Read an archive. Raises WrongUse if it is not an archive of a Slurm release that can be used."""
    name = f"SLURM_SOURCE: {' '.join(path.split()) or 'nothing'}"
    content = read_input(path, "slurm_source", _LARGEST)
    try:
        with tarfile.open(fileobj=cast(Any, _Unpacked(io.BytesIO(content))), mode="r|") as archive:
            version = _version(archive)
    except (OSError, tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, ValueError):
        raise WrongUse(f"{name}: no archive that tar reads; it may be {FORM}") from None
    if version is None:
        raise WrongUse(f"{name}: holds no source of Slurm (no META with its Version); it may be {FORM}")
    try:
        release_of(version)
    except WrongUse as error:
        raise WrongUse(f"{name}: {error}") from None
    return SlurmSource(str(Path(path).resolve()), version, hashlib.sha256(content).hexdigest())


def _version(archive: tarfile.TarFile) -> str | None:
    """The version in META in the top folder, which may have any name; None without META or version."""
    for _, member in zip(range(_MAX_MEMBERS), archive, strict=False):
        if _META.fullmatch(member.name) and (stream := archive.extractfile(member)):
            found = re.search(r"^\s*Version:\s*(\S+)", stream.read(10_000).decode(errors="replace"), re.MULTILINE)
            return found[1] if found else None
    return None
