"""Memory and wake-ups of sigsleep and of coreutils' sleep, side by side.

    python benchmarks/sigsleep_vs_sleep.py

Memory is the proportional set size (PSS: pages that several processes share count by their share), the mean over
`count` processes that run at once. Wake-ups are context switches of those processes, from /proc/PID/status, while
they sleep.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "files" / "sigsleep"
QUIET = 0.3  # seconds without a context switch of any process: all have started and gone to sleep
PATIENCE = 60.0  # seconds to wait for that


def measure(program: Path | None = None, count: int = 20, seconds: float = 5.0) -> dict[str, dict[str, float]]:
    """Run `count` of each and return {"sigsleep": figures, "sleep": figures}.

    Figures: pss_kib and private_kib (mean over the processes, KiB), wake_ups (all processes, in `seconds`),
    processes, seconds. `program` is a sigsleep; without one it is built. Needs /proc/PID/smaps_rollup (Linux 4.14).
    """
    sleep = shutil.which("sleep")
    if sleep is None:
        raise FileNotFoundError("sleep(1) of coreutils")
    with tempfile.TemporaryDirectory() as directory:
        if program is None:
            subprocess.run(["make", "-sC", str(SOURCE), f"OUT={directory}", "all"], check=True)
            program = Path(directory) / "sigsleep"
        job = "--id 1 --cores 1 --priority normal --submit 0 --runtime 600 --log"
        commands = {"sigsleep": [str(program), *job.split(), f"{directory}/log"], "sleep": [sleep, "600"]}
        return {name: _measure_one(command, count, seconds) for name, command in commands.items()}


def _measure_one(command: list[str], count: int, seconds: float) -> dict[str, float]:
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        pids = [process.pid for process in processes]
        before = _await_quiet(pids)
        time.sleep(seconds)
        wake_ups = _context_switches(pids) - before
        memory = [_fields(pid, "smaps_rollup") for pid in pids]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
    return {
        "pss_kib": sum(fields["Pss"] for fields in memory) / count,
        "private_kib": sum(fields["Private_Clean"] + fields["Private_Dirty"] for fields in memory) / count,
        "wake_ups": wake_ups,
        "processes": count,
        "seconds": seconds,
    }


def _fields(pid: int, file: str) -> dict[str, int]:
    """The numbers of a /proc/PID file of lines `Name: NUMBER ...`."""
    text = Path(f"/proc/{pid}/{file}").read_text()
    return {name: int(number) for name, number in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


def _context_switches(pids: list[int]) -> int:
    statuses = [_fields(pid, "status") for pid in pids]
    return sum(one["voluntary_ctxt_switches"] + one["nonvoluntary_ctxt_switches"] for one in statuses)


def _await_quiet(pids: list[int]) -> int:
    """Wait until start-up is over; returns the context switches until then."""
    give_up = time.monotonic() + PATIENCE
    last = -1
    while (now := _context_switches(pids)) != last:
        if time.monotonic() > give_up:
            raise TimeoutError(f"the processes did not come to rest within {PATIENCE:g} s")
        last = now
        time.sleep(QUIET)
    return now


def report(figures: dict[str, dict[str, float]]) -> str:
    """A table of `measure`'s figures."""
    one = figures["sigsleep"]
    lines = [f"{one['processes']:.0f} processes of each at once, asleep for {one['seconds']:g} s"]
    lines.append(f"{'':32}{'sigsleep':>10}{'sleep':>10}")
    for label, name in (
        ("proportional set size, KiB each", "pss_kib"),
        ("private memory, KiB each", "private_kib"),
        ("wake-ups, all processes", "wake_ups"),
    ):
        lines.append(f"{label:32}" + "".join(f"{figures[program][name]:10.1f}" for program in ("sigsleep", "sleep")))
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(measure()))
