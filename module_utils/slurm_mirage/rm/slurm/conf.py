"""slurm.conf(5) as data: a mapping of settings, a list of node classes, a list of partitions.

The same data gives the full file (slurmctld, sbatch) and the slim file of each slurmd, which holds that node's line only: a slurmd
that parses the whole cluster costs memory that grows with the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ...base.errors import WrongUse

HEADER = "# Written by Slurm Mirage (module slurm_config); changes made here are overwritten.\n"
OMIT = "omit"
"""Value of a setting that is left out, so that Slurm's own default holds."""


CONTROLLER_ONLY = re.compile(
    r"(EnforcePartLimits|FirstJobId|JobRequeue|MaxJobCount|MinJobAge|OverTimeLimit|PartitionName|PreemptExemptTime|PreemptMode"
    r"|PreemptParameters|PreemptType|Priority\w*|RequeueExit|RequeueExitHold|SchedulerParameters|SchedulerTimeSlice|SchedulerType"
    r"|SlurmSchedLog\w+|SlurmctldDebug|SlurmctldParameters)\s*=",
    re.IGNORECASE,
)
"""Beginnings of lines that only slurmctld uses, whose values do not change what slurmd does. For every other setting slurm.conf(5)
says that slurmd or the commands use it too, or does not say."""


CONTROLLER_FILE_ONLY = ("topologyparam", "topologyplugin")
"""Settings, in lower case, that only slurmctld's own file has: a slurmd that knows its own node only does not start with them."""
CONTROLLER_NODE_WORDS = ("corespeccount", "memspeclimit")
"""Words of a NodeName line, likewise: slurmctld alone gives jobs less of the node (common/node_conf.c, job_test.c), and a slurmd
would confine itself."""

CONTROLLER_HOST = "slurmctldhost"
"""Key, in lower case, of a setting that has a line for each of the values in its list."""


class Line(Protocol):
    """An object with a line in slurm.conf."""

    def line(self) -> str: ...


@dataclass(frozen=True)
class Nodes:
    """Equal nodes: `count` nodes PREFIX{first}.. on one address, with consecutive ports from `port`.

    `extra` are further settings of the NodeName line (RealMemory, Feature, Gres, ...). NodeHostname is left out, so that each node
    has its own name for it: Slurm walks along all nodes of one NodeHostname for each of them that it reads
    (common/read_config.c, _push_to_hashtbls), which took 2.7 s of every process that reads 16,384 nodes, and takes 0.26 s so.
    """

    prefix: str
    first: int
    count: int
    cpus: int
    address: str
    port: int
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> str:
        """Names of the nodes as Slurm writes them."""
        return names_of(self.prefix, self.first, self.count)

    def line(self, number: int | None = None) -> str:
        """The NodeName line of the class, or of node `number` alone."""
        name = self.names if number is None else f"{self.prefix}{number}"
        if number is not None:
            port = str(self.port + number - self.first)
        elif self.count == 1:
            port = str(self.port)
        else:
            port = f"[{self.port}-{self.port + self.count - 1}]"
        words = {"NodeAddr": self.address, "Port": port, "CPUs": str(self.cpus)}
        return line_of("NodeName", name, {**words, **dict(self.extra)})


def names_of(prefix: str, first: int, count: int) -> str:
    """Names of `count` nodes as Slurm writes them: n7, n[1-3]."""
    return f"{prefix}{first}" if count == 1 else f"{prefix}[{first}-{first + count - 1}]"


def value_of(value: Any) -> str:
    """A setting's value as slurm.conf has it: lists joined by commas, booleans as YES and NO, mappings as key=value lists.

    In a mapping (SchedulerParameters, ...) true is the bare word; what is false or OMIT is left out, for Slurm looks for the word.
    """
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, Mapping):
        given = {key: item for key, item in value.items() if item is not False and item != OMIT}
        return ",".join(key if item is True else f"{key}={value_of(item)}" for key, item in given.items())
    if isinstance(value, (list, tuple)):
        return ",".join(value_of(item) for item in value)
    return str(value)


def _word(where: str, key: str, value: Any) -> str:
    """`key=value`, the value on one line, in quotes where it has blanks.

    YAML takes an unquoted OFF for false, which Slurm's PreemptMode does not know as NO.
    """
    if key.lower() == "preemptmode" and value is False:
        value = "OFF"
    text = value_of(value)
    if value is None or "\n" in text or not key.isidentifier():
        raise WrongUse(f"{where}: {key!r} is not a setting with a one-line value")
    return f'{key}="{text}"' if re.search(r"\s", text) and '"' not in text else f"{key}={text}"


def line_of(key: str, name: str, words: Mapping[str, Any]) -> str:
    """A line that names something (NodeName, PartitionName): `key=name Word=value ...`, without omitted words."""
    rest = [_word(f"slurm.conf: {key}={name}", word, value) for word, value in words.items() if value != OMIT]
    return " ".join([f"{key}={name}", *rest])


def merge(defaults: Mapping[str, Any], *overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings; later ones win. Keys are compared without regard to case, as Slurm does; OMIT removes a key."""
    merged: dict[str, tuple[str, Any]] = {}
    for mapping in (defaults, *overrides):
        for key, value in mapping.items():
            merged[key.lower()] = (key, value)
    return {key: value for key, value in merged.values() if value != OMIT}


def render_settings(settings: Mapping[str, Any]) -> str:
    """The settings' lines, sorted by key."""
    lines = []
    for key in sorted(settings, key=str.lower):
        value = settings[key]
        is_repeated = key.lower() == CONTROLLER_HOST and isinstance(value, (list, tuple))
        lines += [_word("slurm.conf", key, one) + "\n" for one in (value if is_repeated else [value])]
    return "".join(lines)


def render(settings: Mapping[str, Any], nodes: Iterable[Line], partitions: Sequence[Mapping[str, Any]], comment: str = "") -> str:
    """The whole slurm.conf. `partitions` are mappings with `name` and further words of a PartitionName line."""
    lines = [HEADER, comment, render_settings(settings)]
    lines += [node.line() + "\n" for node in nodes]
    for partition in partitions:
        if not partition.get("name"):
            raise WrongUse(f"slurm.conf: partition {dict(partition)} has no name")
        words = {key: value for key, value in partition.items() if key != "name"}
        lines.append(line_of("PartitionName", partition["name"], merge({"Nodes": "ALL"}, words)) + "\n")
    return "".join(lines)


def for_nodes(nodes: Iterable[Nodes]) -> list[Nodes]:
    """The nodes as slurmd may read them."""
    return [
        replace(node, extra=tuple(word for word in node.extra if word[0].lower() not in CONTROLLER_NODE_WORDS)) for node in nodes
    ]


def read_by_nodes(text: str) -> str:
    """The lines of a slurm.conf that decide how slurmd works (see CONTROLLER_ONLY)."""
    return "".join(line for line in text.splitlines(keepends=True) if not CONTROLLER_ONLY.match(line))


def slim_files(nodes: Sequence[Nodes], common: str) -> Iterator[tuple[str, str]]:
    """Name and content of the slim file of each node; `common` is the path of the file with the settings."""
    for node in nodes:
        for number in range(node.first, node.first + node.count):
            yield f"{node.prefix}{number}.conf", f"{HEADER}Include {common}\n{node.line(number)}\n"
