"""Reading what `sacct -P` or `sacct -p` prints, with any set of columns in any order (sacct(1)), as SWF.

What sacct says of a job and SWF has a field for is kept. Times become seconds since the first submission;
names of users, groups, partitions and QOS become numbers in alphabetical order (the header says which
partition and QOS).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import polars as pl

from . import log_text, swf
from .errors import WrongUse

_DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{9,}"
_DURATION = r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)"

# What a column's text looks like, where sacct(1) fixes it. All of them tell where fields are when a `|`
# inside free text has shifted columns; the ones in _USED are checked in every line.
_FORMS = {
    **dict.fromkeys(["Submit", "Eligible", "Start", "End"], rf"{_DATE}|Unknown|None|"),
    **dict.fromkeys(["Elapsed", "CPUTime", "Suspended", "Reserved", "Planned"], rf"{_DURATION}|INVALID|"),
    **dict.fromkeys(["ElapsedRaw", "CPUTimeRAW", "Priority", "UID", "GID"], r"\d*"),
    **dict.fromkeys(["AssocID", "DBIndex", "QOSRAW", "NTasks"], r"\d*"),
    **dict.fromkeys(["AllocCPUS", "NCPUS", "ReqCPUS"], r"\d+"),
    **dict.fromkeys(["NNodes", "AllocNodes"], r"\d+[KM]?"),
    "JobID": r"\d+([_+](\d+|\[.*\]))?(\..+)?",
    "JobIDRaw": r"\d+(\..+)?",
    "ExitCode": r"\d+:\d+|",
    "State": r"[A-Z_]+( by \S+)?\+?",
    "Timelimit": rf"{_DURATION}|UNLIMITED|Partition_Limit|INVALID|",
    "TimelimitRaw": r"\d*|UNLIMITED|Partition_Limit",
}
# Text that users write, in which a `|` can occur.
_FREE = (
    "SubmitLine", "JobName", "Comment", "AdminComment", "SystemComment", "Constraints", "WorkDir", "WCKey",
)  # fmt: skip
_USED = (
    "JobID", "JobIDRaw", "Submit", "Start", "End", "Elapsed", "ElapsedRaw", "Suspended", "State", "Timelimit",
    "TimelimitRaw", "AllocCPUS", "NCPUS", "ReqCPUS", "User", "UID", "Group", "GID", "Partition", "QOS",
)  # fmt: skip
_NEEDED = (
    ("JobID", "JobIDRaw"),
    ("Submit",),
    ("Start",),
    ("End", "Elapsed", "ElapsedRaw"),
    ("AllocCPUS", "NCPUS", "ReqCPUS"),
)
_STATUS = {
    "COMPLETED": 1,
    "CANCELLED": 5,
    **dict.fromkeys(["FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED"], 0),
}


def read_sacct(path: Path | str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int]]:
    """Reads `sacct -P` or `-p` text, plain or gzip.

    Needed are the columns JobID or JobIDRaw, Submit, Start, one of End, Elapsed and ElapsedRaw, and one of
    AllocCPUS, NCPUS and ReqCPUS; State and Timelimit or TimelimitRaw are used if there.

    Returns the jobs in the file's order as an SWF frame (`swf.SCHEMA`), an SWF header, and the oddities
    found, counted. With the column Suspended there is a 19th, `suspended` (seconds), for which SWF has no
    field; `run_time` is without it, as sacct's Elapsed is. Raises WrongUse, with the line number, for what
    cannot be read with certainty.
    """
    return parse_sacct(log_text.load(path).data, str(path))


def parse_sacct(data: bytes, name: str) -> tuple[pl.DataFrame, dict[str, str], dict[str, int]]:
    """`read_sacct` of a file's content; `name` is what errors call the file."""
    rows, mended = _rows(data.decode("utf-8", "replace"), name)
    jobs = _without_steps(rows)
    if jobs.height == 0:
        raise WrongUse(f"TRACE: {name}: has no jobs, only a heading or steps")
    _check(jobs, name)
    facts = _facts(jobs)
    frame = _as_swf(facts)
    notes = {
        "steps_left_out": rows.height - jobs.height,
        "lines_with_bars_mended": mended,
        "submission_unknown": jobs.height - facts.height,
        "cancelled_before_start": facts.filter("unused").height,
        "not_ended": facts.filter(~pl.col("over")).height,
        "suspended": frame.filter(pl.col("suspended") > 0).height,
        **swf.oddities(frame),
    }
    if "Suspended" not in jobs.columns:
        frame = frame.drop("suspended")
    return frame, _header(facts), {reason: count for reason, count in notes.items() if count}


def _rows(text: str, name: str) -> tuple[pl.DataFrame, int]:
    """All fields as text, named by the heading, and `line`, the line number; the number of lines mended."""
    col = pl.col("text").str
    lines = pl.DataFrame({"text": text.split("\n")}).with_row_index("line", offset=1)
    lines = lines.with_columns(col.strip_chars_end("\r")).filter(col.strip_chars() != "")
    first, heading = lines.row(0)
    columns = heading.removesuffix("|").split("|")
    missing = [" or ".join(names) for names in _NEEDED if not set(names) & set(columns)]
    if missing:
        raise WrongUse(f"TRACE: {name} line {first}: the heading of sacct's output lacks {', '.join(missing)}")
    if heading.endswith("|"):
        lines = lines.with_columns(col.strip_suffix("|"))
    # The heading comes again where several outputs were put into one file.
    lines = lines.filter(pl.col("text") != heading.removesuffix("|")).with_columns(fields=col.split("|"))
    shifted = lines.filter(pl.col("fields").list.len() != len(columns))
    mended = {line: _mend(line, fields, columns, name) for line, _, fields in shifted.iter_rows()}
    if mended:
        lines = lines.with_columns(
            fields=pl.when(pl.col("line").is_in(list(mended)))
            .then(pl.col("line").replace_strict(mended, default=None, return_dtype=pl.List(pl.String)))
            .otherwise("fields")
        )
    fields = pl.col("fields").list
    return lines.select("line", *(fields.get(i).alias(c) for i, c in enumerate(columns))), len(mended)


def _mend(line: int, fields: list[str], columns: list[str], name: str) -> list[str]:
    """The line's fields, those that a `|` inside free text has split put together again.

    Nearly always SubmitLine is the one, but any free text may be. The way taken is the only one under which
    every column of a fixed form has that form; WrongUse if there is none, or several that differ in a column
    that is used here.
    """
    where = f"TRACE: {name} line {line}: has {len(fields)} fields, the heading has {len(columns)}"
    if len(fields) < len(columns):
        raise WrongUse(f"{where}; is a line break inside a field, or the file cut off?")
    ways = _ways(fields, columns)
    if len(ways) == 1:
        return ways[0]
    raise WrongUse(f"{where}: a '|' inside a field; no single way to undo it fits, so leave out that column")


def _ways(fields: list[str], columns: list[str]) -> list[list[str]]:
    """Ways to share the fields among the columns; of those that agree on the columns used here, the first."""

    @cache
    def rest(column: int, start: int) -> dict[tuple[str, ...], tuple[str, ...]]:
        if column == len(columns):
            return {(): ()} if start == len(fields) else {}
        spare = len(fields) - start - (len(columns) - column)
        form = _FORMS.get(columns[column])
        found: dict[tuple[str, ...], tuple[str, ...]] = {}
        for more in range(spare + 1 if columns[column] in _FREE else 1):
            text = "|".join(fields[start : start + more + 1])
            if form and not re.fullmatch(form, text):
                continue
            for key, texts in rest(column + 1, start + more + 1).items():
                found.setdefault((text, *key) if columns[column] in _USED else key, (text, *texts))
        return found

    return [list(way) for way in rest(0, 0).values()]


def _without_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """Jobs only: a step's number has a dot (`7.batch`, `7.extern`, `7.0`)."""
    number = "JobID" if "JobID" in rows.columns else "JobIDRaw"
    return rows.filter(~pl.col(number).str.contains(r"^[^\[]*\."))


def _check(rows: pl.DataFrame, name: str) -> None:
    """WrongUse with the first line in which a column that is used has not the form that sacct gives it."""
    for column in [c for c in _USED if c in _FORMS and c in rows.columns]:
        bad = rows.filter(~pl.col(column).str.contains(f"^(?:{_FORMS[column]})$"))
        if bad.height:
            line, text = bad.select("line", column).row(0)
            raise WrongUse(f"TRACE: {name} line {line}: {column} {text[:40]!r} is not what sacct prints there")


def _date(column: str) -> pl.Expr:
    """Seconds since 1970 of a date (no zone said: taken as UTC) or Unix time; null if unknown."""
    text = pl.col(column).str
    date = text.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False).dt.epoch("s")
    return pl.coalesce(date, text.extract(r"^(\d{9,})$").cast(pl.Int64)).cast(pl.Float64)


def _duration(column: str) -> pl.Expr:
    """Seconds of `[[D-]HH:]MM:SS[.mmm]`; null for UNLIMITED, Partition_Limit and nothing."""
    days, hours, minutes, seconds = (pl.col(column).str.extract(f"^{_DURATION}$", part).cast(pl.Float64) for part in range(1, 5))
    return days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds


def _number(column: str) -> pl.Expr:
    return pl.col(column).str.extract(r"^(\d+)$").cast(pl.Float64)


def _facts(rows: pl.DataFrame) -> pl.DataFrame:
    """What is used of each job, as numbers, null where unknown; jobs without a submission time are left out.

    `over`: it has ended; `unused`: it was cancelled while it waited. For the latter sacct gives no start,
    or, in older versions, the end as the start.
    """
    col = pl.col
    rows = rows.with_columns(pl.lit("").alias(c) for c in _USED if c not in rows.columns)
    state = col("State").str.extract(r"^([A-Z_]+)")
    facts = rows.select(
        *(pl.when(col(c) != "").then(col(c)).alias(c) for c in ("User", "UID", "Group", "GID", "Partition", "QOS")),
        number=pl.coalesce(_number("JobIDRaw"), col("JobID").str.extract(r"^(\d+)").cast(pl.Float64)),
        submit=_date("Submit"),
        start=_date("Start"),
        end=_date("End"),
        suspended=_duration("Suspended").fill_null(0),
        elapsed=pl.coalesce(_number("ElapsedRaw"), _duration("Elapsed")),
        limit=pl.coalesce(_number("TimelimitRaw") * 60, _duration("Timelimit")),
        allocated=pl.coalesce(_number("AllocCPUS"), _number("NCPUS")),
        asked=_number("ReqCPUS"),
        status=state.replace_strict(_STATUS, default=-1, return_dtype=pl.Int64),
        over=state.is_null() | state.is_in(list(_STATUS)),
    ).filter(col("submit").is_not_null())
    facts = facts.with_columns(elapsed=pl.coalesce("elapsed", col("end") - col("start") - col("suspended")))
    nothing = col("start").is_null() | (col("elapsed").fill_null(0) <= 0)
    return facts.with_columns(unused=(col("status") == 5) & nothing)


def _as_swf(facts: pl.DataFrame) -> pl.DataFrame:
    """The facts as SWF columns and `suspended`; the wait of a job that never ran is its time in the queue."""
    col, when = pl.col, pl.when
    columns = {
        "job_number": col("number"),
        "submit": col("submit") - col("submit").min(),
        "wait": when("unused").then("end").otherwise("start") - col("submit"),
        "run_time": when(col("over") & ~col("unused")).then("elapsed"),
        "allocated_processors": when((col("allocated") > 0) & ~col("unused")).then("allocated"),
        "requested_processors": when(col("asked") > 0).then("asked").when(col("allocated") > 0).then("allocated"),
        "requested_time": when(col("limit") > 0).then("limit"),
        "status": col("status"),
        "user": pl.coalesce("User", "UID").rank("dense"),
        "group": pl.coalesce("Group", "GID").rank("dense"),
        "queue": col("QOS").rank("dense"),
        "partition": col("Partition").rank("dense"),
    }
    values = [columns.get(name, pl.lit(-1)).fill_null(-1).cast(kind).alias(name) for name, kind in swf.SCHEMA.items()]
    return facts.select(*values, "suspended")


def _header(facts: pl.DataFrame) -> dict[str, str]:
    """The SWF header: when the log begins, and which number is which queue (QOS) and partition."""
    first = facts.select(pl.col("submit").min()).item()
    header = {"UnixStartTime": f"{first:.0f}", "Conversion": "from sacct; its times, taken as UTC"}
    for label, column in (("Queue", "QOS"), ("Partition", "Partition")):
        names = facts[column].drop_nulls().unique().sort().to_list()
        if names:
            header[label] = "\n".join(f"{number} {name}" for number, name in enumerate(names, 1))
    return header
