"""What sacct's output says of a job beyond SWF: whether it was held, and requests that a replay does not play."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

_HELD = ("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue")
_OPTIONS = {
    "begin": r"--begin[=\s]|-b\s*\S",
    "node_count": r"--nodes[=\s]|-N\s*[0-9]",
    "exclusive": r"--exclusive\b",
    "constraint": r"--constraint[=\s]|-C\s*\S",
    "licence": r"--licenses[=\s]|-L\s*\S",
    "reservation": r"--reservation[=\s]",
    "gres": r"--gres[=\s]|--gpus|-G\s*\S",
}
"""Options of sbatch by kind of request, as regular expressions for SubmitLine."""
_COLUMNS = {"constraint": "Constraints", "licence": "Licenses", "reservation": "Reservation"}
_NOTHING = ("", "(null)", "None", "none")

KINDS = ("gres", "constraint", "licence", "reservation", "node_count", "exclusive", "begin", "heterogeneous")
"""Kinds of requests that are not played. Such a job is submitted with its processors, memory and time limit only."""


def held(columns: Collection[str], unused: pl.Expr, eligible: pl.Expr) -> pl.Expr:
    """Whether a job never could start: it was cancelled while it waited, and was held, or was never eligible.

    columns: the columns that the output has; unused: whether the job was cancelled while it waited; eligible: instant at which it
    became eligible, null if never. A job whose dependency was never fulfilled is not eligible either; `dependencies` handles it.
    """
    reason = pl.col("Reason").is_in(_HELD) if "Reason" in columns else pl.lit(False)
    never = eligible.is_null() if "Eligible" in columns else pl.lit(False)
    return unused & (reason | never)


def not_played(columns: Collection[str]) -> pl.Expr:
    """The kinds of requests (`KINDS`) of a job that are not played, as a list; `columns`: those that the output has.

    SubmitLine is searched for options of sbatch, so options inside the job script, and those of another command line, are not seen.
    """

    def found(kind: str) -> pl.Expr:
        signs: list[pl.Expr] = []
        if kind in _COLUMNS and _COLUMNS[kind] in columns:
            signs.append(~pl.col(_COLUMNS[kind]).is_in(_NOTHING))
        if kind in _OPTIONS and "SubmitLine" in columns:
            signs.append(pl.col("SubmitLine").str.contains(rf"(?:^|\s)(?:{_OPTIONS[kind]})"))
        if kind == "gres":
            signs += [pl.col(column).str.contains(r"(?:^|,)gres/") for column in ("ReqTRES", "AllocTRES") if column in columns]
        if kind == "heterogeneous" and "JobID" in columns:
            signs.append(pl.col("JobID").str.contains("+", literal=True))
        return pl.any_horizontal(signs) if signs else pl.lit(False)

    return pl.concat_list(pl.when(found(kind)).then(pl.lit(kind)) for kind in KINDS).list.drop_nulls()
