"""How near one schedule of some jobs comes to another: a replay to what its log records, or a second run to the first.

docs/results.md has the definitions. A wait lasts from the submission to the start of the last execution, in trace seconds. Errors
are half widths of 95 % intervals for other jobs like these, by the block bootstrap over the jobs in order of submission
(docs/comparison-method.md). An error is None where there are too few jobs or blocks of jobs for it, or too many jobs to resample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mirage.statistics import bootstrap, inference
from mirage.statistics.bootstrap import Blocks, Counts, Floats, Ordered
from mirage.statistics.resampled_metrics import cells_of, classes_of
from mirage.statistics.sampling_error import FEWEST_JOBS

MINUTE, TENTH = 60.0, 0.1
"""Waits within a minute differ by so many seconds at most; those within a tenth by that, or by so much of the longer one."""
MOST_JOBS = 200_000
"""With more jobs there are no errors."""
BINS = (3600.0, 86_400.0, 604_800.0)
"""Widths of the bins over time in seconds: the first one of which there are at most MOST_BINS, or the last one."""
MOST_BINS = 100
_QUANTILES = {"wait_median": 0.5, "wait_p95": 0.95}
_QUARTILES = {"median": 0.5, "quartile_1": 0.25, "quartile_3": 0.75}
_OF_LENGTHS = ("mean", *_QUARTILES)
_BEYOND = 10  # jobs that have to be beyond a quantile that is resampled
_DRAWN, _LEAST_RESAMPLES, _MOST_RESAMPLES = 5_000_000, 200, 1000  # jobs that are drawn altogether; resamples
_SEED = 1
_AT_ONCE = 1_000_000  # ranks in memory at a time
_NEARLY_ONE = 1 - 1e-12
_DIGITS = 4  # significant ones of an error
_TAIL = (1 - bootstrap.LEVEL) / 2


def pairs_of(run: pl.DataFrame, record: pl.DataFrame) -> pl.DataFrame:
    """The jobs that waited and started in both schedules, in order of submission: id, submit, run and record (their waits),
    difference (run - record), p (processors), t (run time, mean of both), and start and end, those of the record with _record.

    run, record: id, submit, start, end, processors; and preset, whose jobs are left out. Negative waits, errors of a log, are left
    out. Sizes are those of `run`; an unknown end is the start.
    """
    columns = ["id", "submit", "start", "end", "processors"]
    own = run.filter(pl.col("preset").is_null()) if "preset" in run.columns else run
    both = own.select(columns).join(record.select(columns), on="id", suffix="_record")
    both = both.drop_nulls(["submit", "start", "submit_record", "start_record"])
    waits = {"run": pl.col("start") - pl.col("submit"), "record": pl.col("start_record") - pl.col("submit_record")}
    both = both.with_columns(**waits).filter((pl.col("run") >= 0) & (pl.col("record") >= 0))
    lengths = pl.mean_horizontal(pl.col("end") - pl.col("start"), pl.col("end_record") - pl.col("start_record"))
    return both.select(
        "id",
        "run",
        "record",
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
    traits: id, and user (Int64), partition (String), has_gpus (Boolean), null where unknown; None: nothing is known
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
    """The figures of all jobs: `waits` (see `_waits`), `rank_correlation` (Spearman's rho of the waits: value, low, high; None if
    all waits of a side are equal), and `differences`, each with value and error: of the waits' differences the mean, median,
    quartile_1 and quartile_3, and the shares of the jobs within_minute, within_tenth, shorter and longer (in `run`, by more than a
    minute).

    pairs: of `pairs_of`, one row at least
    """
    of_run, of_record = _columns(pairs)
    return {
        "waits": _waits(of_run, of_record),
        "rank_correlation": _rank_correlation(of_run, of_record, bootstrap.block_length([of_run, of_record])),
        "differences": _differences(of_run, of_record),
    }


# ---- resampling ----


def _columns(pairs: pl.DataFrame) -> tuple[Floats, Floats]:
    return pairs["run"].to_numpy(), pairs["record"].to_numpy()


def _errors(count: int, length: int, statistic: Callable[[Counts], Floats]) -> list[float | None] | None:
    """Half widths of the columns of `statistic` (resamples, figures); None with too few or too many jobs."""
    if not FEWEST_JOBS <= count <= MOST_JOBS:
        return None
    resamples = min(_MOST_RESAMPLES, max(_LEAST_RESAMPLES, _DRAWN // count))
    blocks = Blocks(count, length, resamples, _SEED)
    draws = np.concatenate([statistic(counts) for _, counts in blocks.counts()])
    parts = [inference.of_jobs(draws[:, column], blocks.number) for column in range(draws.shape[1])]
    return [None if part is None else float(f"{part.half_width(_TAIL):.{_DIGITS}g}") for part in parts]


def _enough(count: int, share: float) -> bool:
    """Whether enough jobs are beyond a quantile on either side."""
    return count * min(share, 1 - share) >= _BEYOND - 1e-9


def _quantiles(values: Ordered, counts: Counts, shares: Sequence[float]) -> Floats:
    """(resamples, shares)"""
    return values.quantiles(counts, shares) if shares else np.empty((len(counts), 0))


def _waits(of_run: Floats, of_record: Floats, quantiles: dict[str, float] = _QUANTILES) -> dict[str, Any]:
    """`jobs`, and wait_mean, wait_median and wait_p95, each with run, record, difference (of these) and its error."""
    count, difference = len(of_run), of_run - of_record
    resampled = [name for name, share in quantiles.items() if _enough(count, share)]
    shares = [quantiles[name] for name in resampled]
    sides = Ordered.of(of_run), Ordered.of(of_record)

    def statistic(counts: Counts) -> Floats:
        means = (counts.astype(np.float64) @ difference / count)[:, None]
        one, other = (_quantiles(side, counts, shares) for side in sides)
        return np.concatenate([means, one - other], axis=1)

    widths = _errors(count, bootstrap.block_length([of_run, of_record, difference]), statistic)
    errors = dict(zip(["wait_mean", *resampled], widths or [], strict=False))
    values = {"wait_mean": (of_run.mean(), of_record.mean())}
    values |= {name: (np.quantile(of_run, share), np.quantile(of_record, share)) for name, share in quantiles.items()}
    return {"jobs": count, **{name: _figure(*both, errors.get(name)) for name, both in values.items()}}


def _figure(of_run: float, of_record: float, error: float | None) -> dict[str, float | None]:
    return {"run": float(of_run), "record": float(of_record), "difference": float(of_run - of_record), "error": error}


def _differences(of_run: Floats, of_record: Floats) -> dict[str, dict[str, float | None]]:
    count, difference = len(of_run), of_run - of_record
    apart, longer_wait = np.abs(difference), np.maximum(of_run, of_record)
    over_jobs = {
        "mean": difference,
        "within_minute": apart <= MINUTE,
        "within_tenth": apart <= np.maximum(MINUTE, TENTH * longer_wait),
        "shorter": difference < -MINUTE,
        "longer": difference > MINUTE,
    }
    columns = np.stack(list(over_jobs.values()), axis=1).astype(np.float64)
    resampled = [name for name, share in _QUARTILES.items() if _enough(count, share)]
    shares, ordered = [_QUARTILES[name] for name in resampled], Ordered.of(difference)

    def statistic(counts: Counts) -> Floats:
        means = counts.astype(np.float64) @ columns / count
        return np.concatenate([means, _quantiles(ordered, counts, shares)], axis=1)

    widths = _errors(count, bootstrap.block_length([of_run, of_record, difference]), statistic)
    errors = dict(zip([*over_jobs, *resampled], widths or [], strict=False))
    values = dict(zip(over_jobs, columns.mean(axis=0), strict=True))
    values |= {name: np.quantile(difference, share) for name, share in _QUARTILES.items()}
    figures = {name: {"value": float(value), "error": errors.get(name)} for name, value in values.items()}
    return {name: figure if name in _OF_LENGTHS else _share(figure) for name, figure in figures.items()}


def _share(figure: dict[str, float | None]) -> dict[str, float | None]:
    """A share of the jobs; without its error where it is 0 or 1, of which all resamples are alike, or where the interval would
    reach beyond, as with few blocks of jobs."""
    value, error = figure["value"], figure["error"]
    is_within = value is not None and error is not None and 0 < value < 1 and value - error >= 0 and value + error <= 1
    return figure if is_within else {**figure, "error": None}


# ---- rank correlation ----


@dataclass(frozen=True)
class _Ranks:
    """order: places of the values in ascending order; first, last: for each value where those that equal it begin and end in it."""

    order: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def of(cls, values: Floats) -> _Ranks:
        ordered = np.sort(values)
        places = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
        return cls(np.argsort(values, kind="stable"), *places)

    def in_resamples(self, counts: Counts) -> Floats:
        """The mean rank of each value in each resample, less that of all of them (resamples, values)."""
        below = np.zeros((len(counts), counts.shape[1] + 1))
        np.cumsum(counts[:, self.order], axis=1, out=below[:, 1:])
        return (below[:, self.first] + below[:, self.last] - below[:, -1:]) / 2


def _correlations(sides: Sequence[_Ranks], counts: Counts) -> Floats:
    """Spearman's rho of each resample; NaN where a side is constant."""
    found = []
    for part in np.array_split(counts, math.ceil(counts.size / _AT_ONCE)):
        one, other = (side.in_resamples(part) for side in sides)
        products = (np.einsum("ij,ij,ij->i", part, left, right) for left, right in ((one, other), (one, one), (other, other)))
        covariance, of_one, of_other = products
        found.append(bootstrap.ratios(covariance, np.sqrt(of_one * of_other)))
    return np.concatenate(found)


def _rank_correlation(one: Floats, other: Floats, length: int) -> dict[str, float | None] | None:
    """value, low and high: Spearman's rho and its interval (on the scale of Fisher's z); None if a side is constant.

    length: of the blocks that are drawn
    """
    sides, count = [_Ranks.of(one), _Ranks.of(other)], len(one)
    value = float(_correlations(sides, np.ones((1, count), np.int32))[0])
    if math.isnan(value):
        return None

    def statistic(counts: Counts) -> Floats:
        z: Floats = np.arctanh(np.clip(_correlations(sides, counts), -_NEARLY_ONE, _NEARLY_ONE))
        return z[:, None]

    value = min(1.0, max(-1.0, round(value, 9)))
    width = (_errors(count, length, statistic) or [None])[0]
    if width is None:
        return {"value": value, "low": None, "high": None}
    middle = math.atanh(min(_NEARLY_ONE, max(-_NEARLY_ONE, value)))
    low, high = (round(math.tanh(middle + sign * width), 9) for sign in (-1, 1))
    return {"value": value, "low": low, "high": high}


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
    """The waits of each user, weighted by processor time: `users`, `wait` (run, record, difference, error: of all users together,
    by their processor time) and `rank_correlation` (over the users, as in `overall`). Users are resampled, not jobs. None if fewer
    than two users are known."""
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

    def statistic(counts: Counts) -> Floats:
        weights = counts.astype(np.float64)
        return bootstrap.ratios(weights @ (of_run - of_record), weights @ areas)[:, None]

    error = (_errors(sums.height, 1, statistic) or [None])[0]
    return {
        "users": sums.height,
        "wait": _figure(of_run.sum() / areas.sum(), of_record.sum() / areas.sum(), error),
        "rank_correlation": _rank_correlation(of_run / areas, of_record / areas, 1),
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


def _utilisation(pairs: pl.DataFrame, processors: int) -> dict[str, float | None] | None:
    """run, record, difference, error: share of the machine that these jobs used from their first submission to their last one, each
    from the start to the end of its last execution at its size at the start. Hours are resampled. None if all were submitted at
    once."""
    begin, last = pairs.select(pl.col("submit").min(), last=pl.col("submit").max()).row(0)
    if not last > begin:
        return None
    edges = np.append(np.arange(begin, last, BINS[0]), last)
    sizes = pairs["p"].to_numpy().astype(np.float64)
    of_run, of_record = (
        np.diff(_used(pairs[f"start{side}"].to_numpy(), pairs[f"end{side}"].to_numpy(), sizes, edges)) for side in ("", "_record")
    )
    capacity = processors * np.diff(edges)

    def statistic(counts: Counts) -> Floats:
        weights = counts.astype(np.float64)
        return bootstrap.ratios(weights @ (of_run - of_record), weights @ capacity)[:, None]

    length = bootstrap.block_length([of_run / capacity, of_record / capacity])
    error = (_errors(len(capacity), length, statistic) or [None])[0]
    return _figure(of_run.sum() / capacity.sum(), of_record.sum() / capacity.sum(), error)


def _used(starts: Floats, ends: Floats, sizes: Floats, until: Floats) -> Floats:
    """Processor time used by jobs until each of the instants."""
    used, instants = np.zeros(len(until)), until - until[0]
    for times, sign in ((starts, 1.0), (ends, -1.0)):
        order = np.argsort(times, kind="stable")
        ordered, held = times[order] - until[0], sizes[order]
        place = np.searchsorted(ordered, instants, side="right")
        at_once, moments = (np.concatenate([[0.0], np.cumsum(one)]) for one in (held, held * ordered))
        used += sign * (instants * at_once[place] - moments[place])
    return used
