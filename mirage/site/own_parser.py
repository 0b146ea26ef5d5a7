"""What a release of Slurm says of a slurm.conf, by its own parser, and in which defaults two releases differ.

The slurm.conf may be a stranger's, and some settings name what Slurm's programs load, run, read or write: PluginDir,
PlugStackConfig, SlurmdLogFile, Prolog, ... So the parser never gets the file. It gets lines that are made here: the words that a
cluster takes over (site_words.py), which are numbers, names and options, with their values, and of all others the name alone.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mirage.site.conf_lines import MAIN, Line
from mirage.site.site_words import NODE_TAKEN, PARTITION_TAKEN, TAKEN
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.conf import setting

LONGEST, LARGEST, MOST_MEMORY = 30, 1 << 20, 2 << 30
"""Seconds that the parser may take, bytes that it may write, and bytes of its memory."""
NOBODY = "nobody"
"""The user that runs it, as nothing of a release's archive runs as root."""
_MESSAGE = re.compile(r"^[\w-]+: (?:error|fatal|warning): (?P<text>.+)$", re.MULTILINE)
_KEY = re.compile(r"unrecognized key: (\w+)", re.ASCII)
_RETIRED = re.compile(r'The option "(\w+)" is defunct', re.ASCII)
_LINE = re.compile(r"Parse error in file \S+ line (\d+): ")
RETIRED = "is retired, and has no effect"
"""End of a complaint about a line that the release reads, but does not use any more."""
_SUMMARY = "Unable to process configuration file"

# Words that are given with their values, by the first word of their line; an empty one for settings. All in small letters.
_WITH_VALUES: Mapping[str, frozenset[str]] = {
    "": frozenset(name.lower() for name in TAKEN),
    "nodename": frozenset(NODE_TAKEN),
    "partitionname": frozenset(PARTITION_TAKEN),
    "nodeset": frozenset(("feature", "nodes")),
}
_PLUGINS = ("schedulertype", "selecttype", "prioritytype", "preempttype", "topologyplugin")
_PLUGIN = re.compile(r"\w+/\w+", re.ASCII)
# Words that are given with this value: each slurm.conf has to have them.
_OWN = {"clustername": "parsed", "slurmctldhost": "localhost", "controlmachine": "localhost"}
# Words of all releases, which are not even named: a value of any kind would decide what is loaded.
_NEVER = ("include", "plugindir", "plugstackconfig")

OF_THE_RUN = frozenset(
    {
        *("boot_time", "slurm_conf", "slurm_version", "plugindir", "next_job_id", "slurmuser", "slurmduser", "clustername"),
        *("accountingstorageport", "accountingstoragehost", "hashval", "jobcomploc", "authinfo"),
        *("slurmctldlogfile", "slurmdlogfile", "slurmschedlogfile"),
        *("slurmctldpidfile", "slurmdpidfile", "slurmdspooldir", "statesavelocation", "slurmctldport", "slurmdport"),
    }
)
"""Names in the answer of `scontrol show config`, in small letters, that are of the instance or of the build, not of the release."""


def complaints(commands: Path, lines: Iterable[Line]) -> list[str]:
    """What a release says of the lines of a slurm.conf: the place of each line, its word, and what is wrong.

    commands: folder of its commands
    """
    places = _places(lines := list(lines))
    try:
        of_values, of_names = (_told(commands, text) for text in (_with_values(lines), _by_name(lines)))
    except OSError as error:
        return [f"{commands / 'scontrol'} cannot be asked: {error}"]
    unknown, retired = (dict.fromkeys(one.findall(of_values + of_names)) for one in (_KEY, _RETIRED))
    found = [f"{where}: {key} is not known" for key in unknown for where in places.get(key.lower(), (MAIN,))]
    refused: dict[str, None] = {}
    for text in (match["text"] for match in _MESSAGE.finditer(of_values)):
        if not any(one.search(text) for one in (_KEY, _RETIRED, _LINE)) and _SUMMARY not in text:
            # The message may quote a value.
            named = [word for word in re.findall(r"\w+", text.lower(), re.ASCII) if word in places]
            refused |= dict.fromkeys(named or [""])
    for key in refused:
        found += [f"{where}: the value of {key} is refused" for where in places[key]] if key else [f"{MAIN}: a value is refused"]
    return found + [f"{where}: {key} {RETIRED}" for key in retired for where in places.get(key.lower(), (MAIN,))]


def _places(lines: Iterable[Line]) -> dict[str, list[str]]:
    """Where each word is, by its name in small letters."""
    places: dict[str, list[str]] = {}
    for line in lines:
        for key in dict.fromkeys(key.lower() for key, _ in line.words):
            places.setdefault(key, []).append(line.where)
    return places


def _kind(line: Line) -> str:
    return "" if line.is_setting else line.words[0][0].lower()


def _has_value(kind: str, key: str, value: str) -> bool:
    """Whether a word is given with its value."""
    return key.lower() in _WITH_VALUES.get(kind, ()) and (key.lower() not in _PLUGINS or _PLUGIN.fullmatch(value) is not None)


def _with_values(lines: Iterable[Line]) -> str:
    """A slurm.conf of the words that are given with their values."""
    own: dict[str, str] = {}
    text = ""
    for line in lines:
        kind, (first, name) = _kind(line), line.words[0]
        if first.lower() in _OWN:
            own.setdefault(first.lower(), f"{first}={_OWN[first.lower()]}\n")
        kept = [(key, value) for key, value in line.words[bool(kind) :] if _has_value(kind, key, value)]
        if kept or (kind and kind in _WITH_VALUES):
            with suppress(WrongUse):  # Slurm reads such a value otherwise than it was meant
                words = [*([(first, name)] if kind else []), *kept]
                text += " ".join(setting(line.where, key, value) for key, value in words) + "\n"
    return "".join(own.values()) + text


def _by_name(lines: Iterable[Line]) -> str:
    """A slurm.conf with the names of the other words, which all have the value 1. Empty if there are none."""
    named: dict[tuple[str, str], tuple[str, str]] = {}
    for line in lines:
        kind, first = _kind(line), line.words[0][0]
        if kind and kind not in _WITH_VALUES:
            named.setdefault((kind, ""), (first, ""))
        for key, value in line.words[bool(kind) :]:
            if not _has_value(kind, key, value) and key.lower() not in (*_OWN, *_NEVER):
                named.setdefault((kind, key.lower()), (first, key))
    words = ((first if kind else "", key) for (kind, _), (first, key) in named.items())
    return "".join(
        " ".join([*([f"{first}=n{number}"] if first else []), *([f"{key}=1"] if key else [])]) + "\n"
        for number, (first, key) in enumerate(words)
    )


def _told(commands: Path, text: str) -> str:
    """What the programs of a release write to standard error about a slurm.conf. Raises OSError if they cannot be run.

    They read slurm.conf as all commands and daemons do, and ask no daemon. Only daemons name what was retired.
    """
    if not text:
        return ""
    with tempfile.TemporaryDirectory(prefix="slurm-mirage-") as folder:
        path = Path(folder, MAIN)
        path.write_text(text)
        path.chmod(0o644)
        Path(folder).chmod(0o755)
        told = _answer([str(commands / "scontrol"), "show", "hostnames", "n1"], path)
        slurmd = commands.parent / "sbin/slurmd"
        return told + (_answer([str(slurmd), "-G", "-N", "n1", "-f", str(path)], path) if slurmd.exists() else "")


def _answer(command: Sequence[str], slurm_conf: Path) -> str:
    """What a program writes to standard error until LONGEST, or until it needs more than LARGEST or MOST_MEMORY."""
    if not os.access(command[0], os.X_OK):
        raise OSError("it is not there, or no program")
    limits = ["prlimit", f"--as={MOST_MEMORY}", f"--fsize={LARGEST}", "--core=0", "--"]
    nobody = pwd.getpwnam(NOBODY)
    user: dict[str, Any] = {} if os.geteuid() else {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    environment = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(slurm_conf)}
    with tempfile.TemporaryFile() as told:
        started = subprocess.Popen(
            [*limits, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=told,
            env=environment,
            cwd=slurm_conf.parent,
            start_new_session=True,
            **user,
        )
        try:
            with suppress(subprocess.TimeoutExpired):
                started.wait(LONGEST)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)  # with what it has started
            started.wait()
        told.seek(0)
        whole, _, _ = told.read(LARGEST).rpartition(b"\n")
        return f"{whole.decode(errors='replace')}\n"


def only_of(found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Of the complaints of several releases those that not all of them have: the others are about this machine, not a release."""
    common = set.intersection(*map(set, found.values())) if len(found) > 1 else set()
    return {label: [line for line in lines if line not in common] for label, lines in found.items()}


def in_force(shown: str) -> dict[str, tuple[str, str]]:
    """Names and values of `scontrol show config` by the name in small letters; without those that are not of the release."""
    rows = re.findall(r"^(\w+)\s*=(.*)$", shown, re.MULTILINE)
    return {key.lower(): (key, value.strip()) for key, value in rows if key.lower() not in OF_THE_RUN}


def _plain(value: str) -> str:
    """A value without regard to the ways in which releases write it: Yes or yes, `plugin/none`, none or (null) for no plugin."""
    text = value.lower()
    return "" if text in ("(null)", "none", "n/a") or text.endswith("/none") else text


def other_defaults(before: str, after: str) -> list[str]:
    """In what the settings in force differ between two releases that were given the same slurm.conf, a line each; those that only
    one of them shows are two lines.

    before, after: answers of `scontrol show config`
    """
    old, new = in_force(before), in_force(after)
    changed = [
        f"{key}: {old[name][1]} -> {value}"
        for name, (key, value) in new.items()
        if name in old and _plain(old[name][1]) != _plain(value)
    ]
    sides = (("no longer there", old, new), ("new", new, old))
    alone = [(what, [key for name, (key, _) in one.items() if name not in other]) for what, one, other in sides]
    return [*changed, *(f"{what}: {', '.join(keys)}" for what, keys in alone if keys)]
