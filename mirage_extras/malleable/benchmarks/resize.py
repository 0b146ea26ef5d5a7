"""Times resizes of a job on the path of a run: program, broker, Slurm; from 1 node to all nodes by the factor 2, and back.

    python -m mirage_extras.malleable.benchmarks.resize [NODES] [--rounds=10]

The cluster is idle and its clock is the real one. Figure 3(a) of the study of the DMR API (docs/references.md) has these times for
up to 64 nodes. No data are moved: its figure 3(b) is a matter of the application, and a parameter of emulated jobs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.figures import Benchmark, Figures, markdown
from mirage.statistics.intervals import student

PROGRAM = ("benchmarks/resize_program.py", "files/dmr/dmr.py")
JOB = "bench-resize"
PATIENCE = 30.0  # seconds for a resize on average


def measure(nodes: int = 64, rounds: int = 10) -> Figures:
    """Return {"nodes", "rounds", "resizes": [{"kind", "from", "to", "n", "mean", "low", "high", "longest"}]}; times in s.

    Raises RuntimeError if a resize was not done.
    """
    host.require(nodes)
    with bench.reserved():
        bench.make("cluster", NODES=nodes, CPUS=1, STEPS="no", MALLEABLE=1)
        bench.wait_for_nodes(nodes)
        done = _run(nodes, rounds)
    if failed := [one for one in done if one["reason"]]:
        raise RuntimeError(f"{len(failed)} resizes were not done; {failed[0]['from']} to {failed[0]['to']}: {failed[0]['reason']}")
    steps = list(dict.fromkeys((one["kind"], one["from"], one["to"]) for one in done))
    return {
        "nodes": nodes,
        "rounds": rounds,
        "resizes": [
            {"kind": kind, "from": before, "to": after, **_summary(_seconds(done, before, after))} for kind, before, after in steps
        ],
    }


def _run(nodes: int, rounds: int) -> list[dict[str, Any]]:
    """Run the program in a job of one node, and return what it wrote."""
    folder = bench.DIRECTORY / "runs" / JOB
    subprocess.run(bench.as_user("mkdir", "-p", str(folder)), check=True)
    for name in PROGRAM:
        shutil.copy(Path(__file__).parents[1] / name, folder)
        (folder / Path(name).name).chmod(0o644)
    out = folder / "resizes.json"
    words = f"DMR_BROKER={bench.DIRECTORY}/run/private/broker.socket exec python3 {folder}/resize_program.py {out} {nodes} {rounds}"
    script = ["-N", "1", "--exclusive", "--time=600", f"--output={folder}/output", f"--job-name={JOB}", f"--wrap={words}"]
    subprocess.run(bench.as_user("sbatch", "--quiet", *script), cwd=bench.DIRECTORY, env=bench.environment(), check=True)
    state = bench.wait_for_job(JOB, PATIENCE * rounds * 2 * nodes.bit_length())
    if state != "COMPLETED" or not out.exists():
        said = (folder / "output").read_text().strip()[-300:] if (folder / "output").exists() else ""
        raise RuntimeError(f"the job of the benchmark ended as {state}: {said or 'no output'}")
    found: list[dict[str, Any]] = json.loads(out.read_text())
    return found


def _seconds(done: list[dict[str, Any]], before: int, after: int) -> list[float]:
    return [one["seconds"] for one in done if (one["from"], one["to"]) == (before, after)]


def _summary(values: list[float]) -> Figures:
    """Return the mean with its 95 % interval, and the longest."""
    half = student(len(values) - 1) * stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    mean = fmean(values)
    return {"n": len(values), "mean": mean, "low": mean - half, "high": mean + half, "longest": max(values)}


def report(figures: Figures) -> str:
    """Return a table of the times by step."""
    rows = [
        [
            one["kind"],
            f"{one['from']} to {one['to']}",
            one["n"],
            f"{one['mean']:.3f} ± {one['high'] - one['mean']:.3f}",
            f"{one['longest']:.3f}",
        ]
        for one in figures["resizes"]
    ]
    return markdown(("action", "nodes", "times", "mean, s", "longest, s"), rows)


BENCHMARK = Benchmark("resize", "time of a resize by its sizes, SPEED=1", measure, report)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
