"""Submissions per second: the replay against a bare shell loop of `sbatch`, on the same cluster in one run.

    PYTHONPATH=module_utils python -m benchmarks.submissions [JOBS]

All jobs are due at once and sleep for 10 ms; each side waits for the other's jobs to end before it begins.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time

from benchmarks import bench_instance as bench
from slurm_mirage.submissions import PlanRow, write_plan

NODES = 60


def measure(jobs: int = 300) -> dict[str, object]:
    """{"jobs", "nodes", "replay": submissions/s, "loop": submissions/s, "ratio"}."""
    with bench.built(NODES):
        loop = _loop(jobs)
        _wait_until_idle()
        replay = _replay(jobs)
    return {"jobs": jobs, "nodes": NODES, "replay": replay, "loop": loop, "ratio": replay / loop}


def _wait_until_idle() -> None:
    bench.wait_for(lambda: not bench.output("squeue", "--noheader"), "empty queue")
    bench.wait_for_nodes(NODES)


def _loop(jobs: int) -> float:
    script = f"for i in $(seq {jobs}); do sbatch --quiet -n 1 -o /dev/null --wrap 'sleep 0.01'; done"
    began = time.monotonic()
    subprocess.run(bench.as_user("sh", "-c", script), cwd=bench.DIRECTORY, env=bench.environment(), check=True)
    return jobs / (time.monotonic() - began)


def _replay(jobs: int) -> float:
    folder = bench.DIRECTORY / "runs/bench"
    subprocess.run(bench.as_user("mkdir", str(folder)), check=True)
    write_plan(folder / "plan.csv", [_row(index) for index in range(jobs)])
    plan = (folder / "plan.csv").read_bytes()
    settings = {
        "run": "bench",
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
    command = bench.as_user("/usr/bin/python3", "-m", "slurm_mirage.replay", str(folder))
    environment = {**bench.environment(), "PYTHONPATH": str(bench.DIRECTORY / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, cwd=bench.DIRECTORY, env=environment, check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    submitted = [event for event in events if event["event"] == "submitted"]
    if len(submitted) != jobs:
        raise RuntimeError(f"{len(submitted)} of {jobs} jobs were submitted")
    return jobs / float(submitted[-1]["real"] - submitted[0]["began"])


def _row(index: int) -> PlanRow:
    return PlanRow(
        index=index,
        id=index + 1,
        due=0.0,
        processors=1,
        nodes=None,
        runtime=0.01,
        limit_minutes=1,
        cancel_after=None,
        partition="",
        name=f"bench.{index + 1}",
    )


def report(figures: dict[str, object]) -> str:
    """A line for each of `measure`'s figures."""
    return (
        f"submissions/s ({figures['jobs']} jobs): replay {figures['replay']:.0f}, "
        f"bare loop of sbatch {figures['loop']:.0f}, ratio {figures['ratio']:.2f}"
    )


if __name__ == "__main__":
    print(report(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 300)))
