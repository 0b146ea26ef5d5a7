"""GROW: more nodes for a machine. Each is a copy of a node that is there: in its partitions, with its words, beside its switches.

A value has arms, separated by semicolons. An arm has steps, `[CLASS:][type=TYPE:]+COUNT`, each with options after it: `factor=`,
`demand=` and `price=`. `gpu:+8; cpu:+32 price=9000/5y; gpu:type=h100:8 factor=0.5`
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirage.site import topology
from mirage.site.site_conf import SiteConf
from mirage.text import durations
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.hostlist import compress, expand
from slurm_mirage.rm.slurm.conf import value_of
from slurm_mirage.rm.slurm.node_classes import NodeClass
from slurm_mirage.rm.slurm.node_options import GPU, Gres, Words, gres_of, word

PARAMETER = "grow"
FORM = (
    "CLASS:+COUNT, with several classes separated by blanks and several machines by semicolons: gpu:+8; cpu:+32 (without CLASS "
    "where all nodes are alike: +10)"
)
NOW = "now"
"""The label of the machine without new nodes."""
CPU = "cpu"
"""The class of nodes without GPUs, where there are nodes with GPUs."""
MOST_ARMS, MOST_STEPS = 20, 10
MOST_NODES = 1_000_000
LONGEST_LABEL = 40
LONGEST_DEMAND = 400.0
"""Per cent."""
_NAME = r"[A-Za-z][\w.-]{0,40}"
_STEP = re.compile(
    rf"(?:(?P<name>{_NAME}):)?(?:type=(?P<type>[A-Za-z_][\w.-]{{0,30}}):)?(?P<sign>\+?)(?P<count>[1-9]\d{{0,6}})", re.ASCII
)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)
_YEARS = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)y", re.ASCII)
_YEAR = 365.25 * 86400
_OPTIONS = ("factor", "demand", "price")


@dataclass(frozen=True)
class Step:
    """Nodes that are added.

    name: the class; empty for a machine of equal nodes
    type: type of the GPUs of the new nodes; empty for that of the copied ones
    factor: what the run times of jobs on these GPUs are multiplied by
    demand: per cent by which jobs that may use the new nodes become more
    price: of a node; None if it is not given
    lifetime: seconds over which the price is spread; None: it is that of a node for the time that jobs are submitted
    """

    name: str
    count: int
    type: str = ""
    factor: float = 1.0
    demand: float = 0.0
    price: float | None = None
    lifetime: float | None = None
    words: str = ""

    @property
    def label(self) -> str:
        """The part of a label: 8-gpu, 8-gpu-h100, 10."""
        parts = (str(self.count), self.name, self.type, f"demand-{self.demand:g}" if self.demand else "")
        return "-".join(filter(None, parts))


def arms(text: str) -> list[tuple[Step, ...]]:
    """The arms of a value. Raises ValueError with what is wrong and what it may be."""
    parts = [part.split() for part in text.split(";")]
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    if len(parts) > MOST_ARMS:
        raise ValueError(f"at most {MOST_ARMS} machines, separated by semicolons")
    found = [tuple(_steps(words)) for words in parts]
    if any(any(step.type for step in arm) and not all(step.name for step in arm) for arm in found):
        raise ValueError("a class for each step beside one with type=, as gpu:+8 gpu:type=h100:8")
    return found


def _steps(words: Sequence[str]) -> Iterator[Step]:
    if not words:
        raise ValueError(FORM)
    step: Step | None = None
    types: set[str] = set()
    count = 0
    for each in words:
        match = _STEP.fullmatch(each)
        if match is not None and (match["sign"] or match["name"] or match["type"]):
            if step is not None:
                yield step
            count += 1
            if count > MOST_STEPS:
                raise ValueError(f"at most {MOST_STEPS} classes for one machine")
            if match["type"] and not match["name"]:
                raise ValueError("CLASS:type=TYPE:COUNT, as gpu:type=h100:8")
            if match["type"] in types:
                raise ValueError(f"each new type once for one machine, and {match['type']} is there twice")
            types |= {match["type"]} if match["type"] else set()
            step = Step(match["name"] or "", int(match["count"]), match["type"] or "", words=each)
        elif step is None:
            raise ValueError(FORM)
        else:
            step = _with_option(step, each)
    if step is not None:
        yield step


def _with_option(step: Step, text: str) -> Step:
    """The step with an option. Raises ValueError."""
    name, _, value = text.partition("=")
    words = f"{step.words} {text}"
    if name == "factor":
        if not step.type:
            raise ValueError("factor= after a class with type=, as gpu:type=h100:8 factor=0.5")
        if not _NUMBER.fullmatch(value) or not 0.01 <= float(value) <= 100:
            raise ValueError("factor= from 0.01 to 100: what run times on the new type are multiplied by")
        return replace(step, factor=float(value), words=words)
    if name == "demand":
        amount = value.removeprefix("+").removesuffix("%")
        if not _NUMBER.fullmatch(amount) or not 0 < float(amount) <= LONGEST_DEMAND:
            raise ValueError(f"demand= above 0 and up to {LONGEST_DEMAND:g} %: by how much more jobs there are, as demand=25%")
        return replace(step, demand=float(amount), words=words)
    if name == "price":
        amount, slash, length = value.partition("/")
        if not _NUMBER.fullmatch(amount) or float(amount) <= 0 or (slash and not (seconds := _lifetime(length))):
            raise ValueError("price= of a node, with its life time or without: price=250000/5y, price=800")
        return replace(step, price=float(amount), lifetime=seconds if slash else None, words=words)
    raise ValueError(f"{', '.join(f'{one}=' for one in _OPTIONS)} after {FORM}")


def _lifetime(text: str) -> float:
    """Seconds; 0 for what is no duration."""
    if years := _YEARS.fullmatch(text):
        return float(years[1]) * _YEAR
    try:
        return durations.seconds(text)
    except ValueError:
        return 0.0


def canonical(text: str) -> str:
    """The value with single blanks, and its arms separated by a semicolon and a blank. Raises ValueError."""
    return "; ".join(map(text_of, arms(text))) if text.strip() else ""


def text_of(arm: Sequence[Step]) -> str:
    """The text of an arm."""
    return " ".join(step.words for step in arm)


def label_of(arm: Sequence[Step]) -> str:
    """The label of an arm: plus-8-gpu; its beginning where it is long, as it is a part of names of runs."""
    return "-".join(("plus", *(step.label for step in arm)))[:LONGEST_LABEL].rstrip(".-")


# ---- the machine ----


@dataclass(frozen=True)
class Kind:
    """Nodes that are alike: in the text before their numbers, in words, and in the partitions that list them. names: of all of
    them, in order of their classes"""

    prefix: str
    cpus: int
    extra: Words
    partitions: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def gpus(self) -> list[Gres]:
        """Its GPUs."""
        return [one for one in gres_of(self.extra) if one.name == GPU]

    @property
    def features(self) -> set[str]:
        """Its features."""
        return {name for key in ("Feature", "Features") for name in word(self.extra, key).split(",") if name}

    @property
    def in_words(self) -> str:
        """What its nodes are: node[33-40] of 16 CPUs, gpu:a100:4, new."""
        parts = (word(self.extra, "Gres"), ",".join(sorted(self.features)))
        return ", ".join(filter(None, (f"{compress(self.names)} of {self.cpus} CPUs", *parts)))


@dataclass(frozen=True)
class Added:
    """New nodes: the step that they are of, their names as a host list, how many, their words, and the nodes that they copy."""

    step: Step
    names: str
    count: int
    extra: Words
    like: Kind


@dataclass(frozen=True)
class Grown:
    """A machine with more nodes. Partitions and topology are those of a SiteConf; empty without one."""

    classes: tuple[NodeClass, ...]
    partitions: list[dict[str, str]]
    topology: str
    added: tuple[Added, ...]


def grown(
    classes: Sequence[NodeClass], arm: Sequence[Step], partitions: Sequence[Mapping[str, str]] = (), switches: str = ""
) -> Grown:
    """The machine with the nodes of an arm.

    classes, partitions: of the machine; those of a SiteConf, or no partitions where all have all nodes. switches: topology.conf
    Raises WrongUse for a class that the machine does not have.
    """
    kinds = kinds_of(classes, partitions)
    made, added = list(classes), list[Added]()
    for step in arm:
        for kind, count, extra in _shares(step, kinds):
            new = NodeClass(kind.prefix, _next(made, kind.prefix), count, kind.cpus, extra)
            last = next((place for place, one in enumerate(made) if _goes_on(one, new)), None)
            if last is None:
                made.append(new)
            else:
                made[last] = replace(made[last], count=made[last].count + count)
            added.append(Added(step, new.names, count, extra, kind))
    if (total := sum(one.count for one in made)) > MOST_NODES:
        raise WrongUse(f"{total} nodes; it may be at most {MOST_NODES} in all", PARAMETER)
    listed = [
        {**one, "Nodes": compress([*expand(one["Nodes"]), *more])}
        if (more := [name for new in added if one["name"] in new.like.partitions for name in expand(new.names)])
        else {**one}
        for one in partitions
    ]
    return Grown(
        tuple(made),
        listed,
        topology.with_nodes(switches, [(new.like.names, expand(new.names)) for new in added]) if switches else "",
        tuple(added),
    )


def kinds_of(classes: Sequence[NodeClass], partitions: Sequence[Mapping[str, str]]) -> list[Kind]:
    """The kinds of nodes of a machine, in the order of its classes."""
    listing: dict[str, list[str]] = {}
    for one in partitions:
        text = next((value_of(value) for key, value in one.items() if key.lower() == "nodes"), "ALL")
        for name in expand(text) if text.upper() != "ALL" else ():
            listing.setdefault(name, []).append(one["name"])
    found: dict[tuple[str, int, Words, tuple[str, ...]], list[str]] = {}
    for of_class in classes:
        for name in of_class.each:
            key = of_class.prefix, of_class.cpus, of_class.extra, tuple(listing.get(name, ()))
            found.setdefault(key, []).append(name)
    return [Kind(*key, tuple(names)) for key, names in found.items()]


def meant(step: Step, kinds: Sequence[Kind]) -> list[Kind]:
    """The kinds of nodes of the grown machine that a step is about: those of its new type of GPUs, or of its class."""
    if step.type:
        return [kind for kind in kinds if any(gres.type == step.type for gres in kind.gpus)]
    return _chosen(step, kinds)


def _next(classes: Sequence[NodeClass], prefix: str) -> int:
    """The number after all that nodes with this prefix have."""
    return max(one.first + one.count for one in classes if one.prefix == prefix)


def _goes_on(one: NodeClass, new: NodeClass) -> bool:
    """Whether the new nodes are alike, and follow those of the class."""
    return (one.prefix, one.cpus, one.extra, one.first + one.count) == (new.prefix, new.cpus, new.extra, new.first)


def _shares(step: Step, kinds: Sequence[Kind]) -> Iterator[tuple[Kind, int, Words]]:
    """The kinds that a step copies, how many nodes of each, and their words. Several kinds of a class keep their proportions, as
    far as whole nodes do; with another type of GPUs the kind with the most of them is copied."""
    chosen = _chosen(step, kinds)
    if step.type:
        having = [kind for kind in chosen if kind.gpus]
        if not having:
            raise WrongUse(f"{step.words}: {step.name} has no GPUs, so they have no type", PARAMETER)
        if any(gres.type == step.type for kind in kinds for gres in kind.gpus):
            raise WrongUse(
                f"{step.words}: GPUs of type {step.type} are there already; it may be {step.type}:+{step.count}", PARAMETER
            )
        most = max(having, key=lambda kind: sum(int(gres.count) for gres in kind.gpus))
        yield most, step.count, _with_type(most, step.type)
        return
    total = sum(len(kind.names) for kind in chosen)
    exact = [step.count * len(kind.names) / total for kind in chosen]
    counts = [int(share) for share in exact]
    order = sorted(range(len(chosen)), key=lambda place: (counts[place] - exact[place], place))
    for place in order[: step.count - sum(counts)]:
        counts[place] += 1
    yield from ((kind, count, kind.extra) for kind, count in zip(chosen, counts, strict=True) if count)


def _chosen(step: Step, kinds: Sequence[Kind]) -> list[Kind]:
    """The kinds that the name of a step means."""
    if not step.name:
        if len({(kind.cpus, kind.extra, kind.partitions) for kind in kinds}) == 1:
            return [*kinds]
        raise WrongUse(f"{step.words}: nodes are not all alike; it may name a class: {_names(kinds)}", PARAMETER)
    for names in _NAMES:
        if chosen := [kind for kind in kinds if step.name in names(kind, kinds)]:
            return chosen
    raise WrongUse(f"{step.words}: there is no class {step.name}; it may be one of: {_names(kinds)}", PARAMETER)


def _of_gpus(kind: Kind, kinds: Sequence[Kind]) -> list[str]:
    if not any(one.gpus for one in kinds):
        return []
    return [GPU] if kind.gpus else [CPU]


_NAMES: tuple[Callable[[Kind, Sequence[Kind]], Sequence[str] | set[str]], ...] = (
    _of_gpus,
    lambda kind, _: [name for gres in gres_of(kind.extra) for name in (gres.type, gres.name) if name],
    lambda kind, _: kind.features,
    lambda kind, _: kind.partitions,
    lambda kind, _: [kind.prefix],
)
"""Names of a kind, those of the first that has the name: cpu and gpu, types and names of GRES, features, partitions, prefix."""
_SHOWN = 12  # names in a message


def _names(kinds: Sequence[Kind]) -> str:
    found = list(dict.fromkeys(name for names in _NAMES for kind in kinds for name in sorted(names(kind, kinds))))
    return ", ".join([*found[:_SHOWN], *(["..."] if len(found) > _SHOWN else [])])


def _with_type(kind: Kind, new: str) -> Words:
    """The words of a kind with GPUs of another type; a feature that is called like the old one is called like the new one."""
    old = {gres.type.lower() for gres in kind.gpus if gres.type}
    number = sum(int(gres.count) for gres in kind.gpus)
    others = [":".join(filter(None, (gres.name, gres.type, gres.count))) for gres in gres_of(kind.extra) if gres.name != GPU]

    def changed(key: str, value: str) -> str:
        if key.lower() == "gres":
            return ",".join([f"{GPU}:{new}:{number}", *others])
        if key.lower() in ("feature", "features"):
            return ",".join(new if name.lower() in old else name for name in value.split(","))
        return value

    return tuple((key, changed(key, value)) for key, value in kind.extra)


def of_site(site: SiteConf, text: str) -> SiteConf:
    """A site's machine with the nodes of GROW. text: one arm; empty for none"""
    if not text:
        return site
    more = grown(site.nodes, arms(text)[0], site.partitions, site.topology)
    return replace(site, nodes=[*more.classes], partitions=more.partitions, topology=more.topology)


# ---- what does not grow ----


def in_short(more: Grown) -> list[str]:
    """Lines about new nodes: what they copy."""
    lines = []
    for new in more.added:
        listed = f" in {', '.join(new.like.partitions)}" if new.like.partitions else ""
        changed = f", with {word(new.extra, 'Gres')}" if new.step.type else ""
        weight = f", Weight={value}" if (value := word(new.extra, "Weight")) else ""
        lines.append(f"{new.names} like {new.like.in_words}{listed}{changed}{weight}")
    return lines


def caps_in_short(site: SiteConf | None) -> list[str]:
    """A line about what of the configuration stays as it was and may keep new nodes idle; none if nothing does."""
    return [f"stays as it is, and may keep new nodes idle: {', '.join(caps)}"] if (caps := limits_of(site)) else []


def limits_of(site: SiteConf | None) -> list[str]:
    """Limits of accounts, QOS and partitions that count what nodes have: they do not grow with the machine."""
    if site is None:
        return []
    counts: Counter[str] = Counter()
    qos: list[str] = []
    if site.accounts is not None:
        for one in site.accounts.associations:
            counts.update(f"{key}={value}" for key, value in one["words"].items() if _is_cap(key))
        qos = [f"{key}={value} of QOS {one['name']}" for one in site.accounts.qos for key, value in one.items() if _is_cap(key)]
    found = [f"{limit} of {count} association{'s' if count > 1 else ''}" for limit, count in counts.items()]
    of_partitions = [
        f"{key}={value} of partition {one['name']}"
        for one in site.partitions
        for key, value in one.items()
        if key.lower() in ("maxnodes", "maxcpuspernode") and value.upper() != "UNLIMITED"
    ]
    shown = [*found, *qos, *of_partitions]
    return [*shown[:_SHOWN], *([f"{len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else [])]


def _is_cap(option: str) -> bool:
    """Whether an option of sacctmgr limits what several jobs have at once."""
    return option.startswith(("GrpTRES", "MaxTRESPerUser", "MaxTRESPerAccount")) and "Mins" not in option


def explicit(partitions: Sequence[Mapping[str, Any]]) -> str | None:
    """The first partition that lists its nodes; None if all have all nodes."""
    texts = ((str(one["name"]), value_of(value)) for one in partitions for key, value in one.items() if key.lower() == "nodes")
    return next((name for name, text in texts if text.upper() != "ALL"), None)
