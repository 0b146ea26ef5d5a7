"""SLURM_SOURCE: the archive of a Slurm release, that the cluster's Slurm is built from. Standard library only."""

from __future__ import annotations

import hashlib
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.setting_names import release_of

FORM = "the path of a release's archive, like slurm-25.11.7.tar.bz2"
# META lies in the archive's top folder, and its files come in the order of the alphabet, or in that of the folder's making.
_MOST_MEMBERS = 20_000
_META = re.compile(r"(\./)?[^/]+/META")


@dataclass(frozen=True)
class SlurmSource:
    """An archive: where it is, the release that it says it holds, and the sha256 of its content."""

    path: str
    version: str
    sha256: str

    def variables(self) -> dict[str, Any]:
        """What the role slurm is told."""
        return {
            "slurm_install": "source",
            "slurm_version": self.version,
            "slurm_source_archive": self.path,
            "slurm_source_checksum": f"sha256:{self.sha256}",
        }

    def __str__(self) -> str:
        """All that makes the source what it is, wherever it lies."""
        return f"{self.version} sha256:{self.sha256}"


def read(path: str) -> SlurmSource:
    """The archive in that file. Raises WrongUse where it is none of Slurm's."""
    shown = f"SLURM_SOURCE: {' '.join(path.split()) or 'nothing'}"
    try:
        with tarfile.open(path) as archive:
            version = _version(archive)
    except (OSError, tarfile.TarError, EOFError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "no archive that tar reads"
        raise WrongUse(f"{shown}: {why.lower()}; it may be {FORM}") from None
    if version is None:
        raise WrongUse(f"{shown}: holds no source of Slurm (no META with its Version); it may be {FORM}")
    try:
        release_of(version)
    except WrongUse as error:
        raise WrongUse(f"{shown}: {error}") from None
    with Path(path).open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return SlurmSource(str(Path(path).resolve()), version, digest)


def _version(archive: tarfile.TarFile) -> str | None:
    """The Version of META in the top folder, whatever its name."""
    for _, member in zip(range(_MOST_MEMBERS), archive, strict=False):
        if _META.fullmatch(member.name) and (stream := archive.extractfile(member)):
            found = re.search(r"^\s*Version:\s*(\S+)", stream.read(10_000).decode(errors="replace"), re.MULTILINE)
            return found[1] if found else None
    return None
