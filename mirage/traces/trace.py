"""Reading a workload log of any known format; its content decides which, not its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mirage.traces import log_text, sacct, swf
from slurm_mirage.base.errors import WrongUse


@dataclass(frozen=True)
class Trace:
    """A log as read.

    frame: the jobs, in the file's order, as an SWF frame (`swf.SCHEMA`; sacct may add columns `suspended` and `nodes`)
    header: SWF header, label to value
    notes: the log's oddities, each with the number of jobs that it concerns
    format: "swf" or "sacct"
    sha256: of the file as it is, packed or not
    """

    frame: pl.DataFrame
    header: dict[str, str]
    notes: dict[str, int]
    format: str
    sha256: str

    def machine(self) -> tuple[int, int | None]:
        """Processors and nodes of the machine: MaxProcs and MaxNodes of the header.

        Without MaxProcs it is taken to have as many processors as the widest job, without MaxNodes its nodes
        are unknown (None).
        """
        widest = self.frame.select(pl.max_horizontal("allocated_processors", "requested_processors").max())
        processors = _number(self.header.get("MaxProcs")) or max(1, int(widest.item()))
        return processors, _number(self.header.get("MaxNodes"))


def read_trace(path: Path | str) -> Trace:
    """Reads an SWF log or what `sacct -P` printed, plain or gzip. Raises WrongUse for anything else."""
    text, name = log_text.load(path), str(path)
    kind = _kind(text.data, name)
    parse = {"swf": swf.parse_swf, "sacct": sacct.parse_sacct}[kind]
    frame, header, notes = parse(text.data, name)
    return Trace(frame, header, notes, kind, text.sha256)


def _kind(data: bytes, name: str) -> str:
    """The format, by the first line that is neither blank nor an SWF comment; WrongUse if that is of none."""
    found = re.search(rb"^[ \t\r]*([^;\s].*)$", data, re.MULTILINE)
    if found is None or re.match(rb"[-+.\d]+(\s|$)", found[1]):
        return "swf"
    if {b"JobID", b"JobIDRaw"} & set(found[1].strip().split(b"|")):
        return "sacct"
    line = data.count(b"\n", 0, found.start(1)) + 1
    start = found[1][:30].decode("utf-8", "replace")
    raise WrongUse(f"{name} line {line}: {start!r} is neither a job in SWF nor a heading of sacct -P with JobID", parameter="trace")


def _number(value: str | None) -> int | None:
    """The number that a header's value begins with (`128 (and 2 for service)`), if it is above 0."""
    found = re.match(r"\d+", value or "")
    return int(found[0]) or None if found else None
