"""Splits output of `sacct -P` or `sacct -p` into a table of text with the columns that are used, a row per job, and checks it.

A `|` or a line break inside a field shifts the fields after it; both occur in SubmitLine, the command that the user typed. Such
lines are repaired if there is exactly one way to do so.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl

from mirage.traces.unread import Unread, refuse_if_half
from slurm_mirage.base.errors import WrongUse

_WHOLE = "[0-9]{1,15}"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2}:?[0-9]{2})?|[0-9]{9,11}"
DURATION = r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9}(?:\.[0-9]{1,9})?)"
"""Days, hours, minutes, seconds of `[[D-]HH:]MM:SS[.mmm]`."""
MEMORY = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTP]?)([nc]?)"
"""Number, unit (default M), and n (per node) or c (per processor), printed before Slurm 21.08; else for the whole job."""
_NO_DATE = ("Unknown", "None", "")
_DATES = ("Submit", "Eligible", "Start", "End")

# Regular expressions of the columns whose form sacct(1) defines. All of them are used to find the fields of a line in which a `|`
# inside free text has shifted the columns; those in _USED are checked in every line.
_FORMS = {
    **dict.fromkeys(["Submit", "Eligible", "Start", "End"], f"{_DATE}|{'|'.join(_NO_DATE)}"),
    **dict.fromkeys(["Elapsed", "CPUTime", "Suspended", "Reserved", "Planned"], f"{DURATION}|INVALID|"),
    **dict.fromkeys(["ElapsedRaw", "CPUTimeRAW", "Priority", "UID", "GID"], f"{_WHOLE}|"),
    **dict.fromkeys(["AssocID", "DBIndex", "QOSRAW", "NTasks"], f"{_WHOLE}|"),
    **dict.fromkeys(["AllocCPUS", "NCPUS", "ReqCPUS"], _WHOLE),
    **dict.fromkeys(["NNodes", "AllocNodes", "ReqNodes"], r"[0-9]{1,15}(?:\.[0-9]{1,9})?[KMG]?"),
    **dict.fromkeys(["AllocTRES", "ReqTRES"], r"(?:[^=,|]+=[^=,|]*,)*[^=,|]+=[^=,|]*|"),
    "ReqMem": rf"{MEMORY}|\?|",
    "JobID": rf"{_WHOLE}([_+]({_WHOLE}|\[.*\]))?(\..+)?",
    "JobIDRaw": rf"{_WHOLE}(\..+)?",
    "ExitCode": r"[0-9]+:[0-9]+|",
    "State": r"[A-Z_]+( by \S+)?\+?|\?",
    "Timelimit": f"{DURATION}|UNLIMITED|Partition_Limit|INVALID|",
    "TimelimitRaw": rf"{_WHOLE}|UNLIMITED|Partition_Limit|",
}
# Text that users write, in which a `|` or a line break can occur.
_FREE = (
    "SubmitLine", "JobName", "Comment", "AdminComment", "SystemComment", "Constraints", "WorkDir", "WCKey",
)  # fmt: skip
_USED = (
    "JobID", "JobIDRaw", "Submit", "Start", "End", "Elapsed", "ElapsedRaw", "Suspended", "State", "Timelimit",
    "TimelimitRaw", "AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "ReqTRES", "AllocNodes", "NNodes", "ReqNodes",
    "ReqMem", "User", "UID", "Group", "GID", "Partition", "QOS",
)  # fmt: skip
# These are read as well, but two ways to repair a line may differ in them.
_TAKEN = (*_USED, "SubmitLine", "Eligible", "Reason", "Constraints", "Licenses", "Reservation", "ReqGRES", "AllocGRES")
_REQUIRED = (
    ("JobID", "JobIDRaw"),
    ("Submit",),
    ("Start",),
    ("End", "Elapsed", "ElapsedRaw"),
    ("AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "ReqTRES"),
)
_MOST_COLUMNS = 300  # sacct of Slurm 24.05 has about 120
_MOST_LINES = 1000  # lines of one job, split by line breaks in its fields
_MOST_BARS = 100  # surplus bars in a line to be repaired; the number of ways grows with them
_LIKE_A_DATE = "; SLURM_TIME_FORMAT, if set, may be standard, %s or '%FT%T%z'"


@dataclass(frozen=True)
class SacctTable:
    """A row per job.

    jobs: column `line` (number in the file) and, as text, those columns of `_TAKEN` that the output has
    notes: number of lines by oddity
    unread: lines that are left out
    """

    jobs: pl.DataFrame
    notes: dict[str, int]
    unread: Unread


# Options of polars.read_csv: every field as unchanged text.
_AS_TEXT: dict[str, Any] = {
    "has_header": False, "quote_char": None, "empty_string_is_null": False, "encoding": "utf8-lossy",
}  # fmt: skip

# Put before the text, because polars.read_csv unpacks data that begin with the signature of a compressed format, such as `x^`.
_LINE_0 = b"\n"


def read_table(data: bytes, name: str) -> SacctTable:
    """Parses sacct's output; error messages call the file `name`.

    A line that cannot be read unambiguously, or has a field that sacct does not print so, is left out. Raises WrongUse, with the
    first such line, if half of the lines or more are such: it is not sacct's output.
    """
    # A separator that occurs in no text keeps each line in one field.
    lines = pl.read_csv(_LINE_0 + data, schema={"text": pl.String}, separator="\1", row_index_name="line", **_AS_TEXT)
    lines = lines.filter(pl.col("text").str.strip_chars() != "").with_row_index("place")
    _, first, heading = lines.row(0)
    columns = _columns(heading, f"{name} line {first}:")
    used = {column: columns.index(column) for column in _TAKEN if column in columns}
    # The heading is repeated if the file holds several outputs.
    lines = lines.filter(pl.col("text") != heading)
    bars = heading.count("|")
    lines = lines.with_columns(bars=pl.col("text").str.count_matches("|", literal=True))
    lines, endings = _without_endings(lines, columns, bars, data.endswith(b"\n"))
    whole = pl.col("bars") == bars
    rows = _split(lines.filter(whole), bars + 1, used)
    notes = {"lines_with_bars_mended": 0, "lines_with_breaks_mended": endings}
    mended = []
    faults: dict[int, str] = {}
    for line, note, fields in _mended(lines.filter(~whole), columns, bars):
        if isinstance(fields, str):
            faults[line] = fields
            continue
        notes[note] += 1
        mended.append((line, *(fields[place] for place in used.values())))
    if mended:
        rows = pl.concat([rows, pl.DataFrame(mended, schema=rows.schema, orient="row")]).sort("line")
    number = "JobID" if "JobID" in used else "JobIDRaw"
    jobs = rows.filter(~pl.col(number).str.contains(r"^[^\[]*\."))  # a step's number has a dot: 7.batch, 7.0
    steps, found = rows.height - jobs.height, jobs.height + len(faults)
    if not found:
        raise WrongUse(f"{name}: has no jobs, only a heading or steps", parameter="trace")
    jobs, wrong = _checked(jobs)
    faults |= wrong
    unread = Unread(found, len(faults), faults)
    refuse_if_half(unread, name)
    return SacctTable(jobs, {"steps_left_out": steps, **notes}, unread)


def _columns(heading: str, where: str) -> list[str]:
    columns = heading.removesuffix("|").split("|")
    missing = [" or ".join(names) for names in _REQUIRED if not set(names) & set(columns)]
    if missing:
        raise WrongUse(f"{where} the heading of sacct's output lacks {', '.join(missing)}", parameter="trace")
    if len(columns) > _MOST_COLUMNS:
        raise WrongUse(f"{where} the heading has {len(columns)} columns, at most {_MOST_COLUMNS} are supported", parameter="trace")
    return columns


def _split(lines: pl.DataFrame, count: int, used: dict[str, int]) -> pl.DataFrame:
    """Column `line` and the used fields of lines with exactly `count` fields."""
    if lines.height == 0:
        return pl.DataFrame(schema={"line": pl.UInt32, **dict.fromkeys(used, pl.String)})
    text = io.BytesIO()
    text.write(_LINE_0)
    lines.select("text").write_csv(text, include_header=False, quote_style="never", separator="\1")
    schema = {f"column_{place + 1}": pl.String for place in range(count)}
    wanted = {f"column_{place + 1}": column for column, place in used.items()}
    fields = pl.read_csv(text.getvalue(), schema=schema, columns=list(wanted), separator="|", skip_lines=1, **_AS_TEXT)
    return lines.select("line").hstack(fields.select(list(wanted)).rename(wanted))


def _without_endings(lines: pl.DataFrame, columns: list[str], bars: int, complete: bool) -> tuple[pl.DataFrame, int]:
    """Drops lines that only continue the last field of the line before, which is free text; returns the number of places, too.

    Such lines have no bar. The only other line without a bar is a truncated last line of a file that does not end in a line
    break.
    """
    if bars == len(columns) or columns[-1] not in _FREE or columns[0] in _FREE:
        return lines, 0
    begins = pl.col("text").str.contains(f"^(?:{_FORMS[columns[0]]})$") if columns[0] in _FORMS else pl.lit(False)
    loose = (pl.col("bars") == 0) & ~begins & (complete | (pl.int_range(pl.len()) < pl.len() - 1))
    ending = loose & (pl.when(~loose).then("bars").forward_fill().fill_null(0) >= bars)
    lines = lines.with_columns(ending=ending)
    places = lines.select((pl.col("ending") & ~pl.col("ending").shift(fill_value=False)).sum()).item()
    return lines.filter(~pl.col("ending")), places


def _mended(lines: pl.DataFrame, columns: list[str], bars: int) -> Iterator[tuple[int, str, list[str] | str]]:
    """Yields line number, oddity and fields of lines whose number of bars differs from the heading's, after their repair; for a
    line that cannot be repaired its number, an empty text and what is wrong.

    A line with fewer bars is joined with the lines after it, as long as these have fewer bars too.
    """
    begun: list[tuple[int, str]] = []
    end = has = 0

    def fields_of(text: str) -> list[str]:
        return (text.removesuffix("|") if bars == len(columns) else text).split("|")

    def given_up() -> Iterator[tuple[int, str, str]]:
        yield from ((line, "", _too_few(text, columns)) for line, text in begun)
        begun.clear()

    for place, line, text, more in lines.select("place", "line", "text", "bars").iter_rows():
        if begun and (place != end + 1 or len(begun) == _MOST_LINES or (more >= bars and has + more > bars)):
            yield from given_up()
        has = has + more if begun else more
        end = place
        begun.append((line, text))
        if has < bars:
            continue
        fields = fields_of("\n".join(text for _, text in begun))
        if len(begun) == 1:
            yield line, "lines_with_bars_mended", _mend(fields, columns)
        else:
            broken = {column for column, field in zip(columns, fields, strict=False) if "\n" in field}
            if has > bars or not broken <= set(_FREE):
                yield from given_up()
                continue
            yield begun[0][0], "lines_with_breaks_mended", fields
        begun.clear()
    yield from given_up()


def _too_few(text: str, columns: list[str]) -> str:
    return (
        f"has {text.count('|') + 1} fields, the heading has {len(columns)}; "
        "there may be a line break inside a field, or the file may be truncated"
    )


def _mend(fields: list[str], columns: list[str]) -> list[str] | str:
    """Joins the fields that a `|` inside free text (nearly always SubmitLine) has split, and returns the line's fields.

    Every column of a fixed form must have that form afterwards. Returns what is wrong if no way to join them fulfils this, or if
    several do that differ in a used column.
    """
    ways = _ways(fields, columns) if len(fields) <= len(columns) + _MOST_BARS else []
    if len(ways) == 1:
        return ways[0]
    return (
        f"has {len(fields)} fields, the heading has {len(columns)}: a '|' inside a field cannot be "
        "removed unambiguously; print sacct's output without that column"
    )


def _ways(fields: list[str], columns: list[str]) -> list[list[str]]:
    """Ways to assign the fields to the columns, at most two; of those that agree on the used columns only the first."""

    @cache
    def rest(column: int, start: int) -> dict[tuple[str, ...], tuple[str, ...]]:
        if column == len(columns):
            return {(): ()} if start == len(fields) else {}
        spare = len(fields) - start - (len(columns) - column)
        form = _FORMS.get(columns[column])
        ways: dict[tuple[str, ...], tuple[str, ...]] = {}
        for more in range(spare + 1 if columns[column] in _FREE else 1):
            text = "|".join(fields[start : start + more + 1])
            if form and not re.fullmatch(form, text):
                continue
            for key, texts in rest(column + 1, start + more + 1).items():
                ways.setdefault((text, *key) if columns[column] in _USED else key, (text, *texts))
            if len(ways) > 1:
                break
        return ways

    return [list(way) for way in rest(0, 0).values()]


def _checked(jobs: pl.DataFrame) -> tuple[pl.DataFrame, dict[int, str]]:
    """The jobs whose used columns have sacct's form, and what is wrong with the others, by line. Only job numbers must not be
    empty."""
    faults: dict[int, str] = {}
    for column in [column for column in jobs.columns if column in _FORMS]:
        fits = pl.col(column).str.contains(f"^(?:{_FORMS[column]})$")
        if column in _DATES:
            fits &= date(column).is_not_null() | pl.col(column).is_in(_NO_DATE)
        fits |= (pl.col(column) == "") & (column not in ("JobID", "JobIDRaw"))
        bad = jobs.filter(~fits)
        if bad.height:
            hint = _LIKE_A_DATE if column in _DATES else ""
            for line, text in bad.select("line", column).iter_rows():
                faults[line] = f"{column} {text[:40]!r} does not have the form that sacct prints{hint}"
            jobs = jobs.filter(fits)
    return jobs, faults


def date(column: str) -> pl.Expr:
    """A column of dates (UTC unless they name a zone) or Unix times as Unix time; null for other text."""
    text = pl.col(column).str
    local = text.slice(0, 19).str.replace(" ", "T", literal=True).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False)
    sign = pl.when(text.slice(19, 1) == "-").then(-1).when(text.slice(19, 1) == "+").then(1)
    ahead = sign * (_integer(text.slice(20, 2)) * 3600 + _integer(text.slice(-2)) * 60)
    return pl.coalesce(local.dt.epoch("s") - ahead.fill_null(0), _integer(text.extract("^([0-9]+)$"))).cast(pl.Float64)


def _integer(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Int64, strict=False)
