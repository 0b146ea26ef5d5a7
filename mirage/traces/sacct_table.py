"""Splits sacct's output into a table of text with the columns that are used, a row per line of a job, and checks it.

A delimiter or a line break inside a field shifts the fields after it; both occur in SubmitLine, the command that the user typed.
Such lines are repaired if there is exactly one way to do so.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import polars as pl

from mirage.traces.sacct_heading import Heading, heading_of, without_heading
from mirage.traces.unread import Unread, refuse_if_half
from slurm_mirage.base.errors import WrongUse

_WHOLE = "[0-9]{1,20}"  # Slurm's marks for no value have up to 20 digits
_NUMBER = "[0-9]{1,15}"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2}:?[0-9]{2})?|[0-9]{9,20}"
DURATION = (
    r"(?:([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9})(?::([0-9]{1,9}(?:\.[0-9]{1,9})?))?)?"
    r"|(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9}(?:\.[0-9]{1,9})?))"
)
"""Days, hours, minutes, seconds of `D-HH[:MM[:SS[.mmm]]]`, or hours, minutes, seconds of `[HH:]MM:SS[.mmm]`, as Slurm's
time_str2secs (parse_time.c) reads them: with days the first number is hours."""
MEMORY = r"([0-9]{1,20}(?:\.[0-9]{1,9})?)([KMGTPE?]?)([nc]?)"
"""Number, unit (default M; `?`: larger than Slurm can print), and n (per node) or c (per processor), printed before Slurm 21.08;
else for the whole job."""
_NO_DATE = ("Unknown", "None", "0", "")
_NO_LIMIT = "UNLIMITED|INFINITE|Partition_Limit|INVALID"
_NO_INSTANT = "^(?:[0-9]{10,20}$|1970-01-01|1969-12-31|2106-02-0[678])"  # the last are Slurm's marks for no value as dates
NO_VALUE = 2**32 - 16
"""Slurm marks a number without value by one of the last numbers of 32 or 64 bits (slurm.h: NO_VAL, INFINITE, NO_VAL64, ...)."""
_LATEST = NO_VALUE - 86400  # in any zone
_DATES = ("Submit", "Eligible", "Start", "End")

# Regular expressions of the columns whose form sacct(1) defines. All of them are used to find the fields of a line in which a `|`
# inside free text has shifted the columns; those in _USED are checked in every line.
_FORMS = {
    **dict.fromkeys(["Submit", "Eligible", "Start", "End"], f"{_DATE}|{'|'.join(_NO_DATE)}"),
    **dict.fromkeys(["Elapsed", "CPUTime", "Suspended", "Reserved", "Planned"], f"{DURATION}|INVALID|"),
    **dict.fromkeys(["ElapsedRaw", "CPUTimeRAW", "Priority", "UID", "GID"], f"{_WHOLE}|"),
    **dict.fromkeys(["AssocID", "DBIndex", "QOSRAW", "NTasks"], f"{_WHOLE}|"),
    **dict.fromkeys(["AllocCPUS", "NCPUS", "ReqCPUS"], _WHOLE),
    **dict.fromkeys(["NNodes", "AllocNodes", "ReqNodes"], r"[0-9]{1,20}(?:\.[0-9]{1,9})?[KMGTP?]?"),
    **dict.fromkeys(["AllocTRES", "ReqTRES"], r"(?:[^=,|]+=[^=,|]*,)*[^=,|]+=[^=,|]*|"),
    **dict.fromkeys(["User", "Group", "Account", "Partition", "QOS", "Cluster"], r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*"),
    "ReqMem": rf"{MEMORY}|\?|UNLIMITED|INFINITE|",
    "JobID": rf"{_NUMBER}([_+]({_NUMBER}|\[.*\]))?(\..+)?",
    "JobIDRaw": rf"{_NUMBER}(\..+)?",
    "ExitCode": r"[0-9]+:[0-9]+|",
    "State": r"[A-Z_]+( by \S+)?\+?|\?",
    "Timelimit": f"{DURATION}|[0-9]{{1,10}}|{_NO_LIMIT}|",
    "TimelimitRaw": rf"{_WHOLE}|{_NO_LIMIT}|",
}
# Columns without which a line says nothing of its job. A field of another column that does not have its form is unknown.
_NEEDED = (
    "JobID", "JobIDRaw", "Submit", "Start", "End", "Elapsed", "ElapsedRaw", "State", "AllocCPUS", "NCPUS", "ReqCPUS",
)  # fmt: skip
# Lists, whose commas are delimiters of `sacct --delimiter=,` too.
_LISTS = ("ReqTRES", "AllocTRES", "NodeList", "ReqGRES", "AllocGRES", "Licenses", "Partition")
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
_TAKEN = (
    *_USED, "SubmitLine", "Eligible", "Reason", "Constraints", "Licenses", "Reservation", "ReqReservation", "ReqGRES", "AllocGRES",
    "Exclusive", "Cluster", "Account", "ArrayLimit",
)  # fmt: skip
_NAMES = (*_TAKEN, *_FORMS, *_FREE, *_LISTS)
_REQUIRED = (
    ("JobID", "JobIDRaw"),
    ("Submit",),
    ("Start",),
    ("End", "Elapsed", "ElapsedRaw"),
    ("AllocCPUS", "NCPUS", "ReqCPUS", "AllocTRES", "ReqTRES", "AllocNodes", "NNodes", "ReqNodes"),
)
_SAMPLE = 100  # lines that must have the columns of a documented command
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

_BAR = "\x1f"  # in place of a delimiter other than a bar; log_text lets no control character pass

# Put before the text, because polars.read_csv unpacks data that begin with the signature of a compressed format, such as `x^`.
_LINE_0 = b"\n"


def recognised(line: str, more: Sequence[str] = ()) -> Heading | None:
    """The columns of sacct's output whose first line is given; None if it is none. more: the lines after it."""
    return heading_of(line, _NAMES) or without_heading([line, *more], _FORMS)


def needed() -> str:
    """The columns that are needed, in words."""
    return ", ".join(" or ".join(names) for names in _REQUIRED)


def read_table(data: bytes, name: str) -> SacctTable:
    """Parses sacct's output; error messages call the file `name`.

    A line that cannot be read unambiguously, or has a needed field that sacct does not print so, is left out; any other field that
    does not have sacct's form is unknown. Raises WrongUse, with the first such line, if half of the lines or more are left out: it
    is not sacct's output.
    """
    heading = _heading(data, name)
    used = {column: heading.columns.index(column) for column in _TAKEN if column in heading.columns}
    notes = {"lines_with_bars_mended": 0, "lines_with_breaks_mended": 0}
    faults: dict[int, str] = {}
    rows = _quoted(data, name, heading, used) if heading.quoted else _plain(data, heading, used, notes, faults)
    if heading.padded:
        rows = rows.with_columns(pl.col(pl.String).str.strip_chars())
    return checked(rows, name, notes, faults)


def checked(rows: pl.DataFrame, name: str, notes: dict[str, int], faults: dict[int, str]) -> SacctTable:
    """The table of the rows that are jobs and can be read. notes: number of lines by oddity; faults: by line, those left out."""
    number = "JobID" if "JobID" in rows.columns else "JobIDRaw"
    jobs = rows.filter(~pl.col(number).str.contains(r"^[^\[]*\."))  # a step's number has a dot: 7.batch, 7.0
    steps, lines = rows.height - jobs.height, jobs.height + len(faults)
    if not lines:
        raise WrongUse(f"{name}: has no jobs, only a heading or steps", parameter="trace")
    jobs, wrong, unknown = _checked(jobs)
    faults = faults | wrong
    unread = Unread(lines, len(faults), faults, sum(map(len, unknown.values())), unknown)
    refuse_if_half(unread, name)
    return SacctTable(jobs, {"steps_left_out": steps, **notes}, unread)


def _heading(data: bytes, name: str) -> Heading:
    """The columns. Raises WrongUse for a heading that cannot be read."""
    lines = ((n, raw) for n, raw in enumerate(io.BytesIO(data), 1) if raw.strip())
    texts = [(n, raw.decode("utf-8", "replace").rstrip("\r\n")) for n, raw in islice(lines, _SAMPLE)]
    place, first = texts[0]
    heading = recognised(first, [text for _, text in texts[1:]])
    if heading is None:
        raise WrongUse(f"{name} line {place}: {first[:30]!r} is not a heading of sacct's output", parameter="trace")
    columns = heading.columns
    missing = [" or ".join(names) for names in _REQUIRED if not set(names) & set(columns)]
    if missing:
        raise WrongUse(f"{name} line {place}: the heading of sacct's output lacks {', '.join(missing)}", parameter="trace")
    if len(columns) > _MOST_COLUMNS:
        raise WrongUse(
            f"{name} line {place}: the heading has {len(columns)} columns, at most {_MOST_COLUMNS} are supported",
            parameter="trace",
        )
    delimiter = heading.delimiter.encode()
    if delimiter != b"|" and len(delimiter) == 1 and (delimiter + b'"' in data or b'\n"' in data):
        heading = replace(heading, quoted=True)
    return heading


def _quoted(data: bytes, name: str, heading: Heading, used: dict[str, int]) -> pl.DataFrame:
    """Column `line` and the used fields of CSV with quotes. `line` counts rows: a field may have line breaks."""
    schema = {f"column_{number}": pl.String for number in range(1, len(heading.columns) + heading.closed + 1)}
    options = _AS_TEXT | {"schema": schema, "separator": heading.delimiter, "skip_lines": 1}
    options |= {"quote_char": '"', "truncate_ragged_lines": True}
    try:
        fields = pl.read_csv(_LINE_0 + data, **options)
    except pl.exceptions.PolarsError as error:
        raise WrongUse(f"{name}: is not CSV ({str(error).splitlines()[0]})", parameter="trace") from error
    wanted = [pl.col(f"column_{number + 1}").fill_null("").alias(column) for column, number in used.items()]
    rows = fields.select(pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).alias("line"), *wanted)
    number = "JobID" if "JobID" in used else "JobIDRaw"
    blank = pl.all_horizontal(pl.exclude("line") == "")
    return rows.filter(~blank, pl.col(number).str.to_lowercase() != number.lower()) if heading.has_line else rows.filter(~blank)


def _plain(data: bytes, heading: Heading, used: dict[str, int], notes: dict[str, int], faults: dict[int, str]) -> pl.DataFrame:
    """Column `line` and the used fields; counts repaired lines in `notes`, and says in `faults` what is wrong with others."""
    bar = "|" if heading.delimiter == "|" else _BAR
    complete = data.endswith(b"\n")
    if bar == _BAR:
        data = data.replace(heading.delimiter.encode(), bar.encode())
    # A separator that occurs in no text keeps each line in one field.
    lines = pl.read_csv(_LINE_0 + data, schema={"text": pl.String}, separator="\1", row_index_name="line", **_AS_TEXT)
    lines = lines.filter(pl.col("text").str.strip_chars() != "").with_row_index("place")
    if heading.has_line:
        # The heading is repeated if the file holds several outputs.
        lines = lines.filter(pl.col("text") != lines["text"][0])
    layout = _Layout(heading, bar)
    lines = lines.with_columns(bars=pl.col("text").str.count_matches(bar, literal=True))
    lines, notes["lines_with_breaks_mended"] = _without_endings(lines, layout, complete)
    whole = pl.col("bars") == layout.bars
    rows = _split(lines.filter(whole), layout, used)
    mended = []
    for line, note, fields in _mended(lines.filter(~whole), layout):
        if isinstance(fields, str):
            faults[line] = fields
            continue
        notes[note] += 1
        mended.append((line, *(fields[place] for place in used.values())))
    if mended:
        rows = pl.concat([rows, pl.DataFrame(mended, schema=rows.schema, orient="row")]).sort("line")
    return rows


@dataclass(frozen=True)
class _Layout:
    """The columns, and the character that separates fields in the text."""

    heading: Heading
    bar: str

    @property
    def columns(self) -> list[str]:
        return list(self.heading.columns)

    @property
    def bars(self) -> int:
        """Number of separators in a line."""
        return len(self.heading.columns) - 1 + self.heading.closed

    @property
    def free(self) -> tuple[str, ...]:
        """Columns in which the delimiter can occur."""
        return (*_FREE, *_LISTS) if self.heading.delimiter == "," else _FREE


def _split(lines: pl.DataFrame, layout: _Layout, used: dict[str, int]) -> pl.DataFrame:
    """Column `line` and the used fields of lines with exactly as many fields as there are columns."""
    if lines.height == 0:
        return pl.DataFrame(schema={"line": pl.UInt32, **dict.fromkeys(used, pl.String)})
    text = io.BytesIO()
    text.write(_LINE_0)
    lines.select("text").write_csv(text, include_header=False, quote_style="never", separator="\1")
    schema = {f"column_{place + 1}": pl.String for place in range(layout.bars + 1)}
    wanted = {f"column_{place + 1}": column for column, place in used.items()}
    fields = pl.read_csv(text.getvalue(), schema=schema, columns=list(wanted), separator=layout.bar, skip_lines=1, **_AS_TEXT)
    return lines.select("line").hstack(fields.select(list(wanted)).rename(wanted))


def _without_endings(lines: pl.DataFrame, layout: _Layout, complete: bool) -> tuple[pl.DataFrame, int]:
    """Drops lines that only continue the last field of the line before, which is free text; returns the number of places, too.

    Such lines have no bar. The only other line without a bar is a truncated last line of a file that does not end in a line
    break.
    """
    columns, bars = layout.columns, layout.bars
    if bars == len(columns) or columns[-1] not in _FREE or columns[0] in _FREE:
        return lines, 0
    begins = pl.col("text").str.contains(f"^(?:{_FORMS[columns[0]]})$") if columns[0] in _FORMS else pl.lit(False)
    loose = (pl.col("bars") == 0) & ~begins & (complete | (pl.int_range(pl.len()) < pl.len() - 1))
    ending = loose & (pl.when(~loose).then("bars").forward_fill().fill_null(0) >= bars)
    lines = lines.with_columns(ending=ending)
    places = lines.select((pl.col("ending") & ~pl.col("ending").shift(fill_value=False)).sum()).item()
    return lines.filter(~pl.col("ending")), places


def _mended(lines: pl.DataFrame, layout: _Layout) -> Iterator[tuple[int, str, list[str] | str]]:
    """Yields line number, oddity and fields of lines whose number of bars differs from the heading's, after their repair; for a
    line that cannot be repaired its number, an empty text and what is wrong.

    A line with fewer bars is joined with the lines after it, as long as these have fewer bars too.
    """
    columns, bars = layout.columns, layout.bars
    begun: list[tuple[int, str]] = []
    end = has = 0

    def fields_of(text: str) -> list[str]:
        return (text.removesuffix(layout.bar) if bars == len(columns) else text).split(layout.bar)

    def given_up() -> Iterator[tuple[int, str, str]]:
        yield from ((line, "", _too_few(text, layout)) for line, text in begun)
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
            yield line, "lines_with_bars_mended", _mend(fields, layout)
        else:
            broken = {column for column, field in zip(columns, fields, strict=False) if "\n" in field}
            if has > bars or not broken <= set(_FREE):
                yield from given_up()
                continue
            yield begun[0][0], "lines_with_breaks_mended", fields
        begun.clear()
    yield from given_up()


def _too_few(text: str, layout: _Layout) -> str:
    return (
        f"has {text.count(layout.bar) + 1} fields, the heading has {len(layout.columns)}; "
        "there may be a line break inside a field, or the file may be truncated"
    )


def _mend(fields: list[str], layout: _Layout) -> list[str] | str:
    """Joins the fields that a delimiter inside free text (nearly always SubmitLine) has split, and returns the line's fields.

    Every column of a fixed form must have that form afterwards. Returns what is wrong if no way to join them fulfils this, or if
    several do that differ in a used column.
    """
    ways = _ways(fields, layout) if len(fields) <= len(layout.columns) + _MOST_BARS else []
    if len(ways) == 1:
        return ways[0]
    return (
        f"has {len(fields)} fields, the heading has {len(layout.columns)}: a {layout.heading.delimiter!r} inside a field cannot be "
        "removed unambiguously; print sacct's output without that column"
    )


def _ways(fields: list[str], layout: _Layout) -> list[list[str]]:
    """Ways to assign the fields to the columns, at most two; of those that agree on the used columns only the first."""
    columns, delimiter = layout.columns, layout.heading.delimiter

    @cache
    def rest(column: int, start: int) -> dict[tuple[str, ...], tuple[str, ...]]:
        if column == len(columns):
            return {(): ()} if start == len(fields) else {}
        spare = len(fields) - start - (len(columns) - column)
        form = _FORMS.get(columns[column])
        ways: dict[tuple[str, ...], tuple[str, ...]] = {}
        for more in range(spare + 1 if columns[column] in layout.free else 1):
            text = delimiter.join(fields[start : start + more + 1])
            if form and not re.fullmatch(form, text):
                continue
            for key, texts in rest(column + 1, start + more + 1).items():
                ways.setdefault((text, *key) if columns[column] in _USED else key, (text, *texts))
            if len(ways) > 1:
                break
        return ways

    return [list(way) for way in rest(0, 0).values()]


def _checked(jobs: pl.DataFrame) -> tuple[pl.DataFrame, dict[int, str], dict[int, list[str]]]:
    """The jobs whose needed columns have sacct's form, other fields that do not have it being empty; by line what is wrong with the
    jobs left out, and what is wrong with each of these fields. Only job numbers must not be empty."""
    faults: dict[int, str] = {}
    unknown: dict[int, list[str]] = {}
    for column in [column for column in jobs.columns if column in _FORMS]:
        fits = pl.col(column).str.contains(f"^(?:{_FORMS[column]})$")
        if column in _DATES:
            fits &= date(column).is_not_null() | pl.col(column).is_in(_NO_DATE) | pl.col(column).str.contains(_NO_INSTANT)
        fits |= (pl.col(column) == "") & (column not in ("JobID", "JobIDRaw"))
        bad = jobs.filter(~fits)
        if bad.is_empty():
            continue
        hint = _LIKE_A_DATE if column in _DATES else ""
        for line, text in bad.select("line", column).iter_rows():
            fault = f"{column} {text[:40]!r} does not have the form that sacct prints{hint}"
            if column in _NEEDED:
                faults[line] = fault
            else:
                unknown.setdefault(line, []).append(fault)
        if column in _NEEDED:
            jobs = jobs.filter(fits)
        else:
            jobs = jobs.with_columns(pl.when(fits).then(column).otherwise(pl.lit("")).alias(column))
    return jobs, faults, {line: texts for line, texts in unknown.items() if line not in faults}


def date(column: str) -> pl.Expr:
    """A column of dates (UTC unless they name a zone) or Unix times as Unix time; null for other text, for second 0, and from
    Slurm's marks for no value (the year 2106) on."""
    text = pl.col(column).str
    local = text.slice(0, 19).str.replace(" ", "T", literal=True).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False)
    sign = pl.when(text.slice(19, 1) == "-").then(-1).when(text.slice(19, 1) == "+").then(1)
    ahead = sign * (_integer(text.slice(20, 2)) * 3600 + _integer(text.slice(-2)) * 60)
    unix = _integer(text.extract("^([0-9]+)$"))
    instant = pl.coalesce(local.dt.epoch("s") - ahead.fill_null(0), unix)
    return pl.when((instant > 0) & (instant < _LATEST)).then(instant).cast(pl.Float64)


def _integer(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Int64, strict=False)
