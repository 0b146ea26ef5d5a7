"""Changes to the jobs of a log for a machine that grows: other types of GPUs, and more jobs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import polars as pl

from mirage.workloads.requests import GPU
from mirage.workloads.workload import limits
from slurm_mirage.jobs.request import Request, counts_of, gpus_of


def with_type(words: str, old: Collection[str], new: str) -> str:
    """The words of a request with GPUs of the new type instead of those of an old one or of any; unchanged if it asks for none."""
    request = Request.parse(words)

    def total(listed: str) -> str:
        return ",".join(f"{new if kind in ('', *old) else kind}:{number}" for kind, number in gpus_of(listed))

    gres = [
        (f"{GPU}:{new}" if name == GPU or (name.startswith(f"{GPU}:") and name.partition(":")[2] in old) else name, number)
        for name, number in counts_of(request.gres)
    ]
    return replace(
        request,
        gres=",".join(f"{name}:{number}" for name, number in gres),
        gpus=total(request.gpus),
        gpus_per_task=total(request.gpus_per_task),
    ).words


def moved(
    jobs: pl.DataFrame, rows: pl.Series, words: pl.Series, factor: float, *, shrink: float, slack: float, overrun: str
) -> pl.DataFrame:
    """The jobs of a workload (`Workload.jobs`), of which some ask for other GPUs and run for another time.

    rows: which of them; words: requests of all as they would be; factor: what run times and requested times are multiplied by;
    shrink: virtual seconds per trace second; slack, overrun: as for `workload.prepare`
    """
    times = ("runtime", "requested", "runtime_virtual")
    faster = jobs.with_columns(
        pl.when(rows).then(words).otherwise("request").alias("request"),
        *(pl.when(rows).then(pl.col(name) * factor).otherwise(name).alias(name) for name in times),
    )
    limited = limits(faster, shrink, slack, overrun)
    return faster.with_columns(
        pl.when(rows).then(limited[name]).otherwise(name).alias(name) for name in ("limit_minutes", "limit_extended")
    )


def more(jobs: pl.DataFrame, rows: pl.Series, share: float, random: np.random.Generator, above: int = 0) -> pl.DataFrame:
    """The jobs of a workload with copies of some of them: as many as `share` of the chosen ones.

    Which ones are copied is drawn, each once before one is copied twice, and so is the chosen job at whose instant a copy is
    submitted: daily and weekly rhythms stay. A copy depends on no other job, and is no task of an array.

    rows: which jobs may be copied; preset jobs are not
    above: numbers of copies are larger than this, as they are than those of all jobs
    """
    chosen = jobs.filter(rows & (pl.col("preset") == ""))
    number = round(share * chosen.height)
    if number == 0:
        return jobs
    rounds = [random.permutation(chosen.height) for _ in range(-(-number // chosen.height))]
    copies, at = chosen[np.concatenate(rounds)[:number]], chosen[random.integers(0, chosen.height, number)]
    alone = {name: None for name in ("follows", "think_virtual", "array_job", "array_limit") if name in jobs.columns}
    copies = copies.with_columns(
        at["submit"],
        at["submit_virtual"],
        id=pl.int_range(1, number + 1, dtype=pl.Int64) + pl.max_horizontal(pl.lit(jobs["id"].max()), above),
        dependency=pl.lit(""),
        **{name: pl.lit(value).cast(jobs.schema[name]) for name, value in alone.items()},
    )
    own = pl.concat([jobs, copies.select(jobs.columns)])
    return own.sort(pl.col("preset") == "", "submit_virtual", maintain_order=True) if jobs.height else own
