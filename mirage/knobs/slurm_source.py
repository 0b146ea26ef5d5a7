"""SLURM_SOURCE: the archive of a Slurm release that the cluster's Slurm is built from."""

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
# The file META is in the archive's top folder, at any position: its search ends after so many members.
_MAX_MEMBERS = 20_000
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


def read(path: str) -> SlurmSource:
    """Read an archive. Raises WrongUse if it is not an archive of a Slurm release that can be used."""
    name = f"SLURM_SOURCE: {' '.join(path.split()) or 'nothing'}"
    try:
        with tarfile.open(path) as archive:
            version = _version(archive)
    except (OSError, tarfile.TarError, EOFError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "no archive that tar reads"
        raise WrongUse(f"{name}: {why.lower()}; it may be {FORM}") from None
    if version is None:
        raise WrongUse(f"{name}: holds no source of Slurm (no META with its Version); it may be {FORM}")
    try:
        release_of(version)
    except WrongUse as error:
        raise WrongUse(f"{name}: {error}") from None
    with Path(path).open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return SlurmSource(str(Path(path).resolve()), version, digest)


def _version(archive: tarfile.TarFile) -> str | None:
    """The version in META in the top folder, which may have any name; None without META or version."""
    for _, member in zip(range(_MAX_MEMBERS), archive, strict=False):
        if _META.fullmatch(member.name) and (stream := archive.extractfile(member)):
            found = re.search(r"^\s*Version:\s*(\S+)", stream.read(10_000).decode(errors="replace"), re.MULTILINE)
            return found[1] if found else None
    return None
