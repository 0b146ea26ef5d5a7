"""The columns of sacct's output: from its heading, or, without one, from the fields of a documented command."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DOCUMENTED = tuple(
    tuple(columns.split(","))
    for columns in (
        "JobID,JobIDRaw,Cluster,Partition,QOS,Account,Group,GID,User,UID,Submit,Eligible,Start,End,Elapsed,ExitCode,State,NNodes,"
        "NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,Timelimit,NodeList,JobName",
        "JobID,JobIDRaw,Cluster,Partition,Account,Group,GID,User,UID,Submit,Eligible,Start,End,Elapsed,ExitCode,State,NNodes,"
        "NCPUS,ReqCPUS,ReqMem,ReqTRES,AllocTRES,Timelimit,NodeList,JobName",
        "JobID,JobIDRaw,Cluster,Partition,Account,Group,GID,User,UID,Submit,Eligible,Start,End,Elapsed,ExitCode,State,NNodes,"
        "NCPUS,ReqCPUS,ReqMem,ReqGRES,ReqTRES,Timelimit,NodeList,JobName",
        "JobID,JobIDRaw,User,Group,Partition,QOS,Submit,Start,End,ElapsedRaw,Suspended,State,TimelimitRaw,ReqCPUS,AllocCPUS,"
        "ReqNodes,AllocNodes,ReqMem,ReqTRES,AllocTRES,Eligible,Reason,Constraints,Licenses,Reservation,SubmitLine",
    )
)
"""Columns of commands with `--noheader`: those of XDMoD's documentation (versions 10, 9.5 and 8.5), and docs/formats.md's."""

_NUMBERS = ("jobid", "jobidraw")
_DELIMITERS = ("|", "\t", ",", ";")


@dataclass(frozen=True)
class Heading:
    """columns: names as in sacct(1) where it has them; delimiter: text between fields; closed: a delimiter is also after the last
    field (sacct -p); quoted: fields may be in quotes, as in CSV; padded: there are blanks around fields; has_line: the columns
    are in the file."""

    columns: tuple[str, ...]
    delimiter: str
    closed: bool = False
    quoted: bool = False
    padded: bool = False
    has_line: bool = True


def heading_of(line: str, names: Sequence[str]) -> Heading | None:
    """The heading in a line, in any case, with any delimiter; None if the line has no field JobID or JobIDRaw. names: in sacct's
    spelling."""
    for delimiter in ("|", *_beside_number(line)):
        parts = line.rstrip("\r").split(delimiter)
        fields = [part.strip() for part in parts]
        quoted = len(delimiter) == 1 and any(field.startswith('"') for field in fields)
        fields = [field.strip('"') for field in fields] if quoted else fields
        if set(_NUMBERS) & {field.lower() for field in fields}:
            spelling = {name.lower(): name for name in names}
            closed = fields[-1] == "" and len(fields) > 1
            columns = tuple(spelling.get(field.lower(), field) for field in (fields[:-1] if closed else fields))
            return Heading(columns, delimiter, closed, quoted, padded=parts[1:-1] != fields[1:-1])
    return None


def _beside_number(line: str) -> list[str]:
    """Texts that may be the delimiter: what is after, or before, a field JobID or JobIDRaw."""
    after = re.search(r'(?i)(?:^|(?<=[^A-Za-z0-9_]))jobid(?:raw)?"?([^A-Za-z0-9_"\r]+)', line)
    last = re.search(r'(?i)"?jobid(?:raw)?"?\s*$', line)
    # Backwards, as a search for it from the beginning takes a time that grows with the square of the line's length.
    before = re.match(r'[^A-Za-z0-9_"\r]+', line[: last.start()][::-1]) if last else None
    texts = []
    if after:
        texts.append(after[1])
    if before:
        texts.append(before[0][::-1])
    return [text for text in texts if text.strip(" \r") != ""]


def without_heading(lines: Sequence[str], forms: Mapping[str, str]) -> Heading | None:
    """The columns of lines without a heading: those of the first documented command whose number of fields they all have, with
    fields of sacct's form in every column; None if there is none.

    forms: regular expression of columns
    """
    for delimiter in _DELIMITERS:
        rows = [line.split(delimiter) for line in lines]
        for columns in DOCUMENTED:
            for closed in (False, True):
                if rows and all(_fits(fields, columns, closed, forms) for fields in rows):
                    return Heading(columns, delimiter, closed, has_line=False)
    return None


def _fits(fields: Sequence[str], columns: Sequence[str], closed: bool, forms: Mapping[str, str]) -> bool:
    if len(fields) != len(columns) + closed or (closed and fields[-1]):
        return False
    return all(
        re.fullmatch(forms[column], field) is not None for column, field in zip(columns, fields, strict=False) if column in forms
    )
