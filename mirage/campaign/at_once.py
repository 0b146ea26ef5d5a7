"""AT_ONCE: how many runs of a campaign go on side by side, each on an instance of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from mirage.experiment import preflight, runs
from mirage.experiment.hosts import RUN_HOSTS, run_hosts
from mirage.knobs.knobs import ClusterKnobs, Knobs
from mirage.knobs.parse import AUTO, Speed
from mirage.records.run_clock import EVENT
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance import capacity, sizing
from slurm_mirage.instance.instance import NAME_PATTERN, read_instance

CONSTANT = (
    "note: with a constant speed, runs side by side share the host's processors, so each run is less exact than alone; its verdict "
    "tells; SPEED=event has no such loss"
)


def places(cluster: ClusterKnobs, count: int) -> list[str]:
    """Where the runs of a campaign go on: hosts of the inventory's `run_hosts`, or without these `instances`. Raises WrongUse."""
    return list(run_hosts(cluster)[:count]) or instances(cluster, count)


def note_on(cluster: ClusterKnobs, speed: Speed, count: int) -> str | None:
    """What a user should know of `count` runs at once at this speed; None for nothing."""
    return CONSTANT if count > 1 and speed != EVENT and not run_hosts(cluster) else None


def first_run_host(cluster: ClusterKnobs) -> str:
    """The first of `run_hosts`; "" without such hosts."""
    return next(iter(run_hosts(cluster)), "")


def places_of(folders: Iterable[Path]) -> list[str]:
    """The instances, or hosts of `run_hosts`, on which runs with these folders were begun."""
    return [used for folder in folders if (used := runs.run_host_of(folder) or runs.instance_of(folder))]


def instances(cluster: ClusterKnobs, count: int) -> list[str]:
    """Names of the instances of a campaign: CLUSTER, and CLUSTER-2, CLUSTER-3, ... without those that others have made.

    On other hosts the role `instance` refuses such an instance. Raises WrongUse for a name that is too long.
    """
    first, names, number = cluster.name, [cluster.name], 2
    while len(names) < count:
        name = f"{first}-{number}"
        if not NAME_PATTERN.match(name):
            raise WrongUse(f"{name!r} is too long for an instance; it may be 18 letters with AT_ONCE", "cluster", first)
        if not preflight.is_here(cluster) or belongs(name, first):
            names.append(name)
        number += 1
    return names


def belongs(name: str, first: str) -> bool:
    """Whether the instance `name` of this machine does not exist or belongs to the instance `first`."""
    directory = preflight.INSTANCES / name
    return not directory.exists() or (read_instance(directory) or {"belongs_to": first}).get("belongs_to") == first


def home_of(cluster: ClusterKnobs, folder: Path, run: str) -> str | None:
    """The instance, or the host of `run_hosts`, on which the run in `folder` has begun and can go on; None if it may begin on any.

    cluster: that of the campaign. run: its name on the head.
    """
    if hosts := run_hosts(cluster):
        host = runs.run_host_of(folder)
        return host if host in hosts else None
    first = cluster.name
    name = runs.instance_of(folder) or first
    own = replace(cluster, name=name)
    is_foreign = preflight.is_here(cluster) and name != first and not belongs(name, first)
    if not folder.exists() or is_foreign:
        return None
    return name if preflight.running(own) == run or preflight.has_journal(own, run) else None


def runs_at_once(knobs: Knobs, speed: Speed, left: int) -> int:
    """Number of runs that go on side by side, at most the number `left`, at least 1.

    `auto`: 1 unless `speed` is `event`, because with a constant speed the runs would delay each other; otherwise as many as this
    machine has processors and memory for, and 1 on other machines; of `run_hosts` all. Raises WrongUse for a number that does not
    fit into the memory, or above that of `run_hosts`.
    """
    asked, is_here = knobs.campaign.at_once, preflight.is_here(knobs.cluster)
    if hosts := run_hosts(knobs.cluster):
        wanted = len(hosts) if isinstance(asked, str) else asked
        if wanted > len(hosts):
            raise WrongUse(f"{RUN_HOSTS} has {len(hosts)} hosts, and each executes one run at a time", "at_once", asked)
        return max(1, min(wanted, left))
    wanted = _processors() if isinstance(asked, str) else asked
    if left <= 1 or (asked == AUTO and (speed != EVENT or not is_here)):
        return 1
    most = min(wanted, left)
    if not is_here:
        return most
    fits = _fits(knobs, most)
    if fits < most and asked != AUTO:
        raise WrongUse(f"for so many clusters this host has too little memory; the largest that fits is {fits}", "at_once", asked)
    return max(1, fits)


def _fits(knobs: Knobs, most: int) -> int:
    """Number of instances that this machine can hold, at most `most`."""
    directories = [preflight.INSTANCES / name for name in instances(knobs.cluster, most)]
    running = [capacity.running_load(directory) for directory in directories]
    return sizing.instances(preflight.load_of(knobs), running, capacity.look(preflight.INSTANCES), most)


def _processors() -> int:
    """Number of processors that this program may use."""
    return len(os.sched_getaffinity(0))
