"""Measures the overhead of the virtual clock in a program, compared with libfaketime if that is installed.

    python -m benchmarks.clock_calls

The figures are the nanoseconds of calls that read the time and of a poll that does not wait, and the microseconds of processor time
for starting /bin/true from a shell (fork, exec, exit). Each figure is the minimum of several alternating rounds, because other load
on the machine can only make a round slower.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Benchmark, Figures, markdown
from slurm_mirage.clock.clock import Clock

SOURCE = Path(__file__).parents[1] / "files" / "virtual_clock"
PROGRAM = Path(__file__).with_suffix(".c")
LIBFAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
SPEED = 100.0
STARTS = 100
LOOP = f"i=0; while [ $i -lt {STARTS} ]; do /bin/true; i=$((i+1)); done"
Environment = dict[str, str]


def measure(rounds: int = 15) -> Figures:
    """Return {"alone": figures, "virtual_clock": figures, and "libfaketime": figures if it is installed}.

    The figures are clock_gettime, time, gettimeofday, poll (ns per call) and start (us).
    """
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        subprocess.run(["make", "-sC", str(SOURCE), f"OUT={folder}", "all"], check=True)
        subprocess.run(["cc", "-O2", "-o", str(folder / "calls"), str(PROGRAM)], check=True)
        Clock.start_now(SPEED).write(folder / "clock")
        ways = _ways(folder)
        taken = [{name: _one_round(folder / "calls", environment) for name, environment in ways.items()} for _ in range(rounds)]
    return {way: {figure: min(one[way][figure] for one in taken) for figure in taken[0][way]} for way in ways}


def _ways(folder: Path) -> dict[str, Environment]:
    """Return the environments of a program without a preloaded clock, with the virtual clock, and with libfaketime."""
    alone = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    ways = {"alone": alone}
    ways["virtual_clock"] = {**alone, "LD_PRELOAD": str(folder / "virtual_clock.so"), "SLURM_MIRAGE_CLOCK": str(folder / "clock")}
    if LIBFAKETIME.exists():
        ways["libfaketime"] = {**alone, "LD_PRELOAD": str(LIBFAKETIME), "FAKETIME": f"+0 x{SPEED:g}"}
    return ways


def _one_round(program: Path, environment: Environment) -> dict[str, float]:
    answer = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=True).stdout
    figures = {name: float(value) for name, value in (line.split() for line in answer.splitlines())}
    before = _used()
    # The shell also has the preloaded clock, so that libfaketime's processes share the objects that the shell created.
    subprocess.run(["sh", "-c", LOOP], env=environment, check=True)
    return {**figures, "start": (_used() - before) / STARTS * 1e6}


def _used() -> float:
    """Return the processor time of the ended children in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(figures: Figures) -> str:
    """Return a table of `measure`'s figures and of their ratios to a program without a preloaded clock."""
    rows = [
        ("clock_gettime, ns", "clock_gettime"),
        ("time, ns", "time"),
        ("gettimeofday, ns", "gettimeofday"),
        ("poll that does not wait, ns", "poll"),
        ("start and end of /bin/true, us of processor time", "start"),
    ]
    others = [way for way in figures if way != "alone"]
    head = ["", "alone", *(word for way in others for word in (way, "ratio"))]
    table = []
    for label, key in rows:
        alone = figures["alone"][key]
        table.append([label, alone, *(value for way in others for value in (figures[way][key], figures[way][key] / alone))])
    return markdown(head, table)


BENCHMARK = Benchmark("clock_calls", "overhead of the virtual clock in a program", measure, report)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
