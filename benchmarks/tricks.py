"""What each trick saves: the same nodes with all of them, without one at a time, and without any.

    python -m benchmarks.tricks [NODES]

`STEPS=yes` gives each slurmd the whole slurm.conf, which is what steps over several nodes cost.
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

STARTS: dict[str, Callable[[], None]] = {
    "all": start_farm,
    "addresses not fixed": partial(start_farm, ["fix_addresses"]),
    "nothing merged": partial(start_farm, ["merge_memory"]),
    "bare loop": start_loop,
}


def measure(nodes: int = 360) -> Figures:
    """{"nodes", "costs": {variant: Cost}}; the last variant is all tricks but slim files (STEPS=yes)."""
    host.settled_mib()
    host.require(2 * nodes)
    costs = {}
    with bench.built(nodes):
        for title, start in STARTS.items():
            print(f"  {title}", flush=True)
            costs[title] = asdict(cost(nodes, start))
        print("  whole slurm.conf", flush=True)
        bench.make("cluster", NODES=nodes, STEPS="yes")
        costs["whole slurm.conf"] = asdict(cost(nodes, start_farm))
    return {"nodes": nodes, "costs": costs}


def report(figures: Figures) -> str:
    """A column for each variant."""
    costs = figures["costs"]
    return markdown((f"{figures['nodes']} nodes", *costs), rows_of(figures["nodes"], [Cost(**one) for one in costs.values()]))


BENCHMARK = Benchmark("scale_tricks", "what each trick saves", measure, report)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
