"""Compares memory and wake-ups of sigsleep and of coreutils' sleep.

    python -m benchmarks.sigsleep_vs_sleep

Memory is the proportional set size (PSS, in which shared pages are divided by the number of processes that share them), the mean
over `count` concurrent processes. Wake-ups are the context switches of these processes while they sleep, from /proc/PID/status.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Benchmark, Figures, markdown
from benchmarks.host import mean_memory, numbers_of

SOURCE = Path(__file__).parents[1] / "files" / "sigsleep"
QUIET = 0.3  # seconds without a context switch of any process, after which all are considered asleep
PATIENCE = 60.0  # time limit for this in seconds


def measure(program: Path | None = None, count: int = 20, seconds: float = 5.0, clock: Path | None = None) -> Figures:
    """Run `count` processes of each program and return {"sigsleep": figures, "sleep": figures}.

    The figures are pss_kib and private_kib (means over the processes, KiB), wake_ups (of all processes in `seconds`), processes and
    seconds. `program` is the path of sigsleep; None builds it. `clock` is sigsleep's clock file. Needs /proc/PID/smaps_rollup
    (Linux 4.14).
    """
    sleep = shutil.which("sleep")
    if sleep is None:
        raise FileNotFoundError("sleep(1) of coreutils")
    with tempfile.TemporaryDirectory() as directory:
        if program is None:
            subprocess.run(["make", "-sC", str(SOURCE), f"OUT={directory}", "all"], check=True)
            program = Path(directory) / "sigsleep"
        options = () if clock is None else ("--clock", str(clock))
        job = "--id 1 --cores 1 --priority normal --submit 0 --runtime 600 --log"
        commands = {"sigsleep": [str(program), *job.split(), f"{directory}/log", *options], "sleep": [sleep, "600"]}
        return {name: _measure_one(command, count, seconds) for name, command in commands.items()}


def _measure_one(command: list[str], count: int, seconds: float) -> dict[str, float]:
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        pids = [process.pid for process in processes]
        before = _await_quiet(pids)
        time.sleep(seconds)
        wake_ups = _context_switches(pids) - before
        memory = mean_memory(pids)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
    return {
        **memory,
        "wake_ups": wake_ups,
        "seconds": seconds,
    }


def _context_switches(pids: list[int]) -> int:
    statuses = [numbers_of(pid, "status") for pid in pids]
    return sum(one["voluntary_ctxt_switches"] + one["nonvoluntary_ctxt_switches"] for one in statuses)


def _await_quiet(pids: list[int]) -> int:
    """Wait until all processes sleep; return their context switches until then. Raises TimeoutError."""
    give_up = time.monotonic() + PATIENCE
    last = -1
    while (now := _context_switches(pids)) != last:
        if time.monotonic() > give_up:
            raise TimeoutError(f"the processes did not fall asleep within {PATIENCE:g} s")
        last = now
        time.sleep(QUIET)
    return now


def report(figures: Figures) -> str:
    """Return a table of `measure`'s figures."""
    rows = [
        ("proportional set size, KiB each", "pss_kib"),
        ("private memory, KiB each", "private_kib"),
        ("wake-ups, all processes", "wake_ups"),
    ]
    one = figures["sigsleep"]
    head = (f"{one['processes']} processes of each, asleep for {one['seconds']:g} s", "sigsleep", "sleep")
    return markdown(head, [[label, *(figures[program][key] for program in head[1:])] for label, key in rows])


BENCHMARK = Benchmark("sigsleep_vs_sleep", "memory and wake-ups of sigsleep and of coreutils' sleep", measure, report)

if __name__ == "__main__":
    sys.exit(0 if BENCHMARK.run() else 1)
