"""A site's own slurm.conf(5), taken over: node classes, partitions and policy stay, what an emulated cluster must have is left out.

What is left out is listed with its reason, so that nobody has to guess how far the emulation is the site's machine. Nodes keep
their names without leading zeros (cn[001-128] is cn[1-128]); a node without a number gets one. NodeSet lines are resolved into
lists of nodes. Continuation lines, comments, Include and DEFAULT lines are read as slurm.conf(5) describes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...base.errors import WrongUse
from ...base.hostlist import MOST_NAMES, compress, expand
from ...base.input_file import read_input
from .node_classes import NodeClass, node_classes

_INSTANCE = "the instance has its own"
_PLAYED = "jobs only sleep: nothing is bound, confined, measured or run beside them"
_SITE = "runs or asks something of the site's"
_HOST = "all nodes are daemons of one host"

OVERRIDDEN: dict[str, str] = {
    **dict.fromkeys(
        (
            "ClusterName", "SlurmctldHost", "ControlMachine", "ControlAddr", "BackupController", "BackupAddr", "SlurmctldAddr",
            "SlurmctldPort", "SlurmdPort", "SlurmUser", "SlurmdUser", "AuthType", "AuthInfo", "AuthAltTypes", "AuthAltParameters",
            "CredType", "CryptoType", "StateSaveLocation", "SlurmdSpoolDir", "SlurmctldPidFile", "SlurmdPidFile",
            "SlurmctldLogFile", "SlurmdLogFile", "SlurmSchedLogFile", "SlurmSchedLogLevel", "SlurmctldDebug", "SlurmdDebug",
            "SlurmctldSyslogDebug", "SlurmdSyslogDebug", "DebugFlags", "LogTimeFormat", "JobCompType", "JobCompLoc", "JobCompHost",
            "JobCompPort", "JobCompUser", "JobCompPass", "JobCompParams", "CommunicationParameters", "SlurmctldParameters",
            "SlurmdParameters", "SrunPortRange", "PluginDir", "PlugStackConfig", "MaxJobCount", "MinJobAge", "FirstJobId",
            "MaxJobId", "AccountingStorageType", "AccountingStorageHost", "AccountingStorageBackupHost", "AccountingStoragePort",
            "AccountingStorageLoc", "AccountingStoragePass", "AccountingStorageUser", "AccountingStorageExternalHost",
            "AccountingStorageParameters", "AccountingStoreFlags", "AccountingStoreJobComment", "DefaultStorageType",
            "DefaultStorageHost", "DefaultStorageLoc", "DefaultStoragePass", "DefaultStoragePort", "DefaultStorageUser",
        ),
        _INSTANCE,
    ),
    **dict.fromkeys(
        (
            "ProctrackType", "TaskPlugin", "TaskPluginParam", "JobAcctGatherType", "JobAcctGatherFrequency",
            "JobAcctGatherParams", "AcctGatherEnergyType", "AcctGatherFilesystemType", "AcctGatherInfinibandType",
            "AcctGatherInterconnectType", "AcctGatherNodeFreq", "AcctGatherProfileType", "ExtSensorsType", "ExtSensorsFreq",
            "MpiDefault", "MpiParams", "Prolog", "Epilog", "PrologFlags", "PrologEpilogTimeout", "TaskProlog", "TaskEpilog",
            "SrunProlog", "SrunEpilog", "PrologSlurmctld", "EpilogSlurmctld", "ResvProlog", "ResvEpilog", "JobContainerType",
            "LaunchType", "LaunchParameters", "BcastExclude", "BcastParameters", "ContainerType", "CpuFreqDef",
            "CpuFreqGovernors", "CoreSpecPlugin", "X11Parameters", "UnkillableStepProgram", "PropagateResourceLimits",
            "PropagateResourceLimitsExcept", "PropagatePrioProcess", "UsePAM", "VSizeFactor", "MemLimitEnforce",
            "DisableRootJobs", "NodeFeaturesPlugins", "BurstBufferType", "SwitchType", "SwitchParameters", "InteractiveStepOptions",
        ),
        _PLAYED,
    ),
    **dict.fromkeys(
        (
            "HealthCheckProgram", "HealthCheckInterval", "HealthCheckNodeState", "JobSubmitPlugins", "CliFilterPlugins",
            "MailProg", "MailDomain", "RebootProgram", "SuspendProgram", "ResumeProgram", "ResumeFailProgram", "SuspendTime",
            "SuspendRate", "SuspendTimeout", "SuspendExcNodes", "SuspendExcParts", "SuspendExcStates", "ResumeRate",
            "ResumeTimeout", "PowerParameters", "PowerPlugin", "SlurmctldPrimaryOnProg", "SlurmctldPrimaryOffProg",
            "FederationParameters", "TopologyPlugin", "TopologyParam", "RoutePlugin", "SbcastParameters", "AllowSpecResourcesUsage",
        ),
        _SITE,
    ),
    **dict.fromkeys(
        (
            "TreeWidth", "ReturnToService", "SlurmdTimeout", "SlurmctldTimeout", "MessageTimeout", "TCPTimeout",
            "BatchStartTimeout", "UnkillableStepTimeout", "EioTimeout",
            "GetEnvTimeout", "KeepAliveTime", "MsgAggregationParams", "FastSchedule",
            "TmpFS", "GresTypes",
        ),
        _HOST,
    ),
}  # fmt: skip
"""Keys of slurm.conf that the emulation says itself, each with the reason."""

NODE_OVERRIDDEN: dict[str, str] = {
    **dict.fromkeys(("NodeAddr", "NodeHostname", "Port", "BcastAddr"), _HOST),
    **dict.fromkeys(("State", "Reason", "TmpDisk"), "all nodes are there, and their state is Slurm's own"),
    **dict.fromkeys(("CoreSpecCount", "CpuSpecList", "MemSpecLimit"), _PLAYED),
}
"""Words of a NodeName line, likewise."""

_USUAL = {("state", "unknown"), ("state", "up")}
"""Words that say what is so anyway: not worth telling."""

PARTITION_OVERRIDDEN: dict[str, str] = dict.fromkeys(
    ("AllowGroups", "AllowAccounts", "AllowQos", "DenyAccounts", "DenyQos", "AllocNodes", "QOS", "State"),
    "all jobs are submitted by one user, in accounts of their own",
)
"""Words of a PartitionName line, likewise."""

# Lines of slurm.conf that describe things instead of setting a key.
_LINES = ("nodename", "nodeset", "partitionname", "downnodes", "frontendname")
_PROCESSORS = ("cpus", "procs")
LARGEST, MOST_FILES = 16 << 20, 1000
"""Bytes and files of a slurm.conf with all that it includes. One with a line for each of 65,536 nodes has some 7 MB."""

# A word and its value, which may be in double quotes.
_WORD = re.compile(r'(?P<key>[A-Za-z]\w*)\s*=\s*(?P<value>"[^"]*"|\S*)')


@dataclass
class SiteConf:
    """What is taken over.

    settings: keys of slurm.conf and their values, as written
    nodes: classes of equal nodes
    partitions: mappings with `name` and the words of a PartitionName line, as `slurm_conf.render` takes them
    left_out: a line each: what is not taken over, its value, and why
    accounting: whether the site has slurmdbd
    """

    settings: dict[str, str] = field(default_factory=dict)
    nodes: list[NodeClass] = field(default_factory=list)
    partitions: list[dict[str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    accounting: bool = False


@dataclass(frozen=True)
class _Line:
    """A logical line: where it begins, and its words in order."""

    where: str
    words: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Node:
    name: str
    cpus: int
    extra: tuple[tuple[str, str], ...]


def read(path: Path | str) -> SiteConf:
    """Reads a slurm.conf and the files that it includes. Raises WrongUse with the file and line of what cannot be read."""
    site = SiteConf()
    nodes: dict[str, _Node] = {}
    sets: dict[str, str] = {}
    defaults: dict[str, dict[str, tuple[str, str]]] = {"nodename": {}, "partitionname": {}}
    partitions: list[tuple[str, dict[str, tuple[str, str]]]] = []
    for line in _lines(Path(path), _Files(), depth=0):
        kind, name = line.words[0]
        if kind.lower() not in _LINES:
            for key, value in line.words:
                _setting(site, key, value)
        elif kind.lower() in defaults:
            words = defaults[kind.lower()] | {key.lower(): (key, value) for key, value in line.words[1:]}
            if name.upper() == "DEFAULT":
                defaults[kind.lower()] = words
            elif kind.lower() == "nodename":
                _add_nodes(site, nodes, name, words, line.where)
            else:
                partitions.append((name, words))
        elif kind.lower() == "nodeset":
            given = {key.lower(): value for key, value in line.words[1:]}
            sets[name] = f"feature:{given['feature']}" if "feature" in given else given.get("nodes", "")
        else:
            _leave_out(site, f"{kind}={name}", _HOST)
    if not nodes:
        raise WrongUse(f"{path}: has no NodeName line", parameter="slurm_conf")
    names = _renamed(nodes, str(path))
    site.nodes = _classes(nodes, names, str(path))
    site.partitions = [_partition(site, name, words, nodes, sets, names, str(path)) for name, words in partitions]
    if not site.partitions:
        raise WrongUse(f"{path}: has no PartitionName line", parameter="slurm_conf")
    return site


def not_in_force(settings: Mapping[str, str], shown: str) -> list[str]:
    """The taken-over settings that `scontrol show config` (its text) does not show as they were written, a line each.

    Values are compared without regard to case, and parts of a list (joined by commas) without regard to their order; more of them
    may be in force, as the speed of the clock or Slurm itself adds some. Of what Slurm prints with a unit (`30 sec`) the number is
    compared.
    """
    found = {key.lower(): value.strip() for key, value in re.findall(r"^(\w+)\s*=(.*)$", shown, re.MULTILINE)}
    told = []
    for key, value in settings.items():
        if key.lower() in found and not _same(value, found[key.lower()]):
            told.append(f"{key}={value}: in force is {found[key.lower()]}")
    return told


def _same(written: str, shown: str) -> bool:
    parts = {part.strip() for part in written.lower().split(",")}
    shown = shown.lower()
    return parts <= {part.strip() for part in shown.split(",")} or shown.split(" ")[0] == written.lower()


class _Files:
    """Reads slurm.conf and the files that it includes, up to LARGEST bytes and MOST_FILES of them together."""

    def __init__(self) -> None:
        self._left, self._files = LARGEST, 0

    def read(self, path: Path) -> str:
        content = read_input(path, "slurm_conf", LARGEST)
        self._left, self._files = self._left - len(content), self._files + 1
        if self._left < 0 or self._files > MOST_FILES:
            what = f"{LARGEST >> 20} MiB" if self._left < 0 else f"{MOST_FILES} files"
            raise WrongUse(f"{path}: with this Include slurm.conf has more than {what}", parameter="slurm_conf")
        return content.decode(errors="replace")


def _lines(path: Path, files: _Files, depth: int) -> Iterator[_Line]:
    """The logical lines of a file and of those that it includes."""
    if depth > 8:
        raise WrongUse(f"{path}: is included by itself", parameter="slurm_conf")
    text = files.read(path)
    waiting = ""
    for number, raw in enumerate(text.splitlines(), 1):
        content = re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        if content.endswith("\\"):
            waiting += content[:-1]
            continue
        content, waiting = (waiting + content).strip(), ""
        where = f"{path} line {number}"
        if not content:
            continue
        if content.lower().startswith("include") and "=" not in content.split()[0]:
            included = Path(content.split(maxsplit=1)[-1])
            yield from _lines(included if included.is_absolute() else path.parent / included, files, depth + 1)
            continue
        rest = _WORD.sub("", content).strip()
        words = tuple((word["key"], word["value"].strip('"')) for word in _WORD.finditer(content))
        if rest or not words:
            raise WrongUse(f"{where}: {rest[:40] or content[:40]!r} is no Key=Value of slurm.conf", parameter="slurm_conf")
        yield _Line(where, words)


def _leave_out(site: SiteConf, what: str, why: str) -> None:
    told = f"{what}: {why}"
    if told not in site.left_out:
        site.left_out.append(told)


def _setting(site: SiteConf, key: str, value: str) -> None:
    reasons = {name.lower(): why for name, why in OVERRIDDEN.items()}
    if key.lower() == "accountingstoragetype":
        site.accounting = "slurmdbd" in value.lower()
    if key.lower() in reasons:
        # Values can be secrets (JobCompPass): none of those is repeated.
        shown = "***" if key.lower().endswith("pass") else value
        _leave_out(site, f"{key}={shown}", reasons[key.lower()])
    else:
        site.settings[key] = value


def _add_nodes(site: SiteConf, nodes: dict[str, _Node], names: str, words: dict[str, tuple[str, str]], where: str) -> None:
    reasons = {name.lower(): why for name, why in NODE_OVERRIDDEN.items()}
    for key, (_, value) in words.items():
        if key in reasons and (key, value.lower()) not in _USUAL:
            _leave_out(site, f"NodeName={names}: {words[key][0]}={words[key][1]}", reasons[key])
    extra = tuple(word for key, word in words.items() if key not in reasons and key not in _PROCESSORS)
    cpus = _cpus(words, where)
    try:
        listed = expand(names)
    except ValueError as error:
        raise WrongUse(f"{where}: NodeName: {error}", parameter="slurm_conf") from None
    if len(nodes) + len(listed) > MOST_NAMES:
        raise WrongUse(f"{where}: has more than {MOST_NAMES} nodes, the most that Slurm can have", parameter="slurm_conf")
    for name in listed:
        if name in nodes:
            raise WrongUse(f"{where}: node {name} is there twice", parameter="slurm_conf")
        nodes[name] = _Node(name, cpus, extra)


def _cpus(words: Mapping[str, tuple[str, str]], where: str) -> int:
    """Processors of a node: CPUs, or what its sockets, cores and threads make; 1 if it does not say (slurm.conf(5))."""

    def number(key: str) -> int | None:
        if key not in words:
            return None
        if not words[key][1].isdecimal() or int(words[key][1]) < 1:
            raise WrongUse(f"{where}: {words[key][0]}={words[key][1]} is not a whole number from 1 on", parameter="slurm_conf")
        return int(words[key][1])

    given = number("cpus") or number("procs")
    sockets = number("sockets") or (number("boards") or 1) * (number("socketsperboard") or 1)
    return given or sockets * (number("corespersocket") or 1) * (number("threadspercore") or 1)


def _renamed(nodes: Mapping[str, _Node], path: str) -> dict[str, tuple[str, int]]:
    """Prefix and number of each node: its own without leading zeros, or the next free one where it has none."""
    names: dict[str, tuple[str, int]] = {}
    for name in nodes:
        found = re.fullmatch(r"(.*?)(\d+)", name)
        names[name] = (found[1], int(found[2])) if found else (name, 1)
    if len(set(names.values())) != len(names):
        raise WrongUse(f"{path}: two nodes would have one name, their numbers differ in leading zeros only", parameter="slurm_conf")
    return names


def _classes(nodes: Mapping[str, _Node], names: Mapping[str, tuple[str, int]], path: str) -> list[NodeClass]:
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
    try:
        return node_classes(options)
    except WrongUse as error:
        raise WrongUse(f"{path}: {error}", parameter="slurm_conf") from None


def _partition(
    site: SiteConf,
    name: str,
    words: Mapping[str, tuple[str, str]],
    nodes: Mapping[str, _Node],
    sets: Mapping[str, str],
    names: Mapping[str, tuple[str, int]],
    path: str,
) -> dict[str, str]:
    """A partition as `slurm_conf.render` takes it, its nodes by their new names."""
    reasons = {word.lower(): why for word, why in PARTITION_OVERRIDDEN.items()}
    kept = {"name": name}
    for key, (word, value) in words.items():
        if key in reasons:
            if (key, value.lower()) not in _USUAL:
                _leave_out(site, f"PartitionName={name}: {word}={value}", reasons[key])
        elif key != "nodes":
            kept[word] = value
    listed = words["nodes"][1] if "nodes" in words else ""
    if listed.upper() == "ALL":
        return {**kept, "Nodes": "ALL"}
    where = f"{path}: PartitionName={name}: Nodes={listed[:60]}{'...' if len(listed) > 60 else ''}"
    members = list(dict.fromkeys(_members(listed, nodes, dict(sets), where)))
    if not members:
        raise WrongUse(f"{where}: has no nodes", parameter="slurm_conf")
    return {**kept, "Nodes": compress(f"{prefix}{number}" for prefix, number in (names[member] for member in members))}


def _members(listed: str, nodes: Mapping[str, _Node], sets: dict[str, str], where: str) -> Iterator[str]:
    """Names of the nodes in a list that may name node sets too; `sets` is left with empty ones in place of those."""
    try:
        parts = expand(listed)
    except ValueError as error:
        raise WrongUse(f"{where}: {error}", parameter="slurm_conf") from None
    for part in parts:
        if part in nodes:
            yield part
            continue
        if part not in sets:
            raise WrongUse(f"{where}: there is no node {part}", parameter="slurm_conf")
        # Each set once: the lists of sets that name sets that name sets could be exponentially long.
        of_set, sets[part] = sets[part], ""
        if of_set.startswith("feature:"):
            feature = of_set.partition(":")[2]
            yield from (name for name, node in nodes.items() if feature in _features(node))
        elif of_set.upper() == "ALL":
            yield from nodes
        else:
            yield from _members(of_set, nodes, sets, where)


def _features(node: _Node) -> list[str]:
    words = {key.lower(): value for key, value in node.extra}
    return (words.get("feature") or words.get("features") or "").split(",")
