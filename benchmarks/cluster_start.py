"""Compares the start-up time and memory of the emulated nodes between the farm and a bare loop of `slurmd -N`.

    python -m benchmarks.cluster_start [NODES]

Both start munged, slurmctld and all slurmd with the same configuration files, and are measured until every node is idle in
slurmctld. The host must be otherwise idle. As in a plain shell script, the loop's daemons have randomised address layouts and no
merged memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.figures import Benchmark, Check, Figures, markdown

MERGE_SECONDS = 120.0  # delay of the second memory measurement: ksmd needs several passes
CPU_BOUND = 1.3
# Runs the farm with some of its kernel requests failing, as in a container.
FARM_WITHOUT = """
import sys
from slurm_mirage.farm import isolation
from slurm_mirage.programs.farm import main

def refuse() -> None:
    raise OSError("left out by the benchmark")

for name in sys.argv[1].split(","):
    getattr(isolation, name)
    setattr(isolation, name, refuse)
sys.exit(main(["run", sys.argv[2]]))
"""


@dataclass(frozen=True)
class Cost:
    """Cost of starting the nodes: elapsed seconds, CPU seconds of the host and of ksmd (included in the former), and the host's
    memory
    in MiB, immediately and MERGE_SECONDS later."""

    seconds: float
    cpu_seconds: float
    ksmd_seconds: float
    memory_mib: float
    memory_merged_mib: float


def measure(nodes: int = 360) -> Figures:
    """Return the figures of both (see Cost) and the ratios of the farm's to the loop's, including `cpu_without_ksmd`."""
    host.settled_mib()
    host.require(2 * nodes)  # the loop's memory is not merged
    with bench.built(nodes):
        farm = cost(nodes, start_farm)
        loop = cost(nodes, start_loop)
    figures = {"farm": asdict(farm), "loop": asdict(loop)}
    ratio = {key: figures["farm"][key] / figures["loop"][key] for key in figures["farm"] if key != "ksmd_seconds"}
    ratio["cpu_without_ksmd"] = (farm.cpu_seconds - farm.ksmd_seconds) / (loop.cpu_seconds - loop.ksmd_seconds)
    return {"nodes": nodes, **figures, "ratio": ratio}


def cost(nodes: int, start: Callable[[], None]) -> Cost:
    """Stop the instance, start its nodes with `start`, measure, and stop them again."""
    bench.stop()
    before, cpu, ksmd, began = host.settled_mib(), host.cpu_seconds(), host.ksmd_seconds(), time.monotonic()
    start()
    bench.wait_for_nodes(nodes)
    seconds, memory = time.monotonic() - began, before - host.available_mib()
    cpu, ksmd = host.cpu_seconds() - cpu, host.ksmd_seconds() - ksmd
    host.pause(MERGE_SECONDS, "pages are merged")
    merged = before - host.available_mib()
    bench.stop()
    return Cost(*(round(figure, 3) for figure in (seconds, cpu, ksmd, memory, merged)))


def start_farm(without: Collection[str] = ()) -> None:
    """Start the farm. `without` names functions of the module isolation that fail in it."""
    program = ["-c", FARM_WITHOUT, ",".join(without)] if without else ["-m", "slurm_mirage.programs.farm", "run"]
    subprocess.Popen(
        ["/usr/bin/python3", *program, str(bench.DIRECTORY)],
        env={**bench.environment(), "PYTHONPATH": str(bench.DIRECTORY / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def start_loop() -> None:
    """Start munged, slurmctld and the slurmd in sequence from a shell, with the commands of the farm's specification."""
    spec = json.loads((bench.DIRECTORY / "etc/farm.json").read_text())
    lines = [f"hostname {spec['hostname']}"]
    for daemon in spec["daemons"]:
        command = " ".join(bench.as_user(*daemon["command"])) + " >/dev/null 2>&1 &"
        if "count" in daemon:
            numbers = f"{daemon['first']} {daemon['first'] + daemon['count'] - 1}"
            lines.append(f"for i in $(seq {numbers}); do {command.replace('{i}', '$i')} done")
        else:
            lines += [command, f"until [ -e {daemon['ready_file']} ]; do sleep 0.05; done"]
    for daemon in spec["daemons"]:
        Path(daemon["ready_file"]).unlink(missing_ok=True)
    subprocess.run(["unshare", "--uts", "sh", "-c", "\n".join(lines)], env=bench.environment(), check=True)


def rows_of(nodes: int, costs: Collection[Cost]) -> list[list[object]]:
    """Return the rows of a table with a column for each of `costs`."""
    return [
        ["to all nodes idle, s", *(one.seconds for one in costs)],
        ["CPU time of the host, ms a node", *(1000 * one.cpu_seconds / nodes for one in costs)],
        ["ksmd's share of it, ms a node", *(1000 * one.ksmd_seconds / nodes for one in costs)],
        ["memory immediately, MiB a node", *(one.memory_mib / nodes for one in costs)],
        [f"memory {MERGE_SECONDS:.0f} s later, MiB a node", *(one.memory_merged_mib / nodes for one in costs)],
    ]


def report(figures: Figures) -> str:
    """Return a table of `measure`'s figures."""
    ratio = figures["ratio"]
    shares = [ratio["seconds"], ratio["cpu_seconds"], None, ratio["memory_mib"], ratio["memory_merged_mib"]]
    rows = rows_of(figures["nodes"], [Cost(**figures["farm"]), Cost(**figures["loop"])])
    head = (f"{figures['nodes']} nodes", "farm", "bare loop of `slurmd -N`", "ratio")
    return markdown(head, [[*row, share] for row, share in zip(rows, shares)])


def checks(figures: Figures) -> list[Check]:
    """Check the CPU time of the farm relative to the loop."""
    what = f"start of {figures['nodes']} nodes: CPU time, farm / bare loop"
    ratio = figures["ratio"]
    return [
        Check(f"{what}, ksmd included", ratio["cpu_seconds"], CPU_BOUND),
        Check(f"{what}, without ksmd", ratio["cpu_without_ksmd"], CPU_BOUND),
    ]


BENCHMARK = Benchmark("cluster_start", "the farm against a bare loop of `slurmd -N`", measure, report, checks)
SCALE = Benchmark("scale_start", BENCHMARK.title, measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
