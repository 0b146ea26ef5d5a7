"""What sacct's output has beyond SWF: whether a job was held, what it asked for, and which requests a replay may not emulate."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import polars as pl

from mirage.traces import asked, submit_line

_HELD = ("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue")
_COLUMNS = {
    "constraint": ("Constraints",),
    "licence": ("Licenses",),
    "reservation": ("Reservation", "ReqReservation"),
    "gres": ("ReqGRES", "AllocGRES"),
}
_NOTHING = ("", "(null)", "None", "none", "0")
_RESOURCES = {"gres": "gres", "licence": "license", "burst_buffer": "bb"}
"""Types of trackable resources by kind of request."""

KINDS = (
    "gres", "constraint", "features", "licence", "reservation", "burst_buffer", "node_count", "node_list", "exclusive", "begin",
    "tasks", "placement", "nice", "other_option", "array_limit", "heterogeneous",
)  # fmt: skip
"""Kinds of requests that a run may not emulate: whether it does depends on its cluster (`workloads.fitting`)."""


def held(columns: Collection[str], unused: pl.Expr, eligible: pl.Expr) -> pl.Expr:
    """Whether a job never could start: it was cancelled while it waited, and was held, or was never eligible.

    columns: the columns that the output has; unused: whether the job was cancelled while it waited; eligible: instant at which it
    became eligible, null if never. A job whose dependency was never fulfilled is not eligible either; `dependencies` handles it.
    """
    reason = pl.col("Reason").is_in(_HELD) if "Reason" in columns else pl.lit(False)
    never = eligible.is_null() if "Eligible" in columns else pl.lit(False)
    return unused & (reason | never)


def not_played(columns: Collection[str], array_limit: pl.Expr, waits: pl.Expr) -> pl.Expr:
    """The kinds of requests (`KINDS`) that columns tell, as a list; `asked_for` has those of the command line.

    columns: those that the output has; array_limit: the most tasks of the job's array that may run at once, null if not limited;
    waits: whether the job became eligible later than it was submitted, and not because of a dependency

    """

    def found(kind: str) -> pl.Expr:
        signs = [~pl.col(column).is_in(_NOTHING) for column in _COLUMNS.get(kind, ()) if column in columns]
        if kind in _RESOURCES:
            resource = rf"(?:^|,){_RESOURCES[kind]}/"
            signs += [pl.col(column).str.contains(resource) for column in ("ReqTRES", "AllocTRES") if column in columns]
        if kind == "node_count" and "ReqNodes" in columns:
            # A job has one node if it does not ask for more.
            signs.append(pl.col("ReqNodes").cast(pl.Float64, strict=False) > 1)
        if kind == "heterogeneous" and "JobID" in columns:
            signs.append(pl.col("JobID").str.contains("+", literal=True))
        if kind == "array_limit":
            signs.append(array_limit > 0)
        if kind == "begin":
            signs.append(waits)
        return pl.any_horizontal(sign.fill_null(False) for sign in signs) if signs else pl.lit(False)

    return pl.concat_list(pl.when(found(kind)).then(pl.lit(kind)) for kind in KINDS).list.drop_nulls()


ASKED: dict[str, Any] = {"request": pl.String, "has_begin": pl.Boolean, "is_held": pl.Boolean, "kinds": pl.List(pl.String)}
"""Columns of `asked_for`."""


def command_lines(lines: pl.Series) -> tuple[dict[str, asked.Given], pl.DataFrame]:
    """The options of each command line that `asked_for` reads; and a row for each, with the values of --array and --dependency."""
    given: dict[str, asked.Given] = {}
    rows = []
    for line in lines.unique().to_list():
        options = submit_line.options(line)
        given[line] = asked.given(options)
        rows.append((line, options.get("array", ""), options.get("dependency", "")))
    return given, pl.DataFrame(rows, schema=dict.fromkeys((lines.name, "array", "dependency"), pl.String), orient="row")


def asked_for(rows: pl.DataFrame, facts: pl.DataFrame, given: Mapping[str, asked.Given]) -> pl.DataFrame:
    """What each job asked for: the words of its `Request`, whether --begin and --hold are on its command line, and the kinds
    of requests in both. Options inside the job script are not seen.

    rows: columns of sacct as text; facts: the same jobs with asked_nodes and nodes, null if unknown; given: of each SubmitLine
    """
    text = {
        name: pl.coalesce(pl.when(~pl.col(c).is_in(_NOTHING)).then(c) for c in present).fill_null("") if present else pl.lit("")
        for name, columns in (
            ("line", ("SubmitLine",)), ("constraints", ("Constraints",)), ("licences", ("Licenses",)),
            ("reservation", ("ReqReservation", "Reservation")), ("req_gres", ("ReqGRES",)), ("exclusive", ("Exclusive",)),
        )
        for present in [[c for c in columns if c in rows.columns]]
    }  # fmt: skip
    resources = [
        pl.col(c).str.extract_all(r"(?:gres|license)/[^,]+").list.join(",") for c in ("ReqTRES", "AllocTRES") if c in rows.columns
    ]
    found = pl.coalesce(pl.when(words != "").then(words) for words in resources) if resources else pl.lit(None, pl.String)
    of_node = pl.col("ReqMem").str.extract(r"^([1-9][0-9]{0,11}[KMGT]?)n$") if "ReqMem" in rows.columns else pl.lit(None, pl.String)
    counts = (facts[name].fill_null(0).clip(0, 10**9 - 1).cast(pl.Int64) for name in ("asked_nodes", "nodes"))
    sources = rows.select(**text, resources=found.fill_null(""), memory=of_node.fill_null("")).with_columns(*counts)
    distinct = sources.unique()

    def has(name: str, given: asked.Given) -> bool:
        return any(name == option for option, _ in given)

    @cache
    def found_in(given: asked.Given, columns: tuple[Any, ...]) -> tuple[str, bool, bool, list[str]]:
        *texts, resources, memory, asked_nodes, nodes = columns
        constraints, licences, reservation, req_gres, exclusive = texts
        of_node = asked.mebibytes(memory)
        one = asked.Asked(given, constraints, licences, reservation, req_gres, resources, exclusive, asked_nodes, nodes, of_node)
        request = asked.request_of(one)
        kinds = list(dict.fromkeys((*asked.kinds_in(request), *asked.kinds_of(given))))
        return request.words, has("begin", given), has("hold", given), kinds

    made = [found_in(given.get(line, ()), tuple(columns)) for line, *columns in distinct.iter_rows()]
    return sources.join(
        distinct.hstack(pl.DataFrame(made, schema=ASKED, orient="row")), on=sources.columns, how="left", maintain_order="left"
    ).select(*ASKED)
