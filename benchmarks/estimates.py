"""Compares the range of real time that is printed before a run with the time that the command takes, for 30 different runs.

    MIRAGE_LOGS=FOLDER python -m benchmarks.estimates

The first run on each machine builds its cluster, the others find it standing. A run that was measured is not repeated: after an
interruption the same command goes on. Runs of KTH's log are left out unless MIRAGE_LOGS names its folder. The cluster `bench` is
removed at the end.

The table also has what slurmctld computed, what the rest of the replay and the command around it took, each over what the model
alone predicts on a host at rest: what the constants of mirage/experiment/replay_costs.py and run_length.py are to be multiplied by.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from benchmarks import bench_instance as bench
from benchmarks.figures import RESULTS, Benchmark, Check, Figures, markdown, stored
from mirage.experiment import host_pace
from mirage.experiment.host_pace import Played
from slurm_mirage.base.files import read_json, write_json
from slurm_mirage.base.printing import say

TRACE = Path(os.environ.get("MIRAGE_LOGS", ""), "KTH-SP2-1996.unfiltered.swf.gz")
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
INSIDE_BOUND, WIDTH_BOUND = 0.9, 3.0
PARTS = ("scheduler", "rest", "around")
ANNOUNCED = re.compile(r" of the cluster's time: ([0-9.]+) to ([0-9.]+) (s|min|h|d)\b")
ENDED = re.compile(r"^(ok|inconclusive|invalid): ", re.MULTILINE)
NAME = "estimates"


@dataclass(frozen=True)
class Planned:
    """A run: its machine, and the other knobs as text of the command line."""

    machine: str
    workload: str

    @property
    def knobs(self) -> dict[str, str]:
        """The knobs by name."""
        return dict(word.split("=", 1) for word in f"{self.machine} {self.workload}".split())

    @property
    def words(self) -> str:
        """The knobs as in the table, without the folder of a log."""
        return f"{self.machine} {self.workload}".replace(str(TRACE), "KTH")


WORKLOADS = {
    "NODES=20 CPUS=4": (
        "JOBS=30 SPEED=event",
        "JOBS=60 SPEED=event CONFIG=fifo",
        "JOBS=150 MODEL=lublin LOAD=0.7 SPEED=event",
        "JOBS=150 MODEL=lublin LOAD=3 SPEED=event CONFIG=fifo",
        "JOBS=150 MODEL=raijin LOAD=0.5 SPEED=event",
        "JOBS=200 MODEL=raijin LOAD=2 SPEED=event CONFIG=easy",
        "JOBS=40 SPEED=50",
        "JOBS=30 SPEED=30 CONFIG=fifo",
    ),
    "NODES=100 CPUS=1": (
        f"JOBS=30 TRACE={TRACE} OFFSET=100 SPEED=event",
        f"JOBS=200 TRACE={TRACE} OFFSET=19151 SPEED=event",
        f"JOBS=200 TRACE={TRACE} OFFSET=19151 SPEED=event CONFIG=fifo",
        f"JOBS=200 TRACE={TRACE} OFFSET=19151 SPEED=event CONFIG=easy",
        f"JOBS=100 TRACE={TRACE} OFFSET=5000 SPEED=event CONFIG=backfill",
        f"JOBS=400 TRACE={TRACE} OFFSET=12000 SPEED=event",
        f"JOBS=60 TRACE={TRACE} OFFSET=22000 SPEED=500",
        "JOBS=300 MODEL=lublin LOAD=1.5 SPEED=event",
        "JOBS=2000 MODEL=lublin LOAD=0.6 SPEED=event",
    ),
    "NODES=360 CPUS=16": (
        "JOBS=30 SPEED=event",
        "JOBS=150 SPEED=event",
        "JOBS=150 SPEED=event CONFIG=fifo",
        "JOBS=100 SPEED=event CONFIG=backfill",
        "JOBS=200 MODEL=raijin LOAD=0.8 SPEED=event",
        "JOBS=200 MODEL=lublin LOAD=2 SPEED=event",
        "JOBS=60 SPEED=40",
    ),
    "NODES=3600 CPUS=4": (
        "JOBS=30 SPEED=event",
        "JOBS=100 SPEED=event CONFIG=fifo",
        "JOBS=100 MODEL=raijin LOAD=0.5 SPEED=event CONFIG=fifo",
        "JOBS=100 MODEL=lublin LOAD=0.5 SPEED=event",
        "JOBS=200 MODEL=lublin LOAD=1 SPEED=event CONFIG=fifo",
        "JOBS=40 SPEED=30 CONFIG=fifo",
    ),
}
RUNS = [Planned(machine, workload) for machine, workloads in WORKLOADS.items() for workload in workloads]


def printed_range(output: str) -> tuple[float, float]:
    """The range in the line that announces a run, in seconds. Raises RuntimeError without one."""
    announced = ANNOUNCED.search(output)
    if announced is None:
        raise RuntimeError(f"no range is printed: {output[-300:]}")
    least, most, unit = announced.groups()
    return float(least) * SECONDS[unit], float(most) * SECONDS[unit]


def play(knobs: dict[str, str], log: Path) -> None:
    """Run `make experiment` on the cluster `bench`, with its output in `log`, whatever the verdict."""
    words = [f"{name}={value}" for name, value in {"CLUSTER": bench.NAME, **knobs}.items()]
    RESULTS.mkdir(parents=True, exist_ok=True)
    with log.open("a") as stream:
        subprocess.run(
            ["make", "experiment", *words],
            cwd=bench.REPOSITORY,
            env=bench.environment_of_make(),
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )


def measure(*numbers: int) -> Figures:
    """Play the runs with these numbers, from 1 on, by default all; those that were measured are kept."""
    figures = stored(BENCHMARK) or {"runs": {}}
    chosen = [RUNS[number - 1] for number in numbers] or RUNS
    built, log = "", RESULTS / "make.log"
    try:
        for run in chosen:
            if run.words in figures["runs"] or ("TRACE" in run.knobs and not TRACE.is_file()):
                continue
            if run.machine != built and bench.DIRECTORY.exists():
                bench.make("teardown")
            built, begins = run.machine, log.stat().st_size if log.exists() else 0
            before = host_pace.played()[-1:]
            load, began = os.getloadavg()[0], time.monotonic()
            play(run.knobs, log)
            took = round(time.monotonic() - began, 1)
            with log.open() as stream:
                stream.seek(begins)
                output = stream.read()
            if not ENDED.search(output):
                say(f"  {run.words}: did not end: {output[-300:]}", file=sys.stderr)
                continue
            least, most = printed_range(output)
            figures["runs"][run.words] = {"least": least, "most": most, "took": took, "load": round(load, 1)}
            if (kept := host_pace.played()[-1:]) != before:
                figures["runs"][run.words] |= over_predicted(kept[0])
            write_json(BENCHMARK.path, {**(read_json(BENCHMARK.path) or {}), "figures": figures})
    finally:
        if bench.DIRECTORY.exists():
            bench.make("teardown")
    return figures


def over_predicted(run: Played) -> Figures:
    """What the parts of a run took, over what the model alone predicts."""
    return {part: getattr(run, part) / getattr(run.run, part) for part in PARTS}


def is_inside(run: Figures) -> bool:
    """Return True if the time that a run took is within the range that was printed before it."""
    return bool(run["least"] <= run["took"] <= run["most"])


def report(figures: Figures) -> str:
    """Return the table of the runs."""
    runs = figures["runs"].values()
    rows = [
        [
            *(words, f"{run['least']:.0f} to {run['most']:.0f}", run["took"], "inside" if is_inside(run) else "NO", run["load"]),
            *(run.get(part) for part in PARTS),
        ]
        for words, run in figures["runs"].items()
    ]
    measured = {part: [run[part] for run in runs if part in run] for part in PARTS}
    means = [geometric_mean(values) if values else None for values in measured.values()]
    rows.append(["geometric mean", None, None, None, None, *means])
    return markdown(
        ("run", "range, s", "took, s", "", "load of the host before", *(f"{part}, of predicted" for part in PARTS)), rows
    )


def checks(figures: Figures) -> list[Check]:
    """Share of the runs inside their range, and the widest range."""
    runs = list(figures["runs"].values())
    if not runs:
        return []
    inside = sum(map(is_inside, runs)) / len(runs)
    widest = max(run["most"] / run["least"] for run in runs)
    return [
        Check("share of the runs within their range", inside, INSIDE_BOUND, at_least=True),
        Check("widest range, most / least as printed", widest, WIDTH_BOUND),
    ]


BENCHMARK = Benchmark(NAME, "the range printed before a run, and its real time", measure, report, checks)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
