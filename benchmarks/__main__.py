"""All benchmarks: prints their figures and writes each to results/bench/NAME.json."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType

from benchmarks import cluster_start, sigsleep_vs_sleep, submissions

ALL: dict[str, ModuleType] = {
    "sigsleep_vs_sleep": sigsleep_vs_sleep,
    "submissions": submissions,
    "cluster_start": cluster_start,
}
RESULTS = Path(__file__).parents[1] / "results/bench"


def host() -> dict[str, object]:
    """The machine that the figures were taken on."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    return {"cores": os.cpu_count(), "memory_mib": memory, "kernel": platform.release(), "python": platform.python_version()}


def main() -> int:
    """Run them one after the other; about five minutes."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, benchmark in ALL.items():
        print(f"{name}: {str(benchmark.__doc__).splitlines()[0]}", flush=True)
        figures = benchmark.measure()
        taken = datetime.now(timezone.utc).isoformat(timespec="seconds")
        content = {"taken": taken, "host": host(), "figures": figures}
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
        print(benchmark.report(figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
