"""slurm.conf(5) as data: a mapping of settings, a list of node classes, a list of partitions.

The same data gives the full file (slurmctld, sbatch) and the slim file of each slurmd, which holds that node's line only: a slurmd
that parses the whole cluster costs memory that grows with the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ...base import line_text
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


_KEY = re.compile(r"[A-Za-z0-9_.]+")
_IN_QUOTES = re.compile(r'"[^"]*"')
PARTITION_NAME = re.compile(r"""[^\s,|"'=#\\]+""")
"""A name that commands of Slurm and their answers take as one word."""
PARTITION_FORM = "the name is not one word without quotes and , | = # \\"


def setting(where: str, key: str, text: str) -> str:
    """`key=text` as Slurm's parser reads it letter by letter: in slurm.conf, gres.conf, topology.conf and slurmdbd.conf.

    A value with blanks is in quotes, in which a quote cannot be. A backslash stands before each # and each backslash, in quotes
    too: the parser looks for comments, continued lines and escapes before it looks for quotes (common/parse_config.c, 16.05 to
    26.05). Raises WrongUse, beginning with `where`, for what the parser would read otherwise.
    """
    if not _KEY.fullmatch(key):
        raise WrongUse(f"{where}: {key!r} is not the name of a setting")
    line_text.check(f"{where}: {key}", text)
    has_blanks = re.search(r"\s", text) is not None  # a program with a locale also takes Unicode's blanks for some
    if (has_blanks and '"' in text) or _IN_QUOTES.fullmatch(text):
        raise WrongUse(
            f"{where}: {key}: has double quotes, which Slurm does not keep around a value and beside blanks; leave them out"
        )
    escaped = re.sub(r"[\\#]", r"\\\g<0>", text)
    return f'{key}="{escaped}"' if has_blanks or not text else f"{key}={escaped}"


def include(path: str) -> str:
    """A line in whose place Slurm reads the file `path`. Raises WrongUse for a path with a blank, for which it has no quotes, or
    with %, which stands for a name."""
    line_text.check("slurm.conf: Include", path)
    if not path or re.search(r"[\s%]", path):
        raise WrongUse("slurm.conf: Include: the path is empty, or has a blank or %, which Slurm reads otherwise")
    return "Include " + re.sub(r"[\\#]", r"\\\g<0>", path) + "\n"


def _word(where: str, key: str, value: Any) -> str:
    """`setting` of a value that is not yet text. YAML takes an unquoted OFF for false, which Slurm's PreemptMode does not know as
    NO."""
    if value is None:
        raise WrongUse(f"{where}: {key!r} has no value")
    if key.lower() == "preemptmode" and value is False:
        value = "OFF"
    return setting(where, key, value_of(value))


def line_of(key: str, name: str, words: Mapping[str, Any], where: str = "slurm.conf") -> str:
    """A line that names something (NodeName, PartitionName): `key=name Word=value ...`, without omitted words. Raises WrongUse,
    beginning with `where`, the name of the file."""
    place = f"{where}: {key}={name}"
    line = [setting(where, key, name), *(_word(place, word, value) for word, value in words.items() if value != OMIT)]
    own = next((word for word, value in words.items() if value != OMIT and '"' in value_of(value)), None)
    if own and sum('"' in word for word in line) > 1:
        raise WrongUse(f"{place}: {own}: has double quotes, which Slurm takes together with others on the line; leave them out")
    return " ".join(line)


def partition_line(partition: Mapping[str, Any], where: str = "slurm.conf") -> str:
    """The line of a partition, a mapping with `name` and further words. Raises WrongUse, also for a name that commands of Slurm and
    their answers do not take as one word."""
    name = str(partition.get("name") or "")
    if not PARTITION_NAME.fullmatch(name):
        raise WrongUse(f"{where}: partition {name[:40]!r}: {PARTITION_FORM}")
    words = {key: value for key, value in partition.items() if key != "name"}
    return line_of("PartitionName", name, merge({"Nodes": "ALL"}, words), where) + "\n"


def merge(defaults: Mapping[str, Any], *overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings; later ones win. Keys are compared without regard to case, as Slurm does; OMIT removes a key."""
    merged: dict[str, tuple[str, Any]] = {}
    for mapping in (defaults, *overrides):
        for key, value in mapping.items():
            merged[key.lower()] = (key, value)
    return {key: value for key, value in merged.values() if value != OMIT}


def render_settings(settings: Mapping[str, Any], where: str = "slurm.conf") -> str:
    """The settings' lines, sorted by key. Raises WrongUse, beginning with `where`, the name of the file."""
    lines = []
    for key in sorted(settings, key=str.lower):
        value = settings[key]
        is_repeated = key.lower() == CONTROLLER_HOST and isinstance(value, (list, tuple))
        lines += [_word(where, key, one) + "\n" for one in (value if is_repeated else [value])]
    return "".join(lines)


def render(settings: Mapping[str, Any], nodes: Iterable[Line], partitions: Sequence[Mapping[str, Any]], comment: str = "") -> str:
    """The whole slurm.conf. `partitions` are mappings with `name` and further words of a PartitionName line."""
    lines = [HEADER, comment, render_settings(settings)]
    lines += [node.line() + "\n" for node in nodes]
    lines += [partition_line(partition) for partition in partitions]
    return "".join(lines)


def check(settings: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]], where: str) -> None:
    """Raise WrongUse, beginning with `where`, the name of a user's file, for settings or partitions that slurm.conf cannot have."""
    for mapping in (settings, *partitions):
        if unnamed := [key for key in mapping if not isinstance(key, str)]:
            raise WrongUse(f"{where}: {unnamed[0]!r} is not the name of a setting")
    render_settings(merge(settings), where)
    for partition in partitions:
        partition_line(partition, where)


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
            yield f"{node.prefix}{number}.conf", f"{HEADER}{include(common)}{node.line(number)}\n"
