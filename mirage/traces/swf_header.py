"""The header of a log in Standard Workload Format: `; Label: value` lines before the first job.

The labels are those of version 2.2 of the format (Parallel Workloads Archive, "The Standard Workload Format").
"""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import polars as pl

# In the standard's order, in which they are written.
LABELS = (
    "Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs",
    "MaxRecords", "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime",
    "MaxNodes", "MaxProcs", "MaxRuntime", "MaxMemory", "AllowOveruse", "MaxQueues", "Queues", "Queue",
    "MaxPartitions", "Partitions", "Partition", "Note",
)  # fmt: skip

EPOCH = 5e8
"""Submissions later than this (1985 in Unix time) are dates, not seconds since the log's beginning."""

_LABEL = re.compile(r"\s*([A-Z][A-Za-z]*)\s*:(?:\s+(.*)|)$")


def read_header(data: bytes) -> dict[str, str]:
    """Labels and values before the first job; text without a label belongs to the label above it."""
    header: dict[str, list[str]] = {}
    label = "Note"
    for raw in io.BytesIO(data):
        line = raw.decode("utf-8", "replace").strip()
        if not line.startswith(";"):
            if line:
                break
            continue
        text = line.lstrip(";").rstrip()
        found = _LABEL.match(text)
        if found:
            label, text = found[1], found[2] or ""
        if text.strip():
            header.setdefault(label, []).append(text.strip())
    return {label: "\n".join(lines) for label, lines in header.items()}


def header_text(frame: pl.DataFrame, header: dict[str, str]) -> str:
    """The header's lines for these jobs, the standard's labels first and in its order.

    Version, MaxJobs (jobs, without the lines that are parts of a job) and MaxRecords (lines) are set to what is
    written. Added if the header lacks them are UnixStartTime (0: not known), MaxProcs and MaxNodes (the widest job),
    MaxRuntime (the longest that a job ran or was allowed to), and, if UnixStartTime is known, StartTime and EndTime (the
    last end), in the zone that the header names, else in UTC.
    """
    widest = frame.select(pl.max_horizontal("allocated_processors", "requested_processors").max()).item()
    longest = frame.select(pl.max_horizontal("run_time", "requested_time").max()).item()
    parts = frame.select(pl.col("status").is_between(2, 4).sum()).item()
    full = {"UnixStartTime": "0", "MaxProcs": str(widest or 0), "MaxNodes": str(widest or 0)}
    if longest is not None and longest > 0:
        full["MaxRuntime"] = f"{longest:.0f}"
    full |= _dates(frame, header) | header
    full |= {"Version": "2.2", "MaxJobs": str(frame.height - parts), "MaxRecords": str(frame.height)}
    order = [label for label in LABELS if label in full] + [label for label in full if label not in LABELS]
    return "".join(f"; {label}: {line}\n" for label in order for line in full[label].split("\n"))


def _dates(frame: pl.DataFrame, header: dict[str, str]) -> dict[str, str]:
    """StartTime and EndTime, as date(1) prints them; empty if nobody knows when second 0 was."""
    begin = _seconds(header.get("UnixStartTime"))
    col = pl.col
    known = frame.select(first=col("submit").min(), last=(col("submit") + col("wait").clip(0) + col("run_time").clip(0)).max()).row(
        0
    )
    if not begin or None in known or known[0] > EPOCH:
        return {}
    try:
        start, end = (datetime.fromtimestamp(begin + second, _zone(header)) for second in (0, known[1]))
    except (OverflowError, ValueError, OSError):
        return {}  # no date of the calendar
    return {label: f"{when:%a %b %d %H:%M:%S %Z %Y}" for label, when in (("StartTime", start), ("EndTime", end))}


def _zone(header: dict[str, str]) -> tzinfo:
    try:
        return ZoneInfo(header["TimeZoneString"])
    except (KeyError, ValueError, OSError):
        offset = _seconds(header.get("TimeZone")) or 0
        return timezone(timedelta(seconds=offset)) if abs(offset) < 86400 else UTC


def _seconds(value: str | None) -> int | None:
    found = re.match(r"-?[0-9]{1,15}(?![0-9])", value or "")
    return int(found[0]) if found else None
