"""How often intervals for other jobs hold, by kind of queue and number of jobs: simulated campaigns whose long run is known.

    make bench PART=coverage

needs no cluster, and prints the table of docs/accuracy.md. Each kind of queue is simulated at each of LOADS, and a campaign sees
some successive jobs: of this schedule; of it and of one with a change, for their difference; and of two schedules that are equal in
the long run. An interval holds if it has the value of the whole simulation. `python -m benchmarks.coverage 100 --seed=2` has 100
campaigns of each load and number of jobs instead of 1,000, and other ones.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from benchmarks.figures import Benchmark, Check, Figures, markdown
from benchmarks.queues import Queue, Schedule, queues
from mirage.statistics.inference import Chance
from mirage.statistics.intervals import LEVEL
from mirage.statistics.other_jobs import CYCLES, cycles, first_third
from mirage.statistics.sampling_error import intervals
from mirage.statistics.sums_over_jobs import FOR_OTHER_JOBS, ForOthers, values
from slurm_mirage.base.printing import say

LOADS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
JOBS = (100, 200, 500, 1000, 2000, 5000, 20_000, 100_000)
GROUPS = {"100 to 5,000": JOBS[:6], "20,000": JOBS[6:7], "100,000": JOBS[7:]}
CAMPAIGNS = 1000
LARGEST = 5000
"""Jobs of the simulation for each campaign: there are fewer of more jobs."""
LEAST, MOST, FALSE = 92.0, 98.0, 5.0
"""Per cent of the intervals that have to hold, and of those of equal schedules that may not."""
ENOUGH = 300  # intervals from which on their share is checked
VALUE, DIFFERENCE, PERCENT, EQUAL = "value", "difference", "difference in per cent", "of equal schedules, in per cent"
Held = Iterator[tuple[str, str, bool]]
"""Kind and metric of each printed interval, and whether it holds."""


def measure(number: int = CAMPAIGNS, seed: int = 1) -> Figures:
    """Rows by queue, load, jobs, kind and metric: campaigns, intervals printed, and how many of these hold."""
    rows = []
    for queue in queues():
        for load in LOADS:
            say(f"{queue.name}, load {load:g}", file=sys.stderr)
            rows += [{"queue": queue.name, "load": load, **row} for row in of_queue(queue, load, number, seed)]
    return {"rows": rows}


def of_queue(queue: Queue, load: float, number: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows of `measure` by jobs, kind and metric of which any interval was printed."""
    printed: Counter[tuple[int, str, str]] = Counter()
    hold: Counter[tuple[int, str, str]] = Counter()
    for is_equal, *both in queue.pairs(number * LARGEST, load, seed):
        truth = [values(schedule.jobs(), schedule.settings) for schedule in both]
        for jobs, begin in _campaigns(number):
            held = _of_equal(both, begin, jobs) if is_equal else _of_change(both, begin, jobs, truth)
            for kind, name, holds in held:
                printed[jobs, kind, name] += 1
                hold[jobs, kind, name] += holds
    for (jobs, kind, name), count in printed.items():
        campaigns = sum(1 for one, _ in _campaigns(number) if one == jobs)
        yield {
            "jobs": jobs, "kind": kind, "metric": name,
            "campaigns": campaigns, "printed": count, "hold": hold[jobs, kind, name],
        }  # fmt: skip


def _campaigns(number: int) -> Iterator[tuple[int, int]]:
    """Jobs of each campaign, and the place of the first one. They have no job in common with another one of as many jobs."""
    for jobs in JOBS:
        count = min(number, number * LARGEST // jobs)
        yield from ((jobs, number * LARGEST // count * place) for place in range(count))


def _of_change(both: Sequence[Schedule], begin: int, jobs: int, truth: Sequence[dict[str, float]]) -> Held:
    if not _has_cycles(both[0], begin, jobs):
        return
    for name, ends in intervals(both[0].jobs(begin, jobs), both[0].settings).items():
        if not isinstance(ends, str):
            yield VALUE, name, ends[0] <= truth[0][name] <= ends[1]
    for name, chance in _chances(both, begin, jobs):
        base, mean = (of_schedule[name] for of_schedule in truth)
        if (difference := chance.difference()) is not None:
            low, high = difference.interval()
            yield DIFFERENCE, name, low <= mean - base <= high
        if (relative := chance.relative()) is not None and (of_ratio := relative.percent()) is not None:
            yield PERCENT, name, of_ratio[0] <= 100 * (mean / base - 1) <= of_ratio[1]


def _of_equal(both: Sequence[Schedule], begin: int, jobs: int) -> Held:
    for name, chance in _chances(both, begin, jobs):
        if (relative := chance.relative()) is not None:
            yield EQUAL, name, relative.p > 1 - LEVEL


def _chances(both: Sequence[Schedule], begin: int, jobs: int) -> Iterator[tuple[str, Chance]]:
    """The chance of each metric's difference, if the queues have enough cycles for any."""
    if not all(_has_cycles(schedule, begin, jobs) for schedule in both):
        return
    one, other = (ForOthers.of(schedule.jobs(begin, jobs), schedule.settings) for schedule in both)
    for column, name in enumerate(FOR_OTHER_JOBS):
        rest, without = ([part.rest[[column]] for part in (one, other)], [part.without[:, column] for part in (one, other)])
        yield name, Chance(rest, without)


def _has_cycles(schedule: Schedule, begin: int, jobs: int) -> bool:
    """Whether the queue has enough cycles by waiting time; no metric has more. This takes less time than `ForOthers`."""
    first = slice(begin, begin + first_third(jobs).stop)
    submit, start = schedule.submit[first], schedule.start[first]
    return bool(cycles(submit, start, (start - submit)[:, None])[0] >= CYCLES)


# ---- report ----


def _shares(figures: Figures) -> pl.DataFrame:
    """By queue, group of jobs, kind and metric: intervals printed and those that hold."""
    group = pl.col("jobs").replace_strict({jobs: name for name, sizes in GROUPS.items() for jobs in sizes})
    rows = pl.DataFrame(figures["rows"]).with_columns(group=group)
    keys = ["queue", "group", "kind", "metric"]
    return rows.group_by(keys, maintain_order=True).agg(pl.col("printed", "hold").sum())


def report(figures: Figures) -> str:
    """A table with a row for each kind of queue and group of jobs in which any interval was printed."""
    table = []
    for (queue, group), some in _shares(figures).group_by("queue", "group", maintain_order=True):
        of_wait = {row["kind"]: row for row in some.filter(pl.col("metric") == "wait_mean").iter_rows(named=True)}
        cells = [_cell([of_wait[kind]] if kind in of_wait else []) for kind in (VALUE, DIFFERENCE, PERCENT, EQUAL)]
        rest = some.filter(pl.col("metric") != "wait_mean")
        table.append((queue, group, *cells, _cell(rest.iter_rows(named=True))))
    heads = (
        "queue",
        "jobs",
        "mean wait",
        "its difference",
        "in per cent",
        "of equal schedules",
        "other metrics, lowest and highest",
    )
    return f"Intervals that hold, in per cent, of so many:\n\n{markdown(heads, table)}"


def _cell(rows: Iterator[dict[str, int]] | Sequence[dict[str, int]]) -> str:
    """Share that holds, of the number of intervals; of several rows the lowest and the highest share with the numbers of these."""
    shares = sorted((100 * row["hold"] / row["printed"], row["printed"]) for row in rows)
    return ", ".join(f"{share:.1f} ({count})" for share, count in dict.fromkeys((shares[0], shares[-1]))) if shares else "-"


def checks(figures: Figures) -> list[Check]:
    """Bounds of each share that is known well enough."""
    bounds = []
    for row in _shares(figures).filter(pl.col("printed") >= ENOUGH).iter_rows(named=True):
        name = f"{row['queue']}, {row['group']} jobs, {row['kind']}, {row['metric']}: % that "
        share = 100 * row["hold"] / row["printed"]
        if row["kind"] == EQUAL:
            bounds.append(Check(f"{name}claim a difference", 100 - share, FALSE))
        else:
            bounds += [Check(f"{name}hold", share, LEAST, at_least=True), Check(f"{name}hold", share, MOST)]
    return bounds


BENCHMARK = Benchmark("coverage", "intervals for other jobs", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
