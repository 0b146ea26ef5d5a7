"""Measures the memory per job of many concurrently running one-core jobs.

    python -m benchmarks.load [NODES] [JOBS]

The jobs are sigsleep, submitted by the replay. Memory is the decrease of the host's MemAvailable, compared with the same cluster
when all nodes are idle and their pages are merged.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.cluster_start import MERGE_SECONDS
from benchmarks.figures import Benchmark, Check, Figures, markdown
from benchmarks.submissions import prepare, start_replay

RUNTIME = 7200.0  # seconds; the jobs run until they are cancelled
LATER = 60.0  # delay of the second memory measurement in seconds
SAMPLE = 50  # number of measured processes of each kind
KINDS = ("slurmstepd", "sh", "slurm_script", "sigsleep")  # processes of a job; its shell has one of two names


def measure(nodes: int = 3600, jobs: int = 5000) -> Figures:
    """Return the memory in MiB, immediately and LATER, and the number and mean memory of the processes of each kind."""
    host.settled_mib()
    host.require(nodes, jobs)
    with bench.built(nodes):
        host.pause(MERGE_SECONDS, "pages are merged")
        before, began = host.available_mib(), time.monotonic()
        replay = start_replay(prepare("load", jobs, RUNTIME))
        try:
            _wait_until_running(jobs, replay)
            seconds, at_once = time.monotonic() - began, before - host.available_mib()
            host.pause(LATER, "pages are merged")
            figures: Figures = {
                "nodes": nodes,
                "jobs": jobs,
                "running": len(bench.queue("--states=R")),
                "nodes_used": int(bench.output("sinfo", "--noheader", "--states=alloc,mix", "--format=%D") or 0),
                "running_after_seconds": round(seconds, 1),
                "mib_at_once": at_once,
                "mib_later": before - host.available_mib(),
                "kinds": {kind: _memory(bench.members(kind)) for kind in KINDS},
            }
        finally:
            replay.terminate()
            replay.wait()
        began = time.monotonic()
        subprocess.run(["scancel", "--user", bench.USER], env=bench.environment(), check=True)
        bench.wait_for_empty_queue()
        figures["cancelled_seconds"] = round(time.monotonic() - began, 1)
    return figures


def _wait_until_running(jobs: int, replay: subprocess.Popen[bytes]) -> None:
    running = 0

    def all_run() -> bool:
        nonlocal running
        running = len(bench.queue("--states=R"))
        if replay.poll() is not None:
            raise RuntimeError(f"the replay ended with {running} of {jobs} jobs running")
        return running == jobs

    bench.wait_for(all_run, "jobs start", bench.PATIENCE + jobs / 10, lambda: f"{running} of {jobs} run")


def _memory(pids: list[int]) -> Figures:
    """Return the mean memory of a sample of processes of one kind, and the number of these processes."""
    return {**host.mean_memory(random.sample(pids, min(SAMPLE, len(pids)))), "processes": len(pids)}


def report(figures: Figures) -> str:
    """Return the memory of a job, and a table of the memory of its processes."""
    kinds = {kind: one for kind, one in figures["kinds"].items() if one["processes"]}
    memory = [figures[key] / figures["jobs"] for key in ("mib_at_once", "mib_later")]
    words = [
        f"{figures['running']} of {figures['jobs']} jobs ran on {figures['nodes_used']} of {figures['nodes']} nodes",
        f"{figures['running_after_seconds']:.0f} s after the first submission;",
        f"{memory[0]:.2f} MiB a job immediately, {memory[1]:.2f} {LATER:.0f} s later;",
        f"all were gone {figures['cancelled_seconds']:.0f} s after scancel",
    ]
    rows = [[kind, one["processes"], one["pss_kib"], one["private_kib"]] for kind, one in kinds.items()]
    return " ".join(words) + "\n\n" + markdown(("process", "how many", "PSS, KiB", "private, KiB"), rows)


def checks(figures: Figures) -> list[Check]:
    """Check that all jobs ran at the same time, and the memory of a running job."""
    return [
        Check("jobs that did not run at once", figures["jobs"] - figures["running"], 0),
        Check(f"memory, MiB a running job (of {figures['jobs']})", figures["mib_later"] / figures["jobs"], host.JOB_MIB),
    ]


BENCHMARK = Benchmark("scale_load", "many concurrent jobs", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
