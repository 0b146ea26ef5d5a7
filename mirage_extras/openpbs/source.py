"""OPENPBS_SOURCE: the archive that the cluster's OpenPBS is built from."""

from __future__ import annotations

import re

from mirage.knobs import source_archive
from mirage.knobs.source_archive import Source
from slurm_mirage.base.errors import WrongUse

FORM = "the path of an archive of OpenPBS's source, like openpbs.tar.gz"
PARAMETER = "openpbs_source"


class OpenPbsSource(Source):
    """An archive with the release according to its configure.ac.

    All commits between two releases state the same release: only the checksum tells them apart.
    """

    ROLE = "openpbs"


def read(path: str) -> OpenPbsSource:
    """Read an archive. Raises WrongUse if it is not an archive of OpenPBS's source."""
    archive = source_archive.read(path, PARAMETER, "configure.ac", FORM)
    match = re.search(r"^AC_INIT\(\[OpenPBS\],\s*\[(\d+\.[\w.-]+)\]", archive.text or "", re.MULTILINE | re.ASCII)
    if match is None:
        name = source_archive.named(PARAMETER, path)
        raise WrongUse(f"{name}: holds no source of OpenPBS (no configure.ac with its AC_INIT); it may be {FORM}")
    return OpenPbsSource(archive.path, match[1], archive.sha256)
