"""The log in an archive of mirage-capture (docs/capture.md): its pieces of sacct as the output of one sacct.

A job is in each piece in which it was alive. What the columns of a release lack and its JSON has is added as columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mirage.site import associations
from mirage.site.archive import Archive
from mirage.traces import sacct, sacct_json
from mirage.traces.unread import Unread

KEY = ("JobIDRaw", "Submit", "Start")
"""Columns that are the same in each row of one execution of a job."""


def read(taken: Archive) -> tuple[pl.DataFrame, dict[str, str], dict[str, int], Unread]:
    """The log, as `sacct.read_sacct` returns it, with the site's zone in the header.

    `user` is the number of the user among those of the site's associations; users who have none follow. `account` is the name of
    the job's account. Raises WrongUse for columns that are missing, and as `read_sacct` does.
    """
    frame, header, notes, unread = sacct.parse_sacct(text_of(taken), str(taken.path), has_owners=True)
    if "user_name" in frame.columns:
        numbers = associations.numbers(taken)
        others = frame["user_name"].unique().drop_nulls().sort().to_list()
        for name in others:
            numbers.setdefault(name, len(numbers) + 1)
        number = pl.col("user_name").replace_strict(numbers, default=-1, return_dtype=pl.Int64)
        frame = frame.with_columns(user=number).drop("user_name")
    return frame, {**header, "TimeZoneString": taken.zone}, notes, unread


def text_of(taken: Archive) -> bytes:
    """A heading and a line for each execution of a job, the last one that the pieces have. Raises WrongUse as `Archive.table`."""
    pieces = taken.pieces("sacct")
    columns = list(dict.fromkeys(column for name in pieces for column in taken.table(name)[0]))
    lines: dict[tuple[str, ...], str] = {}
    for name in pieces:
        headings, rows = taken.table(name)
        if missing := [column for column in KEY if column not in headings]:
            raise taken.wrong(name, 1, f"has no column {missing[0]}")
        key = [headings.index(column) for column in KEY]
        places = [headings.index(column) if column in headings else None for column in columns]
        for fields in rows:
            # A field that begins with a quote would be taken for CSV.
            values = ("" if place is None else fields[place].lstrip('"') for place in places)
            lines[tuple(fields[place] for place in key)] = "\t".join(values)
    added, found = _of_json(taken, columns)
    none = ("",) * len(added)
    text = ["\t".join([*columns, *added])]
    text += ["\t".join([line, *found.get(key_of, none)]) for key_of, line in lines.items()]
    return ("\n".join(text) + "\n").encode()


def _of_json(taken: Archive, columns: Sequence[str]) -> tuple[list[str], dict[tuple[str, ...], tuple[str, ...]]]:
    """The columns that the JSON has beside others, and their fields by KEY."""
    added = [column for column in sacct_json.COLUMNS if column not in columns]
    tables = [sacct_json.table(taken.data(name), f"{taken.path}: {name}") for name in taken.pieces("sacct-json")]
    if not tables:
        return [], {}
    table = pl.concat(tables)
    added = [column for column in added if (table[column] != "").any()]
    known = table.filter(pl.any_horizontal(pl.col(added) != "") if added else False)
    return added, {row[: len(KEY)]: row[len(KEY) :] for row in known.select(*KEY, *added).iter_rows()}
