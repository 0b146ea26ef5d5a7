"""Names of the settings of slurm.conf(5) in the releases of Slurm from 16.05 on, and which release retired or introduced each.

The project writes settings as Slurm 22.05 knows them; `translated` gives them the names and values that another release has for the
same thing, and leaves out those of SINCE that the release does not have yet: its daemons would not start.

The releases are from the sources of Slurm 16.05 to 26.05 (common/read_config.c, slurmctld/read_config.c,
common/slurm_protocol_api.c, src/plugins).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...base.errors import WrongUse
from .conf import OMIT, value_of

Release = tuple[int, int]
"""Year and month: (22, 5)."""

OLDEST: Release = (16, 5)
NEVER: Release = (0, 0)
ALWAYS: Release = (9999, 0)

CGROUPS_BY_DEFAULT: Release = (24, 11)
"""The first release whose slurmd starts with cgroups whatever its plugins are, unless cgroup.conf says `disabled`."""


def release_of(text: str) -> Release:
    """The release in what `slurmctld -V` answers (`slurm 16.05.6`, `slurm-wlm 22.05.8`), or in a version."""
    match = re.fullmatch(r"(?:slurm(?:-wlm)? )?(\d\d)\.(\d\d)(?:[.-]\S*)?", text.strip())
    if match is None:
        raise WrongUse(f"slurm_version={text.strip() or 'nothing'}: it may be a release of Slurm, like 22.05.8")
    release = (int(match[1]), int(match[2]))
    if release < OLDEST:
        raise WrongUse(f"slurm_version={text.strip()}: it may be {OLDEST[0]}.{OLDEST[1]:02} or later")
    return release


@dataclass(frozen=True)
class Rename:
    """A setting that releases from `since` on and before `until` have in another form, which `instead` makes of its value."""

    setting: str
    instead: Callable[[str], Mapping[str, str]]
    since: Release = NEVER
    until: Release = ALWAYS


def _machine(value: str) -> Mapping[str, str]:
    """`host(address)`."""
    host, _, address = value.partition("(")
    return {"ControlMachine": host, **({"ControlAddr": address.rstrip(")")} if address else {})}


def _without_overrides(value: str) -> Mapping[str, str]:
    """FastSchedule=2 is what the word config_overrides became; the others go where there is a setting for them."""
    words = [word.strip() for word in value.split(",") if word.strip()]
    rest = [word for word in words if word.lower() != "config_overrides"]
    fast = {"FastSchedule": "2"} if len(rest) < len(words) else {}
    return {**fast, **({"SlurmdParameters": ",".join(rest)} if rest else {})}


RETIRED: Mapping[str, tuple[Release, str]] = {
    "AccountingStorageLoc": ((20, 11), ""),
    "AccountingStorageUser": ((25, 11), ""),
    "AccountingStoreJobComment": ((21, 8), "AccountingStoreFlags=job_comment"),
    "AcctGatherInfinibandType": ((17, 11), "AcctGatherInterconnectType"),
    "BackupAddr": ((18, 8), "SlurmctldHost"),
    "BackupController": ((18, 8), "SlurmctldHost"),
    "CacheGroups": ((21, 8), "GroupUpdateTime"),
    "CheckpointType": ((21, 8), ""),
    "ChosLoc": ((20, 11), ""),
    "ControlAddr": ((18, 8), "SlurmctldHost"),
    "ControlMachine": ((18, 8), "SlurmctldHost"),
    "CoreSpecPlugin": ((24, 5), ""),
    "CryptoType": ((19, 5), "CredType"),
    "DefaultStorageHost": ((21, 8), "AccountingStorageHost"),
    "DefaultStorageLoc": ((21, 8), ""),
    "DefaultStoragePass": ((21, 8), "AccountingStoragePass"),
    "DefaultStoragePort": ((21, 8), "AccountingStoragePort"),
    "DefaultStorageType": ((21, 8), "AccountingStorageType"),
    "DefaultStorageUser": ((21, 8), ""),
    "DynAllocPort": ((15, 8), ""),
    "ExtSensorsFreq": ((23, 11), ""),
    "ExtSensorsType": ((23, 11), ""),
    "FastSchedule": ((20, 2), "SlurmdParameters=config_overrides"),
    "FrontendName": ((25, 5), ""),
    "GetEnvTimeout": ((25, 5), ""),
    "JobCheckpointDir": ((21, 8), ""),
    "JobCredentialPrivateKey": ((23, 11), ""),
    "JobCredentialPublicCertificate": ((23, 11), ""),
    "KeepAliveTime": ((22, 5), "CommunicationParameters=keepalivetime"),
    "LaunchType": ((23, 2), ""),
    "Layouts": ((20, 11), ""),
    "MemLimitEnforce": ((20, 2), "JobAcctGatherParams=OverMemoryKill"),
    "MsgAggregationParams": ((20, 11), ""),
    "PowerParameters": ((24, 5), ""),
    "PowerPlugin": ((24, 5), ""),
    "SallocDefaultCommand": ((20, 11), "LaunchParameters=use_interactive_step"),
    "SchedulerAuth": ((14, 3), ""),
    "SchedulerPort": ((21, 8), ""),
    "SchedulerRootFilter": ((21, 8), ""),
    "SlurmctldPlugstack": ((23, 2), ""),
    "SlurmdPlugstack": ((17, 11), ""),
}
"""The release from which on a setting has no effect, or keeps the daemons from starting, and what took its place."""

SINCE: Mapping[str, Release] = {
    "DefCPUPerGPU": (18, 8),
    "DefMemPerGPU": (18, 8),
    "DependencyParameters": (20, 2),
    "LicenseParameters": (26, 5),
    "MaxBatchRequeue": (23, 2),
    "PreemptExemptTime": (19, 5),
    "PreemptParameters": (23, 2),
    "PriorityWeightAssoc": (19, 5),
}
"""Settings about scheduling that later releases than OLDEST introduced."""

PARTITION_WORDS_SINCE: Mapping[str, Release] = {
    "DefCPUPerGPU": (18, 8),
    "DefMemPerGPU": (18, 8),
    "Exclusive": (26, 5),
    "ExclusiveTopo": (24, 5),
    "MaxCPUsPerSocket": (23, 2),
    "OverTimeLimit": (17, 2),
}
"""Words of a PartitionName line, likewise."""

NODE_WORDS_SINCE: Mapping[str, Release] = {"RestrictedCoresPerGPU": (24, 5), "TRESWeights": (17, 2)}
"""Words of a NodeName line, likewise."""


def known(words: Mapping[str, Any], since: Mapping[str, Release], version: str) -> dict[str, Any]:
    """The words that the release `version` has by the table `since`; all of them where it is not known (an empty text)."""
    if not version:
        return dict(words)
    release = release_of(version)
    later = {word.lower() for word, first in since.items() if release < first}
    return {word: value for word, value in words.items() if word.lower() not in later}


def named(release: Release) -> str:
    """`22.05`."""
    return f"{release[0]}.{release[1]:02}"


RENAMES = (
    Rename("SlurmctldHost", _machine, until=(18, 8)),
    Rename("CommunicationParameters", lambda value: {"TopologyParam": value}, until=(18, 8)),
    Rename("CredType", lambda value: {"CryptoType": value.replace("cred/", "crypto/")}, until=(19, 5)),
    Rename("SelectType", lambda value: {"SelectType": value.replace("cons_tres", "cons_res")}, until=(19, 5)),
    Rename("SelectType", lambda value: {"SelectType": value.replace("cons_res", "cons_tres")}, since=(23, 11)),
    Rename("SlurmdParameters", _without_overrides, until=(20, 2)),
)


def translated(settings: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The settings as the release `version` has them; as they are where it is not known (an empty text).

    A setting whose name in that release is given as well gets both values, as lists of words do; a given one word stays.
    """
    if not version:
        return dict(settings)
    release = release_of(version)
    result = known(settings, SINCE, version)
    for rename in RENAMES:
        if rename.since <= release < rename.until:
            _apply(rename, result)
    return result


def _apply(rename: Rename, settings: dict[str, Any]) -> None:
    keys = {key.lower(): key for key in settings}
    key = keys.get(rename.setting.lower())
    if key is None or settings[key] == OMIT:
        return
    instead = rename.instead(value_of(settings.pop(key)))
    for name, value in instead.items():
        key = keys.get(name.lower(), name)
        settings[key] = f"{value_of(settings[key])},{value}" if key in settings else value


def files_beside(version: str) -> dict[str, str]:
    """Further files beside slurm.conf that the release `version` wants, and what they hold."""
    if version and release_of(version) >= CGROUPS_BY_DEFAULT:
        return {"cgroup.conf": "CgroupPlugin=disabled\n"}
    return {}
