"""Filler jobs in the records of a run: fillers.csv, what they did in all, and whether no work of theirs was counted twice.

A filler is a job of the cluster beside the workload, of the name `mirage-filler-NUMBER`. It has one id in Slurm, and an execution
for each start. fillers.bin has a record of the begin of its work, of each save, and of the end of a filler's work; the manager's
completion log has a line for each execution. A filler that was killed left no record of what it did after its last save.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars import col

from mirage.records.aspects import OfRun, Sources
from mirage.records.run_folder import RunFolder
from mirage.records.run_records import NS, Schema, in_second
from mirage.records.time_map import TimeMap
from mirage.traces.csv_frame import check_rows, read_csv
from mirage_extras.filler.metrics import (
    CANCELLED,
    COMPLETED,
    FAILED,
    FILLERS_FILE,
    FILLERS_SCHEMA,
    LIMIT,
    PREEMPTED,
    REQUEST,
    RUNNING,
    SLOT,
)
from slurm_mirage.base.hostlist import expand
from slurm_mirage.extras.filler.feeder.settings import KEY
from slurm_mirage.extras.filler.filler_log import Cause
from slurm_mirage.extras.filler.filler_log import read_fillers as read_log
from slurm_mirage.extras.filler.words import EXIT_REQUEUE, Filler
from slurm_mirage.rm.api import NOT_ENDED

SAVES_FILE = "fillers.bin"
PREFIX = "mirage-filler-"
"""Prefix of the names of fillers in Slurm; their numbers follow."""
_ROUNDING = 1_000_000
"""Virtual ns by which progress may differ from the time of work that led to it."""

_SAVES: Schema = {
    **dict.fromkeys(("filler", "slurm_id"), pl.Int64),
    **dict.fromkeys(("v_start", "v_ready", "v_from", "v_to", "v_saved", "before", "after", "useful"), pl.Int64),
    "cause": pl.Int64,
    **dict.fromkeys(("failed", "kept"), pl.Boolean),
    "node": pl.String,
}
_MADE = (Cause.INTERVAL, Cause.REQUEST, Cause.SLOT)
"""Causes of saves."""
_LEAVING = (Cause.REQUEST, Cause.SLOT, Cause.END)
"""Causes of records after which a filler does no work."""


@dataclass(frozen=True)
class Fillers(OfRun):
    """The fillers of a run.

    variant: "slots" or "planned"; words: what they were, in virtual seconds
    executions: columns of `FILLERS_SCHEMA`, in order of their starts
    launch: processor seconds (of the trace) from Slurm's starts of the executions to the programs' starts, the sum, as far as it is
        known. Slurm's starts are truncated to seconds: half a second is taken off each
    faults: what is wrong with their records, a description of each; empty if no work was counted twice or lost beyond a save
    log, time: of the run (`Sources`)
    """

    variant: str
    words: Filler
    executions: pl.DataFrame
    launch: float
    faults: list[str]
    log: pl.DataFrame
    time: TimeMap

    def beside(self) -> pl.DataFrame:
        return self.executions.select("start", "end")

    def is_own(self) -> pl.Expr:
        return is_filler(col("name"))

    def vacated(self, jobs: pl.DataFrame) -> pl.DataFrame:
        return vacated(self.executions, jobs, self.log, self.time.second)

    def tables(self, allocations: pl.DataFrame) -> dict[str, pl.DataFrame]:
        return {FILLERS_FILE: self.executions}


def is_filler(names: pl.Expr) -> pl.Expr:
    """Whether jobs of these names are fillers."""
    return names.str.contains(f"^{PREFIX}[0-9]+$")


def collect(sources: Sources) -> Fillers | None:
    """The fillers of the run; None for a run without any. Raises WrongUse for invalid words."""
    run, log, time = sources.run, sources.log, sources.time
    settings = run.settings.get(KEY)
    if not isinstance(settings, Mapping):
        return None
    words = Filler.parse(str(settings.get("words", "")))
    saves, damage = read_saves(run.path / SAVES_FILE)
    runs = _executions(log, sources.ahead)
    joined = _with_saves(runs, saves)
    faults = [*damage, *_strays(runs, saves), *_progress(saves, words), *_ends(joined, saves, words), *_overlaps(runs)]
    launch = joined.select(((col("v_began") - col("s_start") - NS // 2).clip(0) * col("processors")).sum()).item() or 0
    executions = _table(joined, words, time)
    return Fillers(str(settings.get("variant", "")), words, executions, launch / NS * time.second, faults, log, time)


def read_tables(run: RunFolder, parameter: str) -> dict[str, pl.DataFrame]:
    """The table of the run's folder, where it is there. Raises WrongUse as `read_fillers` does."""
    return {FILLERS_FILE: read_fillers(run.path / FILLERS_FILE, parameter)} if run.has(FILLERS_FILE) else {}


def read_saves(path: Path) -> tuple[pl.DataFrame, list[str]]:
    """The records of fillers.bin in order of filler and time, and descriptions of its damaged parts. The file may be absent."""
    records, damage = read_log(path) if path.exists() else ([], [])
    rows = [
        (
            *(one.id, one.slurm_job_id, one.start_ns, one.ready_ns or None, one.from_ns, one.to_ns, one.saved_ns),
            *(one.before_ns, one.after_ns, one.useful_ns, one.cause, one.failed, one.is_saved, one.node or None),
        )
        for one in records
    ]
    saves = pl.DataFrame(rows, schema=_SAVES, orient="row").sort("filler", "v_start", "v_saved", maintain_order=True)
    return saves, [f"{path.name} at byte {part.offset}: {part.reason}" for part in damage]


def _executions(log: pl.DataFrame, ahead: int) -> pl.DataFrame:
    """The executions in the completion log, in order of filler and start: slurm_id, filler, execution (from 1 on), s_state,
    s_start, s_end, processors, hosts, left (whether it left its node by itself, to be started again)."""
    own = log.filter("is_of_run", is_filler(col("name")), "s_ran").drop_nulls("s_start")
    frame = own.select(
        "slurm_id",
        "s_state",
        filler=col("name").str.strip_prefix(PREFIX).cast(pl.Int64),
        s_start=col("s_start") - ahead,
        s_end=pl.when(col("s_state") != "RUNNING").then(col("s_end") - ahead),
        processors="s_allocated",
        hosts="hosts",
        left=(col("exit_code") == EXIT_REQUEUE).fill_null(False),
    )
    return frame.sort("filler", "s_start", maintain_order=True).with_columns(execution=col("filler").cum_count().over("filler"))


def _with_saves(runs: pl.DataFrame, saves: pl.DataFrame) -> pl.DataFrame:
    """The executions, with what their records tell: v_began, v_ready, v_last and v_kept (ends of the last record, and of the last
    that kept work), node, useful, saving (ns), saves, failed_saves, work, progress (ns), cause (of the last that kept work); null,
    or 0, without any."""
    was_saved = col("cause").is_in(_MADE) & (col("useful") > 0)
    records = _of_executions(runs, saves).drop_nulls("execution")
    by_run = records.group_by("filler", "execution", maintain_order=True).agg(
        v_began=col("v_start").first(),
        v_ready=col("v_ready").drop_nulls().first(),
        v_last=col("v_saved").last(),
        v_kept=col("v_saved").filter("kept").last(),
        node=col("node").last(),
        useful=col("useful").sum(),
        saving=(col("v_saved") - col("v_to")).filter(col("cause").is_in(_MADE)).sum(),
        saves=was_saved.sum().cast(pl.Int64),
        failed_saves=col("failed").sum().cast(pl.Int64),
        work=(col("after") - col("before")).filter("kept").sum(),
        progress=col("after").last(),
        cause=col("cause").filter("kept").last(),
    )
    joined = runs.join(by_run, on=["filler", "execution"], how="left", maintain_order="left")
    zeros = ("useful", "saving", "saves", "failed_saves", "work")
    progress = col("progress").forward_fill().over("filler").fill_null(0)
    return joined.with_columns(*(col(name).fill_null(0) for name in zeros), progress=progress)


def _of_executions(runs: pl.DataFrame, saves: pl.DataFrame) -> pl.DataFrame:
    """The records with the execution that each belongs to; null if there is none."""
    starts = runs.select("filler", "slurm_id", "execution", "s_start", s_by="s_end").sort("s_start")
    nearest: dict[str, Any] = {"by": ["filler", "slurm_id"], "strategy": "backward", "check_sortedness": False}
    records = saves.with_row_index("row").sort("v_start").join_asof(starts, left_on="v_start", right_on="s_start", **nearest)
    within = (col("v_start") < col("s_by") + NS).fill_null(True)
    return records.with_columns(execution=pl.when(within).then("execution")).sort("row")


def _table(joined: pl.DataFrame, words: Filler, time: TimeMap) -> pl.DataFrame:
    """fillers.csv. An instant that Slurm printed is replaced by the record's within that second, or by the middle of the second.

    An execution that was killed before its first save has no record: it is assumed that its restore took what a restore costs.
    """
    last = pl.max_horizontal("v_began", "v_last")
    frame = joined.with_columns(v_start=pl.when(col("v_began").is_null()).then("s_start").otherwise("v_began"))
    frame = frame.with_columns(v_start=pl.when(col("v_began").is_null()).then("s_start").otherwise(in_second("v_start", "s_start")))
    # A program ends a moment after its last record; a killed one ended at an unknown instant of the second that Slurm printed.
    frame = frame.with_columns(v_end=pl.max_horizontal(in_second("v_last", "s_end"), "v_start", last))
    frame = frame.with_columns(v_end=pl.when(col("s_end").is_not_null()).then("v_end"))
    length = pl.coalesce("v_end", last, "v_start") - col("v_start")
    assumed = pl.min_horizontal(length, pl.lit(round(words.restore * NS)))
    restoring = pl.when(col("v_ready").is_null()).then(assumed).otherwise((col("v_ready") - col("v_start")).clip(0))
    rest = length - restoring - col("useful") - col("saving")
    waits = col("cause").is_in(_LEAVING).fill_null(False)
    frame = frame.with_columns(
        restoring=restoring,
        waiting=pl.when(waits).then(pl.min_horizontal(rest.clip(0), (col("v_end") - col("v_kept")).clip(0))).otherwise(0),
        rest=rest.clip(0),
    )
    ended = ~col("s_state").is_in(NOT_ENDED)
    outcome = (
        pl.when(col("s_state") == "COMPLETED")
        .then(pl.lit(COMPLETED))
        .when(col("s_state") == "CANCELLED")
        .then(pl.lit(CANCELLED))
        .when(col("s_state") == "RUNNING")
        .then(pl.lit(RUNNING))
        .when(col("s_state") == "TIMEOUT")
        .then(pl.lit(LIMIT))
        .when(col("left") & (col("cause") == Cause.REQUEST))
        .then(pl.lit(REQUEST))
        .when(col("left") | (col("cause") == Cause.SLOT))
        .then(pl.lit(SLOT))
        .when(ended & (col("s_state") != "PREEMPTED"))
        .then(pl.lit(FAILED))
        .otherwise(pl.lit(PREEMPTED))
    )
    columns = {
        "node": pl.coalesce("node", "hosts"),
        **{name: time.trace(col(f"v_{name}")) for name in ("start", "ready", "end")},
        **{name: time.length(col(name)) for name in ("useful", "saving", "restoring", "waiting", "work", "progress")},
        "lost": time.length(col("rest") - col("waiting")),
        "outcome": outcome,
    }
    return frame.sort("v_start", "filler", maintain_order=True).select(
        columns.get(name, col(name)).cast(kind).alias(name) for name, kind in FILLERS_SCHEMA.items()
    )


def vacated(executions: pl.DataFrame, jobs: pl.DataFrame, log: pl.DataFrame, second: float) -> pl.DataFrame:
    """When fillers left the nodes of each job for it: id, vacated (trace seconds). Jobs whose nodes were held by no filler, or by
    another job of the workload after the last filler, are left out.

    executions: those of fillers; jobs: id, slurm_id, start, end; log: result of `read_completions`
    second: trace seconds of a virtual one, to which the end of a filler that was killed is known
    """
    nothing = pl.DataFrame(schema={"id": pl.Int64, "vacated": pl.Float64})
    hosts = log.filter("is_of_run", "s_ran").unique("slurm_id", keep="last").select("slurm_id", "hosts")
    known = jobs.drop_nulls("start").join(hosts, on="slurm_id", how="inner", maintain_order="left")
    names = {text: _names(text) for text in known["hosts"].unique().to_list()}
    lists = pl.Series([names[text] for text in known["hosts"].to_list()], dtype=pl.List(pl.String))
    nodes = known.select("id", "start", "end", node=lists).explode("node").drop_nulls("node")
    left = executions.drop_nulls(["node", "end"]).select("node", vacated="end").sort("vacated")
    if nodes.is_empty() or left.is_empty():
        return nothing
    nearest: dict[str, Any] = {"by": "node", "strategy": "backward", "check_sortedness": False}
    others = nodes.drop_nulls("end").select("node", other="end").sort("other")
    frame = nodes.sort("start").join_asof(others, left_on="start", right_on="other", allow_exact_matches=False, **nearest)
    frame = frame.with_columns(by=col("start") + second).sort("by").join_asof(left, left_on="by", right_on="vacated", **nearest)
    frame = frame.group_by("id", maintain_order=True).agg(col("start").first(), col("vacated", "other").max())
    frame = frame.filter(col("vacated") >= col("other").fill_null(-math.inf))
    return frame.select("id", vacated=pl.min_horizontal("start", "vacated"))


def _names(text: str) -> list[str]:
    try:
        return expand(text)
    except ValueError:  # a list that was cut off
        return []


# ---- what may not be ----


def _strays(runs: pl.DataFrame, saves: pl.DataFrame) -> list[str]:
    lost = _of_executions(runs, saves).filter(col("execution").is_null())
    return (
        [f"{lost.height} records of fillers are of no execution in Slurm's record, as of filler {lost['filler'][0]}"]
        if lost.height
        else []
    )


def _progress(saves: pl.DataFrame, words: Filler) -> list[str]:
    """Messages about saves that do not continue from the save before, do not add the work of their time, or began too early."""
    before = col("after").shift(1).over("filler").fill_null(0)
    # A failed save leaves the work in memory: the next save has all the work since the last save that succeeded.
    kept = pl.when("kept").then("v_saved").forward_fill().shift(1).over("filler")
    since = pl.max_horizontal(kept, pl.coalesce("v_ready", "v_start"))
    made = col("after") - col("before")
    checks = {
        "do not begin where the save before ended": col("before") != before,
        "have another progress than the work of their time": (made - col("useful") * words.speed).abs() > _ROUNDING + made * 1e-9,
        "have more time of work than there was since the save before": col("useful") > col("v_to") - since + _ROUNDING,
    }
    return _contradictions(saves, checks, "records")


def _ends(joined: pl.DataFrame, saves: pl.DataFrame, words: Filler) -> list[str]:
    """Messages about fillers that completed with more or less than their work, or did something afterwards."""
    wanted = pl.DataFrame(
        [
            (number, round((words.work_of(number) or math.nan) * NS))
            for number in joined["filler"].unique().to_list()
            if words.work_of(number)
        ],
        schema={"filler": pl.Int64, "wanted": pl.Int64},
        orient="row",
    )
    table = joined.join(wanted, on="filler", how="left", maintain_order="left")
    completed = col("s_state") == "COMPLETED"
    checks = {
        "are beyond the number of fillers": col("wanted").is_null(),
        "completed with another progress than their work": completed & ((col("progress") - col("wanted")).abs() > _ROUNDING),
        "completed, and their own record does not say it": completed & (col("cause") != Cause.END).fill_null(True),
        "ran again after they had completed": (completed.cast(pl.Int64).cum_sum() - completed.cast(pl.Int64)).over("filler") > 0,
    }
    return _contradictions(table, checks, "executions")


def _overlaps(runs: pl.DataFrame) -> list[str]:
    """Messages about fillers that ran on two nodes at the same time."""
    until = col("s_end").shift(1).over("filler")
    return _contradictions(runs, {"began before the one before had ended": (col("s_start") < until).fill_null(False)}, "executions")


def _contradictions(table: pl.DataFrame, checks: Mapping[str, pl.Expr], what: str) -> list[str]:
    messages = []
    for words, wrong in checks.items():
        rows = table.filter(wrong)
        if rows.height:
            messages.append(f"{rows.height} {what} of fillers {words}, first of filler {rows['filler'][0]}")
    return messages


# ---- fillers.csv ----


def read_fillers(path: Path, parameter: str) -> pl.DataFrame:
    """The table of a run, columns of `FILLERS_SCHEMA`. parameter: the parameter that named the run, for messages.

    Raises WrongUse with the file and the first wrong line.
    """
    table = read_csv(path, FILLERS_SCHEMA, parameter)
    checks = {
        "filler, start or processors is empty": pl.any_horizontal(col("filler", "start", "processors").is_null()),
        "end {end} is before start {start}": col("end") < col("start"),
    }
    check_rows(path, table, checks, parameter)
    return table
