"""`Knobs`: the values of all knobs for one call of make, in parts. Each function gets the parts that it needs.

A row of the table (mirage/knobs/table.py) names the part and the member that hold its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, get_type_hints

from mirage.aspects import modules
from mirage.knobs.machine import Machine
from mirage.knobs.parse import AUTO, Speed, Value, format_number
from mirage.knobs.slurm_source import SlurmSource
from mirage.knobs.source_archive import Source
from mirage.knobs.submission import SubmissionGroups
from mirage.knobs.table import BY_NAME, TABLE
from slurm_mirage.clock.clock_rules import CONSTANT, EVENT

Part = TypeVar("Part")
NONE = "none"
"""Value of EVENTS: a run without a file."""
CLOCK = "mirage_clock"
"""Variable of the kind of the clock. SPEED's variable is the speed of a constant one."""


@dataclass(frozen=True)
class ClusterKnobs:
    """The hosts, and the instance on them."""

    inventory: str
    name: str
    port: int | None
    busy: str


@dataclass(frozen=True)
class NodeKnobs:
    """The emulated nodes."""

    count: int
    """Nodes of all classes, where `classes` is given."""
    cpus: int | None
    """None where `classes` is given."""
    classes: Machine | None
    steps: str
    front_ends: int
    controllers: int
    """Number of slurmctld."""

    @property
    def machine(self) -> Machine:
        """The emulated machine."""
        return self.classes or Machine.of_equal_nodes(self.count, self.cpus or 0)


@dataclass(frozen=True)
class WorkloadKnobs:
    """The source of the jobs, and which of them are taken."""

    site: str
    """The archive that TRACE, SLURM_CONF and the events of the site are read from; empty for none."""
    trace: str
    jobs: int | None
    offset: int
    min_runtime: Decimal
    begin: str | None
    end: str | None
    queues: str
    users: str
    seed: int
    model: str | None
    load: Decimal | None
    estimates: str


@dataclass(frozen=True)
class JobKnobs:
    """What is submitted for the jobs, and when."""

    sizes: str
    preset: str
    dependencies: str
    overrun: str
    shrinks: tuple[Decimal, ...]
    """Shrink factors in per cent: one, or those of a sweep."""
    groups: SubmissionGroups | None
    """None: jobs are submitted at their own times."""


@dataclass(frozen=True)
class EventKnobs:
    """The events of a run: its file, and those that are generated."""

    files: str
    """Path of a file; several words, also NONE, for make compare."""
    failures: str | None
    maintenance: str | None

    @property
    def calendars(self) -> list[str]:
        """The values of EVENTS."""
        return self.files.split()

    @property
    def path(self) -> str:
        """The file of the run; empty for none."""
        return "" if self.files == NONE else self.files


@dataclass(frozen=True)
class ClockKnobs:
    """The cluster's clock."""

    speed: Speed
    charge: str
    saves: str

    def role_variables(self) -> dict[str, Any]:
        """The kind of the clock, and its speed, which is 1 for the event clock; none while the clock is to be chosen."""
        if self.speed == AUTO:
            return {}
        if self.speed == EVENT:
            return {CLOCK: EVENT, BY_NAME["SPEED"].variable: 1.0}
        return {CLOCK: CONSTANT, BY_NAME["SPEED"].variable: float(self.speed)}


@dataclass(frozen=True)
class SchedulerKnobs:
    """The resource manager and its configuration."""

    config: str
    slurm_conf: str
    settings: str
    """Settings of slurm.conf over all others, as NAME=VALUE; empty for none."""
    slurm_source: SlurmSource | None
    rm: str
    """One resource manager; several words for make compare."""
    accounting: str
    policy: str
    grow: str
    """Nodes that are added to the machine (mirage/site/growth.py): one arm; several for make compare; empty for none."""

    @property
    def managers(self) -> list[str]:
        """The resource managers that RM names."""
        return self.rm.split()


@dataclass(frozen=True)
class CampaignKnobs:
    """Comparisons, sweeps, studies, gates and searches."""

    configs: str
    slurms: str
    """Words that name releases of Slurm; empty for none."""
    replicas: int | None
    margin: Decimal
    """Margin of equivalence in per cent."""
    at_once: int | str
    """A number, or AUTO."""
    full: str
    before: str
    after: str
    """Of BEFORE and AFTER: path of a slurm.conf, or name of a configuration; empty for none."""
    limits: str | None
    """None: the default ones."""
    budget: int
    """Real seconds."""
    tune: str
    """Settings of slurm.conf with the values to try; empty for none."""
    goal: str
    """Name of the metric that a search improves."""

    @property
    def is_full(self) -> bool:
        """Whether a study has the published size."""
        return self.full == "yes"


@dataclass(frozen=True)
class MetricKnobs:
    """How a schedule is measured."""

    tau: Decimal
    w2: str
    immediate: Decimal | None
    warmup_cut: str
    cooldown_cut: str


@dataclass(frozen=True)
class OutputKnobs:
    """The names of what is written."""

    run: str | None
    runs: str | None
    job: int | None
    run_file: str
    out: str
    archive: str
    now: str
    """yes: the archive has the queue as it is."""


@dataclass(frozen=True)
class Knobs:
    """The values of all knobs."""

    cluster: ClusterKnobs
    nodes: NodeKnobs
    workload: WorkloadKnobs
    jobs: JobKnobs
    events: EventKnobs
    clock: ClockKnobs
    scheduler: SchedulerKnobs
    campaign: CampaignKnobs
    metrics: MetricKnobs
    output: OutputKnobs
    aspects: Mapping[str, Any]
    """Parts of the aspects, by their packages' names: instances of `Part` of their modules `knobs`."""
    texts: Mapping[str, str] | None = field(default=None, compare=False)
    """Texts of the knobs that make this run, as given, by name (run_file.py); None if no such file is to be written."""

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Knobs:
        """Knobs with these values by name, one for each row of the table."""
        types = get_type_hints(cls)
        own = {name: types[name](**_members(name, values)) for name in _CORE}
        return cls(**own, aspects={name: part(**_members(name, values)) for name, part in _parts().items()})

    def part(self, kind: type[Part]) -> Part:
        """The part of an aspect, by its class."""
        return next(part for part in self.aspects.values() if isinstance(part, kind))

    def value(self, name: str) -> Value:
        """The value of one knob."""
        part, member = BY_NAME[name].member.split(".")
        value: Value = getattr(self.aspects[part] if part in self.aspects else getattr(self, part), member)
        return value

    def text(self, name: str) -> str:
        """The value of one knob as `text_of` has it."""
        return text_of(self.value(name))

    def is_default(self, name: str) -> bool:
        """Whether a knob has its default."""
        return self.value(name) == BY_NAME[name].parse(BY_NAME[name].default)

    def with_values(self, values: Mapping[str, Value]) -> Knobs:
        """The knobs with other values of some of them: of an arm of a comparison, or of a study."""
        changed = {name: _members(name, values) for name in _CORE}
        own = {name: replace(getattr(self, name), **members) for name, members in changed.items() if members}
        of_aspects = {name: replace(part, **_members(name, values)) for name, part in self.aspects.items()}
        return replace(self, **own, aspects=of_aspects)

    def at_speed(self, speed: Speed) -> Knobs:
        """The knobs with the speed that was chosen for the run."""
        return replace(self, clock=replace(self.clock, speed=speed))

    def inputs(self) -> dict[str, str]:
        """Texts of the knobs that identify a run, by name."""
        return {knob.name: self.text(knob.name) for knob in TABLE if knob.is_input}

    def given(self) -> dict[str, str]:
        """Texts of all knobs by name; of CLASSES the path, as it was given."""
        return {name: value.path if isinstance(value := self.value(name), Machine) else text_of(value) for name in BY_NAME}

    def role_variables(self) -> dict[str, Any]:
        """Variables for the playbooks. Knobs without a value are left out: the inventory, or else the role's default, has one."""
        variables: dict[str, Any] = {}
        for knob in TABLE:
            value = self.value(knob.name)
            if isinstance(value, (Machine, Source)):
                variables |= value.role_variables()
            elif knob.name == "SPEED":
                variables |= self.clock.role_variables()
            elif knob.variable and value is not None:
                variables[knob.variable] = float(value) if isinstance(value, Decimal) else value
        return variables


_CORE = tuple(part.name for part in fields(Knobs) if part.name not in ("aspects", "texts"))
"""Names of the parts that every call has."""


@cache
def _parts() -> dict[str, type[Any]]:
    """The classes of the aspects' parts, by their packages' names."""
    return {module.__name__.split(".")[-2]: module.Part for module in modules("knobs")}


def _members(part: str, values: Mapping[str, Value]) -> dict[str, Any]:
    """Members of a part of `Knobs`, from the values by name of knobs."""
    rows = [(BY_NAME[name].member.split("."), value) for name, value in values.items()]
    return {member: value for (of_part, member), value in rows if of_part == part}


def text_of(value: Value) -> str:
    """A knob's value as text, for storage and comparison. A file of classes is represented by its content."""
    if isinstance(value, tuple):
        return ",".join(format_number(item) for item in value)
    if isinstance(value, Decimal):
        return format_number(value)
    return "" if value is None else str(value)
