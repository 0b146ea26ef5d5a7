"""Joins the lines of sacct about one job: its executions, the parts of one between changes of size, and repeated lines.

`sacct --duplicates` prints a line for each execution of a job that was requeued. The job keeps its number, but each execution has a
submission of its own: the instant of the requeue. Numbers start again when they have reached the cluster's highest (MaxJobId), so
lines of one number are of one job only if an execution follows the end of the one before.
"""

from __future__ import annotations

import polars as pl

from mirage.traces import states

_SLACK = 1  # seconds: sacct prints whole ones
_LONGEST_PAUSE = 86400  # seconds from the end of an execution to the submission of the next; a number is not given again in a day

_LISTS = {
    "earlier": pl.List(pl.Struct(dict.fromkeys(("start", "end"), pl.Float64()))),
    "resized": pl.List(pl.Struct(dict.fromkeys(("start", "allocated", "nodes"), pl.Float64()))),
}


def joined(facts: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """A row per job, and the number of lines by kind (`repeated_lines`, `requeued`, `resized`).

    facts: a row per line with columns line, key (the same for lines of one number), submit, eligible, start, end, elapsed,
        suspended, allocated, nodes, state, over, unused and others (`sacct.parse_sacct`)

    A job is submitted when its first execution was. Everything else is of its last execution, whose size is that at its start.
    After an execution that ended as REQUEUED the job waits. Added columns: `earlier`, a list of start and end of the executions
    before, whose work was lost; `resized`, a list of instant, processors and nodes of changes of size in the last one; both null or
    empty for other jobs.
    """
    alone = ~pl.col("key").is_duplicated() & ~pl.col("state").is_in(["REQUEUED", states.RESIZING]).fill_null(False)
    is_alone = facts.select(alone).to_series()
    if is_alone.all():
        return facts.with_columns(pl.lit(None, kind).alias(name) for name, kind in _LISTS.items()), {}
    lines, repeated = _without_repeated(facts.filter(~is_alone))
    executions = _executions(_numbered(lines))
    jobs = _jobs(executions)
    counts = {
        "repeated_lines": repeated,
        "requeued": int(jobs["earlier"].list.len().sum()),
        "resized": jobs.filter(pl.col("resized").list.len() > 0).height,
    }
    return pl.concat([facts.filter(is_alone), jobs.select(*facts.columns, *_LISTS)], how="diagonal").sort("line"), counts


def _without_repeated(lines: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The lines without those that a later output repeats, in order of key, submission and start; and their number."""
    ordered = lines.sort("key", "submit", "start", "over", "line", nulls_last=True)
    once = ordered.unique(["key", "submit", "start"], keep="last", maintain_order=True)
    waited = pl.col("start").is_null() & ~pl.col("over") & (pl.len().over("key", "submit") > 1)
    once = once.filter(~waited)
    return once, lines.height - once.height


def _numbered(lines: pl.DataFrame) -> pl.DataFrame:
    """Adds `job`, the same for the lines of one job."""
    col = pl.col
    of_key = {name: col(name).shift(1).over("key") for name in ("submit", "start", "end", "state", "over", "unused")}
    ended = pl.coalesce(of_key["end"], of_key["start"], of_key["submit"])
    never = of_key["over"] & (of_key["start"].is_null() | of_key["unused"])
    follows = (
        (pl.coalesce("start", "submit") >= ended - _SLACK)
        & (col("submit") <= ended + _LONGEST_PAUSE)
        & of_key["state"].ne_missing("COMPLETED")
        & ~never
    )
    return lines.with_columns(job=(~follows.fill_null(False)).cum_sum())


def _executions(lines: pl.DataFrame) -> pl.DataFrame:
    """A row per execution: the parts of one between changes of size are joined."""
    col = pl.col
    part = (col("state").shift(1).over("job") == states.RESIZING).fill_null(False)
    numbered = lines.with_columns(part=part).with_columns(execution=(~col("part")).cum_sum())
    first, summed = ("line", "submit", "eligible", "start", "allocated", "nodes"), ("elapsed", "suspended")
    kept = [name for name in lines.columns if name not in (*first, *summed)]
    return numbered.group_by("execution", maintain_order=True).agg(
        col(first).first(),
        *(pl.when(col(name).count() > 0).then(col(name).sum()).alias(name) for name in summed),
        col(kept).last(),
        resized=pl.struct("start", "allocated", "nodes").filter("part"),
    )


def _jobs(executions: pl.DataFrame) -> pl.DataFrame:
    """A row per job; see `joined`."""
    col, last = pl.col, pl.int_range(pl.len()).over("job") == pl.len().over("job") - 1
    again = (col("state") == "REQUEUED").fill_null(False)
    marked = executions.with_columns(lost=(~last | again) & (col("end") >= col("start")).fill_null(False))
    first = ("line", "submit", "eligible")
    kept = [name for name in executions.columns if name not in (*first, "job")]
    jobs = marked.group_by("job", maintain_order=True).agg(
        col(first).first(), col(kept).last(), earlier=pl.struct("start", "end").filter("lost")
    )
    waits = (col("state") == "REQUEUED").fill_null(False)
    return jobs.with_columns(
        *(pl.when(~waits).then(name).alias(name) for name in ("start", "end", "elapsed")),
        over=col("over") & ~waits,
        resized=pl.when(waits).then(col("resized").list.head(0)).otherwise("resized"),
    )
