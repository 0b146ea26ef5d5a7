"""Formats of workload logs that are known but not read: a refusal names them and says what to do instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_TAR = 257, b"ustar"
"""Offset and bytes of the mark in the header of a tar."""
_BINARY = (
    (b"\xff\xfe\x00\x00", "UTF-32 text", "iconv -f UTF-32 -t UTF-8"),
    (b"\xff\xfe", "UTF-16 text, as > of PowerShell writes it", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfd7zXZ\0", "compressed with xz", "xz -d"),
    (b"BZh", "compressed with bzip2", "bzip2 -d"),
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", "zstd -d"),
    (b"PK\x03\x04", "a ZIP archive", "unzip"),
    (b"PAR1", "a Parquet file in gzip", "gunzip"),
    (b"SQLite format 3\0", "an SQLite database", "sqlite3 -csv, with sacct's headings"),
)
"""The first bytes of a file, what it is, and the program that converts it."""

_COLUMN = r"[A-Za-z%][\w%()/]*"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_SACCT = "print it with sacct --parsable2"
_AS_SWF = "write its jobs as SWF, or as lines with sacct's headings (docs/formats.md)"
_JINJA = r"\{%.*%\}|\{\{.*\}\}|\{#.*#\}"
_LINES = (
    (r"<(!doctype|html|\?xml|head)", "a web page or XML", "save the log itself"),
    (_JINJA, "a template", "render it first"),
    (r"[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9:]{8};[A-Z];", "accounting of PBS (OpenPBS, Torque)", _AS_SWF),
    (r"[^:]*:[^:]*:[^:]*:[^:]*:[^:]*:[0-9]+:[^:]*:-?[0-9]+(:[0-9]+){5}:", "accounting of Grid Engine (SGE)", _AS_SWF),
    (r'"JOB_FINISH2?" "', "accounting of LSF (lsb.acct)", _AS_SWF),
    (
        r"\W*JobID\W+SubmitTime\W+WaitTime\W|(?=[0-9]+\s+[0-9]+\s)(\S+\s+){11}[0-9-]*[A-Za-z]\S*\s+(\S+\s+){15,17}\S+\s*\Z",
        "in Grid Workloads Format (GWF)",
        "keep its first 11 fields, which are those of SWF, and put -1 seven times after them",
    ),
    (
        r"(?=.*\bjob_?id\b)(?=.*\bgpu_num\b)(?=.*\bsubmit_time\b).*,",
        "a log of the Helios traces",
        "name its columns as sacct does: JobID for job_id, NCPUS for cpu_num, NNodes for node_num, State for state, Submit, Start "
        "and End for submit_time, start_time and end_time",
    ),
    (r"(---|%YAML .*|jobs:|meta:)\s*\Z", "YAML, as of sacct --yaml", "print it with sacct --json"),
    (r"JobId=[0-9]+ ", "output of scontrol, or a log of jobcomp/filetxt", _SACCT),
    (
        rf"(?=(.*[ \t])?jobid(raw)?([ \t]|\Z))(?:{_COLUMN} +)+{_COLUMN}\s*\Z|-+( +-+)+\s*\Z|[0-9][^|,;\t]* {_DATE} ",
        "a table with columns of a fixed width, as sacct prints it without -P",
        f"{_SACCT} (-P)",
    ),
)
"""Regular expression of the beginning of a line, what the file is, and what to do."""
_LONGEST = 1000
"""Characters of a line that are looked at."""


def of_bytes(first: bytes) -> str:
    """What a file with these first bytes is, and what to do; empty for anything else."""
    if first[_TAR[0] :].startswith(_TAR[1]):
        return "is a tar archive: unpack the log with tar -xf"
    for mark, what, how in _BINARY:
        if first.startswith(mark):
            return f"is {what}: convert it with {how}"
    # Most second bytes of UTF-16 without a byte order mark are 0.
    if len(first) > 3 and (not any(first[1:40:2]) or not any(first[:40:2])) and any(first[:40]):
        return "is UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8"
    return ""


def content_of(lines: Sequence[str]) -> str:
    """The first line that is neither blank nor a comment (#); empty if there is none."""
    return next((text for line in lines if (text := line.strip()) and not text.startswith("#")), "")


def of_lines(lines: Sequence[str]) -> str:
    """What a file with these first lines is, and what to do; empty for anything else. Comments (#) before other lines are passed
    over, but for a heading in the first line."""
    content = content_of(lines)
    shown = [content, *(line.strip() for line in lines[:2])]
    for pattern, what, how in _LINES:
        if any(re.match(pattern, line[:_LONGEST], re.IGNORECASE) for line in shown):
            return f"is {what}: {how}"
    return ""


def is_template(lines: Sequence[str]) -> bool:
    """Whether there is an expression of Jinja in the lines."""
    return any(re.search(_JINJA, line[:_LONGEST]) for line in lines)


def of_json(member: Any, document: Mapping[str, Any]) -> str:
    """What a JSON file with such a member in its list of jobs is, and what to do; empty for anything else.

    document: the other members of the object, as far as they are known
    """
    keys = set(member) if isinstance(member, dict) else set()
    if {"id", "subtime"} <= keys or "profiles" in document:
        return "is a workload of Batsim (jobs and profiles, no schedule): give the jobs.csv that Batsim writes, or SWF"
    if "submit_time" in keys and keys & {"application_model", "num_nodes", "num_nodes_min"}:
        return "is a workload of ElastiSim, which has no schedule: give SWF"
    return ""
