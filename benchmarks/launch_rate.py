"""Compares the jobs per second, from first submission to last completion record, of the replay and of a shell loop of `sbatch`.

    python -m benchmarks.launch_rate [NODES] [JOBS]

The jobs do nothing: `sleep 0` in the loop, sigsleep with a run time of 0 in the replay. Each side has ROUNDS turns of JOBS jobs on
the same cluster. CPU time is reported per command.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks import bench_instance as bench
from benchmarks import host
from benchmarks.cluster_start import MERGE_SECONDS
from benchmarks.figures import Benchmark, Check, Figures, markdown
from benchmarks.submissions import finish, prepare, start_loop, start_replay, submissions

ROUNDS = 2
SIDES = ("loop", "replay")
BOUND = 0.9
LAST_WORDS = 2.0  # seconds in which the last slurmstepd ends after the last completion


def measure(nodes: int = 3600, jobs: int = 2000) -> Figures:
    """Return {"nodes", "jobs", "loop": [turns], "replay": [turns], "rates", "ratio" of jobs per second}; see _turn."""
    host.settled_mib()
    host.require(nodes)
    turns: dict[str, list[Figures]] = {side: [] for side in SIDES}
    with bench.built(nodes):
        host.pause(MERGE_SECONDS, "pages are merged")
        # Each turn is slower than the one before, because slurmctld keeps ended jobs for some minutes. So the sides alternate in
        # going first.
        for number in range(ROUNDS):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                turns[side].append(_loop(jobs, number + 1) if side == "loop" else _replay(jobs, number + 1))
    rates = {side: [jobs / (turn["ended"] - turn["began"]) for turn in turns[side]] for side in turns}
    ratio = (sum(rates["replay"]) / ROUNDS) / (sum(rates["loop"]) / ROUNDS)
    return {"nodes": nodes, "jobs": jobs, **turns, "rates": rates, "ratio": ratio}


def _loop(jobs: int, number: int) -> Figures:
    return _turn(jobs, lambda: start_loop(jobs, "sleep 0"), f"loop {number}")


def _replay(jobs: int, number: int) -> Figures:
    folder = prepare(f"launch-{number}", jobs, 0.0)
    turn = _turn(jobs, lambda: start_replay(folder), f"replay {number}")
    return turn | {"began": float(submissions(folder)[0]["began"])}


def _turn(jobs: int, start: Callable[[], subprocess.Popen[bytes]], what: str) -> Figures:
    """Submit all jobs and wait for their completion records. Raises RuntimeError if a job did not complete.

    In the result, `began` and `ended` are seconds since the epoch. `cpu` holds the CPU seconds until the last slurmstepd has ended:
    of the `submitting` processes (loop or replay, with all sbatch), of the instance's processes by command, of ksmd, and of the
    host's `rest`.
    """
    log = bench.completion_log()
    before, ksmd, whole = host.account(bench.members()), host.ksmd_seconds(), host.cpu_seconds()
    states: list[str] = []
    submitting, began = _of_children(), time.time()
    process = start()

    def all_ended() -> bool:
        states.extend(job.state for job in log.read())
        return len(states) >= jobs

    bench.wait_for(all_ended, what, bench.PATIENCE + jobs / 5, lambda: f"{len(states)} of {jobs} ended")
    ended = time.time()
    finish(process)
    submitting = _of_children() - submitting
    time.sleep(LAST_WORDS)
    cpu = host.spent(before, host.account(bench.members()))
    cpu |= {"submitting": submitting, "ksmd": host.ksmd_seconds() - ksmd}
    cpu["rest"] = host.cpu_seconds() - whole - sum(cpu.values())
    if states != ["COMPLETED"] * jobs:
        raise RuntimeError(f"{what}: {states.count('COMPLETED')} of {jobs} jobs completed, {len(states)} ended")
    bench.wait_for_empty_queue()
    return {"began": began, "ended": ended, "cpu": {name: round(seconds, 2) for name, seconds in cpu.items()}}


def _of_children() -> float:
    """Return the CPU seconds of this process's waited-for children and their descendants."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def report(figures: Figures) -> str:
    """Return a table of the rates and of the CPU time per job by command."""
    names = sorted({name for side in SIDES for turn in figures[side] for name in turn["cpu"]})
    rows = [["jobs/s, mean", *(_mean(figures["rates"][side]) for side in SIDES)]]
    rows += [[f"jobs/s, turn {n + 1}", *(figures["rates"][side][n] for side in SIDES)] for n in range(ROUNDS)]
    for name in names:
        rows.append(
            [
                f"CPU of {name}, ms a job",
                *(1000 * _mean([turn["cpu"].get(name, 0.0) for turn in figures[side]]) / figures["jobs"] for side in SIDES),
            ]
        )
    return markdown((f"{figures['jobs']} jobs on {figures['nodes']} nodes", "bare loop", "replay"), rows)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def checks(figures: Figures) -> list[Check]:
    """Check the replay's rate relative to the loop's."""
    return [Check("submission to completion, jobs/s, replay / bare loop", figures["ratio"], BOUND, at_least=True)]


BENCHMARK = Benchmark("scale_launch", "jobs per second from submission to completion", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
