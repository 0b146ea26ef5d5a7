"""What was busy and what waited over time: metrics that are integrals over a window of the schedule."""

from __future__ import annotations

import numpy as np
import polars as pl

from mirage.metrics.measured_jobs import Population, Window
from mirage.metrics.per_job import NO_INSTANTS, NO_W, Values

Distribution = dict[str, list[float]]
"""Of busy nodes: `nodes`, the numbers that occur, ascending, and `share` of the time for which there were so many."""

_INTEGRALS = ("utilisation", "loss_of_capacity", "W3")
_NO_TIME = "the schedule has no length"
_NO_NODES = "the machine's number of nodes is not known"


def over_time(
    population: Population, window: Window, processors: int, nodes: int | None, suspensions: pl.DataFrame | None
) -> tuple[Values, Distribution | str]:
    """Utilisation, loss of capacity, W3 and W4, and the distribution of busy nodes (or the reason why there is none).

    Parameters as for `metrics.compute`.
    """
    by_nodes = _long_by_nodes(population.inside)
    values: Values = {"W4": _w4(by_nodes, nodes)}
    if window.length == 0:
        return values | dict.fromkeys(_INTEGRALS, _NO_TIME), _NO_TIME
    if not _instants_known(population.measured, suspensions):
        values |= dict.fromkeys(_INTEGRALS, NO_INSTANTS)
        if not window.is_cut:
            values["utilisation"] = _utilisation(population.measured, window, processors)
        return values, NO_INSTANTS
    levels = profile(population, window, suspensions, with_nodes=nodes is not None)
    values["utilisation"] = (
        _utilisation_within(levels, processors) if window.is_cut else _utilisation(population.measured, window, processors)
    )
    values["loss_of_capacity"] = _loss_of_capacity(levels, processors)
    if nodes is None:
        return values | {"W3": _NO_NODES}, _NO_NODES
    busy = _distribution(levels, nodes)
    return values | {"W3": _w3(by_nodes, busy, nodes)}, busy.to_dict(as_series=False)


def _instants_known(measured: pl.DataFrame, suspensions: pl.DataFrame | None) -> bool:
    """Whether it is known of each suspension of these jobs when it was."""
    if suspensions is None:
        return not (measured["suspended"].fill_null(0) > 0).any()
    of_these = suspensions.join(measured, left_on="job", right_on="id", how="semi")
    return int(of_these.select("suspend", "resume").null_count().sum_horizontal().item()) == 0


def _long_by_nodes(jobs: pl.DataFrame) -> pl.DataFrame:
    """Of jobs that ran for more than a second, by their number of nodes c: how many (n), and the sum of w / t (x).

    Numbers of nodes that are not known are null. Added up one after the other: a group_by does so in an order that changes, and
    with it the last digit, where the same run has to give the same.
    """
    ratio = (pl.col("s") - pl.col("a")) / pl.col("t")
    long = jobs.lazy().filter(pl.col("t") > 1).select(c=pl.col("c").fill_null(0), x=ratio).collect()
    nodes = long["c"].to_numpy()
    number = np.bincount(nodes)
    occurring = np.flatnonzero(number)
    by_nodes = pl.DataFrame(
        {"c": occurring, "n": number[occurring], "x": np.bincount(nodes, weights=long["x"].to_numpy())[occurring]}
    )
    return by_nodes.with_columns(pl.col("c").replace(0, None))


def _weighted(by_nodes: pl.DataFrame, factor: pl.Expr) -> float:
    """Mean of (w / t) * factor over the jobs; factor depends on their nodes only."""
    return float(by_nodes.select((pl.col("x") * factor).sum() / pl.col("n").sum()).item())


def _w4(by_nodes: pl.DataFrame, nodes: int | None) -> float | str:
    """Mean of (w / t) * (N - c + 1) / N."""
    if by_nodes.is_empty():
        return NO_W
    return _NO_NODES if nodes is None else _weighted(by_nodes, ((nodes - pl.col("c") + 1) / nodes).clip(0, 1))


def _w3(by_nodes: pl.DataFrame, busy: pl.DataFrame, nodes: int) -> float | str:
    """Mean of (w / t) * F(N - c + 1), F(x) the share of the time in which fewer than x nodes were busy."""
    if by_nodes.is_empty():
        return NO_W
    chances = busy.select("nodes", chance=pl.col("share").cum_sum())
    # Fewer than N - c + 1 busy nodes are N - c at most.
    fitting = by_nodes.select("n", "x", free=nodes - pl.col("c")).sort("free")
    return _weighted(fitting.join_asof(chances, left_on="free", right_on="nodes"), pl.col("chance").fill_null(0))


def profile(population: Population, window: Window, suspensions: pl.DataFrame | None, *, with_nodes: bool) -> pl.DataFrame:
    """Stretches of `dt` seconds within the window, in order: processors that waiting jobs ask for (`waiting`), processors in use
    (`busy`), and on request nodes in use (`busy_nodes`).

    suspensions: job, suspend, resume of these jobs. A job cancelled while it waited did wait until then. What a
    suspended job held is free for others. Jobs submitted before the window count while they are in it.
    """
    p, c, none = pl.col("p"), pl.col("c"), pl.lit(0, pl.Int64)

    def change(jobs: pl.DataFrame, at: str, *, waiting: pl.Expr = none, running: int = 0) -> pl.LazyFrame:
        held = {"busy": p * running if running else none}
        if with_nodes:
            held["busy_nodes"] = c * running if running else none
        return jobs.lazy().select(pl.col(at).alias("time"), waiting.alias("waiting"), **held)

    measured, unstarted = population.measured, population.unstarted
    changes = [
        change(measured, "a", waiting=p),
        change(measured, "s", waiting=-p, running=1),
        change(measured, "f", running=-1),
        change(unstarted, "a", waiting=p),
        change(unstarted, "f", waiting=-p),
    ]
    if suspensions is not None:
        stopped = suspensions.join(measured, left_on="job", right_on="id")
        changes += [change(stopped, "suspend", running=-1), change(stopped, "resume", running=1)]
    # Of changes at one instant, in whatever order, only what all of them lead to lasts for any time.
    time = pl.col("time").clip(window.begin, window.end)
    levels = pl.concat(changes).sort("time").select(pl.exclude("time").cum_sum(), dt=time.shift(-1) - time)
    return levels.filter(pl.col("dt") > 0).collect(engine="streaming").rechunk()


def _loss_of_capacity(levels: pl.DataFrame, processors: int) -> float:
    """Share of the machine that was idle although waiting jobs asked for as much."""
    idle = (processors - pl.col("busy")).clip(0)
    lost = levels.select((pl.min_horizontal("waiting", idle) * pl.col("dt")).sum() / pl.col("dt").sum()).item()
    return float(lost) / processors


def _utilisation(measured: pl.DataFrame, window: Window, processors: int) -> float:
    """Share of the machine that was in use over the whole schedule: that needs no instants of suspensions."""
    area = measured.select((pl.col("p") * pl.col("t")).sum()).item()
    return float(area) / (processors * window.length)


def _utilisation_within(levels: pl.DataFrame, processors: int) -> float:
    """The same within a window: of a job that runs across its edge, what lies inside."""
    used = levels.select((pl.col("busy") * pl.col("dt")).sum() / pl.col("dt").sum()).item()
    return float(used) / processors


def _distribution(levels: pl.DataFrame, nodes: int) -> pl.DataFrame:
    """The numbers of busy nodes that occur, ascending (`nodes`), and for which share of the time (`share`)."""
    # Jobs that share nodes may add up to more than there are.
    level = levels["busy_nodes"].clip(0, nodes).to_numpy()
    # One after the other, where a group_by adds up in any order: see _long_by_nodes.
    seconds = np.bincount(level, weights=levels["dt"].to_numpy())
    occurring = np.flatnonzero(seconds)
    return pl.DataFrame({"nodes": occurring, "share": seconds[occurring] / seconds.sum()})
