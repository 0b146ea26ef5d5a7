"""Reads and writes the header of a log in Standard Workload Format: lines `; Label: value` before the first job.

The labels are those of version 2.2 of the format (Parallel Workloads Archive, "The Standard Workload Format").
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import polars as pl

from slurm_mirage.base.printing import one_line

# In the order of the standard, which is also the order in the file.
LABELS = (
    "Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs",
    "MaxRecords", "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime",
    "MaxNodes", "MaxProcs", "MaxRuntime", "MaxMemory", "AllowOveruse", "MaxQueues", "Queues", "Queue",
    "MaxPartitions", "Partitions", "Partition", "Note",
)  # fmt: skip

EPOCH = 5e8
"""Submission times above this (1985 in Unix time) are Unix times, not seconds since the log's beginning."""

_LABEL = re.compile(r"\s*([A-Z][A-Za-z]*)\s*:(?:\s+(.*)|)$")


_NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:[,']\d{3})+|\d{1,15})(\.\d+)?\.?(?=\s*\(|[\s;,]+[A-Za-z]|[\s;,]*$)", re.ASCII)
_NUMBERS = ("MaxNodes", "MaxProcs", "UnixStartTime", "TimeZone")
"""Labels whose values are used as numbers."""


def number(value: str | None) -> float | None:
    """The number at the beginning of a label's value: 128 of `128 (and 2 for service)`, 1152 of `1,152`; None if there is none, or
    if what follows may belong to it, as in `1 152`, `2K` and `64-128`."""
    match = _NUMBER.match((value or "").strip())
    return float(match[1] + re.sub("[,']", "", match[2]) + (match[3] or "")) if match else None


def unknown_numbers(header: Mapping[str, str]) -> int:
    """How many labels that should have a number have a value with digits that is none."""
    return sum(bool(re.search(r"\d", header.get(label, ""))) and number(header[label]) is None for label in _NUMBERS)


def read_header(data: bytes) -> dict[str, str]:
    """Labels and values before the first job. Text without a label is added to the label above it, in a line of its own."""
    header: dict[str, list[str]] = {}
    label = "Note"
    for raw in io.BytesIO(data):
        line = raw.decode("utf-8", "replace").strip()
        if not line.startswith(";"):
            if line:
                break
            continue
        text = line.lstrip(";").rstrip()
        labelled = _LABEL.match(text)
        if labelled:
            label, text = labelled[1], labelled[2] or ""
        if text.strip():
            header.setdefault(label, []).append(text.strip())
    return {label: "\n".join(lines) for label, lines in header.items()}


def header_text(frame: pl.DataFrame, header: dict[str, str]) -> str:
    """The header's lines for these jobs: first the labels of the standard in its order, then others.

    Version, MaxJobs and MaxRecords are replaced by the values for these jobs. Labels that the header lacks are added:
    UnixStartTime (0: unknown), MaxProcs and MaxNodes (size of the largest job), MaxRuntime (longest run time or requested time),
    and, if UnixStartTime is known, StartTime and EndTime (last end), in the header's time zone or UTC.
    Control characters in a line of text are written as escapes: a reader may take one for the end of the line.
    """
    widest = frame.select(pl.max_horizontal("allocated_processors", "requested_processors").max()).item()
    longest = frame.select(pl.max_horizontal("run_time", "requested_time").max()).item()
    full = {"UnixStartTime": "0", "MaxProcs": str(widest or 0), "MaxNodes": str(widest or 0)}
    if longest is not None and longest > 0:
        full["MaxRuntime"] = f"{longest:.0f}"
    full |= _dates(frame, header) | header
    full |= {"Version": "2.2", "MaxJobs": str(frame.height), "MaxRecords": str(frame.height)}
    order = [label for label in LABELS if label in full] + [label for label in full if label not in LABELS]
    return "".join(f"; {label}: {one_line(line, None)}\n" for label in order for line in full[label].split("\n"))


def _dates(frame: pl.DataFrame, header: dict[str, str]) -> dict[str, str]:
    """StartTime and EndTime in the form of date(1); empty if the Unix time of second 0 is unknown."""
    begin = number(header.get("UnixStartTime"))
    col = pl.col
    known = frame.select(first=col("submit").min(), last=(col("submit") + col("wait").clip(0) + col("run_time").clip(0)).max()).row(
        0
    )
    if not begin or None in known or known[0] > EPOCH:
        return {}
    try:
        start, end = (datetime.fromtimestamp(begin + second, _zone(header)) for second in (0, known[1]))
    except (OverflowError, ValueError, OSError):
        return {}  # outside of the calendar
    return {label: f"{when:%a %b %d %H:%M:%S %Z %Y}" for label, when in (("StartTime", start), ("EndTime", end))}


def _zone(header: dict[str, str]) -> tzinfo:
    try:
        return ZoneInfo(header["TimeZoneString"])
    except (KeyError, ValueError, OSError):
        offset = number(header.get("TimeZone")) or 0.0
        return timezone(timedelta(seconds=offset)) if abs(offset) < 86400 else UTC
