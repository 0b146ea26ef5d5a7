"""Reads groups, and values of knobs, from an inventory with several hosts, or with another machine than this one."""

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
from mirage.knobs.parse import Value
from mirage.knobs.resolve import OPENPBS, OPENPBS_CONFIG, parse
from mirage.knobs.table import TABLE
from slurm_mirage.base.errors import WrongUse

# Knobs whose values an inventory may set, with their variables. CLUSTER chooses the instance. PORT has no default: without a value
# it is left to Ansible.
VARIABLES = {knob.name: knob.variable for knob in TABLE if knob.variable and knob.default and knob.name != "CLUSTER"}
SIZE = ("NODES", "CPUS")
RUN_HOSTS = "run_hosts"
"""The group of the hosts that each have whole clusters, for the runs of campaigns."""


def knobs_of(knobs: dict[str, Value], given: Mapping[str, str]) -> dict[str, Value]:
    """Values that the inventory sets for knobs of VARIABLES that are not `given` to make.

    make passes the values of all knobs to Ansible as extra variables, which have precedence over those of the inventory.
    """
    wanted = [name for name in VARIABLES if not given.get(name) and not (knobs["CLASSES"] and name in SIZE)]
    if is_here(knobs) or not wanted:
        return {}
    path = inventory(knobs)
    variables = head_variables(path, str(knobs["CLUSTER"]))
    _all_alike(knobs, path, [VARIABLES[name] for name in wanted])
    if "mirage_nodes" not in str(variables.get("slurm_controller_nodes", "mirage_nodes")):
        raise WrongUse(
            f"slurm_controller_nodes of {path}: make is told of machines whose nodes differ by CLASSES, as in CLASSES=my.yml"
        )
    texts = {name: _text(variables[VARIABLES[name]]) for name in wanted if VARIABLES[name] in variables}
    found = {name: parse(name, text, f" ({VARIABLES[name]} of {path})") for name, text in texts.items()}
    if found.get("RM") == OPENPBS and "CONFIG" not in found and not given.get("CONFIG"):
        found["CONFIG"] = OPENPBS_CONFIG
    return found


def _text(value: Any) -> str:
    """The value as text for the parser of a knob. YAML reads yes and no as booleans."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _all_alike(knobs: dict[str, Value], path: Path, variables: list[str]) -> None:
    """Check that the variables of knobs have the same values for all of `run_hosts`: the runs of a campaign have the same knobs."""
    names = run_hosts(knobs)
    of_hosts = listing(path, str(knobs["CLUSTER"]))[0]["_meta"]["hostvars"]
    for variable in variables:
        values = {host: of_hosts.get(host, {}).get(variable) for host in names}
        other = next((host for host in names if values[host] != values[names[0]]), None)
        if other is not None:
            differ = f"{variable} is {values[names[0]]!r} for {names[0]} and {values[other]!r} for {other}"
            raise WrongUse(f"{path}: {differ}; the hosts of {RUN_HOSTS} need the same one", parameter="inventory")


def host_count(knobs: dict[str, Value]) -> int:
    """Number of hosts of the cluster, or of each cluster on `run_hosts`. Raises WrongUse if the inventory cannot be read, or has no
    head."""
    if is_here(knobs) or run_hosts(knobs):
        return 1
    content, _ = listing(inventory(knobs), str(knobs["CLUSTER"]))
    return len(_hosts_of(content, "head", "compute"))


def run_hosts(knobs: dict[str, Value]) -> tuple[str, ...]:
    """Names of the hosts in the group `run_hosts` of the inventory, in its order; none for an inventory of one cluster.

    Raises WrongUse for an inventory that has such hosts, and a head or compute hosts.
    """
    if is_here(knobs):
        return ()
    path = inventory(knobs)
    content, _ = listing(path, str(knobs["CLUSTER"]))
    names = tuple(content.get(RUN_HOSTS, {}).get("hosts", []))
    if names and _hosts_of(content, "head", "compute"):
        raise WrongUse(
            f"{path} has hosts in {RUN_HOSTS} and in head or compute; it may have {RUN_HOSTS}, on which each run of a campaign has "
            "a cluster of its own, or the head and compute hosts of one cluster",
            parameter="inventory",
        )
    return names


def of_one_cluster(knobs: dict[str, Value], target: str) -> None:
    """Check that the inventory is of one cluster. target: what the command needs it for. Raises WrongUse."""
    if names := run_hosts(knobs):
        raise WrongUse(
            f"{inventory(knobs)} has {len(names)} hosts in {RUN_HOSTS}, for comparisons, sweeps and studies, and make teardown; "
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
