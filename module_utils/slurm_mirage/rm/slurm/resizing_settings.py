"""Settings and releases of Slurm with which jobs change their size (docs/malleable.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import WrongUse
from .conf import OMIT, value_of
from .setting_names import release_of

KEY, WORD = "SchedulerParameters", "permit_job_expansion"
OLDEST = (22, 5)
"""The oldest release that was tried."""
WITHOUT_DATABASE = (24, 11)
"""The first release in which the size of a job can be changed more than once without slurmdbd."""


def permit_expansion(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with which a job can get the nodes of another one."""
    changed = dict(settings)
    key = next((key for key in settings if key.lower() == KEY.lower()), KEY)
    given = changed.get(key, OMIT)
    if isinstance(given, Mapping):
        changed[key] = {**given, WORD: True}
    else:
        changed[key] = f"{value_of(given)},{WORD}" if given not in (OMIT, "") else WORD
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
