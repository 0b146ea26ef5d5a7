"""What a job of sacct asked for beside processors and time, as `jobs.request.Request`: from its columns and its SubmitLine.

Instants (`begin`, `hold`) are not part of it: they are those of the columns Eligible and Submit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from slurm_mirage.jobs.request import Request, is_valid

NOTHING = ("", "(null)", "None", "none", "N/A", "0")
_UNITS = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_RESOURCE = re.compile(r"(gres|license)[/:]([^=,]+)=(\d{1,9})(?:[^\d,][^,]*)?(?:,|$)")
_WHOLE = ("yes", "true", "1", "exclusive", "node")
_MOST = 10**9


KINDS: Mapping[str, tuple[str, ...]] = {
    "gres": ("gres", "gpus", "gpus_per_task"),
    "constraint": ("constraint",),
    "licence": ("licences",),
    "node_count": ("nodes", "tasks_per_node"),
    "exclusive": ("exclusive",),
    "tasks": ("cpus_per_task",),
    "placement": ("contiguous", "switches"),
    "nice": ("nice",),
}
"""Members of `Request` by kind of request (`not_played.WORDS`)."""
Given = tuple[tuple[str, str], ...]
"""Options of a command line that are read here, with their values."""


@dataclass(frozen=True)
class Asked:
    """Columns of sacct, and the options of SubmitLine. `resources` is ReqTRES, or AllocTRES where that has no GRES; numbers are 0
    if they are unknown."""

    given: Given = ()
    constraints: str = ""
    licences: str = ""
    reservation: str = ""
    req_gres: str = ""
    resources: str = ""
    exclusive: str = ""
    asked_nodes: int = 0
    nodes: int = 0
    mebibytes_of_node: int = 0


def request_of(asked: Asked) -> Request:
    """The request. What cannot be read is not in it."""
    given = dict(asked.given)
    request = _shape(given, asked)
    request = _gres(request, given, asked)
    licences = _licences(_first(asked.licences, given.get("licenses", "")), asked.resources)
    return replace(
        request,
        constraint=_checked("constraint", _first(asked.constraints, given.get("constraint", ""))),
        licences=licences,
        reservation=_checked("reservation", _first(given.get("reservation", ""), asked.reservation)),
    )


_OTHERS = """
cluster-constraint consolidate-segments core-spec cores-per-socket deadline delay-boot extra-node-info gres-flags hint mincpus
network ntasks-per-core ntasks-per-gpu ntasks-per-socket ntasks-per-tres overcommit oversubscribe priority reboot resources
segment sockets-per-node spread-job spread-segments thread-spec threads-per-core time-min tmp tres-per-socket use-min-nodes
"""
_LINE_KINDS = {
    kind: frozenset(names.split())
    for kind, names in {
        "gres": "gres gpus gpus-per-node gpus-per-socket gpus-per-task tres-per-job tres-per-node tres-per-socket tres-per-task",
        "constraint": "constraint",
        "features": "prefer batch",
        "licence": "licenses",
        "reservation": "reservation",
        "burst_buffer": "bb bbf",
        "node_count": "nodes ntasks-per-node",
        "node_list": "nodelist exclude nodefile",
        "exclusive": "exclusive",
        "begin": "begin",
        "tasks": "cpus-per-task",
        "placement": "contiguous switches",
        "nice": "nice",
        "other_option": _OTHERS,
    }.items()
}
"""Options of sbatch that matter to the scheduler, by kind of request."""
_READ = frozenset(("hold", "mem", "mem-per-cpu", "mem-per-gpu", "ntasks")).union(*_LINE_KINDS.values())


def given(options: Mapping[str, str]) -> Given:
    """Those of the options of a command line (`submit_line.options`) that are read here."""
    return tuple((name, value) for name, value in options.items() if name in _READ)


@lru_cache(maxsize=1 << 16)
def kinds_of(options: Given) -> list[str]:
    """The kinds of requests on the command line. One processor for each task, and a --nice of 0, are none."""
    names = {name for name, value in options if (name, value) not in (("cpus-per-task", "1"), ("nice", "0"))}
    return [kind for kind, of_kind in _LINE_KINDS.items() if not of_kind.isdisjoint(names)]


def kinds_in(request: Request) -> tuple[str, ...]:
    """The kinds of requests in a request."""
    return tuple(kind for kind, members in KINDS.items() if any(getattr(request, member) for member in members))


def _first(*texts: str) -> str:
    return next((text for text in map(str.strip, texts) if text not in NOTHING), "")


def _checked(name: str, text: str) -> str:
    return text if is_valid(name, text) else ""


def _count(text: str) -> int:
    """A whole number above 0, with Slurm's factor k or m (1024 and its square); 0 for anything else."""
    match = re.fullmatch(r"(\d{1,9})([km]?)", text, re.IGNORECASE)
    number = int(match[1]) * {"": 1, "k": 1024, "m": 1024**2}[match[2].lower()] if match else 0
    return number if number < _MOST else 0


def mebibytes(text: str) -> int:
    """An amount of memory in MiB, rounded up; 0 for anything else."""
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text.upper())
    amount = -(-int(match[1]) * _UNITS[match[2]] // 1) if match else 0.0
    return int(amount) if amount < _MOST else 0


def _shape(given: Mapping[str, str], asked: Asked) -> Request:
    fewest, _, most = given.get("nodes", "").partition("-")
    nodes, most_nodes = _count(fewest), _count(most)
    if not nodes and not most_nodes and asked.asked_nodes > 1:
        nodes, most_nodes = asked.asked_nodes, max(asked.asked_nodes, asked.nodes)
    if most_nodes and not nodes:
        nodes = 1
    exclusive = given.get("exclusive", "none") in ("", "exclusive") or asked.exclusive.lower() in _WHOLE
    switches = _checked("switches", given.get("switches", ""))
    memory = mebibytes(given.get("mem", "")) or asked.mebibytes_of_node
    of_gpu = mebibytes(given.get("mem-per-gpu", ""))
    return Request(
        nodes=nodes,
        most_nodes=most_nodes if most_nodes > nodes else 0,
        tasks=_count(given.get("ntasks", "")),
        cpus_per_task=_count(given.get("cpus-per-task", "")),
        tasks_per_node=_count(given.get("ntasks-per-node", "")),
        memory_per_node=0 if of_gpu or "mem-per-cpu" in given else memory,
        memory_per_gpu=of_gpu,
        exclusive=exclusive,
        contiguous="contiguous" in given,
        switches=switches,
        nice=_nice(given),
    )


def _nice(given: Mapping[str, str]) -> int:
    """Slurm's --nice without a value is 100. Only users with a privilege may have less than 0."""
    text = given.get("nice")
    if text is None:
        return 0
    return 100 if text == "" else min(_count(text), 2**31 - 4)


def _gres(request: Request, given: Mapping[str, str], asked: Asked) -> Request:
    """The request with GRES and GPUs: as on the command line; without one as in ReqGRES (of a node), or ReqTRES (of the job)."""
    of_node = [*_items(given.get("gres", "")), *_items(given.get("tres-per-node", "").replace("gres/", "gres:"))]
    if kinds := _gpus(given.get("gpus-per-node", "")):
        of_node += [f"gpu:{kind}" for kind in kinds.split(",")]
    of_job, of_task = _gpus(given.get("gpus", "")), _gpus(given.get("gpus-per-task", ""))
    if not of_node and not of_job and not of_task:
        of_node = _items(asked.req_gres)
    if of_node or of_job or of_task:
        return replace(request, gres=_checked("gres", ",".join(of_node)), gpus=of_job, gpus_per_task=of_task)
    found = {name: int(number) for kind, name, number in _RESOURCE.findall(asked.resources) if kind == "gres" and int(number)}
    typed = {name.partition(":")[0] for name in found if ":" in name}
    found = {name: number for name, number in found.items() if name not in typed}
    gpus = ",".join(f"{name.partition(':')[2]}:{number}".lstrip(":") for name, number in found.items() if _is_gpu(name))
    nodes = max(asked.nodes or asked.asked_nodes, 1)
    others = {name: number for name, number in found.items() if not _is_gpu(name)}
    even = all(number % nodes == 0 for number in others.values())
    each = ",".join(f"{name}:{number // nodes}" for name, number in others.items()) if even else ""
    return replace(request, gres=_checked("gres", each), gpus=_checked("gpus", gpus))


def _is_gpu(name: str) -> bool:
    return name.partition(":")[0] == "gpu"


def _items(text: str) -> list[str]:
    """Items of --gres or ReqGRES as NAME[:TYPE]:COUNT."""
    items = []
    for item in text.split(","):
        plain = re.sub(r"\Agres[:/]", "", re.sub(r"\([^)]*\)?", "", item.strip())).replace("=", ":")
        parts = plain.split(":")
        if plain in NOTHING or parts[-1] == "0":
            continue
        number = _count(parts[-1])
        items.append(":".join([*parts[:-1], str(number)]) if number else f"{plain}:1")
    return items


def _gpus(text: str) -> str:
    """Numbers of GPUs, perhaps with types, as Slurm's --gpus takes them; "" for none."""
    items = [item for item in text.split(",") if item and item.rpartition(":")[2] != "0"]
    return _checked("gpus", ",".join(item if item.rpartition(":")[2].isdigit() else f"{item}:1" for item in items))


def _licences(text: str, resources: str) -> str:
    """Licences with their numbers; of a list from which Slurm may choose (`|`) none."""
    if not text:
        text = ",".join(
            f"{name}:{number}" for kind, name, number in _RESOURCE.findall(resources) if kind == "license" and int(number)
        )
    return _checked("licences", text.replace(";", ",").replace("=", ":"))
