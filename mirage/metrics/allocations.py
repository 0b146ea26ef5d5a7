"""Jobs that change their size while they run: the intervals in which they held processors and nodes, and their mean size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

# Events of a job at one instant, in the order in which they are applied.
_START, _CHANGE, _END = 0, 1, 2


@dataclass(frozen=True)
class Resized:
    """The jobs that change their size.

    jobs: columns id, mean: mean number of processors while the job ran (not suspended), weighted by time; null if the job was
        suspended and it is not recorded when; changes: how often it changed its size; work: processors at the start x the seconds
        for which it would have run with them; null if that is not known, as of a job that did not complete
    holdings: columns id, begin, end, p, c: intervals in which a job held p processors and c nodes, in order of id and begin
    """

    jobs: pl.DataFrame
    holdings: pl.DataFrame

    @classmethod
    def of(cls, jobs: pl.DataFrame, suspensions: pl.DataFrame | None, changes: pl.DataFrame) -> Resized | None:
        """None if no job changes its size.

        jobs: columns id, s, f, p, c (p and c at the start), suspended (seconds), and wanted: seconds for which a completed job
            would have run with p processors, null for others
        suspensions: columns job, suspend, resume, of any jobs; None if not known
        changes: columns id, time, p, c, of any jobs
        """
        changes = effective(jobs, changes)
        if changes.is_empty():
            return None
        resized = jobs.join(changes, on="id", how="semi")
        held = holdings(resized, suspensions, changes)
        means = _means(held)
        unknown = _without_instants(resized, suspensions)
        mean = pl.when(~pl.col("id").is_in(unknown.implode())).then(pl.coalesce("mean", pl.col("p").cast(pl.Float64)))
        counts = changes.group_by("id").agg(changes=pl.len())
        table = resized.join(means, on="id", how="left", maintain_order="left").join(counts, on="id", maintain_order="left")
        return cls(table.select("id", mean=mean, changes="changes", work=pl.col("p") * pl.col("wanted")), held)


def effective(jobs: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Those of the changes before the end of their job that give it another size, in order of id and time; columns id, time, p, c.

    jobs: columns id, f, p, c; changes of jobs that are not among them are left out
    """
    ordered = changes.join(jobs.select("id", "f", p_start="p", c_start="c"), on="id").sort("id", "time")
    before = {name: pl.col(name).shift(1).over("id").fill_null(pl.col(f"{name}_start")) for name in "pc"}
    is_change = (pl.col("p") != before["p"]) | (pl.col("c") != before["c"])
    return ordered.filter(is_change & (pl.col("time") < pl.col("f"))).select("id", "time", "p", "c")


def holdings(jobs: pl.DataFrame, suspensions: pl.DataFrame | None, changes: pl.DataFrame | None) -> pl.DataFrame:
    """The intervals in which jobs held processors: columns id, begin, end, p, c, in order of id and begin.

    A suspended job holds none. Suspensions with an unknown instant are left out. Parameters as for `Resized.of`; changes None: no
    job changes its size.
    """
    none, nothing = pl.lit(None, pl.Int64), pl.lit(0, pl.Int64)

    def events(
        frame: pl.DataFrame, at: str, order: int, *, running: int = 0, stopped: int = 0, sized: bool = False
    ) -> pl.DataFrame:
        size = {name: pl.col(name).cast(pl.Int64) if sized else none for name in "pc"}
        return frame.select(
            "id",
            time=at,
            order=pl.lit(order),
            **size,
            running=nothing + running,
            stopped=nothing + stopped,
        )

    parts = [events(jobs, "s", _START, running=1, sized=True), events(jobs, "f", _END, running=-1)]
    if changes is not None:
        parts.append(events(changes, "time", _CHANGE, sized=True))
    if suspensions is not None:
        stops = suspensions.drop_nulls().rename({"job": "id"}).join(jobs, on="id", how="semi")
        parts += [events(stops, "suspend", _CHANGE, stopped=1), events(stops, "resume", _CHANGE, stopped=-1)]
    # Cumulative sums and filled values start again with each job: a job that has ended is not running and not stopped.
    table = pl.concat(parts).sort("id", "time", "order", maintain_order=True)
    states = table.select(
        "id",
        pl.col("p", "c").forward_fill(),
        pl.col("running", "stopped").cum_sum(),
        begin="time",
        end=pl.col("time").shift(-1),
    )
    held = (pl.col("running") > 0) & (pl.col("stopped") <= 0) & (pl.col("end") > pl.col("begin"))
    return states.filter(held).select("id", "begin", "end", "p", "c")


def _means(held: pl.DataFrame) -> pl.DataFrame:
    """Columns id, mean: processors of each job weighted by time. Sums are made in the order of the rows: the same each time."""
    if held.is_empty():
        return pl.DataFrame(schema={"id": pl.Int64, "mean": pl.Float64})
    job = held["id"].rle_id().to_numpy()
    seconds = (held["end"] - held["begin"]).to_numpy()
    area = np.bincount(job, weights=seconds * held["p"].to_numpy())
    return pl.DataFrame({"id": held["id"].unique(maintain_order=True), "mean": area / np.bincount(job, weights=seconds)})


def _without_instants(jobs: pl.DataFrame, suspensions: pl.DataFrame | None) -> pl.Series:
    """Numbers of the jobs that were suspended at times that are not recorded."""
    if suspensions is None:
        return jobs.filter(pl.col("suspended").fill_null(0) > 0)["id"]
    return suspensions.filter(pl.any_horizontal(pl.col("suspend", "resume").is_null()))["job"]
