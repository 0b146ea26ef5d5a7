"""Requests of a log's jobs that a run does not emulate: the numbers of jobs, and their shares of the processor time.

A kind is a field of sacct or SWF, or an option of sbatch. The column `not_played` of a workload has the kinds of each job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypedDict

import polars as pl

from mirage.workloads.requests import KIB_OF_MIB, Requests
from slurm_mirage.jobs.plan import NEVER

LIMIT = 0.05
"""Share of the processor time above which a comparison with the real machine is inconclusive."""

ANY = "any"
REFUSED = "refused"

WORDS = {
    "gres": "GPUs or other GRES",
    "constraint": "a constraint",
    "features": "preferred features",
    "licence": "a licence",
    "reservation": "a reservation",
    "burst_buffer": "a burst buffer",
    "node_count": "a number of nodes, or of tasks on each",
    "node_list": "certain nodes",
    "exclusive": "whole nodes",
    "begin": "a begin time, or held for a time",
    "tasks": "processors for each task",
    "placement": "the placement on nodes",
    "nice": "a lower priority",
    "other_option": "another option that matters to the scheduler",
    REFUSED: "requests that the resource manager refused",
    "array_limit": "a limit of array tasks at once",
    "heterogeneous": "several components (each is a job here)",
    "dependency": "a dependency",
    "preceding_job": "the end of a preceding job (field 17)",
    "memory": "memory",
    "partition": "a partition",
    "queue": "a queue",
    "qos": "a QOS",
    ANY: "any of them",
}
"""The kinds, in words. The first sixteen are those of `sacct_requests.KINDS`."""


class Count(TypedDict):
    """Number of jobs with a kind of requests that is not emulated, and their share of the processor time of all jobs (0 to 1)."""

    jobs: int
    share: float


def of_log(jobs: pl.DataFrame) -> pl.Expr:
    """The kinds of a job that no configuration can emulate, separated by blanks.

    jobs: SWF frame with the columns that sacct adds and those of `dependencies.waiting`
    """
    col = pl.col
    own = col("not_played").list.join(" ") if "not_played" in jobs.columns else pl.lit("")
    signs = {
        "dependency": col("dependency_lost"),
        "preceding_job": (col("preceding_job") > 0) & col("follows").is_null() & (col("dependency") != NEVER),
    }
    return _joined(own, signs)


def without_array_limit(is_played: pl.Expr) -> pl.Expr:
    """The column `not_played` without the limit of array tasks at once, of those jobs whose array is submitted with it."""
    others = pl.col("not_played").str.split(" ").list.set_difference(["array_limit"]).list.join(" ")
    return pl.when(is_played).then(others).otherwise("not_played").alias("not_played")


def with_requests(jobs: pl.DataFrame, asked: Requests, routed: pl.Series, qos: pl.Series) -> pl.Series:
    """The column `not_played` of the jobs with the kinds that the configuration does not emulate.

    A partition, queue or QOS that all jobs name does not count, because it does not distinguish them.

    jobs: `workload.Workload.jobs`
    asked: the requests with which they are submitted
    routed, qos: partition and QOS by routing rules, "" for none
    """
    col = pl.col
    by_rule = (col("rule_partition") != "") | (col("rule_qos") != "")
    is_named = (col("partition_name") != "") | (col("qos_name") != "")

    def differ(name: str) -> pl.Expr:
        return col(name).n_unique() > 1

    given = col("given_partition").str.split(",")
    signs = {
        "memory": ((col("memory") / KIB_OF_MIB).floor().clip(1) > col("given_memory").fill_null(0)).fill_null(False),
        "partition": differ("partition") & ~by_rule & pl.when(is_named)
        .then((col("partition_name") != "") & ~given.list.eval(pl.element() != "").list.any())
        .otherwise(col("partition") >= 0),
        "queue": differ("queue") & ~by_rule & ~is_named & (col("queue") >= 0),
        "qos": differ("qos_name") & (col("qos_name") != "") & ~_is_default(col("qos_name")) & (col("given_qos") == ""),
    }  # fmt: skip
    frame = jobs.with_columns(
        rule_partition=routed,
        rule_qos=qos,
        given_partition=pl.Series(asked.partitions, dtype=pl.String),
        given_qos=pl.Series(asked.qos, dtype=pl.String),
        given_memory=pl.Series(asked.memory, dtype=pl.Float64),
    )
    if asked.played:
        others = col("not_played").str.split(" ").list.set_difference(pl.Series(asked.played).str.split(" ")).list.join(" ")
        frame = frame.with_columns(not_played=others)
    return frame.select(_joined(col("not_played"), signs).alias("not_played"))["not_played"]


def with_refused(jobs: pl.DataFrame, refused: Collection[int]) -> pl.DataFrame:
    """The jobs with the kind REFUSED for those with these numbers, in the column `not_played`."""
    kinds = _joined(pl.col("not_played").fill_null(""), {REFUSED: pl.col("id").is_in(list(refused))})
    return jobs.with_columns(kinds.alias("not_played"))


def _is_default(qos: pl.Expr) -> pl.Expr:
    """Whether a QOS is Slurm's default one."""
    return qos.str.to_lowercase() == "normal"


def _joined(kinds: pl.Expr, signs: Mapping[str, pl.Expr]) -> pl.Expr:
    more = [pl.when(sign).then(pl.lit(kind)) for kind, sign in signs.items()]
    return pl.concat_str(pl.when(kinds != "").then(kinds), *more, separator=" ", ignore_nulls=True)


def counts(jobs: pl.DataFrame) -> dict[str, Count]:
    """The numbers of jobs by kind and of those with any kind, most processor time first; {} if everything is emulated.

    jobs: columns `not_played`, `preset`, `ran`, `processors` and `runtime` of `workload.Workload.jobs`. Preset jobs are not
        counted; a job that never ran has no processor time
    """
    col = pl.col
    measured = jobs.filter(col("preset").fill_null("") == "").select(
        kinds=col("not_played").fill_null(""), time=pl.when("ran").then(col("processors") * col("runtime")).otherwise(0.0)
    )
    total = float(measured["time"].sum())
    asking = measured.filter(col("kinds") != "").with_columns(col("kinds").str.split(" "))
    if asking.is_empty():
        return {}
    by_kind = (
        asking.explode("kinds").group_by("kinds").agg(pl.len(), col("time").sum()).sort("time", "kinds", descending=[True, False])
    )
    rows = [*by_kind.iter_rows(), (ANY, asking.height, asking["time"].sum())]
    return {kind: Count(jobs=count, share=time / total if total else 0.0) for kind, count, time in rows}


def in_words(found: Mapping[str, Count]) -> str:
    """The counts as a sentence: `GPUs or other GRES: 16 jobs, 41 % of the processor time; ...`; "" if everything is emulated."""
    return "; ".join(
        f"{WORDS.get(kind, kind)}: {_jobs(count['jobs'])}, {_per_cent(count['share'])} of the processor time"
        for kind, count in found.items()
        if kind != ANY or len(found) > 2
    )


def inconclusive(found: Mapping[str, Count]) -> str:
    """Why a comparison with the real machine is inconclusive; "" if it is not."""
    if ANY not in found or found[ANY]["share"] <= LIMIT:
        return ""
    kinds = [f"{WORDS.get(kind, kind)} {_per_cent(count['share'])}" for kind, count in found.items() if kind != ANY]
    return (
        f"jobs with {_per_cent(found[ANY]['share'])} of the processor time have requests that are not emulated "
        f"({', '.join(kinds)}); at most {_per_cent(LIMIT)} may"
    )


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
