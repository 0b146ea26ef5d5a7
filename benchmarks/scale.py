"""All benchmarks of large clusters: `make bench-scale`, and `python -m benchmarks.scale report` for what they have written.

Each can be run alone, also with smaller sizes; their modules say how. Each builds the instance `bench` and removes it, on a host
that does nothing else.
"""

from __future__ import annotations

import sys
import time
import traceback

from benchmarks import cluster_start, launch_rate, load, sizes, steps, tricks
from benchmarks.figures import Benchmark, Check, bounds_table, end_properly, stored

NODES = 3600
ALL = (sizes.BENCHMARK, cluster_start.SCALE, tricks.BENCHMARK, steps.BENCHMARK, load.BENCHMARK, launch_rate.BENCHMARK)
ARGUMENTS = {cluster_start.SCALE.name: (NODES,)}


def run(benchmark: Benchmark) -> bool:
    """Run one; if it fails, say so, because the others may do better."""
    began = time.monotonic()
    try:
        return benchmark.run(*ARGUMENTS.get(benchmark.name, ()))
    except Exception:
        traceback.print_exc()
        print(f"failed: {benchmark.name}", flush=True)
        return False
    finally:
        print(f"({benchmark.name}: {time.monotonic() - began:.0f} s)", flush=True)


def report(with_tables: bool) -> None:
    """What the benchmarks have written: their tables, and all bounds in one."""
    bounds: list[Check] = []
    for benchmark in ALL:
        figures = stored(benchmark)
        if figures is None:
            print(f"{benchmark.name}: has no figures")
            continue
        bounds += benchmark.checks(figures)
        if with_tables:
            print(f"\n{benchmark.name}: {benchmark.title}\n\n{benchmark.report(figures)}")
    if bounds:
        print(f"\n{bounds_table(bounds)}")


def main() -> int:
    """Run them one after the other, about two hours, or tell what they found. 0: all ran, and their bounds hold."""
    end_properly()
    if sys.argv[1:] == ["report"]:
        report(with_tables=True)
        return 0
    for benchmark in ALL:
        benchmark.path.unlink(missing_ok=True)  # what is told at the end is of this run
    held = [run(benchmark) for benchmark in ALL]
    report(with_tables=False)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
