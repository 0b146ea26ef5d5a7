"""Measures steps on many nodes: `srun -N n -n 2n true` for increasing n, and a batch job on all nodes.

    python -m benchmarks.steps [NODES]

The cluster is built with STEPS=yes. Each step is timed until srun returns and until the job ends. A slurmstepd that remains
afterwards is counted as stray. srun's output is in results/bench/srun_WIDTH.log.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.cluster_start import MERGE_SECONDS
from benchmarks.figures import RESULTS, Benchmark, Check, Figures, markdown

WIDTHS = (64, 256, 1024, 2400)
LAST_WORDS = 10.0  # time limit for the end of a slurmstepd after its job, in seconds


def measure(nodes: int = 3600) -> Figures:
    """Return {"nodes", "steps": [see _step], "batch": see bench_instance.batch_job}; widths above `nodes` are left out."""
    host.settled_mib()
    host.require(nodes)
    with bench.built(nodes, steps="yes"):
        host.pause(MERGE_SECONDS, "pages are merged")
        steps = [_step(width) for width in WIDTHS if width <= nodes]
        batch = bench.batch_job(nodes)
    return {"nodes": nodes, "steps": steps, "batch": batch}


def _step(width: int) -> Figures:
    """Return the seconds and CPU seconds of one srun, the final `state` of its job, and the number of srun's `errors`."""
    name = bench.job_name(width)
    options = ["-N", str(width), "-n", str(2 * width), "--time=30", f"--job-name={name}"]
    progress = host.Progress(f"srun over {width} nodes")
    began, cpu = time.monotonic(), host.cpu_seconds()
    with (RESULTS / f"srun_{width}.log").open("w+") as log:
        process = subprocess.Popen(
            bench.as_user("srun", *options, "true"), cwd=bench.DIRECTORY, env=bench.environment(), stdout=log, stderr=log
        )
        while process.poll() is None and time.monotonic() < began + bench.STEP_PATIENCE:
            progress.tell("no end yet")
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        returned = time.monotonic() - began if process.poll() is not None else None
        state = bench.wait_for_job(name, bench.STEP_PATIENCE if returned is not None else 0)
        ended = time.monotonic() - began if state == "COMPLETED" else None
        cpu = host.cpu_seconds() - cpu
        process.kill()
        process.wait()
        log.seek(0)
        errors = sum("error:" in line for line in log)
    bench.output("scancel", f"--name={name}")
    return {
        "nodes": width,
        "returned_seconds": returned,
        "completed_seconds": ended,
        "state": state,
        "exit_code": process.returncode,
        "errors": errors,
        "cpu_seconds": round(cpu, 2),
        "stray": _stray(),
    }


def _stray() -> int:
    """Return the number of slurmstepd that remain after the time limit."""
    with suppress(TimeoutError):
        bench.wait_for(lambda: not bench.members("slurmstepd"), "slurmstepd end", LAST_WORDS)
    return len(bench.members("slurmstepd"))


def report(figures: Figures) -> str:
    """Return a table with a row for each step. A missing time means that STEP_PATIENCE was exceeded."""
    head = (
        "nodes",
        "srun returned, s",
        "job completed, s",
        "CPU of the host, s",
        "srun's error lines",
        "exit code",
        "state",
        "stray",
    )
    keys = ("nodes", "returned_seconds", "completed_seconds", "cpu_seconds", "errors", "exit_code", "state", "stray")
    batch = figures["batch"]
    return "\n\n".join(
        [
            f"`srun -N n -n 2n true` on {figures['nodes']} nodes",
            markdown(head, [[step[key] for key in keys] for step in figures["steps"]]),
            f"batch job over {batch['nodes']} nodes: {batch['state']}, {batch['seconds']:.2f} s from submission",
        ]
    )


def checks(figures: Figures) -> list[Check]:
    """Check that every step and the batch job complete, and that no slurmstepd remains."""
    steps, batch = figures["steps"], figures["batch"]
    failed = [step for step in steps if step["state"] != "COMPLETED" or step["exit_code"] != 0]
    return [
        Check("steps that did not complete", len(failed), 0),
        Check("stray slurmstepd after them", sum(step["stray"] for step in steps), 0),
        Check(f"batch jobs over {batch['nodes']} nodes that did not complete", batch["state"] != "COMPLETED", 0),
    ]


BENCHMARK = Benchmark("scale_steps", "steps over many nodes", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
