"""Settings and releases of Slurm with which jobs change their size (mirage_extras/malleable/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import WrongUse
from ...rm.slurm.conf import OMIT, value_of
from ...rm.slurm.setting_names import release_of

PERMISSION = "permit_job_expansion"
"""The word of SchedulerParameters with which jobs can be merged."""
OLDEST = (22, 5)
"""The oldest release that was tried."""
WITHOUT_DATABASE = (24, 11)
"""The first release in which the size of a job can be changed more than once without slurmdbd."""
WITH_LICENSES = (25, 11)
"""The first release whose slurmctld crashes when it merges jobs without licenses (job_mgr.c, _valid_license_job_expansion: a list
that is NULL)."""
WITHOUT_RECOUNT = (25, 11)
"""The first release in which `scontrol reconfigure` restarts slurmctld, so that it is not used after shrinks."""
LICENSE, LICENSES = "mirage_resize", 100_000_000
"""A license that jobs get before they are merged, and how many there are: slurmctld does not get back all that it gave."""


def permit_expansion(settings: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The settings with which a job can get the nodes of another one. `version`: a release, empty if it is not known."""
    changed = _with_word(settings, "SchedulerParameters", PERMISSION)
    if version and release_of(version) >= WITH_LICENSES:
        changed = _with_word(changed, "Licenses", f"{LICENSE}:{LICENSES}")
    return changed


def needs_recount(version: str) -> bool:
    """Whether slurmctld has to count its nodes again after a job has shrunk. `version`: what `scontrol --version` answers."""
    return release_of(version) < WITHOUT_RECOUNT


def _with_word(settings: Mapping[str, Any], setting: str, word: str) -> dict[str, Any]:
    changed = dict(settings)
    key = next((key for key in settings if key.lower() == setting.lower()), setting)
    given = changed.get(key, OMIT)
    if isinstance(given, Mapping):
        changed[key] = {**given, word: True}
    else:
        changed[key] = f"{value_of(given)},{word}" if given not in (OMIT, "") else word
    return changed


def check(version: str, accounting: bool, front_ends: int) -> None:
    """Raise WrongUse for a cluster in which jobs cannot change their size. `version`: a release, empty if it is not known."""
    if front_ends:
        raise WrongUse("jobs cannot change their size in front-end mode; leave out FRONT_END", parameter="malleable")
    if not version:
        return
    release = release_of(version)
    if release < OLDEST:
        raise WrongUse(f"jobs change their size with Slurm 22.05 or later, and this is {version}", parameter="malleable")
    if release < WITHOUT_DATABASE and not accounting:
        raise WrongUse(
            f"Slurm {version} changes the size of a job more than once only with accounting; leave out ACCOUNTING=no, or "
            "take 24.11 or later",
            parameter="malleable",
        )
