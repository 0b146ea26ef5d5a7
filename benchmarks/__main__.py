"""`make bench`: runs the benchmarks of single parts on a small cluster, or with an argument those of a part of PARTS.

Figures are printed and written to results/bench/NAME.json.
"""

from __future__ import annotations

import runpy
import sys

from benchmarks import clock_calls, cluster_start, sigsleep_vs_sleep, submissions
from benchmarks.figures import end_properly
from mirage import aspects
from slurm_mirage.base.printing import say

ALL = (sigsleep_vs_sleep.BENCHMARK, clock_calls.BENCHMARK, submissions.BENCHMARK, cluster_start.BENCHMARK)
OWN = {
    "scale": "scale",
    "clock": "clock",
    "fidelity": "fidelity",
    "errors": "late_starts",
    "estimates": "estimates",
    "gate": "gate",
    "metrics": "log_metrics",
    "coverage": "coverage",
    "pace": "pace",
}
PARTS = {name: f"benchmarks.{module}" for name, module in OWN.items()}
PARTS |= {name: module for of_aspect in aspects.offers("benchmarks", "PARTS") for name, module in of_aspect.items()}
"""Modules of the other benchmarks by their names in `make bench PART=NAME`."""


def main(arguments: list[str]) -> int:
    """Run a part with the arguments after its name, or all of ALL, which takes about eight minutes. Returns 0 if all bounds hold, 2
    for a part that there is not."""
    if not arguments:
        end_properly()
        held = [benchmark.run() for benchmark in ALL]
        return 0 if all(held) else 1
    name, *rest = arguments
    if name not in PARTS:
        say(f"wrong use: PART={name}; it may be one of: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    sys.argv[1:] = rest
    runpy.run_module(PARTS[name], run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
