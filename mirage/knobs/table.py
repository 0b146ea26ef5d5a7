"""The knobs of the front door: one table from which checks, help and the resolved inputs of a run are made.

A knob is given to make (`make experiment NODES=100`) or stands in the environment. The Makefile exports
those given to make unchanged, and lists their names in MIRAGE_GIVEN, so that a misspelt one is seen here.
Standard library only: `make` without a target prints this table before anything is installed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from mirage.knobs import slurm_source
from mirage.knobs.machine import Machine, read
from mirage.knobs.slurm_source import SlurmSource
from mirage.workloads.models.registry import MODELS
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.front_end import MOST as MOST_FRONT_ENDS

# Names of the knobs as make was given them, separated by spaces (set by the Makefile).
GIVEN = "MIRAGE_GIVEN"
# Variables by which Slurm's own commands are told of another cluster: a knob only when it is given to make.
ALSO_SLURMS = ("SLURM_CONF",)
# Variables of the Makefile itself, which are no knobs of a run.
MAKE_VARIABLES = {"PYTHON": "the python3 (3.11 or later) that .venv is made with"}

Value = str | int | Decimal | tuple[Decimal, ...] | Machine | SlurmSource | None
Parser = Callable[[str], Value]

# What the addresses of the loopback network are good for; the preflight says what the host is.
MOST_NODES = 1_000_000
# Slurm counts a node's processors in 16 bits.
MOST_CPUS = 65_535
CONFIG_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}"
# A log of a year would be played for a century.
MOST_SHRINK = 10_000
# A second of Slurm's in 10 microseconds, less than any message takes.
MOST_SPEED = 100_000


class NotThis(Exception):
    """A value of the wrong form. Its text replaces what the table says the knob may be, if there is any."""


def number(text: str) -> Decimal:
    """A decimal number as people write it: no exponent, no infinity, exact (0.2 stays 0.2)."""
    if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)", text, re.ASCII):
        raise NotThis
    try:
        return Decimal(text)
    except InvalidOperation:
        raise NotThis from None


def at_least(lowest: int, *, whole: bool = True, most: int | None = None) -> Parser:
    """Parser of numbers from `lowest` on, by default whole ones."""

    def parse(text: str) -> int | Decimal:
        if whole and not re.fullmatch(r"\d{1,15}", text, re.ASCII):
            raise NotThis
        value = int(text) if whole else number(text)
        if value < lowest or (most is not None and value > most):
            raise NotThis
        return value

    return parse


def optional(parse: Parser) -> Parser:
    """The same parser, for which nothing is a value too."""
    return lambda text: None if text == "" else parse(text)


def one_of(*words: str) -> Parser:
    def parse(text: str) -> str:
        if text not in words:
            raise NotThis
        return text

    return parse


def name_like(pattern: str) -> Parser:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise NotThis
        return text

    return parse


def path_text(text: str) -> str:
    """A path, taken literally; a null byte or a line break is nobody's file name."""
    if "\n" in text or "\0" in text:
        raise NotThis
    return text


def classes(text: str) -> Machine:
    """The machine in the file of that path."""
    return read(path_text(text))


def source_of_slurm(text: str) -> SlurmSource:
    """The release's archive in the file of that path."""
    return slurm_source.read(path_text(text))


def shrink(text: str) -> tuple[Decimal, ...]:
    """Shrink factors in per cent: one, or those of a sweep FROM:TO:STEP with both ends.

    The thesis's `runworkload FILE 100 50 10` is 100:50:10. It counts five runs; both ends included they are
    six.
    """
    parts = [number(part) for part in text.split(":")]
    if any(not 0 < part <= MOST_SHRINK for part in parts) or len(parts) not in (1, 3):
        raise NotThis
    if len(parts) == 1:
        return (parts[0],)
    first, last, step = parts
    count = abs(last - first) / step
    if count != count.to_integral_value():
        raise NotThis(f"a sweep whose steps reach its end: steps of {step} from {first} do not meet {last}")
    if count > 1000:
        raise NotThis(f"a sweep of at most 1000 runs, not {count + 1}")
    sign = 1 if last >= first else -1
    return tuple(first + sign * step * k for k in range(int(count) + 1))


def instant(text: str) -> str:
    """An instant of a log: seconds of the trace, or a date with or without a time (ISO 8601, no zone)."""
    if not re.fullmatch(r"\d+(\.\d+)?|\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?", text, re.ASCII):
        raise NotThis
    return text


def names(text: str) -> str:
    """Names or numbers separated by commas; none of them is all of them."""
    if text and not all(part.strip() for part in text.split(",")):
        raise NotThis
    return path_text(text)


def configs(text: str) -> str:
    """Names of configurations, separated by blanks or commas; a single blank in between."""
    words = [word for word in re.split(r"[\s,]+", text) if word]
    if len(words) == 1 or not all(re.fullmatch(CONFIG_NAME, word, re.ASCII) for word in words):
        raise NotThis
    return " ".join(words)


def cut(text: str) -> str:
    """A length of a schedule: seconds, or per cent of it."""
    if not re.fullmatch(r"\d+(\.\d+)?|\d{1,2}(\.\d+)?%", text, re.ASCII):
        raise NotThis
    return text


def speed(text: str) -> Decimal | str:
    """Factor of the virtual clock, or `auto`. The clock's file keeps nine decimals."""
    if text == "auto":
        return text
    factor = number(text)
    if not 0 < factor <= MOST_SPEED or factor != round(factor, 9):
        raise NotThis
    return factor


@dataclass(frozen=True)
class Knob:
    """One row. `default` is text, parsed like a given value; `may_be` ends "NAME: ... it may be"."""

    name: str
    default: str
    parse: Parser
    may_be: str
    meaning: str
    targets: tuple[str, ...]
    # Shown instead of an empty default.
    shown: str = ""
    # Another value is another run: compared when results/RUN exists already.
    is_input: bool = False


_STUDIES = ("study-scms", "study-suspend")
_COMPARE = ("compare", *_STUDIES)
_SINGLE = ("cluster", "experiment")
_BUILD = (*_SINGLE, *_COMPARE)
_RUN = ("experiment", *_COMPARE)
_CLUSTER = (*_BUILD, "status", "watch", "shell", "teardown", "infra", "provision", "deprovision")
_OFFLINE = ("workload", "workload-report", "metrics", "simulate")
_SELECT = (*_RUN, *_OFFLINE)
_MODELLED = (*_RUN, "workload", "workload-report", "simulate")

TABLE = (
    Knob(
        "INVENTORY",
        "inventories/local",
        path_text,
        "a folder or file of an Ansible inventory",
        "hosts: a folder like inventories/local",
        _CLUSTER,
        is_input=True,
    ),
    Knob(
        "CLUSTER",
        "mirage",
        name_like(r"[a-z][a-z0-9-]{0,20}"),
        "a lower-case letter followed by up to 20 lower-case letters, digits or -",
        "name of the instance, which lives in /var/lib/slurm-mirage/CLUSTER",
        _CLUSTER,
        is_input=True,
    ),
    Knob(
        "PORT",
        "",
        optional(at_least(1024, most=65535)),
        "a port from 1024 to 65535",
        "first port of the instance, which remembers it",
        _BUILD,
        shown="first free block",
    ),
    Knob(
        "NODES",
        "360",
        at_least(1, most=MOST_NODES),
        f"a whole number from 1 to {MOST_NODES}",
        "emulated nodes (slurmd) over all the compute hosts",
        (*_BUILD, *_OFFLINE),
        is_input=True,
    ),
    Knob(
        "CPUS",
        "16",
        at_least(1, most=MOST_CPUS),
        f"a whole number from 1 to {MOST_CPUS}",
        "processors of each node",
        (*_BUILD, *_OFFLINE),
        is_input=True,
    ),
    Knob(
        "CLASSES",
        "",
        optional(classes),
        "the path of a YAML list of classes of nodes, like machines/example.yml",
        "file with classes of nodes, instead of NODES and CPUS, like machines/example.yml",
        (*_BUILD, *_OFFLINE),
        shown="all nodes are equal",
        is_input=True,
    ),
    Knob(
        "TRACE",
        "",
        path_text,
        "the path of an SWF log (.swf, .swf.gz) or of the output of `sacct -P`",
        "recorded log: SWF (.swf, .swf.gz) or `sacct -P`; metrics also reads jobs.csv and sigsleep.log",
        _SELECT,
        shown="a generated workload",
        is_input=True,
    ),
    Knob(
        "JOBS",
        "",
        optional(at_least(1)),
        "a whole number from 1 on",
        "how many jobs to take",
        _SELECT,
        shown="all",
        is_input=True,
    ),
    Knob(
        "OFFSET",
        "0",
        at_least(0),
        "a whole number from 0 on",
        "how many jobs to leave out at the beginning",
        _SELECT,
        is_input=True,
    ),
    Knob(
        "MIN_RUNTIME",
        "0",
        at_least(0, whole=False),
        "a number of seconds from 0 on",
        "leave out jobs that ran less (seconds of the trace)",
        _SELECT,
        is_input=True,
    ),
    Knob(
        "FROM",
        "",
        optional(instant),
        "seconds of the trace from 0 on, or a date: 2016-04-01, 2016-04-01T12:00:00",
        "take jobs submitted from then on: seconds of the trace, or a date",
        _SELECT,
        shown="the beginning",
        is_input=True,
    ),
    Knob(
        "TO",
        "",
        optional(instant),
        "seconds of the trace from 0 on, or a date: 2016-05-01, 2016-04-01T18:00:00",
        "take jobs submitted before then",
        _SELECT,
        shown="the end",
        is_input=True,
    ),
    Knob(
        "QUEUES",
        "",
        names,
        "numbers of the log's queues, or their names in its header, separated by commas: 1,3",
        "take jobs of these queues (numbers or names, separated by commas)",
        _SELECT,
        shown="all",
        is_input=True,
    ),
    Knob(
        "USERS",
        "",
        names,
        "numbers of the log's users, separated by commas: 12,40",
        "take jobs of these users (numbers, separated by commas)",
        _SELECT,
        shown="all",
        is_input=True,
    ),
    Knob(
        "SIZES",
        "keep",
        one_of("keep", "scale", "fit"),
        "keep, scale or fit",
        "jobs made for another machine: keep their sizes, scale them to this one, or leave out what does not fit",
        (*_RUN, "workload", "simulate"),
        is_input=True,
    ),
    Knob(
        "PRESET",
        "none",
        one_of("none", "running", "all"),
        "none, running or all",
        "also take jobs that were running (all: or queued) when the selection begins, as far as they were not over",
        (*_RUN, "workload", "simulate"),
        is_input=True,
    ),
    Knob(
        "DEPENDENCIES",
        "keep",
        one_of("keep", "think", "none"),
        "keep, think or none",
        "jobs that wait for others: keep those of sacct; think: fields 17 and 18 of SWF, submitted that long after the other's end",
        _RUN,
        is_input=True,
    ),
    Knob(
        "SHRINK",
        "100",
        shrink,
        f"a percentage above 0 and up to {MOST_SHRINK} (50, 0.2), or a sweep FROM:TO:STEP (100:50:10)",
        "per cent of the trace's times; FROM:TO:STEP is a sweep, one run each",
        (*_RUN, "workload"),
        is_input=True,
    ),
    Knob(
        "SPEED",
        "1",
        speed,
        f"a number above 0 and up to {MOST_SPEED} (20, 0.5), or auto",
        "how many times faster all of Slurm sees time pass; auto (experiment): the largest valid one",
        _BUILD,
        is_input=True,
    ),
    Knob(
        "WARMUP",
        "0",
        at_least(0),
        "a whole number of jobs from 0 on",
        "the thesis's scheme: jobs submitted at once at the start",
        _RUN,
        is_input=True,
    ),
    Knob(
        "GROUP",
        "1",
        at_least(1),
        "a whole number of jobs from 1 on",
        "the thesis's scheme: jobs of one group",
        _RUN,
        is_input=True,
    ),
    Knob(
        "PERIOD",
        "0",
        at_least(0, whole=False),
        "a number of seconds from 0 on",
        "the thesis's scheme: seconds between groups on the cluster's clock, not shrunk; 0: jobs go at their own times",
        _RUN,
        is_input=True,
    ),
    Knob(
        "DRIFT",
        "0",
        number,
        "a number of seconds, not below -PERIOD",
        "the thesis's scheme: seconds added to each period, may be negative",
        _RUN,
        is_input=True,
    ),
    Knob(
        "OVERRUN",
        "extend",
        one_of("extend", "kill"),
        "extend or kill",
        "a job whose run time reaches its limit: extend the limit, or let Slurm kill it",
        _RUN,
        is_input=True,
    ),
    Knob(
        "CONFIG",
        "backfill",
        name_like(CONFIG_NAME),
        "the name of a file in configs/, without .yml",
        "scheduler configuration: configs/CONFIG.yml",
        _SINGLE,
        is_input=True,
    ),
    Knob(
        "SLURM_CONF",
        "",
        path_text,
        "the path of a slurm.conf",
        "a site's own slurm.conf: its nodes, partitions and policy instead of NODES, CPUS and CLASSES; CONFIG is then site",
        _BUILD,
        shown="none",
        is_input=True,
    ),
    Knob(
        "SLURM_SOURCE",
        "",
        optional(source_of_slurm),
        slurm_source.FORM,
        "archive of a Slurm release, 16.05 to 26.05, to build and use instead of the installed packages",
        _BUILD,
        shown="packages",
        is_input=True,
    ),
    Knob(
        "CONFIGS",
        "",
        configs,
        "two names or more of files in configs/, without .yml: fifo backfill",
        "compare: scheduler configurations, the first one is what the others are compared with",
        _COMPARE,
    ),
    Knob(
        "REPLICAS",
        "1",
        at_least(1, most=50),
        "a whole number from 1 to 50",
        "compare: runs of each configuration, which tell the noise floor",
        _COMPARE,
    ),
    Knob(
        "FULL",
        "no",
        one_of("yes", "no"),
        "yes or no",
        "studies: the published size instead of one that ends within an hour",
        _STUDIES,
    ),
    Knob(
        "STEPS",
        "auto",
        one_of("auto", "yes", "no"),
        "auto, yes or no",
        "srun over several nodes: slurmd that know all others (auto: up to 1000 nodes)",
        _BUILD,
    ),
    Knob(
        "FRONT_END",
        "0",
        at_least(0, most=MOST_FRONT_ENDS),
        f"0, or the number of slurmd that stand for all nodes, up to {MOST_FRONT_ENDS}",
        "Slurm's front-end mode: so many slurmd stand for all nodes; 0: each node has its own",
        _BUILD,
        is_input=True,
    ),
    Knob(
        "ACCOUNTING",
        "auto",
        one_of("auto", "yes", "no"),
        "auto, yes or no",
        "slurmdbd and its database, for fair share, QOS and sacct (auto: as CONFIG says)",
        _BUILD,
        is_input=True,
    ),
    Knob(
        "RUN",
        "",
        optional(name_like(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")),
        "up to 81 letters, digits, dots, dashes and underscores, not beginning with a dot or dash",
        "name of the run: results/RUN",
        (*_RUN, "report", "check"),
        shown="time stamp and trace name",
    ),
    Knob(
        "SEED",
        "1",
        at_least(0),
        "a whole number from 0 on",
        "of everything random",
        (*_RUN, "workload", "workload-report", "simulate", "figure-load"),
        is_input=True,
    ),
    Knob(
        "MODEL",
        "",
        optional(name_like(r"[a-z0-9][a-z0-9_-]*")),
        "the name of a workload model",
        f"workload model, where there is no TRACE: {', '.join(MODELS)}",
        _MODELLED,
        shown="raijin; of a run: some 200 short jobs",
        is_input=True,
    ),
    Knob(
        "LOAD",
        "",
        optional(at_least(0, whole=False)),
        "the share of the machine that jobs ask for, above 0: 0.8",
        "offered load of a generated workload, by the time between submissions",
        _MODELLED,
        shown="the model's own",
        is_input=True,
    ),
    Knob(
        "ESTIMATES",
        "keep",
        name_like(r"keep|exact|tsafrir|(0|1|0?\.\d{1,9})"),
        "keep, exact, tsafrir, or an accuracy from 0 to 1: 0.3",
        "requested times: those of the log or model, exact, of Tsafrir's model, or of an accuracy from 0 to 1",
        ("workload", "simulate"),
    ),
    Knob(
        "POLICY",
        "easy",
        one_of("fcfs", "easy", "conservative"),
        "fcfs, easy or conservative",
        "scheduler of make simulate",
        ("simulate",),
    ),
    Knob(
        "TAU",
        "10",
        at_least(0, whole=False),
        "a number of seconds above 0",
        "shortest run time that the bounded slowdown divides by",
        ("metrics", "simulate"),
    ),
    Knob(
        "W2",
        "magnitude",
        one_of("magnitude", "log"),
        "magnitude or log",
        "reading of the index W2: wait over 10^floor(log10 t), or over ln t",
        ("metrics", "simulate"),
    ),
    Knob(
        "IMMEDIATE",
        "",
        optional(at_least(0, whole=False)),
        "a number of seconds above 0",
        "a job that waited less started at once (seconds of the trace)",
        ("metrics", "simulate"),
        shown="1; of a run what its record and a start resolve",
    ),
    Knob(
        "WARMUP_CUT",
        "0",
        cut,
        "a number of seconds from 0 on, or a percentage of the schedule below 100: 5%",
        "cut from the schedule's beginning before it is measured: seconds, or per cent (5%)",
        ("metrics", "simulate"),
    ),
    Knob(
        "COOLDOWN_CUT",
        "0",
        cut,
        "a number of seconds from 0 on, or a percentage of the schedule below 100: 5%",
        "the same at its end",
        ("metrics", "simulate"),
    ),
    Knob(
        "OUT",
        "",
        path_text,
        "the path of the file to write",
        "file to write: workload's SWF or CSV, metrics' JSON, simulate's SWF or CSV; folder of workload-report and figure-load",
        (*_OFFLINE, "figure-load"),
    ),
)

BY_NAME = {knob.name: knob for knob in TABLE}


def shown_number(value: Decimal) -> str:
    """A decimal without trailing zeros and without exponent: 100, 0.2."""
    return f"{value.normalize():f}"


def parse(name: str, text: str, where: str = "") -> Value:
    """The value of one knob. Raises WrongUse, which names the knob, the text and what it may be."""
    knob = BY_NAME[name]
    try:
        return knob.parse(text)
    except NotThis as other:
        given = " ".join(text.split()) or "nothing"
        raise WrongUse(f"{name}: {given!r}{where} is not possible; it may be {str(other) or knob.may_be}") from None


def _refuse_unknown(names: list[str]) -> None:
    for name in names:
        if name in BY_NAME or name in MAKE_VARIABLES:
            continue
        near = difflib.get_close_matches(name.upper(), [*BY_NAME, *MAKE_VARIABLES], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "`make` lists the knobs"
        raise WrongUse(f"{name}: there is no such knob; {hint}")


def resolve(environ: Mapping[str, str]) -> dict[str, Value]:
    """All knobs with their values, from the environment and the defaults. Raises WrongUse for the first
    wrong one.

    An empty value is the default, as for make's own `?=`.
    """
    given = environ.get(GIVEN, "").split()
    _refuse_unknown(given)
    values: dict[str, Value] = {}
    for knob in TABLE:
        text = environ.get(knob.name, "")
        if knob.name in ALSO_SLURMS and knob.name not in given:
            text = ""
        # A name like PORT or GROUP may stand in the environment for another program's sake: say where it
        # came from.
        where = " (from the environment)" if text and knob.name not in given else ""
        values[knob.name] = parse(knob.name, text or knob.default, where)
    if values["SLURM_CONF"]:
        _take_over(values, environ)
    if isinstance(machine := values["CLASSES"], Machine):
        for name in ("NODES", "CPUS"):
            if environ.get(name):
                raise WrongUse(f"{name}: CLASSES says that too; give CLASSES, or NODES and CPUS")
        _check_size(machine)
        values |= {"NODES": machine.nodes, "CPUS": None}
    return values


def _take_over(values: dict[str, Value], environ: Mapping[str, str]) -> None:
    """The machine of SLURM_CONF, and nothing over it where CONFIG is not given."""
    from slurm_mirage.rm.slurm import site_conf

    for name in ("NODES", "CPUS", "CLASSES"):
        if environ.get(name):
            raise WrongUse(f"{name}: SLURM_CONF says that too; give SLURM_CONF, or {name}")
    path = str(values["SLURM_CONF"])
    values["CLASSES"] = Machine(tuple(site_conf.read(path).nodes), path)
    if not environ.get("CONFIG"):
        values["CONFIG"] = "site"


def _check_size(machine: Machine) -> None:
    """What holds for NODES and CPUS holds for classes."""
    if machine.nodes > MOST_NODES:
        raise WrongUse(f"CLASSES: {machine.path}: {machine.nodes} nodes; it may be at most {MOST_NODES}")
    if max(some.cpus for some in machine.classes) > MOST_CPUS:
        raise WrongUse(f"CLASSES: {machine.path}: a node may have at most {MOST_CPUS} processors")


def unused(target: str, environ: Mapping[str, str]) -> list[str]:
    """Knobs given to make that this target does not look at: told, not refused."""
    return [name for name in environ.get(GIVEN, "").split() if name in BY_NAME and target not in BY_NAME[name].targets]


def help_text() -> str:
    """The table of knobs for `make` without a target."""
    rows = [(knob.name, knob.default or knob.shown or "-", knob.meaning) for knob in TABLE]
    name_width = max(len(row[0]) for row in rows)
    default_width = max(len(row[1]) for row in rows)
    return "\n".join(f"  {name:<{name_width}}  {default:<{default_width}}  {meaning}" for name, default, meaning in rows)
