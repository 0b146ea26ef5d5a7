"""Reads `sacct --json` (Slurm 21.08 and later) as the table of text that `sacct -P` would give.

A document is one object, often of a single line, whose member `jobs` is a list with all steps of each job; a file may have several.
Jobs are decoded one after another, and only the fields that are used are kept. A number is plain, or an object with members set,
infinite and number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import polars as pl

from mirage.traces import other_formats, states
from mirage.traces.sacct_table import SacctTable, checked
from slurm_mirage.base.errors import WrongUse

COLUMNS = (
    "JobID", "JobIDRaw", "Cluster", "User", "Group", "Partition", "QOS", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "Suspended", "State", "TimelimitRaw", "ReqCPUS", "AllocNodes", "ReqMem", "ReqTRES", "AllocTRES", "Reason", "Constraints",
    "Reservation", "Licenses", "SubmitLine", "ArrayLimit",
)  # fmt: skip
_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODE = json.JSONDecoder().raw_decode


class _Malformed(Exception):
    """What is wrong, and the place in the text."""


class _Other(_Malformed):
    """The words of `other_formats.of_json`, and the place in the text."""


def read_json(data: bytes, name: str) -> SacctTable:
    """Reads the jobs; error messages call the file `name`. `line` of the table is the number of the job in the list.

    Raises WrongUse for text that is not JSON, or has no list `jobs` of objects with the members of sacct.
    """
    rows = table(data, name)
    if rows.is_empty():
        raise WrongUse(f"{name}: has no jobs", parameter="trace")
    return checked(rows.with_row_index("line", 1), name, {}, {})


def table(data: bytes, name: str) -> pl.DataFrame:
    """The fields of the jobs as text. Raises WrongUse as `read_json` does, but for text without jobs."""
    text = data.decode("utf-8", "replace")
    columns: list[list[str]] = [[] for _ in COLUMNS]
    try:
        for job in _jobs(text):
            for column, value in zip(columns, _row(job), strict=True):
                column.append(value)
    except _Malformed as fault:
        what, place = fault.args
        line = text.count("\n", 0, place) + 1
        words = what if isinstance(fault, _Other) else f"is not output of sacct --json, {what}"
        raise WrongUse(f"{name} line {line}: {words}", parameter="trace") from None
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True)), schema=dict.fromkeys(COLUMNS, pl.String))


def _jobs(text: str) -> Iterator[Mapping[str, Any]]:
    """The members of the lists `jobs` of the objects in the text, or of the lists that it has instead of these."""
    place = _blanks(text, 0)
    while place < len(text):
        if text[place] not in "{[":
            raise _Malformed("other text follows it", place)
        place = _blanks(text, (yield from _document(text, place)))


def _document(text: str, begin: int) -> Generator[Mapping[str, Any], None, int]:
    """The jobs of the object, or the list, that begins at a place; returns the place after it."""
    if text[begin] == "[":
        return (yield from _list(text, begin, {}))
    place, has_jobs = _after(text, begin, "{"), False
    others: dict[str, Any] = {}
    while text[place : place + 1] != "}":
        key, place = _value(text, place)
        place = _after(text, place, ":")
        if key == "jobs" and text[place : place + 1] == "[":
            has_jobs = True
            place = yield from _list(text, place, others)
        else:
            others[str(key)], place = _value(text, place)
        place = _next(text, place, "}")
    if not has_jobs:
        raise _Malformed("the list jobs is missing", begin)
    return place + 1


def _list(text: str, begin: int, others: Mapping[str, Any]) -> Generator[Mapping[str, Any], None, int]:
    """The jobs of the list that begins at a place, in an object with these other members; returns the place after it."""
    place = _after(text, begin, "[")
    while text[place : place + 1] != "]":
        job, after = _value(text, place)
        if not isinstance(job, dict) or "job_id" not in job or "time" not in job:
            if words := other_formats.of_json(job, others):
                raise _Other(words, place)
            raise _Malformed("a member of jobs has no job_id or no time", place)
        yield job
        place = _next(text, after, "]")
    return place + 1


def _blanks(text: str, place: int) -> int:
    match = _BLANKS.match(text, place)
    return match.end() if match else place


def _after(text: str, place: int, character: str) -> int:
    """The place of the next token after `character`, which has to be the next one."""
    place = _blanks(text, place)
    if text[place : place + 1] != character:
        raise _Malformed(f"{character!r} is missing" if place < len(text) else "it is cut off", min(place, len(text)))
    return _blanks(text, place + 1)


def _next(text: str, place: int, end: str) -> int:
    """The place of the next member, or of the character `end` after the last one."""
    place = _blanks(text, place)
    return place if text[place : place + 1] == end else _after(text, place, ",")


def _value(text: str, place: int) -> tuple[Any, int]:
    try:
        value, after = _DECODE(text, place)
    except RecursionError:
        raise _Malformed("it is nested too deeply", place) from None
    except ValueError as error:  # also of numbers with thousands of digits
        place = error.pos if isinstance(error, json.JSONDecodeError) else place
        raise _Malformed("it is cut off" if place >= len(text) else "a value is not JSON", min(place, len(text))) from None
    return value, after


def _of(job: Any, *path: str) -> Any:
    """The member at a path; None if there is none."""
    for name in path:
        job = job.get(name) if isinstance(job, dict) else None
    return job


def _number(value: Any) -> str:
    """A number of Slurm's JSON as text; empty if it is not set or infinite."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _text(value: Any) -> str:
    """A text of Slurm's JSON, with a question mark for half of a surrogate pair, which is no character; empty for another value."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _instant(value: Any) -> str:
    number = _number(value)
    return "Unknown" if number in ("", "0") else number.partition(".")[0]


def _resources(listed: Any) -> str:
    """A list of trackable resources as sacct prints it: `cpu=4,mem=4000M,node=1`."""
    words = []
    for one in listed if isinstance(listed, list) else []:
        kind, name, count = _text(_of(one, "type")), _text(_of(one, "name")), _number(_of(one, "count"))
        if kind and count:
            words.append(f"{kind}{'/' if name else ''}{name}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(words)


def _job_id(job: Mapping[str, Any]) -> str:
    number, array, part = (_number(_of(job, *path)) for path in (("job_id",), ("array", "job_id"), ("het", "job_id")))
    if array not in ("", "0"):
        task = _number(_of(job, "array", "task_id"))
        waiting = _text(_of(job, "array", "task"))
        if task or waiting:
            return f"{array}_{task}" if task and not waiting else f"{array}_[{waiting}]"
    if part not in ("", "0"):
        return f"{part}+{_number(_of(job, 'het', 'job_offset')) or 0}"
    return number


def _memory(required: Any) -> str:
    """ReqMem of the members of `required`: MiB per processor or per node."""
    for member, each in (("memory_per_cpu", "c"), ("memory_per_node", "n"), ("memory", "n")):
        number = _number(_of(required, member))
        if number not in ("", "0"):
            return f"{number}M{each}"
    return ""


def _state(current: Any) -> str:
    """The state as sacct prints it: from a list, a base state beside flags, the flag. Slurm's database has some states as the flag
    alone, so that the base state is PENDING beside it."""
    words = [_text(word) for word in current] if isinstance(current, list) else [_text(current)]
    return next((flag for flag in states.FLAGS if flag in words), words[0] if words else "")


def _row(job: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of a job, in the order of `COLUMNS`."""
    time, state = job["time"], _of(job, "state", "current")
    suspended = _number(_of(time, "suspended"))
    return (
        _job_id(job),
        _number(job["job_id"]),
        _text(job.get("cluster")),
        _text(job.get("user")) or _text(_of(job, "association", "user")),
        _text(job.get("group")),
        _text(job.get("partition")),
        _text(job.get("qos")),
        *(_instant(_of(time, name)) for name in ("submission", "eligible", "start", "end")),
        _number(_of(time, "elapsed")),
        f"0:{suspended}" if suspended else "",
        _state(state),
        _number(_of(time, "limit")),
        _number(_of(job, "required", "CPUs")),
        _number(job.get("allocation_nodes")),
        _memory(job.get("required")),
        _resources(_of(job, "tres", "requested")),
        _resources(_of(job, "tres", "allocated")),
        _text(_of(job, "state", "reason")),
        _text(job.get("constraints")),
        _text(_of(job, "reservation", "name")),
        _text(job.get("licenses")),
        _text(job.get("submit_line")),
        _number(_of(job, "array", "limits", "max", "running", "tasks")),
    )
