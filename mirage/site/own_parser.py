"""What a release of Slurm says of a slurm.conf, by its own parser, and in which defaults two releases differ."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

LONGEST = 30.0
"""Seconds that the parser may take."""
NOBODY = "nobody"
"""The user that runs it, as nothing of a release's archive runs as root."""
_MESSAGE = re.compile(r"^[\w-]+: (?:error|fatal|warning): (?P<text>.+)$", re.MULTILINE)
_KEY = re.compile(r"unrecognized key: (\w+)", re.ASCII)
_RETIRED = re.compile(r'The option "(\w+)" is defunct', re.ASCII)
_LINE = re.compile(r"Parse error in file \S+ line (\d+): ")
RETIRED = "is retired, and has no effect"
"""End of a complaint about a line that the release reads, but does not use any more."""
_SUMMARY = "Unable to process configuration file"
_FUNCTION = re.compile(r"^_?[a-z]\w+: ", re.ASCII)

OF_THE_RUN = frozenset(
    {
        *("boot_time", "slurm_conf", "slurm_version", "plugindir", "next_job_id", "slurmuser", "slurmduser", "clustername"),
        *("accountingstorageport", "accountingstoragehost", "hashval", "jobcomploc", "authinfo"),
        *("slurmctldlogfile", "slurmdlogfile", "slurmschedlogfile"),
        *("slurmctldpidfile", "slurmdpidfile", "slurmdspooldir", "statesavelocation", "slurmctldport", "slurmdport"),
    }
)
"""Names in the answer of `scontrol show config`, in small letters, that are of the instance or of the build, not of the release."""


def complaints(commands: Path, lines: Sequence[tuple[str, str]]) -> list[str]:
    """What a release says of the lines of a slurm.conf, a line each; those about a key name the place of each line that has it.

    commands: folder of its commands. lines: where each line is, and its text
    """
    with tempfile.TemporaryDirectory(prefix="slurm-mirage-") as folder:
        path = Path(folder, "slurm.conf")
        path.write_text("".join(f"{text}\n" for _, text in lines))
        path.chmod(0o644)
        Path(folder).chmod(0o755)
        # They read slurm.conf as all commands and daemons do, and ask no daemon. Only daemons name what was retired.
        try:
            told = _answer([str(commands / "scontrol"), "show", "hostnames", "n1"], path)
        except OSError as error:
            return [f"{commands / 'scontrol'} cannot be asked: {error}"]
        slurmd = commands.parent / "sbin/slurmd"
        told_daemon = _answer([str(slurmd), "-G", "-N", "n1", "-f", str(path)], path) if slurmd.exists() else ""
    found: dict[str, None] = {}
    for text in (match["text"].replace(str(path), "slurm.conf") for match in _MESSAGE.finditer(told)):
        if key := _KEY.search(text):
            found |= dict.fromkeys(f"{where}: {key[1]} is not known" for where in _places(key[1], lines))
        elif not _LINE.search(text) and _SUMMARY not in text:
            found[_FUNCTION.sub("", text)] = None
    for key in _RETIRED.findall(told_daemon):
        found |= dict.fromkeys(f"{where}: {key} {RETIRED}" for where in _places(key, lines))
    return list(found)


def _answer(command: Sequence[str], slurm_conf: Path) -> str:
    """What a program of a release writes to standard error; nothing of it after LONGEST. Raises OSError if it cannot be run."""
    environment = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(slurm_conf)}
    nobody = pwd.getpwnam(NOBODY)
    user: dict[str, Any] = {} if os.geteuid() else {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False, **user)
        return str(ended.stderr)
    except subprocess.TimeoutExpired as error:
        return (error.stderr or b"").decode(errors="replace")


def _places(key: str, lines: Iterable[tuple[str, str]]) -> list[str]:
    """Where the lines are that have this key, or word."""
    has = re.compile(rf"(?<!\w){key}\s*[-+*/]?=", re.ASCII | re.IGNORECASE)
    return [where for where, text in lines if has.search(text)] or ["slurm.conf"]


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
