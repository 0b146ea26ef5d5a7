"""Reads EVENTS, a CSV file of a user's with the columns instant, action, target, argument."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.cluster_events.planned import GENERATED
from mirage.text import durations
from mirage.text.input_file import read_input
from slurm_mirage.base import line_text
from slurm_mirage.base.errors import WrongUse

PARAMETER = "events"
LARGEST = 64 << 20
"""Bytes of a file."""
HEADING = ("instant", "action", "target", "argument")
SOURCE = "source"
"""A further column of a run's events.csv."""
FORM = "lines with instant,action,target,argument"


@dataclass(frozen=True)
class Line:
    """A line of the file, with words as they were given."""

    place: str
    """FILE:LINE."""
    instant: float
    """Trace seconds after the start of the run."""
    action: str
    target: str
    argument: str
    generated_by: str = ""
    """FAILURES, MAINTENANCE or SITE: of the events of a site's week, or in the column `source` of a run's events.csv that is given
    again; else empty."""

    @property
    def source(self) -> str:
        """`PlannedEvent.source` of its events."""
        return self.generated_by or self.place

    def wrong(self, reason: str) -> WrongUse:
        """The error for this line."""
        return WrongUse(f"{self.place}: {reason}", parameter=PARAMETER)


@dataclass(frozen=True)
class UserFile:
    """A file that was read: its lines, without empty ones, comments (#) and the heading, and the SHA-256 of its content."""

    lines: Sequence[Line]
    sha256: str


def read(path: str) -> UserFile:
    """Read a file. Raises WrongUse with file and line."""
    content = read_input(path, PARAMETER, LARGEST)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WrongUse(f"{path}: is not text in UTF-8; it may have {FORM}", parameter=PARAMETER) from error
    return UserFile(list(_lines(Path(path).name, text)), hashlib.sha256(content).hexdigest())


def _lines(name: str, text: str) -> Iterator[Line]:
    columns = list(HEADING)
    lines = text.replace("\r\n", "\n").split("\n")
    reader = csv.reader((f"{line}\n" if not line.lstrip().startswith("#") else "\n" for line in lines), skipinitialspace=True)
    is_first = True
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise WrongUse(f"{name}:{reader.line_num}: {error}", parameter=PARAMETER) from error
        if fields is None:
            return
        fields = [field.strip() for field in fields]
        if not any(fields):
            continue
        place = f"{name}:{reader.line_num}"
        for column, field in enumerate(fields, 1):
            if fault := line_text.fault(field):
                raise WrongUse(f"{place}: field {column} {fault}", parameter=PARAMETER)
        if is_first and fields[0].lower() in (*HEADING, "number"):
            columns = [field.lower() for field in fields]
            if not set(HEADING[:2]) <= set(columns):
                raise WrongUse(f"{place}: the heading needs instant and action; it may be {','.join(HEADING)}", parameter=PARAMETER)
        else:
            fields = _joined(fields, columns)
            if len(fields) > len(columns):
                raise WrongUse(f"{place}: {len(fields)} fields; it may have {FORM}", parameter=PARAMETER)
            values = {**dict.fromkeys((*HEADING, SOURCE), ""), **dict(zip(columns, fields, strict=False))}
            instant, source = _instant(place, values["instant"]), values[SOURCE]
            generated_by = source if source in GENERATED else ""
            yield Line(place, instant, values["action"].lower(), values["target"], values["argument"], generated_by)
        is_first = False


def _joined(fields: list[str], columns: list[str]) -> list[str]:
    """The fields of a line in which a host list, or an argument that is the last column, has commas without quotes.

    An argument beside the column source, as in a run's own file, is in quotes.
    """
    joined: list[str] = []
    for field in fields:
        is_quoted = SOURCE in columns and columns[: len(joined)][-1:] == [HEADING[-1]]
        is_open = joined and joined[-1].count("[") > joined[-1].count("]") and not is_quoted
        if is_open or (joined and len(joined) == len(columns) and columns[-1] == HEADING[-1]):
            joined[-1] += f",{field}"
        else:
            joined.append(field)
    return joined


def _instant(place: str, text: str) -> float:
    if text.startswith("-"):
        raise WrongUse(f"{place}: instant {text}: is before the start of the run, which is 0", parameter=PARAMETER)
    try:
        return durations.seconds(text)
    except ValueError:
        raise WrongUse(f"{place}: instant {text!r}: it may be {durations.FORM}", parameter=PARAMETER) from None
