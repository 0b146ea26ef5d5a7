"""Reads the samples of a run, of the cluster and of the manager's diagnostics, and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from mirage.records.run_records import read_text
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.strict_json import INSTANT, LARGEST
from slurm_mirage.rm.api import BACKFILL_DIAGNOSTICS

_MICROSECOND = 1e-6
_BOUNDS = {
    **dict.fromkeys(("real", "virtual"), (0.0, INSTANT.most)),
    **dict.fromkeys(("share", "usage", "factor"), (0.0, 1.0)),
    "cpu_busy": (-1.0, 2.0),
}
"""Smallest and largest value of the figures that are not counts."""
SILENT = "not_responding"
LACKING = {
    "drained": "drained",
    "down": "down",
    "reserved": "reserved, failing or otherwise out of service",
    "unknown": "in an unknown state",
    SILENT: "silent",
}
"""Columns of samples.csv (without `nodes_`) that count nodes which take no jobs, in words."""


def read_figures(path: Path, texts: Collection[str] = ()) -> pl.DataFrame:
    """Reads a CSV file of the monitor as numbers; null where a field is empty, no columns if the file is missing or empty.

    texts: columns that have no numbers; they stay text.
    A row that a full disk has torn, alone or with the one after it, is left out: it has another number of fields than the heading,
    no end, or an impossible number. Raises WrongUse for a heading that names a column twice.
    """
    lines = read_text(path).split("\n")[:-1] if path.exists() else []
    if not lines:
        return pl.DataFrame()
    heading = lines[0].split(",")
    if len(set(heading)) < len(heading):
        raise WrongUse(f"{path} line 1: names a column twice", parameter="run")
    rows = [fields for line in lines[1:] if len(fields := line.split(",")) == len(heading)]
    text = pl.DataFrame(rows, schema=dict.fromkeys(heading, pl.String), orient="row")
    numbers = [name for name in heading if name not in texts]
    frame = text.with_columns(col(name).cast(pl.Float64, strict=False) for name in numbers)
    possible = {name: frame[name].is_between(*_BOUNDS.get(name, (0.0, LARGEST))).fill_null(False) for name in numbers}
    return frame.filter(pl.all_horizontal(text[name].is_in(["", "None"]) | possible[name] for name in numbers))


def longest_cycle(diagnostics: pl.DataFrame) -> float | None:
    """Virtual seconds of the longest backfill cycle of the run; None if it is not known. The controller measures it by its clock.

    The maximum counts from the start of the controller's statistics: the value in the first sample may belong to an earlier run,
    but larger values in later samples belong to this one.
    """
    if diagnostics.is_empty() or not {"backfill_last_cycle_us", "backfill_max_cycle_us"} <= set(diagnostics.columns):
        return None
    largest = col("backfill_max_cycle_us")
    grown = diagnostics.select(largest.filter(largest.diff() > 0).max()).item()
    longest = diagnostics.select(pl.max_horizontal(col("backfill_last_cycle_us").max(), pl.lit(grown, pl.Float64))).item()
    return None if longest is None else float(longest) * _MICROSECOND


def mean_cycle(diagnostics: pl.DataFrame) -> float | None:
    """Virtual seconds of the mean backfill cycle of the samples, each weighted by the jobs that waited for it; None: not known."""
    last, queue = BACKFILL_DIAGNOSTICS[0], BACKFILL_DIAGNOSTICS[3]
    if last not in diagnostics.columns:
        return None
    known = diagnostics.drop_nulls(last)
    weights = known[queue].fill_null(0.0) if queue in known.columns else pl.repeat(1.0, known.height, eager=True)
    if known.is_empty():
        return None
    return float(np.average(known[last].to_numpy(), weights=weights.to_numpy() if weights.sum() else None)) * _MICROSECOND


def virtual_seconds(samples: pl.DataFrame) -> pl.Series:
    """The instants of the samples in virtual seconds; one that is not known lies between its neighbours."""
    return samples["virtual"].interpolate().fill_null(strategy="backward").fill_null(0.0)


ANY = "any"
"""Nodes of any of these kinds."""


def lacking_nodes(
    samples: pl.DataFrame, nodes: int, planned: Mapping[str, NDArray[np.float64]] | None = None
) -> tuple[float | None, dict[str, int]]:
    """The node seconds for which nodes took no jobs, because they were down, drained, reserved or did not respond, as a share of
    those of the whole machine, None if they were not sampled; and the number of nodes by kind in the sample with most of them.

    A sample stands for the time that is closest to it. nodes: of the machine. planned: how many of them may have been of each kind,
    and of any, at each sample by events of the run: so many do not count
    """
    kinds = {kind: f"nodes_{kind}" for kind in LACKING if f"nodes_{kind}" in samples.columns}
    if not kinds or samples.is_empty():
        return None, {}
    known = samples.select(col(column).fill_null(0.0).alias(kind) for kind, column in kinds.items())
    # A node that is down does not respond either.
    most_of = pl.max_horizontal(
        pl.sum_horizontal(pl.lit(0.0), *(kind for kind in kinds if kind != SILENT)), *({SILENT} & set(kinds))
    )
    lacking = known.select(most_of).to_series()
    if planned is not None:
        # A node may be counted as either of two kinds: neither difference alone has all that is not planned.
        beyond_all = lacking.to_numpy() - planned[ANY]
        known = known.with_columns(
            pl.Series(kind, (known[kind].to_numpy() - planned[kind]).clip(0.0)) for kind in known.columns if kind in planned
        )
        lacking = pl.Series(np.maximum(known.select(most_of).to_series().to_numpy(), beyond_all).clip(0.0))
    weights = pl.repeat(1.0, samples.height, eager=True)
    if "virtual" in samples.columns and samples.height > 1:
        gaps = virtual_seconds(samples).diff().fill_null(0.0).clip(0.0)
        weights = (gaps + gaps.shift(-1, fill_value=0.0)) / 2
    weights = weights if weights.sum() else pl.repeat(1.0, samples.height, eager=True)
    share = float(np.average(lacking.to_numpy(), weights=weights.to_numpy())) / max(1, nodes)
    place = int(lacking.arg_max() or 0)
    most = {kind: int(number) for kind, number in known.row(place, named=True).items() if number}
    if number := 0 if most else int(lacking[place]):
        at_all = samples.select(kinds.values()).row(place)
        most = {max(zip(at_all, kinds, strict=True), key=lambda one: one[0] or 0.0)[1]: number}
    return share, most
