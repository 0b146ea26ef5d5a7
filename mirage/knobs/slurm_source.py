"""SLURM_SOURCE: the archive of a Slurm release that the cluster's Slurm is built from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mirage.knobs import source_archive
from mirage.knobs.source_archive import Source
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.setting_names import release_of

FORM = "the path of a release's archive, like slurm-25.11.7.tar.bz2"
PARAMETER = "slurm_source"


@dataclass(frozen=True)
class SlurmSource(Source):
    """An archive with the release according to its META.

    prefix: folder of a finished build, which is used as it is; empty for the one that the role makes of the archive
    """

    ROLE = "slurm"
    prefix: str = ""

    def role_variables(self) -> dict[str, Any]:
        """Variables of the role."""
        built = {"slurm_prefix": self.prefix} if self.prefix else {}
        return {"slurm_install": "source", **super().role_variables(), **built}


def read(path: str, parameter: str = PARAMETER) -> SlurmSource:
    """Read an archive. parameter: of the knob that names it

    Raises WrongUse if it is not an archive of a Slurm release that can be used.
    """
    archive = source_archive.read(path, parameter, "META", FORM)
    name = source_archive.named(parameter, path)
    match = re.search(r"^\s*Version:\s*(\S+)", archive.text or "", re.MULTILINE)
    if match is None:
        raise WrongUse(f"{name}: holds no source of Slurm (no META with its Version); it may be {FORM}")
    try:
        release_of(match[1])
    except WrongUse as error:
        raise WrongUse(f"{name}: {error}") from None
    return SlurmSource(archive.path, match[1], archive.sha256)
