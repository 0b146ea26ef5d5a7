"""Words of a class's NodeName line that other files or checks depend on: the arrangement of processors, and GRES.

slurmd drops GPUs that have no device file (common/gres.c, _find_fileless_gres), and slurmctld then takes the node out of
service. So each emulated GPU has one, a link to /dev/null; a job finds the number at its end in CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import WrongUse
from .conf import OMIT, line_of, names_of, setting, value_of

GPU = "gpu"
SHARED = ("mps", "shard")
"""GRES that are shares of a GPU."""
MOST_GPUS = 64
OURS = ("nodename", "nodehostname", "nodeaddr", "port", "cpus", "procs")
"""Words that a class must not have: they are set by the program, or by other options of the class."""
_GRES = re.compile(r"(?P<name>[A-Za-z_][\w-]*)(:(?P<type>[A-Za-z_][\w.+-]*))?(:(?P<count>[1-9]\d{0,8}[KMGTP]?))?\Z")

Words = tuple[tuple[str, str], ...]


def words_of(extra: Mapping[str, Any], where: str) -> Words:
    """The words of a class's `extra` as slurm.conf has them. Raises WrongUse, beginning with `where`, for what it cannot have."""
    words = []
    for key, value in extra.items():
        text = value_of(value)
        if not isinstance(key, str) or value is None or not text or re.search(r"\s", text):
            raise WrongUse(f"{where}: extra: {key!r} is not a word of a NodeName line with a value on one line, without blanks")
        setting(f"{where}: extra", key, text)
        if key.lower() in OURS:
            raise WrongUse(f"{where}: extra: {key} may not be given; count, cpus, prefix and first set it")
        if text != OMIT:
            words.append((key, text))
    return tuple(words)


def word(words: Words, name: str, default: str = "") -> str:
    """The value of a word, whose name is compared without regard to case, as in Slurm."""
    return {key.lower(): value for key, value in words}.get(name.lower(), default)


# ---- processors ----


def arrangement(cpus: int, words: Words, where: str = "nodes") -> tuple[int, int, int]:
    """Sockets, cores of each, and threads of each core, as Slurm works them out (common/read_config.c, _parse_nodename).

    Raises WrongUse for numbers with which Slurm would take another number of processors than `cpus`.
    """

    def number(name: str, default: int) -> int:
        text = word(words, name, str(default))
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
            raise WrongUse(f"{where}: extra: {name} {text[:40]!r}: a whole number from 1 to 10^9 - 1")
        return int(text)

    cores, threads = number("CoresPerSocket", 1), number("ThreadsPerCore", 1)
    sockets = number("Sockets", max(cpus // (cores * threads), 1))
    if word(words, "SocketsPerBoard"):
        sockets = number("Boards", 1) * number("SocketsPerBoard", 1)
    if cpus not in (sockets, sockets * cores, sockets * cores * threads):
        raise WrongUse(f"{where}: cpus {cpus}: {sockets} sockets of {cores} cores of {threads} threads make another number")
    return sockets, cores, threads


# ---- GRES ----


@dataclass(frozen=True)
class Gres:
    """An item of a node's Gres: so many of that name and perhaps type. `count` is as it was written (4, 10K)."""

    name: str
    type: str
    count: str


def gres_of(words: Words, where: str = "nodes") -> list[Gres]:
    """The node's GRES. Raises WrongUse for what cannot be emulated or what slurmd would not start with."""
    text = word(words, "Gres")
    listed: list[Gres] = []
    for item in text.split(",") if text else []:
        match = _GRES.match(item)
        if match is None:
            raise WrongUse(f"{where}: extra: Gres {item!r}: NAME:COUNT or NAME:TYPE:COUNT, several joined by commas")
        listed.append(Gres(match["name"], match["type"] or "", match["count"] or "1"))
    for gres in listed:
        others = [other for other in listed if other.name == gres.name and other is not gres]
        if gres.name in SHARED:
            raise WrongUse(f"{where}: extra: Gres {gres.name}: shares of a GPU are not emulated")
        if any(gres.type in ("", other.type) for other in others):
            raise WrongUse(f"{where}: extra: Gres {text!r}: several of one name need a type each")
    if not all(gres.count.isdecimal() for gres in listed if gres.name == GPU) or not gpus(listed) <= MOST_GPUS:
        raise WrongUse(f"{where}: extra: Gres {text!r}: a node may have up to {MOST_GPUS} GPUs")
    return listed


def split_gres(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The Gres of a site's node as `gres_of` takes it, and what is left out of it: item and reason.

    Sockets and indices that `scontrol` adds (gpu:4(S:0-1)) are dropped; items of one name and type are added up.
    """
    kept: dict[tuple[str, str], Gres] = {}
    left_out: list[tuple[str, str]] = []
    for item in re.findall(r"(?:[^,(]|\([^)]*\)?)+", text.strip()):
        plain = re.sub(r"\([^)]*\)?", "", item).strip()
        match = _GRES.match(re.sub(r"[kmgtp]\Z", lambda unit: unit[0].upper(), plain))
        if plain == "" or re.search(r":0+\Z", plain):
            continue
        why = _why_not(match, plain, kept)
        if match is None or why:
            left_out.append((item, why))
            continue
        if plain != item:
            left_out.append((item, "which sockets have it is not emulated"))
        gres = Gres(match["name"], match["type"] or "", match["count"] or "1")
        before = kept.get((gres.name, gres.type))
        count = str(int(before.count) + int(gres.count)) if before else gres.count
        kept[gres.name, gres.type] = Gres(gres.name, gres.type, count)
    words = [":".join(part for part in (gres.name, gres.type, gres.count) if part) for gres in kept.values()]
    return ",".join(words), left_out


def _why_not(match: re.Match[str] | None, item: str, kept: Mapping[tuple[str, str], Gres]) -> str:
    """Why an item cannot be kept beside the others; empty if it can."""
    if "no_consume" in item.split(":"):
        return "it is not consumed, so it limits no job"
    if match is None:
        return "NAME:COUNT or NAME:TYPE:COUNT can be emulated"
    name, kind, count = match["name"], match["type"] or "", match["count"] or "1"
    if name in SHARED:
        return "shares of a GPU are not emulated"
    others = [gres for gres in kept.values() if gres.name == name]
    if any(not gres.type or not kind for gres in others if gres.type != kind):
        return "several of one name need a type each"
    if (not count.isdecimal() and (name == GPU or (name, kind) in kept)) or any(not gres.count.isdecimal() for gres in others):
        return "its number cannot be emulated"
    if name == GPU and gpus(others) + int(count) > MOST_GPUS:
        return f"a node may have up to {MOST_GPUS} GPUs"
    return ""


def gpus(gres_list: Iterable[Gres]) -> int:
    """How many GPUs these are."""
    return sum(int(gres.count) for gres in gres_list if gres.name == GPU)


def gres_types(classes: Iterable[Words]) -> str:
    """The setting GresTypes for nodes with these words; empty when they have none."""
    return ",".join(dict.fromkeys(gres.name for words in classes for gres in gres_of(words)))


def gres_lines(names: str, words: Words, devices: Path) -> str:
    """The lines of gres.conf(5) for the nodes `names`, whose device files gpu0, gpu1, ... are in the folder `devices`."""
    lines, first = "", 0
    for gres in gres_of(words):
        what = {"Count": gres.count}
        if gres.name == GPU:
            what = {"File": f"{devices}/{names_of(GPU, first, int(gres.count))}"}
            first += int(gres.count)
        lines += line_of("NodeName", names, {"Name": gres.name, "Type": gres.type or OMIT, **what}, "gres.conf") + "\n"
    return lines
