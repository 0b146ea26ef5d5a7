"""Measures the savings of each optimisation: nodes with all of them, without one of them, and without any.

    python -m benchmarks.tricks [NODES]

With `STEPS=yes`, each slurmd reads the whole slurm.conf, as steps on several nodes need it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.cluster_start import Cost, cost, rows_of, start_farm, start_loop
from benchmarks.figures import Benchmark, Figures, markdown
from slurm_mirage.base.printing import say

STARTS: dict[str, Callable[[], None]] = {
    "all": start_farm,
    "addresses not fixed": partial(start_farm, ["fix_addresses"]),
    "nothing merged": partial(start_farm, ["merge_memory"]),
    "bare loop": start_loop,
}


def measure(nodes: int = 360) -> Figures:
    """Return {"nodes", "costs": {variant: Cost}}.

    The last variant has all optimisations except small configuration files (STEPS=yes).
    """
    host.settled_mib()
    host.require(2 * nodes)
    costs = {}
    with bench.built(nodes):
        for title, start in STARTS.items():
            say(f"  {title}")
            costs[title] = asdict(cost(nodes, start))
        say("  whole slurm.conf")
        bench.make("cluster", NODES=nodes, STEPS="yes")
        costs["whole slurm.conf"] = asdict(cost(nodes, start_farm))
    return {"nodes": nodes, "costs": costs}


def report(figures: Figures) -> str:
    """Return a table with a column for each variant."""
    costs = figures["costs"]
    return markdown((f"{figures['nodes']} nodes", *costs), rows_of(figures["nodes"], [Cost(**one) for one in costs.values()]))


BENCHMARK = Benchmark("scale_tricks", "savings of each optimisation", measure, report)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
