"""Reads values of knobs from an inventory with several hosts, or with another machine than this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
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


def knobs_of(knobs: dict[str, Value], given: Mapping[str, str]) -> dict[str, Value]:
    """Values that the inventory sets for knobs of VARIABLES that are not `given` to make.

    make passes the values of all knobs to Ansible as extra variables, which have precedence over those of the inventory.
    """
    wanted = [name for name in VARIABLES if not given.get(name) and not (knobs["CLASSES"] and name in SIZE)]
    if is_here(knobs) or not wanted:
        return {}
    path = inventory(knobs)
    variables = head_variables(path, str(knobs["CLUSTER"]))
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


def host_count(knobs: dict[str, Value]) -> int:
    """Number of hosts of the cluster. Raises WrongUse if the inventory cannot be read, or has no head."""
    if is_here(knobs):
        return 1
    content, _ = _listing(inventory(knobs), str(knobs["CLUSTER"]))
    return len({host for group in ("head", "compute") for host in content.get(group, {}).get("hosts", [])})


def head_variables(path: Path, cluster: str) -> dict[str, Any]:
    """Variables of the head in the inventory at `path`. The inventory of a cloud lists the servers of `cluster`.

    Raises WrongUse if the inventory cannot be read, or has no head.
    """
    content, head = _listing(path, cluster)
    variables: dict[str, Any] = content["_meta"]["hostvars"].get(head, {})
    return variables


def _listing(path: Path, cluster: str) -> tuple[dict[str, Any], str]:
    """What ansible-inventory lists for the inventory at `path`, and the name of the head."""
    program = Path(sys.executable).with_name("ansible-inventory")
    command = [str(program), "--list", "-i", str(ROOT / "inventories/common"), "-i", str(path), "-e", f"mirage_cluster={cluster}"]
    listing = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    try:
        content = json.loads(listing.stdout)
        head = content["head"]["hosts"][0]
    except (ValueError, LookupError):
        lines = [line for line in listing.stderr.splitlines() if line.strip()]
        cause = f" ({lines[-1].strip()})" if lines else ""
        raise WrongUse(f"{path} has no host in its group head{cause}", parameter="inventory") from None
    return content, str(head)
