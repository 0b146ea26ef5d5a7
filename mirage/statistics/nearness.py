"""How near one schedule of some jobs comes to another: a replay to what its log records, or a second run to the first.

docs/results.md has the definitions. A wait lasts from the instant at which the job could start, its submission or later, to the
start of its last execution, in trace seconds. All figures are of these jobs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from mirage.statistics.intervals import Floats
from mirage.statistics.sums_over_jobs import cells_of, classes_of

MINUTE, TENTH = 60.0, 0.1
"""Waits within a minute differ by so many seconds at most; those within a tenth by that, or by so much of the longer one."""
BINS = (3600.0, 86_400.0, 604_800.0)
"""Widths of the bins over time in seconds: the first one of which there are at most MOST_BINS, or the last one."""
MOST_BINS = 100
_SLACK = 1.0
"""Seconds after its submission up to which the record calls any job eligible: its instants are whole seconds."""
_QUANTILES = {"wait_median": 0.5, "wait_p95": 0.95}
_QUARTILES = {"median": 0.5, "quartile_1": 0.25, "quartile_3": 0.75}


def pairs_of(run: pl.DataFrame, record: pl.DataFrame) -> pl.DataFrame:
    """The jobs that waited and started in both schedules, in order of submission: id, submit, run and record (their waits),
    deferred (seconds of the record from the submission until the job could start), difference (run - record), p (processors), t
    (run time, mean of both), and start and end, those of the record with _record.

    run, record: id, submit, start, end, processors; eligible, null or missing where unknown; and preset, whose jobs are left out.
    Negative waits, errors of a log, are left out. Sizes are those of `run`; an unknown end is the start.

    The waits of a job that the record calls eligible later than submitted count from its eligibility in each of both schedules: a
    begin or a hold of the log is played as the log has it, and other jobs decide on a dependency.
    """
    columns = ["id", "submit", "start", "end", "processors"]
    eligible = pl.lit(None, pl.Float64).alias("eligible")
    own = run.filter(pl.col("preset").is_null()) if "preset" in run.columns else run
    sides = [side.select(*columns, "eligible" if "eligible" in side.columns else eligible) for side in (own, record)]
    both = sides[0].join(sides[1], on="id", suffix="_record").drop_nulls(["submit", "start", "submit_record", "start_record"])
    is_deferred = pl.col("eligible").is_not_null() & (pl.col("eligible_record") > pl.col("submit_record") + _SLACK)
    later = {
        side: pl.when(is_deferred).then((pl.col(f"eligible{side}") - pl.col(f"submit{side}")).clip(0)).otherwise(0.0)
        for side in ("", "_record")
    }
    waits = {
        name: pl.col(f"start{side}") - pl.col(f"submit{side}") - later[side] for name, side in (("run", ""), ("record", "_record"))
    }
    both = both.with_columns(**waits, deferred=later["_record"])
    both = both.filter((pl.col("run") >= 0) & (pl.col("record") >= 0))
    lengths = pl.mean_horizontal(pl.col("end") - pl.col("start"), pl.col("end_record") - pl.col("start_record"))
    return both.select(
        "id",
        "run",
        "record",
        "deferred",
        "start",
        "start_record",
        pl.coalesce("end", "start"),
        pl.coalesce("end_record", "start_record").alias("end_record"),
        submit=pl.min_horizontal("submit", "submit_record"),
        difference=pl.col("run") - pl.col("record"),
        p=pl.coalesce("processors", "processors_record", pl.lit(1)),
        t=lengths.fill_null(0.0),
    ).sort("submit", "id")


def nearness(
    run: pl.DataFrame, record: pl.DataFrame, traits: pl.DataFrame | None = None, processors: int | None = None
) -> dict[str, Any] | None:
    """How near `run` comes to `record`; None if no job has a wait in both.

    run, record: jobs frames, as for `pairs_of`
    traits: id, and user (Int64), partition (String), has_gpus (Boolean), is_copied (Boolean: the run has the log's begin or hold),
        null where unknown; None: nothing is known
    processors: of the machine; None: unknown

    Members: those of `overall`; `classes` (of size and run time, as in metrics.json, each with the members of `waits`),
    `gpu_jobs` (the same of jobs with GPUs; None without any) and `partitions` (the same with `partition`; empty unless there are
    two); `users` (see `_users`), `over_time` (see `_over_time`), and `utilisation` (see `_utilisation`).
    """
    pairs = pairs_of(run, record)
    if pairs.is_empty():
        return None
    if traits is not None:
        pairs = pairs.join(traits.unique("id", keep="first"), on="id", how="left", maintain_order="left")
    return {
        **overall(pairs),
        "classes": _classes(pairs),
        "gpu_jobs": _gpu_jobs(pairs),
        "partitions": _partitions(pairs),
        "users": _users(pairs),
        "over_time": _over_time(pairs),
        "utilisation": None if processors is None else _utilisation(pairs, processors),
    }


def overall(pairs: pl.DataFrame) -> dict[str, Any]:
    """The figures of all jobs: `waits` (see `_waits`), `deferred` (see `_deferred`), `rank_correlation` (Spearman's rho of the
    waits; None if all waits of a side are equal), and `differences`: of the waits' differences the mean, median, quartile_1 and
    quartile_3, and the shares of the jobs within_minute, within_tenth, shorter and longer (in `run`, by more than a minute). Of the
    last two each figure has a `value`.

    pairs: of `pairs_of`, one row at least
    """
    of_run, of_record = _columns(pairs)
    return {
        "waits": _waits(of_run, of_record),
        "deferred": _deferred(pairs),
        "rank_correlation": _rank_correlation(of_run, of_record),
        "differences": _differences(of_run, of_record),
    }


def _columns(pairs: pl.DataFrame) -> tuple[Floats, Floats]:
    return pairs["run"].to_numpy(), pairs["record"].to_numpy()


def _waits(of_run: Floats, of_record: Floats, quantiles: dict[str, float] = _QUANTILES) -> dict[str, Any]:
    """`jobs`, and wait_mean, wait_median and wait_p95, each with run, record and difference."""
    values = {"wait_mean": (of_run.mean(), of_record.mean())}
    values |= {name: (np.quantile(of_run, share), np.quantile(of_record, share)) for name, share in quantiles.items()}
    return {"jobs": len(of_run), **{name: _figure(*both) for name, both in values.items()}}


def _deferred(pairs: pl.DataFrame) -> dict[str, Any]:
    """`jobs` whose waits count from later than their submission, and shares of the record's waiting since submission that lie
    before: `share`, and `copied`, of the jobs whose begin or hold the run has from the log; None where that is not known."""
    deferred = pl.col("deferred")
    copied = deferred.filter("is_copied").sum() if "is_copied" in pairs.columns else pl.lit(None, pl.Float64)
    whole = (deferred + pl.col("record")).sum()
    # Where nobody waited a share is 0.
    share, of_copied = ((part / whole).fill_nan(0.0) for part in (deferred.sum(), copied))
    return pairs.select(jobs=(deferred > 0).sum(), share=share, copied=of_copied).row(0, named=True)


def _figure(of_run: float, of_record: float) -> dict[str, float]:
    return {"run": float(of_run), "record": float(of_record), "difference": float(of_run - of_record)}


def _differences(of_run: Floats, of_record: Floats) -> dict[str, dict[str, float]]:
    difference, longer_wait = of_run - of_record, np.maximum(of_run, of_record)
    apart = np.abs(difference)
    over_jobs = {
        "mean": difference,
        "within_minute": apart <= MINUTE,
        "within_tenth": apart <= np.maximum(MINUTE, TENTH * longer_wait),
        "shorter": difference < -MINUTE,
        "longer": difference > MINUTE,
    }
    values = {name: values.mean() for name, values in over_jobs.items()}
    values |= {name: np.quantile(difference, share) for name, share in _QUARTILES.items()}
    return {name: {"value": float(value)} for name, value in values.items()}


def _rank_correlation(one: Floats, other: Floats) -> dict[str, float] | None:
    """Spearman's rho; None if a side is constant."""
    if any(side.min() == side.max() for side in (one, other)):
        return None
    rho = pl.select(pl.corr(pl.Series(one).rank(), pl.Series(other).rank())).item()
    return {"value": min(1.0, max(-1.0, round(rho, 9)))}


# ---- groups of jobs ----


def _of_group(pairs: pl.DataFrame) -> dict[str, Any]:
    return _waits(*_columns(pairs))


def _classes(pairs: pl.DataFrame) -> list[dict[str, Any]]:
    cells = cells_of([pairs], 1)
    ends = [*cells.begins[1:], pairs.height]
    places = [cells.order[begin:end] for begin, end in zip(cells.begins, ends, strict=True)]
    of_run, of_record = _columns(pairs)
    rows = []
    for names, of_these in classes_of(cells):
        jobs = np.sort(np.concatenate([places[cell] for cell in of_these]))
        rows.append({**names, **_waits(of_run[jobs], of_record[jobs])})
    return rows


def _gpu_jobs(pairs: pl.DataFrame) -> dict[str, Any] | None:
    with_gpus = pairs.filter("has_gpus") if "has_gpus" in pairs.columns else pairs.head(0)
    return None if with_gpus.is_empty() else _of_group(with_gpus)


def _partitions(pairs: pl.DataFrame) -> list[dict[str, Any]]:
    names = pairs["partition"].drop_nulls().unique().sort().to_list() if "partition" in pairs.columns else []
    if len(names) < 2:
        return []
    groups = pairs.partition_by("partition", as_dict=True)
    return [{"partition": name, **_of_group(groups[(name,)])} for name in names]


def _users(pairs: pl.DataFrame) -> dict[str, Any] | None:
    """The waits of each user, weighted by processor time: `users`, `wait` (run, record, difference: of all users together, by their
    processor time) and `rank_correlation` (over the users, as in `overall`). None if fewer than two users are known."""
    if "user" not in pairs.columns:
        return None
    area = pl.col("p") * pl.col("t")
    sums = (
        pairs.filter(pl.col("user").is_not_null() & (area > 0))
        .sort("user", "submit", "id")
        .group_by("user", maintain_order=True)
        .agg(**{name: (area * pl.col(name)).sum() for name in ("run", "record")}, area=area.sum())
    )
    if sums.height < 2:
        return None
    of_run, of_record, areas = (sums[name].to_numpy() for name in ("run", "record", "area"))
    return {
        "users": sums.height,
        "wait": _figure(of_run.sum() / areas.sum(), of_record.sum() / areas.sum()),
        "rank_correlation": _rank_correlation(of_run / areas, of_record / areas),
    }


# ---- over time ----


def _over_time(pairs: pl.DataFrame) -> dict[str, Any]:
    """`width` of the bins in seconds, and for each of `bins` with submissions its `begin` (trace seconds; the first is that of the
    first submission), `jobs`, and wait_mean of the jobs submitted in it."""
    begin, width = _bins(pairs)
    binned = pairs.with_columns(bin=((pl.col("submit") - begin) / width).floor().cast(pl.Int64))
    groups = binned.partition_by("bin", maintain_order=True)
    rows = [{"begin": begin + width * group["bin"][0], **_waits(*_columns(group), quantiles={})} for group in groups]
    return {"width": width, "bins": rows}


def _bins(pairs: pl.DataFrame) -> tuple[float, float]:
    """The first submission, and the width of the bins."""
    begin, last = pairs.select(pl.col("submit").min(), last=pl.col("submit").max()).row(0)
    return begin, next((width for width in BINS if (last - begin) / width < MOST_BINS), BINS[-1])


def _utilisation(pairs: pl.DataFrame, processors: int) -> dict[str, float] | None:
    """run, record, difference: share of the machine that these jobs used from their first submission to their last one, each from
    the start to the end of its last execution at its size at the start. None if all were submitted at once."""
    begin, last = pairs.select(pl.col("submit").min(), last=pl.col("submit").max()).row(0)
    if not last > begin:
        return None
    sizes = pairs["p"].to_numpy().astype(np.float64)
    used = (_used(pairs[f"start{side}"].to_numpy(), pairs[f"end{side}"].to_numpy(), sizes, begin, last) for side in ("", "_record"))
    return _figure(*(one / (processors * (last - begin)) for one in used))


def _used(starts: Floats, ends: Floats, sizes: Floats, begin: float, last: float) -> float:
    """Processor time used by jobs between two instants."""
    return float((sizes * np.clip(np.minimum(ends, last) - np.maximum(starts, begin), 0, None)).sum())
