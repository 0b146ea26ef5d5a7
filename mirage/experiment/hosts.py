"""What an inventory of several hosts, or of another machine than this one, says of its cluster."""

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
from mirage.knobs.table import BY_NAME, Value, parse
from slurm_mirage.base.errors import WrongUse

SIZE = {"NODES": "mirage_nodes", "CPUS": "mirage_cpus"}
VARIABLES = SIZE | {
    "ACCOUNTING": "mirage_accounting",
    "CONFIG": "mirage_config",
    "FRONT_END": "mirage_front_end",
    "SPEED": "mirage_speed",
    "STEPS": "mirage_steps",
}
"""Knobs that an inventory may have values for: a layout of hosts is made for so many nodes."""


def knobs_of(knobs: dict[str, Value], given: Mapping[str, str]) -> dict[str, Value]:
    """The knobs of VARIABLES as the inventory has them, where nobody `given` others. What is given to make is given to Ansible, so
    that an inventory's own value would have no effect otherwise."""
    wanted = [name for name in VARIABLES if not given.get(name) and not (knobs["CLASSES"] and name in SIZE)]
    if is_here(knobs) or not wanted:
        return {}
    path = inventory(knobs)
    of_head = head_variables(path, str(knobs["CLUSTER"]))
    if "mirage_nodes" not in str(of_head.get("slurm_controller_nodes", "mirage_nodes")):
        raise WrongUse(
            f"slurm_controller_nodes of {path}: make is told of machines whose nodes differ by CLASSES, as in CLASSES=my.yml"
        )
    found = {name: _text(of_head.get(VARIABLES[name], BY_NAME[name].default)) for name in wanted}
    return {name: parse(name, text, f" ({VARIABLES[name]} of {path})") for name, text in found.items()}


def _text(value: Any) -> str:
    """As it is typed: YAML makes yes and no something else."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def head_variables(path: Path, cluster: str) -> dict[str, Any]:
    """Variables of the head, as the inventory at `path` has them: a cloud's has the servers of `cluster` only.

    Raises WrongUse when it cannot be read, or has no head.
    """
    program = Path(sys.executable).with_name("ansible-inventory")
    command = [str(program), "--list", "-i", str(ROOT / "inventories/common"), "-i", str(path), "-e", f"mirage_cluster={cluster}"]
    told = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    try:
        content = json.loads(told.stdout)
        head = content["head"]["hosts"][0]
    except (ValueError, LookupError):
        lines = [line for line in told.stderr.splitlines() if line.strip()]
        why = f" ({lines[-1].strip()})" if lines else ""
        raise WrongUse(f"INVENTORY: {path} has no host in its group head{why}") from None
    variables: dict[str, Any] = content["_meta"]["hostvars"].get(head, {})
    return variables
