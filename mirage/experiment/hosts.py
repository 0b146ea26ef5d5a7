"""Reads groups and variables from an inventory with several hosts, or with another machine than this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mirage import ROOT
from mirage.experiment.playbook import environment
from mirage.experiment.preflight import inventory, is_here
from mirage.knobs import resolve
from mirage.knobs.knobs import CLOCK, ClusterKnobs, Knobs
from slurm_mirage.base.errors import WrongUse

RUN_HOSTS = "run_hosts"
"""The group of the hosts that each have whole clusters, for the runs of campaigns."""


def with_inventory(knobs: Knobs, given: Mapping[str, str]) -> Knobs:
    """The knobs with the values that the inventory sets for those that are not `given` to make.

    make passes the values of all knobs to Ansible as extra variables, which have precedence over those of the inventory.
    """
    cluster, wanted = knobs.cluster, resolve.variables_of_inventory(knobs, given)
    if is_here(cluster) or not wanted:
        return knobs
    path = inventory(cluster)
    variables = head_variables(path, cluster.name)
    _all_alike(cluster, path, [*wanted.values(), *([CLOCK] if "SPEED" in wanted else [])])
    if "mirage_nodes" not in str(variables.get("slurm_controller_nodes", "mirage_nodes")):
        raise WrongUse(f"slurm_controller_nodes of {path}: give nodes that differ to make by CLASSES, as in CLASSES=my.yml")
    return resolve.with_inventory(knobs, given, variables, str(path))


def _all_alike(cluster: ClusterKnobs, path: Path, variables: list[str]) -> None:
    """Check that the variables of knobs have the same values for all of `run_hosts`: the runs of a campaign have the same knobs."""
    names = run_hosts(cluster)
    of_hosts = listing(path, cluster.name)[0]["_meta"]["hostvars"]
    for variable in variables:
        values = {host: of_hosts.get(host, {}).get(variable) for host in names}
        other = next((host for host in names if values[host] != values[names[0]]), None)
        if other is not None:
            differ = f"{variable} is {values[names[0]]!r} for {names[0]} and {values[other]!r} for {other}"
            raise WrongUse(f"{path}: {differ}; the hosts of {RUN_HOSTS} need the same one", parameter="inventory")


def host_count(cluster: ClusterKnobs) -> int:
    """Number of hosts of the cluster, or of each cluster on `run_hosts`. Raises WrongUse if the inventory cannot be read, or has no
    head."""
    if is_here(cluster) or run_hosts(cluster):
        return 1
    content, _ = listing(inventory(cluster), cluster.name)
    return len(_hosts_of(content, "head", "compute"))


def run_hosts(cluster: ClusterKnobs) -> tuple[str, ...]:
    """Names of the hosts in the group `run_hosts` of the inventory, in its order; none for an inventory of one cluster.

    Raises WrongUse for an inventory that has such hosts, and a head or compute hosts.
    """
    if is_here(cluster):
        return ()
    path = inventory(cluster)
    content, _ = listing(path, cluster.name)
    names = tuple(content.get(RUN_HOSTS, {}).get("hosts", []))
    if names and _hosts_of(content, "head", "compute"):
        raise WrongUse(
            f"{path} has hosts in {RUN_HOSTS} and in head or compute; it may have {RUN_HOSTS}, on which each run of a campaign has "
            "a cluster of its own, or the head and compute hosts of one cluster",
            parameter="inventory",
        )
    return names


def of_one_cluster(cluster: ClusterKnobs, target: str) -> None:
    """Check that the inventory is of one cluster. target: what the command needs it for. Raises WrongUse."""
    if names := run_hosts(cluster):
        raise WrongUse(
            f"{inventory(cluster)} has {len(names)} hosts in {RUN_HOSTS}, for comparisons, sweeps and studies, and make teardown; "
            f"{target} needs one with a head",
            parameter="inventory",
        )


def _hosts_of(content: Mapping[str, Any], *groups: str) -> set[str]:
    return {host for group in groups for host in content.get(group, {}).get("hosts", [])}


def head_variables(path: Path, cluster: str) -> dict[str, Any]:
    """Variables of the head, or of the first of `run_hosts`, in the inventory at `path`. The inventory of a cloud lists the servers
    of `cluster`.

    Raises WrongUse if the inventory cannot be read, or has neither.
    """
    content, head = listing(path, cluster)
    variables: dict[str, Any] = content["_meta"]["hostvars"].get(head, {})
    return variables


@cache
def listing(path: Path, cluster: str) -> tuple[dict[str, Any], str]:
    """What ansible-inventory lists for the inventory at `path`, and the name of the head, or of the first of `run_hosts`.

    The inventory is read once: it takes a second, and all parts of a command see the same one.
    """
    program = Path(sys.executable).with_name("ansible-inventory")
    command = [str(program), "--list", "-i", str(ROOT / "inventories/common"), "-i", str(path), "-e", f"mirage_cluster={cluster}"]
    listing = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    try:
        content = json.loads(listing.stdout)
        head = content["head" if _hosts_of(content, "head") else RUN_HOSTS]["hosts"][0]
    except (ValueError, LookupError):
        lines = [line for line in listing.stderr.splitlines() if line.strip()]
        cause = f" ({lines[-1].strip()})" if lines else ""
        raise WrongUse(f"{path} has no host in its group head{cause}", parameter="inventory") from None
    return content, str(head)
