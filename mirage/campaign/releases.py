"""SLURMS: releases of Slurm as arms of a comparison, each by its name, if it is installed here, or as an archive."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.campaign.arms import Arms
from mirage.campaign.parts import labels
from mirage.knobs import slurm_source
from mirage.knobs.knobs import SchedulerKnobs
from mirage.knobs.slurm_source import SlurmSource
from slurm_mirage.base.errors import WrongUse

PARAMETER = "slurms"
PACKAGES = "packages"
"""The word for the Slurm of the host's packages, as for SLURM_SOURCE."""
PACKAGED = Path("/usr/sbin/slurmctld")
PREFIXES = Path("/opt/slurm-mirage")
STAMP = ".built-by-slurm-mirage"
"""The file that a finished build of the role slurm has: release and checksum of the archive, as `SlurmSource` is written."""
FORM = "two or more of: packages, a release that is installed (22.05), the path of a release's archive (/tmp/slurm-25.11.7.tar.bz2)"
_NAME = re.compile(r"\d\d\.\d\d(?:[.-][\w.-]+)?", re.ASCII)
_OF_CHECKSUM = 6  # digits of a checksum that tell two builds of one release apart


@dataclass(frozen=True)
class Build:
    """A Slurm that can be an arm.

    version: the release; empty for packages that are not installed yet, or of other hosts. source: what it is built from; None for
    the packages
    """

    version: str
    source: SlurmSource | None

    @property
    def commands(self) -> Path | None:
        """Folder of its commands on this machine; None while it is not installed."""
        if self.source is None:
            return Path("/usr/bin") if PACKAGED.exists() else None
        if self.source.prefix:
            return Path(self.source.prefix, "bin")
        made = [folder for folder, source in _built() if str(source) == str(self.source)]
        return made[0] / "bin" if made else None

    @property
    def identity(self) -> str:
        """Release and checksum of the archive; equal for the same content."""
        return str(self.source) if self.source is not None else f"{self.version} {PACKAGES}".strip()


def read(text: str, *, is_here: bool) -> list[Build]:
    """The builds that SLURMS names, in its order. is_here: whether the cluster is on this machine. Raises WrongUse."""
    words = text.split()
    if len(words) < 2:
        raise WrongUse(f"names fewer than two; it may be {FORM}", PARAMETER, text)
    return [_build(word, is_here) for word in words]


def by_label(builds: Sequence[Build]) -> Mapping[str, Build]:
    """The builds by their labels: the release, and with a part of the checksum where several builds have it."""
    often = Counter(build.version for build in builds)
    return dict(zip(labels([_label(build, often[build.version] > 1) for build in builds]), builds, strict=True))


def arms(builds: Mapping[str, Build]) -> Arms:
    """The arms of a comparison of these builds."""
    return {label: {"SLURM_SOURCE": build.source} for label, build in builds.items()}


def commands_of(scheduler: SchedulerKnobs) -> Path | None:
    """Folder of the commands of a cluster's Slurm on this machine; None while it is not installed."""
    source = scheduler.slurm_source
    return Build("" if source is None else source.version, source).commands


def notes(builds: Mapping[str, Build]) -> list[str]:
    """Lines to print before the runs: two builds of one release, or one build twice."""
    lines = []
    for version, count in Counter(build.version for build in builds.values()).items():
        same = [build.identity for build in builds.values() if build.version == version]
        if count > 1 and len(set(same)) == 1:
            lines.append(f"note: {count} arms are one build of Slurm {version or PACKAGES}: equal schedules are expected")
        elif count > 1:
            lines.append(f"note: {count} arms are builds of one release, Slurm {version}: what differs comes from their sources")
    return lines


def _build(word: str, is_here: bool) -> Build:
    if word == PACKAGES:
        return Build(_packaged() if is_here else "", None)
    if not _NAME.fullmatch(word):
        source = slurm_source.read(word, PARAMETER)
        return Build(source.version, source)
    if not is_here:
        raise WrongUse("what other hosts have is not known; it may be packages, or the path of an archive", PARAMETER, word)
    packaged = _packaged()
    if _is_named(packaged, word):
        return Build(packaged, None)
    made = {str(source): source for _, source in reversed(_built()) if _is_named(source.version, word)}
    if len(made) == 1:
        source = next(iter(made.values()))
        return Build(source.version, source)
    here = [*([f"{packaged} ({PACKAGES})"] if packaged else []), *(source.version for _, source in _built())]
    if made:
        raise WrongUse(
            f"{len(made)} builds of it are here, of different sources; it may be the path of an archive", PARAMETER, word
        )
    raise WrongUse(f"is not installed here, where there is {', '.join(here) or 'none'}; it may be {FORM}", PARAMETER, word)


def _is_named(version: str, word: str) -> bool:
    """Whether `22.05` or `22.05.8` names the release 22.05.8."""
    return bool(version) and (version == word or version.startswith((f"{word}.", f"{word}-")))


def _packaged() -> str:
    """The release of this machine's packages; empty without them."""
    try:
        told = subprocess.run([PACKAGED, "-V"], capture_output=True, text=True, check=False, timeout=60).stdout
    except OSError:
        return ""
    return told.split()[-1] if told.split() else ""


def _built() -> list[tuple[Path, SlurmSource]]:
    """The finished builds of this machine, the newest first."""
    found = []
    for stamp in sorted(PREFIXES.glob(f"*/{STAMP}"), key=lambda path: -path.stat().st_mtime):
        version, _, checksum = stamp.read_text(errors="replace").strip().partition(" sha256:")
        found.append((stamp.parent, SlurmSource("", version, checksum, str(stamp.parent))))
    return found


def _label(build: Build, is_ambiguous: bool) -> str:
    if not is_ambiguous:
        return build.version or PACKAGES
    return f"{build.version}-{build.source.sha256[:_OF_CHECKSUM] if build.source is not None else PACKAGES}".lstrip("-")
