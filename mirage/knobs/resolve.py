"""Makes `Knobs` for one call of make, from its environment, and from the inventory; and the messages about knobs.

The Makefile exports the variables given to make unchanged, and lists their names in MIRAGE_GIVEN, so that a misspelt name is
refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mirage import PROGRAM
from mirage.aspects import listed
from mirage.knobs.knob import FINISHED_RUNS
from mirage.knobs.knobs import CLOCK, Knobs
from mirage.knobs.machine import Machine
from mirage.knobs.parse import InvalidValue, Value, is_config_name
from mirage.knobs.table import BY_NAME, BY_PARAMETER, MAX_CPUS, MAX_NODES, TABLE
from mirage.site import archive, site_conf
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.clock.clock_rules import EVENT
from slurm_mirage.rm.managers import traits_of

# Environment variable with the names of the variables given to make, separated by blanks. Set by the Makefile.
GIVEN = "MIRAGE_GIVEN"
# Environment variable with the names of the knobs that RUN_FILE gives (run_file.py). They are in GIVEN, too.
OF_FILE = "MIRAGE_OF_FILE"
# Names that Slurm's own commands read from the environment, or that every shell has. They count as knobs only when given to make.
SLURM_VARIABLES = ("SLURM_CONF", *listed("knobs", "ONLY_GIVEN_TO_MAKE"))
STUDY, STUDY_TARGET = "STUDY", "study-"
"""Variable of the Makefile that names a study; the target is study-NAME."""
# Variables of the Makefile that are not knobs of a run.
MAKE_VARIABLES = ("PYTHON",)
# The default of CONFIG where SHRINK makes jobs shorter: Slurm's own intervals do not shrink with them.
SHORT_INTERVALS, SHRINKING = "backfill", ("experiment", "compare", "search")
UNSHRUNK = 100  # per cent
GATE = "gate"
"""The target whose first configuration is BEFORE."""
SEARCH = "search"
"""The target with CHARGE=yes: where no computing of the scheduler takes time, the setting that computes most is always best."""
PREDICT = "predict"
"""The target that goes on from the queue in SITE."""
# Knobs that SITE replaces, or that its users cannot be with.
BESIDE_SITE = ("TRACE", "SLURM_CONF", "MODEL", "RM", *listed("knobs", "NOT_WITH_SITE"))
# Knobs that CLASSES replaces.
SIZE = ("NODES", "CPUS")


def parse(name: str, text: str, origin: str = "") -> Value:
    """Parse the value of one knob. Raises WrongUse with the name, the text, its origin if there is one, and the allowed values."""
    knob = BY_NAME[name]
    try:
        return knob.parse(text)
    except WrongUse as error:
        raise WrongUse(f"{user_message(error)}{origin}") from None
    except InvalidValue as error:
        given = " ".join(text.split()) or "nothing"
        raise WrongUse(f"{name}: {given!r}{origin} is not possible; it may be {str(error) or knob.may_be}") from None


def resolve(environ: Mapping[str, str], target: str = "") -> Knobs:
    """All knobs, from the environment and the defaults. An empty value is the default, as with make's own `?=`.

    target: the target of the Makefile. Where it shrinks the workload, CONFIG is one with short intervals, in all runs of a sweep.

    Raises WrongUse for the first misspelt name or wrong value.
    """
    given, of_file = environ.get(GIVEN, "").split(), environ.get(OF_FILE, "").split()
    _refuse_unknown([name for name in given if name != STUDY or not target.startswith(STUDY_TARGET)])
    values: dict[str, Value] = {}
    for knob in TABLE:
        text = environ.get(knob.name, "")
        if knob.name in SLURM_VARIABLES and knob.name not in given:
            text = ""
        # Another program may have set a name like PORT in the environment.
        origin = " (from the environment)" if text and knob.name not in given else ""
        origin = f" (in {environ['RUN_FILE']})" if knob.name in of_file else origin
        values[knob.name] = parse(knob.name, text or knob.default, origin)
    knobs = Knobs.of(values)
    _check_run(knobs.output.run, target)
    knobs = _of_site(knobs, environ)
    source = "SITE" if knobs.workload.site else "SLURM_CONF"
    if target == GATE and knobs.campaign.before and not is_config_name(knobs.campaign.before):
        if knobs.scheduler.slurm_conf:
            raise WrongUse(f"{source}: BEFORE says that too; give BEFORE and AFTER only, or names of configurations with {source}")
        source, knobs = "BEFORE", knobs.with_values({"SLURM_CONF": knobs.campaign.before})
    if target == SEARCH and not environ.get("CHARGE"):
        knobs = knobs.with_values({"CHARGE": "yes"})
    if not environ.get("CONFIG"):
        knobs = replace(knobs, scheduler=replace(knobs.scheduler, config=_default_configuration(knobs, target)))
    machine = knobs.nodes.classes
    if knobs.scheduler.slurm_conf:
        machine = _site_machine(knobs.scheduler.slurm_conf, environ, source)
    elif machine is not None and (name := next(filter(environ.get, SIZE), None)):
        raise WrongUse(f"{name}: CLASSES says that too; give CLASSES, or NODES and CPUS")
    if machine is None:
        return knobs
    _check_size(machine)
    return replace(knobs, nodes=replace(knobs.nodes, count=machine.nodes, cpus=None, classes=machine))


def _check_run(run: str | None, target: str) -> None:
    """Refuse the name of a comparison's run where a run is to be made."""
    knob = BY_NAME["RUN"]
    if run and "/" in run and target in knob.targets and target not in FINISHED_RUNS:
        raise WrongUse(f"RUN: {run!r} is not possible; it may be {knob.may_be}")


def _of_site(knobs: Knobs, environ: Mapping[str, str]) -> Knobs:
    """The knobs with what SITE, an archive of a site's week, gives them; FROM, TO, PRESET and SIZES may be
    given as well."""
    path = knobs.workload.site
    if not path:
        return knobs
    for name in BESIDE_SITE:
        if not knobs.is_default(name):
            raise WrongUse(f"{name}: SITE says that too; give SITE, or {name}")
    taken = archive.opened(path)
    own: dict[str, Value] = {
        "TRACE": path, "SLURM_CONF": path, "FROM": taken.date(taken.begin), "TO": taken.date(taken.end), "PRESET": "all",
        "SIZES": "fit",
    }  # fmt: skip
    return knobs.with_values({name: value for name, value in own.items() if not environ.get(name)})


def _default_configuration(knobs: Knobs, target: str) -> str:
    """CONFIG where it is not given."""
    if knobs.scheduler.slurm_conf:
        return "site-now" if target == PREDICT else "site"
    if own := traits_of(knobs.scheduler.rm).default_config:
        return own
    if target in SHRINKING and min(knobs.jobs.shrinks) < UNSHRUNK:
        return SHORT_INTERVALS
    return knobs.scheduler.config


def _refuse_unknown(given: list[str]) -> None:
    """Raise WrongUse for the first name that is not a knob, with the most similar knob."""
    known = [*BY_NAME, *MAKE_VARIABLES]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"`{PROGRAM}` lists the knobs"
            raise WrongUse(f"{name}: there is no such knob; {hint}")


def _site_machine(path: str, environ: Mapping[str, str], source: str) -> Machine:
    """The nodes of a slurm.conf. source: the knob that has its path"""
    for name in (*SIZE, "CLASSES"):
        if environ.get(name):
            raise WrongUse(f"{name}: {source} says that too; give {source}, or {name}")
    return site_machine(path, source)


def site_machine(path: str, source: str) -> Machine:
    """The nodes of a slurm.conf. source: the knob that has its path. Raises WrongUse."""
    try:
        return Machine(tuple(site_conf.read(path).nodes), path)
    except WrongUse as error:
        raise WrongUse(error.message, source.lower()) from None


def _check_size(machine: Machine) -> None:
    """Check classes of nodes against the limits of NODES and CPUS."""
    if machine.nodes > MAX_NODES:
        raise WrongUse(f"CLASSES: {machine.path}: {machine.nodes} nodes; it may be at most {MAX_NODES}")
    if max(node_class.cpus for node_class in machine.classes) > MAX_CPUS:
        raise WrongUse(f"CLASSES: {machine.path}: a node may have at most {MAX_CPUS} processors")


def unused(target: str, environ: Mapping[str, str]) -> list[str]:
    """Knobs given to make that the target does not use; those of RUN_FILE in one text. They are reported, and not refused."""
    names = [name for name in environ.get(GIVEN, "").split() if name in BY_NAME and target not in BY_NAME[name].targets]
    of_file = [name for name in names if name in environ.get(OF_FILE, "").split()]
    return [
        *(name for name in names if name not in of_file),
        *([f"{', '.join(of_file)} of {environ['RUN_FILE']}"] if of_file else []),
    ]


def with_texts(knobs: Knobs, texts: Mapping[str, str]) -> Knobs:
    """The knobs with other values of some of them, given as text. Raises WrongUse for a wrong one."""
    return knobs.with_values({name: parse(name, text) for name, text in texts.items()})


def variables_of_inventory(knobs: Knobs, given: Mapping[str, str]) -> dict[str, str]:
    """Variables of the knobs, by name, that an inventory may set: those that are not `given` to make.

    CLUSTER chooses the instance. PORT has no default: without a value it is left to Ansible.
    """
    fixed = ("CLUSTER", *(SIZE if knobs.nodes.classes else ()))
    rows = [knob for knob in TABLE if knob.variable and knob.default and knob.name not in fixed]
    return {knob.name: knob.variable for knob in rows if not given.get(knob.name)}


def with_inventory(knobs: Knobs, given: Mapping[str, str], variables: Mapping[str, Any], path: str) -> Knobs:
    """The knobs with the values that the inventory at `path` sets. variables: those of its head.

    A clock of the kind EVENT is SPEED=event. Raises WrongUse for a wrong value.
    """
    if variables.get(CLOCK) == EVENT:
        variables = {**variables, BY_NAME["SPEED"].variable: EVENT}
    rows = [(name, variable) for name, variable in variables_of_inventory(knobs, given).items() if variable in variables]
    values = {name: parse(name, _yaml_text(variables[variable]), f" ({variable} of {path})") for name, variable in rows}
    own = traits_of(str(values.get("RM"))).default_config
    if own and "CONFIG" not in values and not given.get("CONFIG"):
        values["CONFIG"] = own
    return knobs.with_values(values)


def _yaml_text(value: Any) -> str:
    """The value as text for the parser of a knob. YAML reads yes and no as booleans."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def user_message(error: WrongUse) -> str:
    """The message of an error for the user: parameters are replaced by the names of their knobs."""
    names = [BY_PARAMETER[name].name if name in BY_PARAMETER else name for name in error.parameter.split(", ")]
    return error.with_name(", ".join(names))
