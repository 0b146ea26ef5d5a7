"""Values of all knobs for one call of make, from its environment; and what the roles and the user are told of them.

The Makefile exports the variables given to make unchanged, and lists their names in MIRAGE_GIVEN, so that a misspelt name is found.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from mirage import PROGRAM
from mirage.knobs.machine import Machine
from mirage.knobs.openpbs_source import OpenPbsSource
from mirage.knobs.parse import InvalidValue, Value
from mirage.knobs.slurm_source import SlurmSource
from mirage.knobs.table import BY_NAME, BY_PARAMETER, MAX_CPUS, MAX_NODES, TABLE
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import site_conf

# Environment variable with the names of the variables given to make, separated by blanks. Set by the Makefile.
GIVEN = "MIRAGE_GIVEN"
# Names that Slurm's own commands read from the environment. They count as knobs only when they are given to make.
SLURM_VARIABLES = ("SLURM_CONF",)
# Variables of the Makefile that are not knobs of a run.
MAKE_VARIABLES = ("PYTHON",)
# The default of CONFIG where SHRINK makes jobs shorter: Slurm's own intervals do not shrink with them.
SHORT_INTERVALS, SHRINKING = "backfill", ("experiment", "compare")
UNSHRUNK = 100  # per cent
# Value of RM, and the default of CONFIG with it.
OPENPBS, OPENPBS_CONFIG = "openpbs", "pbs-easy"


def parse(name: str, text: str, origin: str = "") -> Value:
    """Parse the value of one knob. Raises WrongUse with the name, the text, its origin if there is one, and the allowed values."""
    knob = BY_NAME[name]
    try:
        return knob.parse(text)
    except WrongUse as error:
        raise WrongUse(user_message(error)) from None
    except InvalidValue as error:
        given = " ".join(text.split()) or "nothing"
        raise WrongUse(f"{name}: {given!r}{origin} is not possible; it may be {str(error) or knob.may_be}") from None


def resolve(environ: Mapping[str, str], target: str = "") -> dict[str, Value]:
    """Values of all knobs, from the environment and the defaults. An empty value is the default, as with make's own `?=`.

    target: the target of the Makefile. Where it shrinks the workload, CONFIG is one with short intervals, in all runs of a sweep.

    Raises WrongUse for the first misspelt name or wrong value.
    """
    given = environ.get(GIVEN, "").split()
    _refuse_unknown(given)
    values: dict[str, Value] = {}
    for knob in TABLE:
        text = environ.get(knob.name, "")
        if knob.name in SLURM_VARIABLES and knob.name not in given:
            text = ""
        # Another program may have set a name like PORT or GROUP in the environment.
        origin = " (from the environment)" if text and knob.name not in given else ""
        values[knob.name] = parse(knob.name, text or knob.default, origin)
    if not environ.get("CONFIG"):
        shrinks = values["SHRINK"]
        assert isinstance(shrinks, tuple)
        if values["RM"] == OPENPBS:
            values["CONFIG"] = OPENPBS_CONFIG
        elif target in SHRINKING and min(shrinks) < UNSHRUNK:
            values["CONFIG"] = SHORT_INTERVALS
    if values["SLURM_CONF"]:
        _read_site_machine(values, environ)
    if isinstance(machine := values["CLASSES"], Machine):
        for name in ("NODES", "CPUS"):
            if environ.get(name):
                raise WrongUse(f"{name}: CLASSES says that too; give CLASSES, or NODES and CPUS")
        _check_size(machine)
        values |= {"NODES": machine.nodes, "CPUS": None}
    return values


def _refuse_unknown(given: list[str]) -> None:
    """Raise WrongUse for the first name that is no knob, with the most similar knob."""
    known = [*BY_NAME, *MAKE_VARIABLES]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"`{PROGRAM}` lists the knobs"
            raise WrongUse(f"{name}: there is no such knob; {hint}")


def _read_site_machine(values: dict[str, Value], environ: Mapping[str, str]) -> None:
    """Set CLASSES to the nodes of SLURM_CONF, and CONFIG to `site` unless it is given."""
    for name in ("NODES", "CPUS", "CLASSES"):
        if environ.get(name):
            raise WrongUse(f"{name}: SLURM_CONF says that too; give SLURM_CONF, or {name}")
    path = str(values["SLURM_CONF"])
    values["CLASSES"] = Machine(tuple(site_conf.read(path).nodes), path)
    if not environ.get("CONFIG"):
        values["CONFIG"] = "site"


def _check_size(machine: Machine) -> None:
    """Check classes of nodes against the limits of NODES and CPUS."""
    if machine.nodes > MAX_NODES:
        raise WrongUse(f"CLASSES: {machine.path}: {machine.nodes} nodes; it may be at most {MAX_NODES}")
    if max(node_class.cpus for node_class in machine.classes) > MAX_CPUS:
        raise WrongUse(f"CLASSES: {machine.path}: a node may have at most {MAX_CPUS} processors")


def unused(target: str, environ: Mapping[str, str]) -> list[str]:
    """Knobs given to make that the target does not use. They are reported, and not refused."""
    return [name for name in environ.get(GIVEN, "").split() if name in BY_NAME and target not in BY_NAME[name].targets]


def role_variables(values: Mapping[str, Value]) -> dict[str, Any]:
    """Variables for the playbooks. Knobs without a value are left out: the inventory, or else the role's default, has one."""
    variables: dict[str, Any] = {}
    for knob in TABLE:
        value = values[knob.name]
        if isinstance(value, (Machine, SlurmSource, OpenPbsSource)):
            variables |= value.role_variables()
        elif knob.variable and value is not None:
            variables[knob.variable] = float(value) if isinstance(value, Decimal) else value
    return variables


def user_message(error: WrongUse) -> str:
    """The message of an error for the user: parameters are replaced by the names of their knobs."""
    names = [BY_PARAMETER[name].name if name in BY_PARAMETER else name for name in error.parameter.split(", ")]
    return error.with_name(", ".join(names))
