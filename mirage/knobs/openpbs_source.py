"""OPENPBS_SOURCE: the archive that the cluster's OpenPBS is built from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mirage.knobs import source_archive
from slurm_mirage.base.errors import WrongUse

FORM = "the path of an archive of OpenPBS's source, like openpbs.tar.gz"
PARAMETER = "openpbs_source"


@dataclass(frozen=True)
class OpenPbsSource:
    """An archive: its path, the release according to its configure.ac, and the sha256 of its content.

    All commits between two releases state the same release: only the checksum tells them apart.
    """

    path: str
    version: str
    sha256: str

    def role_variables(self) -> dict[str, Any]:
        """Variables of the role openpbs."""
        return {
            "openpbs_version": self.version,
            "openpbs_source_archive": self.path,
            "openpbs_source_checksum": f"sha256:{self.sha256}",
        }

    def __str__(self) -> str:
        """Release and checksum: equal for copies of one archive."""
        return f"{self.version} sha256:{self.sha256}"


def read(path: str) -> OpenPbsSource:
    """Read an archive. Raises WrongUse if it is not an archive of OpenPBS's source."""
    archive = source_archive.read(path, PARAMETER, "configure.ac", FORM)
    match = re.search(r"^AC_INIT\(\[OpenPBS\],\s*\[(\d+\.[\w.-]+)\]", archive.text or "", re.MULTILINE | re.ASCII)
    if match is None:
        name = source_archive.named(PARAMETER, path)
        raise WrongUse(f"{name}: holds no source of OpenPBS (no configure.ac with its AC_INIT); it may be {FORM}")
    return OpenPbsSource(archive.path, match[1], archive.sha256)
