"""Checks the printed error of the emulation on schedules with late starts, whose true error is known.

    python -m benchmarks.late_starts [CASES]

Each case is a simulated schedule of which some starts are late, in one of eight patterns (LATENESS). Its records are those of a
run: instants are known to a second, and a tenth of the completions was not measured. The half widths have to cover the difference
to the schedule without late starts in 95 % of the cases of each pattern, scheduler and main metric, and must not be more than three
times as large in the median. 500 cases take a minute or two.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from benchmarks.delayed_schedules import KNOWN, LATENESS, Workload
from mirage.metrics.registry import METRICS
from mirage.statistics.emulation_error import half_widths, values
from slurm_mirage.base.printing import say

COVERED, RATIO = 0.95, 3.0
CASES = 500
MAIN = (*(name for name, metric in METRICS.items() if metric.is_main), "makespan")
RESOLUTION = 1.0  # s: of the records


def cases(number: int, seed: int = 3) -> pl.DataFrame:
    """A row per case and metric of MAIN: pattern, scheduler, metric, error, budget (the half width)."""
    rows = []
    for case in range(number):
        random = np.random.default_rng([seed, case])
        pattern = LATENESS[case % len(LATENESS)]
        # In order of submission no job passes another one.
        schedulers = KNOWN[1:] if pattern == "backfilled" else KNOWN
        scheduler = schedulers[case // len(LATENESS) % len(schedulers)]
        policies = ("fcfs",) if scheduler == "fcfs" else ("easy", "conservative")
        workload = Workload.drawn(random)
        delays = workload.lateness(random, pattern, scheduler)
        in_time = replace(delays, late=np.zeros(len(workload.due)))
        without, late = (workload.schedule(scheduler, one) for one in (in_time, delays))
        true, found = (values(workload.run_of(one, delays.freed, policies)) for one in (without, late))
        ends = late["end"].to_numpy() + random.uniform(-RESOLUTION, RESOLUTION, late.height)
        recorded = late.with_columns(end=np.maximum(ends, late["start"].to_numpy() + 0.01))
        freed = np.where(random.random(late.height) < 0.1, np.nan, delays.freed)
        budget = half_widths(workload.run_of(recorded, freed, policies, RESOLUTION))
        for name in MAIN:
            error = abs(found[name] - true[name])
            rows.append((pattern, scheduler, name, error if error > 1e-9 * abs(true[name]) else 0.0, budget[name]))
    return pl.DataFrame(rows, schema=["pattern", "scheduler", "metric", "error", "budget"], orient="row")


def summary(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Share of the cases whose error is covered, and the median ratio of budget to error (1 where both are 0)."""
    error, budget = pl.col("error"), pl.col("budget")
    ratio = pl.when(error > 0).then(budget / error).when(budget > 0).then(float("inf")).otherwise(1.0)
    covered = (error <= budget * (1 + 1e-9)).mean()
    return rows.group_by(by, maintain_order=True).agg(covered=covered, ratio=ratio.median(), cases=pl.len())


def beyond(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a `summary` that do not hold."""
    return table.filter((pl.col("covered") < COVERED) | (pl.col("ratio") > RATIO))


def main() -> int:
    """Print the tables. Returns 0 if all rows hold."""
    rows = cases(int(sys.argv[1]) if len(sys.argv) > 1 else CASES)
    tables = [summary(rows, [by]) for by in ("pattern", "scheduler", "metric")]
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        for table in tables:
            say(*str(table).splitlines())
    return 0 if all(beyond(table).is_empty() for table in tables) else 1


if __name__ == "__main__":
    sys.exit(main())
