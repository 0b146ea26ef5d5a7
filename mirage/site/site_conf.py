"""A site's own slurm.conf(5), taken over: node classes, partitions and policy stay, what an emulated cluster must have is left out.

What is left out is listed with its reason in one of three groups, so that users know how far the emulation differs from the site's
machine: settings that affect scheduling, settings that change resources, and the rest. Nodes keep their names without leading zeros
(cn[001-128] is cn[1-128]); a node without a number gets one. NodeSet lines are resolved into lists of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from mirage.site import associations, sacctmgr_script, topology
from mirage.site.archive import Archive
from mirage.site.associations import SiteAccounts
from mirage.site.conf_lines import ConfFiles, Line, Settings
from mirage.site.site_words import (
    EVENT,
    FUTURE,
    GROUPS,
    NO_GROUPS,
    NO_QOS,
    NO_TOPOLOGY,
    NODE_OVERRIDDEN,
    NODE_TAKEN,
    NOT_COUNTED,
    OF_ACCOUNTS,
    OVERRIDDEN,
    OVERRIDDEN_VALUES,
    PARTITION_OVERRIDDEN,
    PARTITION_TAKEN,
    PLUGINS,
    RENAMED_VALUES,
    RESOURCES,
    REST,
    SCHEDULING,
    TAKEN,
    UNKNOWN,
    USUAL,
    WITHOUT_USERS,
)
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.hostlist import MOST_NAMES, NotHostList, compress, expand
from slurm_mirage.rm.slurm import conf
from slurm_mirage.rm.slurm.conf import CONTROLLER_NODE_WORDS
from slurm_mirage.rm.slurm.node_classes import NodeClass, node_classes
from slurm_mirage.rm.slurm.node_options import arrangement, split_gres
from slurm_mirage.rm.slurm.setting_names import NODE_WORDS_SINCE, PARTITION_WORDS_SINCE, RETIRED, SINCE, known, named

PARTITIONS = "scontrol/partition.txt"
_PROCESSORS = ("cpus", "procs")
# strtoul(3) of base 0: decimal, octal, hexadecimal.
_NUMBER = re.compile(r"\s*\+?(?:0x(?P<hex>[0-9a-f]{1,15})|0(?P<octal>[0-7]{0,20})|(?P<decimal>[1-9][0-9]{0,17}))?", re.ASCII | re.I)
_NODE = re.compile(r"[A-Za-z0-9._-]+")
_AMOUNTS = ("realmemory", "memspeclimit")
_COUNTS = ("boards", "corespersocket", "cpus", "procs", "sockets", "socketsperboard", "threadspercore")
_NOT_INHERITED = ("disablerootjobs", "exclusiveuser", "selecttypeparameters")
"""Words of PartitionName=DEFAULT that Slurm gives to no partition (common/read_config.c, _parse_partitionname)."""


@dataclass(frozen=True)
class LeftOut:
    """A part of the file that is not taken over.

    line: where it stands, as `NodeName=n[1-4]` or `PartitionName=gpu`; empty for a setting
    what: the word and its value
    why: the reason
    group: one of GROUPS
    count: nodes that it is about, 1 for anything else
    """

    line: str
    what: str
    why: str
    group: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.line}: {self.what}: {self.why}" if self.line else f"{self.what}: {self.why}"


@dataclass
class SiteConf:
    """What is taken over.

    settings: keys of slurm.conf and their values, as written
    nodes: classes of equal nodes
    partitions: mappings with `name` and the words of a PartitionName line, as `slurm_conf.render` takes them
    left_out: what is not taken over, each thing once
    topology: the content of topology.conf, with the new names of nodes; empty for none
    accounting: whether the site has slurmdbd
    has_users: whether jobs belong to users of Slurm here, so that limits of the scheduler for each user hold
    accounts: the site's accounts and QOS, where the cluster has them
    of_accounts: words of partitions that name accounts and QOS, by the partition's name
    renamed: new name of each node that has another one than in the file
    known: the content of `left_out`, to find it there
    """

    settings: dict[str, str] = field(default_factory=dict)
    nodes: list[NodeClass] = field(default_factory=list)
    partitions: list[dict[str, str]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    topology: str = ""
    accounting: bool = False
    has_users: bool = False
    accounts: SiteAccounts | None = None
    of_accounts: dict[str, dict[str, str]] = field(default_factory=dict)
    is_week: bool = False
    """Whether it is that of an archive of mirage-capture, with the states of the nodes."""
    future: set[str] = field(default_factory=set)
    """Nodes that are not there yet."""
    renamed: dict[str, str] = field(default_factory=dict)
    known: set[LeftOut] = field(default_factory=set, repr=False)

    @property
    def sets_aside(self) -> bool:
        """Whether nodes set processors or memory aside for the system."""
        return any(word.lower() in CONTROLLER_NODE_WORDS for node_class in self.nodes for word, _ in node_class.extra)


@dataclass(frozen=True)
class _Node:
    name: str
    cpus: int
    extra: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Listed:
    """A list of nodes as a line has it, and the place of the line and its word for messages."""

    text: str
    where: str


# A line's words by their names in small letters: the name as written, and the value.
_Words = Mapping[str, tuple[str, str]]


def read(path: Path | str, accounting: str = "auto") -> SiteConf:
    """Reads a slurm.conf and the files that it includes, and topology.conf, gres.conf and sacctmgr.script beside it; or those in an
    archive of mirage-capture. Raises WrongUse with the file and line of what cannot be read.

    accounting: ACCOUNTING
    """
    files = ConfFiles(path)
    site = SiteConf(is_week=files.taken is not None)
    nodes: dict[str, _Node] = {}
    sets: dict[str, list[_Listed]] = {}
    defaults: dict[str, dict[str, tuple[str, str]]] = {"nodename": {}, "partitionname": {}}
    partitions: list[tuple[str, dict[str, tuple[str, str]], str]] = []
    for line in files.lines():
        kind, name = line.words[0]
        if line.is_setting:
            _check(line)
            continue
        if kind.lower() in defaults:
            own = {key.lower(): (key, value) for key, value in line.words[1:]}
            words = _inherited(kind.lower(), name, defaults[kind.lower()], own) | own
            if name.upper() == "DEFAULT":
                defaults[kind.lower()] = words
            elif kind.lower() == "nodename":
                _add_nodes(site, nodes, name, words, line)
            elif not conf.PARTITION_NAME.fullmatch(name):
                raise line.wrong(f"PartitionName: {conf.PARTITION_FORM}")
            else:
                partitions.append((name, words, line.where))
        elif kind.lower() == "nodeset":
            given = {key.lower(): value for key, value in line.words[1:]}
            sources = [f"feature:{given['feature']}"] if "feature" in given else []
            sources += [given["nodes"]] if "nodes" in given else []
            sets.setdefault(name, [_Listed(source, f"{line.where}: Nodes") for source in sources])
        elif kind.lower() == "downnodes":
            state = " ".join(f"{key}={value}" for key, value in line.words[1:])
            _leave_out(site, "", f"{kind}={name} {state}".rstrip(), NODE_OVERRIDDEN["state"], _count_of(name))
        else:
            _leave_out(site, "", f"{kind}={name}", (REST, "FRONT_END says how many there are"))
    if not nodes:
        raise WrongUse(f"{files.path}: has no NodeName line", parameter="slurm_conf")
    site.accounting = _has_database(files.settings)
    site.has_users = accounting == "yes" or (site.accounting and accounting == "auto")
    if site.has_users:
        counted = _counted_resources(files.settings, nodes)
        if files.taken is not None:
            site.accounts = associations.read(files.taken, counted)
        elif files.has(sacctmgr_script.SCRIPT):
            site.accounts = sacctmgr_script.read(files, counted)
        for (what, why), count in site.accounts.left_out.items() if site.accounts is not None else ():
            _leave_out(site, "", f"{what}: {count}", (SCHEDULING if why != associations.ACCEPTED else REST, why))
    for key, value in files.settings.values():
        _setting(site, key, value)
    _check_preemption(site)
    _complete_gres(nodes, files)
    names = _renamed(nodes)
    _topology(site, {node: f"{prefix}{number}" for node, (prefix, number) in names.items()}, files)
    site.renamed = {old: f"{prefix}{number}" for old, (prefix, number) in names.items() if old != f"{prefix}{number}"}
    site.nodes = _classes(nodes, names)
    shown = _shown_partitions(files.taken)
    for name, words, where in partitions:
        words = _with_access(words, shown.get(name, {}))
        partition = _partition(site, name, words, nodes, sets, names, where)
        if partition is not None:
            site.partitions.append(partition)
    if not site.partitions:
        raise WrongUse(f"{files.path}: has no PartitionName line with nodes", parameter="slurm_conf")
    _choose_default(site, {name for name, words, _ in partitions if _is_open(words)}, len(nodes))
    try:
        conf.check(site.settings, site.partitions, str(files.path))
    except WrongUse as error:
        raise WrongUse(error.message, parameter="slurm_conf") from None
    return site


def _check(line: Line) -> None:
    """Raises WrongUse with the line for a taken setting whose value Slurm would read otherwise if it were written again."""
    for key, value in line.words:
        if key.lower() in _TAKEN:
            try:
                conf.setting(line.where, key, value)
            except WrongUse as error:
                raise WrongUse(error.message, parameter="slurm_conf") from None


def _has_database(settings: Settings) -> bool:
    """Whether the site has slurmdbd. Up to 20.11 DefaultStorageType was the default of AccountingStorageType."""
    given = settings.get("accountingstoragetype") or settings.get("defaultstoragetype") or ("", "")
    return "slurmdbd" in given[1].lower()


def _shown_partitions(taken: Archive | None) -> dict[str, dict[str, str]]:
    """Words of each partition, in small letters, as scontrol showed them when the week was taken."""
    if taken is None:
        return {}
    lines = (words for _, words in taken.things(PARTITIONS, "PartitionName", ("QoS", "State")))
    return {words["PartitionName"]: {key.lower(): value for key, value in words.items()} for words in lines}


def _with_access(words: _Words, shown: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The words of a PartitionName line, with those of OF_ACCOUNTS that were in force: `scontrol update` may have changed them."""
    if not shown:
        return dict(words)
    kept = {key: value for key, value in words.items() if key not in OF_ACCOUNTS}
    in_force = {key: shown[key] for key in OF_ACCOUNTS if shown.get(key, "ALL").upper() not in ("ALL", "N/A", "(NULL)")}
    return kept | {key: (OF_ACCOUNTS[key], value) for key, value in in_force.items()}


def _counted_resources(settings: Mapping[str, tuple[str, str]], nodes: Mapping[str, _Node]) -> set[str]:
    """AccountingStorageTRES, or, without it, what the emulated cluster counts of its own: the GRES of its nodes."""
    if given := settings.get("accountingstoragetres", ("", ""))[1]:
        return {name.strip() for name in given.split(",")}
    words = (value for node in nodes.values() for key, value in node.extra if key.lower() == "gres")
    return {f"gres/{item.partition(':')[0]}" for value in words for item in value.split(",")}


def summary(left_out: Iterable[LeftOut]) -> list[str]:
    """What is left out in short: each thing of the first two groups with its number of nodes or partitions, and how many others."""
    groups: dict[tuple[str, str, str, str], list[LeftOut]] = {}
    rest = 0
    for item in left_out:
        kind = item.line.partition("=")[0]
        word = item.what.partition("=")[0]
        # Of most words of partitions and nodes the values differ from line to line.
        label = word if kind and word.lower() not in ("state", "gres") else item.what
        if item.group == REST:
            rest += 1
        else:
            groups.setdefault((item.group, kind, label, item.why), []).append(item)
    lines = [
        f"{group}: {label}{_number_of(kind, items)}: {why}"
        for (group, kind, label, why), items in sorted(groups.items(), key=lambda entry: GROUPS.index(entry[0][0]))
    ]
    return [*lines, f"{REST}: {rest} more"] if rest else lines


def too_new(site: SiteConf, version: str) -> list[LeftOut]:
    """What is taken over, but the release `version` does not have yet; nothing where the release is not known (an empty text)."""
    later: list[LeftOut] = []
    for words, line, since in (
        (site.settings, "", SINCE),
        *((partition, f"PartitionName={partition['name']}", PARTITION_WORDS_SINCE) for partition in site.partitions),
        *((dict(node_class.extra), f"NodeName={node_class.names}", NODE_WORDS_SINCE) for node_class in site.nodes),
    ):
        known_here = known(words, since, version)
        first = {word.lower(): named(release) for word, release in since.items()}
        later += [
            LeftOut(line, f"{word}={value}", f"it is there from Slurm {first[word.lower()]} on", SCHEDULING)
            for word, value in words.items()
            if word not in known_here
        ]
    return later


def _number_of(kind: str, items: Sequence[LeftOut]) -> str:
    count = sum(item.count for item in items)
    if kind == "PartitionName":
        return f" of partition {items[0].line.partition('=')[2]}" if count == 1 else f" of {count} partitions"
    return f" of {count} node{'s' if count > 1 else ''}" if kind else ""


def _inherited(kind: str, name: str, defaults: _Words, own: _Words) -> dict[str, tuple[str, str]]:
    """Return the words that a line inherits from the DEFAULT lines before it."""
    features = kind == "nodename" and name.upper() != "DEFAULT" and {"feature", "features"} & set(own)
    dropped = {"feature", "features"} if features else set()
    if kind == "partitionname" and name.upper() != "DEFAULT":
        dropped = set(_NOT_INHERITED)
    return {key: value for key, value in defaults.items() if key not in dropped}


# ---- settings ----


def _leave_out(site: SiteConf, line: str, what: str, reason: tuple[str, str], count: int = 1) -> None:
    item = LeftOut(line, what, reason[1], reason[0], count)
    if item not in site.known:
        site.known.add(item)
        site.left_out.append(item)


@cache
def _reasons() -> dict[str, tuple[str, str]]:
    reasons = {name.lower(): (group, why) for group, why, names in OVERRIDDEN for name in names}
    for name, (release, now) in RETIRED.items():
        reasons[name.lower()] = (REST, f"retired in Slurm {named(release)}" + (f", now {now}" if now else ""))
    return reasons


_REASONS = _reasons()
_TAKEN = {name.lower() for name in TAKEN}


def _setting(site: SiteConf, key: str, value: str) -> None:
    name = key.lower()
    if name in _REASONS or name not in _TAKEN:
        # Values can be secrets (JobCompPass, the address of a JobCompLoc): these are not repeated.
        shown = "***" if name.endswith("pass") else re.sub(r"://[^/@]*@", "://***@", value)
        reason = _REASONS.get(name, (REST, UNKNOWN))
        if reason[0] != REST and value.lower().rpartition("/")[2] in ("none", "default", "flat", "-1", "infinite", ""):
            reason = (REST, reason[1])
        _leave_out(site, "", f"{key}={shown}", reason)
        return
    if name in PLUGINS and value.lower() not in PLUGINS[name]:
        if site.accounts and value.lower() == "preempt/qos":
            site.settings[key] = value
            return
        why = NO_QOS if value.lower() == "preempt/qos" else f"an emulated cluster may have {', '.join(PLUGINS[name])}"
        _leave_out(site, "", f"{key}={value}", (SCHEDULING, why))
        return
    if name == "accountingstorageenforce" and not site.accounts:
        _leave_out(site, "", f"limits behind {key}={value}", (SCHEDULING, NO_QOS))
    kept = _kept_parts(site, key, value)
    if name == "priorityweighttres":
        kept = _counted_weights(site, "", key, kept)
    if kept:
        site.settings[key] = kept


def _kept_parts(site: SiteConf, key: str, value: str) -> str:
    """The value without the parts of OVERRIDDEN_VALUES; as it was written when there are none."""
    dropped = OVERRIDDEN_VALUES.get(key.lower(), {})
    kept = []
    for part in value.split(","):
        word, sign, number = part.strip().partition("=")
        if word.lower() in dropped and not (site.has_users and dropped[word.lower()] in WITHOUT_USERS):
            _leave_out(site, "", f"{key}: {part.strip()}", (SCHEDULING, dropped[word.lower()]))
        elif key.lower() == "schedulerparameters" and word.lower() in RENAMED_VALUES:
            kept.append(f"{RENAMED_VALUES[word.lower()]}{sign}{number}")
        else:
            kept.append(part)
    return ",".join(kept)


def _counted_weights(site: SiteConf, line: str, word: str, value: str) -> str:
    """The weights of resources that the cluster counts: without accounting, slurmctld does not start with those of GRES."""
    parts = [part.strip() for part in value.split(",")]
    kept = [part for part in parts if site.has_users or "/" not in part.partition("=")[0]]
    for part in parts:
        if part not in kept:
            _leave_out(site, line, f"{word}: {part}", (SCHEDULING, NOT_COUNTED))
    return ",".join(kept)


def _check_preemption(site: SiteConf) -> None:
    """Leave PreemptMode out where the site's PreemptType is: Slurm does not start with a mode that nothing uses."""
    given = {key.lower(): key for key in site.settings}
    key = given.get("preemptmode")
    if key is None or ("preempttype" in given and site.settings[given["preempttype"]].lower() != "preempt/none"):
        return
    if not {part.strip().lower() for part in site.settings[key].split(",")} <= {"off", "gang", "no", "0"}:
        _leave_out(site, "", f"{key}={site.settings.pop(key)}", (SCHEDULING, "no PreemptType that is taken over uses it"))


# ---- nodes ----


def _count_of(names: str) -> int:
    try:
        return max(len(expand(names)), 1)
    except ValueError:
        return 1


def _expanded(text: str, where: str) -> list[str]:
    """The names in a host list. Raises WrongUse, beginning with `where`, which does not quote it."""
    try:
        return expand(text)
    except NotHostList as error:
        raise WrongUse(f"{where}: {error.reason}", parameter="slurm_conf") from None


def _add_nodes(site: SiteConf, nodes: dict[str, _Node], names: str, words: _Words, of_line: Line) -> None:
    listed = _expanded(_joined(names), f"{of_line.where}: NodeName")
    if len(nodes) + len(listed) > MOST_NAMES:
        raise of_line.wrong(f"has more than {MOST_NAMES} nodes, the most that Slurm can have")
    line = f"NodeName={names}"
    state = words.get("state", ("", ""))[1].lower()
    if state.startswith("future"):
        _leave_out(site, line, f"State={words['state'][1]}", FUTURE, len(listed))
        site.future.update(listed)
        return
    extra: list[tuple[str, str]] = []
    for key, (word, value) in words.items():
        if (key, value.lower()) in USUAL:
            continue
        if key in NODE_OVERRIDDEN or key not in NODE_TAKEN:
            reason = EVENT if key == "state" and site.is_week and "cloud" not in value.lower() else NODE_OVERRIDDEN.get(key)
            _leave_out(site, line, f"{word}={value}", reason or (REST, UNKNOWN), len(listed))
        elif key == "gres":
            kept, dropped = split_gres(value)
            for item, why in dropped:
                _leave_out(site, line, f"{word}={item}", (RESOURCES, why), len(listed))
            extra += [(word, kept)] if kept else []
        elif key in (*_COUNTS, "realmemory", "memspeclimit", "corespeccount") and key not in _PROCESSORS:
            extra.append((word, str(_number(words[key], of_line, 1 << 64 if key in _AMOUNTS else 1 << 16))))
        elif key not in _PROCESSORS and (text := re.sub(r"\s", "", value)) and not (key == "features" and "feature" in words):
            extra.append((word, text))
    cpus = _cpus(site, line, words, of_line, len(listed))
    try:
        arrangement(cpus, tuple(extra))
    except WrongUse:
        raise of_line.wrong("its sockets, cores and threads do not make its processors") from None
    for position, name in enumerate(listed, 1):
        if not _NODE.fullmatch(name):
            raise of_line.wrong(f"NodeName: node {position} of this line: a name may have letters, digits, '.', '_' and '-'")
        if name in nodes:
            raise of_line.wrong(f"NodeName: node {position} of this line is there twice")
        nodes[name] = _Node(name, cpus, tuple(extra))


def _cpus(site: SiteConf, line: str, words: _Words, of_line: Line, count: int) -> int:
    """Processors of a node: CPUs, or what its sockets, cores and threads make; 1 if it does not say (slurm.conf(5)).

    As in Slurm (common/read_config.c, _parse_nodename), CPUs that agree with none of their products are left out.
    """

    def number(key: str) -> int | None:
        return _number(words[key], of_line, 1 << 16) if key in words else None

    given = number("cpus") or number("procs")
    cores, threads = number("corespersocket") or 1, number("threadspercore") or 1
    boards = number("boards") or 1
    sockets = boards * (number("socketsperboard") or 1) if "socketsperboard" in words else number("sockets")
    if sockets is None:
        sockets = given // (cores * threads) if given and given % (cores * threads) == 0 else boards
    if given is not None and given not in (sockets, sockets * cores, sockets * cores * threads):
        why = f"sockets, cores and threads make {sockets * cores * threads}, which Slurm takes"
        _leave_out(site, line, f"CPUs={given}", (RESOURCES, why), count)
        given = None
    return given or sockets * cores * threads


def _number(word: tuple[str, str], of_line: Line, limit: int) -> int:
    """A whole number as Slurm reads it (common/parse_value.c), below `limit`; 0 counts as 1, as it does in a NodeName line."""
    key, value = word
    if value.lower() in ("infinite", "unlimited"):
        return limit - 1
    match = _NUMBER.match(value)
    assert match is not None, "the expression matches every text"
    digits = match["hex"] or match["octal"] or match["decimal"] or "0"
    number = int(digits, 16 if match["hex"] else 8 if match["octal"] else 10)
    rest = value[match.end() :]
    if limit > 1 << 16 and rest.lower() == "k":
        number, rest = number << 10, ""
    if rest or number >= limit:
        raise of_line.wrong(f"{key} is not a whole number below {limit}")
    return max(number, 1)


def _joined(names: str) -> str:
    """A host list with one comma between its parts: Slurm separates them by blanks too, and passes over empty ones."""
    return ",".join(part for part in re.split(r"[\s,]+(?![^\[]*\])", names) if part)


def _complete_gres(nodes: dict[str, _Node], files: ConfFiles) -> None:
    """Give the GRES of nodes the types that gres.conf has, where slurm.conf has the same number without types."""
    typed: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for line in files.lines("gres.conf") if files.has("gres.conf") else ():
        words = {key.lower(): value for key, value in line.words}
        if words.get("name") and words.get("type"):
            named = _expanded(words["nodename"], f"{line.where}: NodeName") if "nodename" in words else list(nodes)
            devices = len(_expanded(words["file"], f"{line.where}: File")) if "file" in words else 1
            count = int(words["count"]) if re.fullmatch(r"[0-9]{1,9}", words.get("count", "")) else devices
            for name in named:
                typed.setdefault(name, {}).setdefault(words["name"].lower(), []).append((words["type"], count))
    for name in typed.keys() & nodes.keys():
        words = dict(nodes[name].extra)
        for key in [key for key in words if key.lower() == "gres"]:
            words[key] = split_gres(",".join(_with_types(item, typed[name]) for item in words[key].split(",")))[0]
        nodes[name] = replace(nodes[name], extra=tuple(words.items()))


def _with_types(item: str, typed: Mapping[str, Sequence[tuple[str, int]]]) -> str:
    """An item of Gres with the types of its name, if they make the same number."""
    name, _, count = item.partition(":")
    types = typed.get(name.lower(), ())
    if not re.fullmatch(r"[0-9]{0,9}", count) or sum(number for _, number in types) != int(count or 1):
        return item
    return ",".join(f"{name}:{kind}:{number}" for kind, number in types)


def _topology(site: SiteConf, names: Mapping[str, str], files: ConfFiles) -> None:
    """Take over a topology of switches. TopologyParam stays only with one.

    If topology.yaml is there, it decides: from 25.05 on Slurm then reads neither TopologyPlugin nor topology.conf
    (interfaces/topology.c).
    """
    given = {key.lower(): key for key in site.settings}
    source, is_yaml = topology.CONF, files.has(topology.YAML)
    plugin, switches = site.settings.get(given.get("topologyplugin", ""), "").lower(), topology.of_lines(())
    if is_yaml:
        source = topology.YAML
        first, *others = topology.of_yaml(files.content(source), str(files.place(source)))
        plugin, switches = first.plugin, iter(first.switches)
        for other in others:
            _leave_out(site, "", f"{source}: {other.name}: {other.plugin}", (SCHEDULING, "a cluster has one topology here"))
    elif plugin == topology.TREE and files.has(source):
        switches = topology.of_lines(files.lines(source))
    site.topology, unknown = topology.tree(switches, names)
    if unknown:
        _leave_out(site, "", f"{source}: {unknown} nodes", (REST, "nodes that the cluster does not have"))
    if site.topology:
        site.settings[given.get("topologyplugin", "TopologyPlugin")] = topology.TREE
        return
    why = f"{source} has no switch of these nodes" if plugin == topology.TREE else f"{topology.TREE} is taken over"
    if is_yaml and plugin != topology.FLAT:
        _leave_out(site, "", f"{source}: {plugin}", (SCHEDULING, f"{NO_TOPOLOGY}; {why}"))
    for key in ("topologyplugin", "topologyparam"):
        if key in given and (value := site.settings.pop(given[key])).lower().rpartition("/")[2] not in ("none", "default", "flat"):
            reason = (REST, f"{source} decides") if is_yaml else (SCHEDULING, f"{NO_TOPOLOGY}; {why}")
            _leave_out(site, "", f"{given[key]}={value}", reason)


def _renamed(nodes: Mapping[str, _Node]) -> dict[str, tuple[str, int]]:
    """Prefix and number of each node: its own without leading zeros, or number 1 where it has none.

    Where two nodes differ in leading zeros only, the later one keeps them in its prefix (n01 beside n1 is n0-1).
    """
    names: dict[str, tuple[str, int]] = {}
    taken = set()
    for name in nodes:
        match = re.fullmatch(r"(.*?)(0*)(\d+)", name)
        prefix, zeros, number = (match[1], match[2], int(match[3])) if match else (name, "", 1)
        if not re.match(r"[A-Za-z]", prefix):
            prefix = f"n{prefix}"
        if (prefix, number) in taken:
            prefix += f"{zeros}-"
            while (prefix, number) in taken:
                prefix += "-"
        taken.add((prefix, number))
        names[name] = (prefix, number)
    return names


def _classes(nodes: Mapping[str, _Node], names: Mapping[str, tuple[str, int]]) -> list[NodeClass]:
    """Classes of equal nodes with consecutive numbers, in the file's order."""
    options: list[dict[str, object]] = []
    for name, node in nodes.items():
        prefix, number = names[name]
        last = options[-1] if options else None
        same = last is not None and (last["prefix"], last["cpus"], last["extra"]) == (prefix, node.cpus, dict(node.extra))
        if last is not None and same and number == int(str(last["first"])) + int(str(last["count"])):
            last["count"] = int(str(last["count"])) + 1
        else:
            options.append({"prefix": prefix, "first": number, "count": 1, "cpus": node.cpus, "extra": dict(node.extra)})
    return node_classes(options)


# ---- partitions ----


def _partition(
    site: SiteConf,
    name: str,
    words: _Words,
    nodes: Mapping[str, _Node],
    sets: Mapping[str, list[_Listed]],
    names: Mapping[str, tuple[str, int]],
    where: str,
) -> dict[str, str] | None:
    """A partition as `slurm_conf.render` takes it, its nodes by their new names; None for one without nodes, which is left out."""
    line = f"PartitionName={name}"
    kept = {"name": name}
    preemption = any(key.lower() == "preempttype" for key in site.settings)
    for key, (word, value) in words.items():
        if key in PARTITION_OVERRIDDEN or key not in PARTITION_TAKEN:
            if (key, value.lower()) in USUAL:
                continue
            if site.accounts and key in OF_ACCOUNTS:
                site.of_accounts.setdefault(name, {})[word] = value
            elif site.accounts and key == "exclusiveuser":
                kept[word] = value
            else:
                reason = NO_GROUPS if site.has_users and key == "allowgroups" else PARTITION_OVERRIDDEN.get(key, (REST, UNKNOWN))
                _leave_out(site, line, f"{word}={value}", reason)
        elif key == "preemptmode" and not preemption and value.lower() not in ("off", "no"):
            _leave_out(site, line, f"{word}={value}", (SCHEDULING, "no PreemptType that is taken over uses it"))
        elif key == "tresbillingweights":
            kept |= {word: weights} if (weights := _counted_weights(site, line, word, value)) else {}
        elif key != "nodes":
            kept[word] = value
    listed = words["nodes"][1] if "nodes" in words else ""
    if listed.upper() == "ALL":
        return {**kept, "Nodes": "ALL"}
    members = list(dict.fromkeys(_members(_Listed(listed, f"{where}: Nodes"), nodes, site.future, dict(sets))))
    if not members:
        _leave_out(site, line, f"Nodes={listed}", (SCHEDULING, "a partition without nodes"))
        return None
    return {**kept, "Nodes": compress(f"{prefix}{number}" for prefix, number in (names[member] for member in members))}


def _is_open(words: _Words) -> bool:
    """Whether the site's users see the partition, and it is up."""
    state, hidden = (words.get(key, ("", ""))[1].lower() for key in ("state", "hidden"))
    return state in ("", "up") and hidden not in ("yes", "true", "1")


def _choose_default(site: SiteConf, is_open: Collection[str], nodes: int) -> None:
    """Make the open partition with the most nodes the default, where the file has none: Slurm refuses jobs without a partition."""
    given = [value.lower() for one in site.partitions for key, value in one.items() if key.lower() == "default"]
    if any(value in ("yes", "true", "1") for value in given):
        return

    def size(partition: Mapping[str, str]) -> int:
        return nodes if partition["Nodes"] == "ALL" else len(expand(partition["Nodes"]))

    chosen = max([one for one in site.partitions if one["name"] in is_open] or site.partitions, key=size)
    for key in [key for key in chosen if key.lower() == "default"]:
        del chosen[key]
    chosen["Default"] = "YES"
    why = f"{chosen['name']} is, the largest one: Slurm would refuse jobs without a partition"
    _leave_out(site, "", "no partition is the default", (SCHEDULING, why))


def _members(listed: _Listed, nodes: Mapping[str, _Node], future: Collection[str], sets: dict[str, list[_Listed]]) -> Iterator[str]:
    """Names of the nodes in a list that may name node sets too; `sets` is left with empty ones in place of those."""
    for position, part in enumerate(_expanded(_joined(listed.text), listed.where), 1):
        if part in nodes:
            yield part
        elif part.upper() == "ALL":
            yield from nodes
        elif part in sets:
            # Each set once: the lists of sets that name sets that name sets could be exponentially long.
            sources, sets[part] = sets[part], []
            for source in sources:
                if source.text.startswith("feature:"):
                    feature = source.text.partition(":")[2]
                    yield from (name for name, node in nodes.items() if feature in _features(node))
                else:
                    yield from _members(source, nodes, future, sets)
        elif part not in future:
            raise WrongUse(f"{listed.where}: name {position} is that of no node", parameter="slurm_conf")


def _features(node: _Node) -> list[str]:
    words = {key.lower(): value for key, value in node.extra}
    return (words.get("feature") or words.get("features") or "").split(",")
