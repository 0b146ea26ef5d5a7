"""Which release of Slurm can continue a cluster that another release has run.

slurmctld and slurmdbd read what the two major releases before theirs saved, from 24.11 on what the three before did, and nothing
of a later one (Slurm's upgrade guide, https://slurm.schedmd.com/upgrades.html). One that cannot read it does not start.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from ...base.errors import WrongUse
from .setting_names import Release, release_of

BEFORE: tuple[Release, ...] = (
    *((16, 5), (17, 2), (17, 11), (18, 8), (19, 5), (20, 2), (20, 11)),
    *((21, 8), (22, 5), (23, 2), (23, 11)),
)
"""Major releases before `SIX_MONTHLY`, the first of those that appear each May and November."""
SIX_MONTHLY: Release = (24, 5)
THREE_BACK: Release = (24, 11)

BUILT_FOR = re.compile(r"^# For Slurm (?P<release>\d\d\.\d\d)\.$", re.MULTILINE)
"""The line of slurm.conf that `line` writes."""


def line(version: str) -> str:
    """A comment for slurm.conf that says which major release it was written for; empty where that is not known."""
    return f"# For Slurm {_name(release_of(version))}.\n" if version else ""


def check(slurm_conf: str, version: str, cluster: str) -> None:
    """Raise WrongUse when `version` cannot read what the release that `slurm_conf` was written for has saved."""
    match = BUILT_FOR.search(slurm_conf)
    if match is None or not version:
        return
    before, now = release_of(match["release"]), release_of(version)
    back = 3 if now >= THREE_BACK else 2
    if 0 <= _rank(now) - _rank(before) <= back:
        return
    raise WrongUse(
        f"cluster {cluster} was built with Slurm {_name(before)}, and {_name(now)} cannot read the jobs that it "
        f"saved; ask for {_name(before)} again, make teardown CLUSTER={cluster} first, or name another CLUSTER",
        parameter="slurm_source",
    )


def _rank(release: Release) -> int:
    """Number of major releases up to this one."""
    if release < SIX_MONTHLY:
        return bisect_right(BEFORE, release)
    return len(BEFORE) + 1 + 2 * (release[0] - SIX_MONTHLY[0]) + (release[1] > SIX_MONTHLY[1])


def _name(release: Release) -> str:
    return f"{release[0]}.{release[1]:02}"
