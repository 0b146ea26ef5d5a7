"""Compares the submissions per second of the replay and of a shell loop of `sbatch` on the same cluster.

    python -m benchmarks.submissions [JOBS]

All jobs are due immediately and sleep for 10 ms. The replay starts after the jobs of the loop have ended.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.figures import Benchmark, Figures
from slurm_mirage.jobs.plan import PlanRow, write_plan

NODES = 60
RUNTIME = 0.01  # seconds


def measure(jobs: int = 300) -> Figures:
    """Return {"jobs", "nodes", "replay": submissions/s, "loop": submissions/s, "ratio"}.

    Raises RuntimeError if a job was not submitted.
    """
    host.settled_mib()
    with bench.built(NODES):
        began = time.monotonic()
        start_loop(jobs, f"sleep {RUNTIME}").wait()
        loop = jobs / (time.monotonic() - began)
        bench.wait_for_empty_queue()
        bench.wait_for_nodes(NODES)
        folder = prepare("bench", jobs, RUNTIME)
        finish(start_replay(folder))
        submitted = submissions(folder)
    if len(submitted) != jobs:
        raise RuntimeError(f"{len(submitted)} of {jobs} jobs were submitted")
    replay = jobs / float(submitted[-1]["real"] - submitted[0]["began"])
    return {"jobs": jobs, "nodes": NODES, "replay": replay, "loop": loop, "ratio": replay / loop}


def start_loop(jobs: int, command: str) -> subprocess.Popen[bytes]:
    """Start a shell loop that submits one-core jobs."""
    script = f"for i in $(seq {jobs}); do sbatch --quiet -n 1 -o /dev/null --wrap '{command}'; done"
    return subprocess.Popen(bench.as_user("sh", "-c", script), cwd=bench.DIRECTORY, env=bench.environment())


def prepare(run: str, jobs: int, runtime: float) -> Path:
    """Create and return the folder of a replay of one-core jobs, all due immediately, with a run time of `runtime` seconds each."""
    folder = bench.DIRECTORY / "runs" / run
    subprocess.run(bench.as_user("mkdir", str(folder)), check=True)
    write_plan(folder / "plan.csv", [_row(run, index, runtime) for index in range(jobs)])
    plan = (folder / "plan.csv").read_bytes()
    settings = {
        "run": run,
        "instance": str(bench.DIRECTORY),
        "plan_sha256": hashlib.sha256(plan).hexdigest(),
        "slurm_conf": str(bench.DIRECTORY / "etc/slurm.conf"),
        "bin": "/usr/bin",
        "sigsleep": str(bench.DIRECTORY / "bin/sigsleep"),
        "sigsleep_log": str(folder / "sigsleep.log"),
        "clock": None,
        "speed": 1.0,
        "sample_interval": 10.0,
    }
    (folder / "run.json").write_text(json.dumps(settings))
    return folder


def start_replay(folder: Path) -> subprocess.Popen[bytes]:
    """Start the replay of `folder`, which ends after its jobs."""
    command = bench.as_user("/usr/bin/python3", "-m", "slurm_mirage.programs.replay", str(folder))
    environment = {**bench.environment(), "PYTHONPATH": str(bench.DIRECTORY / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(command, cwd=bench.DIRECTORY, env=environment, stdout=subprocess.DEVNULL)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process. Raises RuntimeError if it failed."""
    if process.wait():
        raise RuntimeError(f"exit code {process.returncode}: {process.args!r}")


def submissions(folder: Path) -> list[Figures]:
    """Return the journal's submission events; see docs/replay.md."""
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "submitted"]


def _row(run: str, index: int, runtime: float) -> PlanRow:
    return PlanRow(
        index=index,
        id=index + 1,
        due=0.0,
        processors=1,
        nodes=None,
        runtime=runtime,
        limit_minutes=1 + int(runtime) // 30,
        cancel_after=None,
        partition="",
        name=f"{run}.{index + 1}",
    )


def report(figures: Figures) -> str:
    """Return one line with `measure`'s figures."""
    return (
        f"submissions/s ({figures['jobs']} jobs): replay {figures['replay']:.0f}, "
        f"bare loop of sbatch {figures['loop']:.0f}, ratio {figures['ratio']:.2f}"
    )


BENCHMARK = Benchmark("submissions", "the replay against a bare shell loop of `sbatch`", measure, report)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
