"""Archives of the source of a resource manager: the one file in which the release is stated, and the archive's checksum."""

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
from typing import Any, BinaryIO, ClassVar

from mirage.text.input_file import read_input
from slurm_mirage.base.errors import WrongUse

# The file is in the archive's top folder, at any position: its search ends after so many members.
_MAX_MEMBERS = 20_000
# Bytes of the archive (releases have up to 8 MB), of its unpacked content up to the file, and of the file.
_LARGEST, _LARGEST_UNPACKED, _LARGEST_FILE = 64 << 20, 256 << 20, 10_000


@dataclass(frozen=True)
class SourceArchive:
    """An archive: its absolute path, the sha256 of its content, and the text of a file in its top folder (None without it)."""

    path: str
    sha256: str
    text: str | None


@dataclass(frozen=True)
class Source:
    """An archive of the source of a resource manager: its path, the release that it states, and the sha256 of its content."""

    ROLE: ClassVar[str]
    """The role that builds it."""
    path: str
    version: str
    sha256: str

    def role_variables(self) -> dict[str, Any]:
        """Variables of the role."""
        checksum = f"sha256:{self.sha256}"
        own = {"version": self.version, "source_archive": self.path, "source_checksum": checksum}
        return {f"{self.ROLE}_{name}": value for name, value in own.items()}

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


def named(parameter: str, path: str) -> str:
    """The beginning of a message about the archive at `path`, which the knob of `parameter` names."""
    return f"{parameter.upper()}: {' '.join(path.split()) or 'nothing'}"


def read(path: str, parameter: str, name: str, form: str) -> SourceArchive:
    """Read an archive and the file `name` in its top folder, which may have any name.

    parameter: of the knob that names the archive. form: what the knob may be. Raises WrongUse if the file is not an archive.
    """
    content = read_input(path, parameter, _LARGEST)
    try:
        stream: Any = _Unpacked(io.BytesIO(content))
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            text = _text(archive, re.compile(rf"(\./)?[^/]+/{re.escape(name)}"))
    except (OSError, tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, ValueError):
        raise WrongUse(f"{named(parameter, path)}: not an archive that tar can read; it may be {form}") from None
    return SourceArchive(str(Path(path).resolve()), hashlib.sha256(content).hexdigest(), text)


def _text(archive: tarfile.TarFile, wanted: re.Pattern[str]) -> str | None:
    """The beginning of the first file whose path matches; None without one."""
    for _, member in zip(range(_MAX_MEMBERS), archive, strict=False):
        if wanted.fullmatch(member.name) and (stream := archive.extractfile(member)):
            return stream.read(_LARGEST_FILE).decode(errors="replace")
    return None
