"""Runs the benchmarks of single parts on a small cluster, prints their figures and writes them to results/bench/NAME.json."""

from __future__ import annotations

import sys

from benchmarks import clock_calls, cluster_start, sigsleep_vs_sleep, submissions
from benchmarks.figures import end_properly

ALL = (sigsleep_vs_sleep.BENCHMARK, clock_calls.BENCHMARK, submissions.BENCHMARK, cluster_start.BENCHMARK)


def main() -> int:
    """Run all benchmarks in sequence, which takes about eight minutes. Returns 0 if all bounds hold."""
    end_properly()
    held = [benchmark.run() for benchmark in ALL]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
