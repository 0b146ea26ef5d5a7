"""Runs all benchmarks of large clusters (`make bench PART=scale`); `python -m benchmarks.scale report` prints their last results.

Each benchmark can also be run alone with other sizes, see its module. Each builds and removes the instance `bench`. The host must
be otherwise idle.
"""

from __future__ import annotations

import sys
import time
import traceback

from benchmarks import cluster_start, launch_rate, load, sizes, steps, tricks
from benchmarks.figures import Benchmark, Check, bounds_table, end_properly, stored
from slurm_mirage.base.printing import say

NODES = 3600
ALL = (sizes.BENCHMARK, cluster_start.SCALE, tricks.BENCHMARK, steps.BENCHMARK, load.BENCHMARK, launch_rate.BENCHMARK)
ARGUMENTS = {cluster_start.SCALE.name: (NODES,)}


def run(benchmark: Benchmark) -> bool:
    """Run one benchmark. A failure is printed, and the other benchmarks still run. Returns whether its bounds hold."""
    began = time.monotonic()
    try:
        return benchmark.run(*ARGUMENTS.get(benchmark.name, ()))
    except Exception:
        say(*traceback.format_exc().splitlines(), file=sys.stderr)
        say(f"failed: {benchmark.name}")
        return False
    finally:
        say(f"({benchmark.name}: {time.monotonic() - began:.0f} s)")


def report(with_tables: bool) -> None:
    """Print the tables of the last results, if `with_tables` is set, and one table of all bounds."""
    bounds: list[Check] = []
    for benchmark in ALL:
        figures = stored(benchmark)
        if figures is None:
            say(f"{benchmark.name}: no results yet")
            continue
        bounds += benchmark.checks(figures)
        if with_tables:
            say("", f"{benchmark.name}: {benchmark.title}", "", *benchmark.report(figures).splitlines())
    if bounds:
        say("", *bounds_table(bounds).splitlines())


def main() -> int:
    """Run all benchmarks, which takes about two hours, or print their last results. Returns 0 if all ran and their bounds hold."""
    end_properly()
    if sys.argv[1:] == ["report"]:
        report(with_tables=True)
        return 0
    for benchmark in ALL:
        benchmark.path.unlink(missing_ok=True)  # so that the final report contains only results of this run
    held = [run(benchmark) for benchmark in ALL]
    report(with_tables=False)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
