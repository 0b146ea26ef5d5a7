"""Compares start times of emulated schedules with those that a simulation of the same rules knows.

    python -m benchmarks.fidelity [fifo] [easy] [report] [--speeds=event,20,100,500] [--replicas=3]

Each run is a `make experiment`, kept as results/bench-fidelity-CONFIG-SPEED-REPLICA; a replica's number is its SEED. `event` is the
event-driven clock. Finished runs are reused, interrupted runs are resumed. The runs of each replica are in random order, always the
same one, so that other load on the host does not follow SPEED.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import fidelity_differences as differences
from benchmarks.clock import call, ending_of
from benchmarks.fidelity_differences import EVENT, Speed
from benchmarks.fidelity_workload import CONFIGS, MACHINE, to_swf, workload
from benchmarks.figures import RESULTS, Benchmark, Figures, markdown
from mirage import RESULTS as RUNS
from mirage.text.words import about
from mirage.traces.swf import write_swf
from slurm_mirage.base.files import read_json
from slurm_mirage.base.printing import say

CLUSTER = "bench-fidelity"
LOG = RESULTS / "fidelity.log"
SPAN = 3600.0  # approximate virtual seconds of a run
DIGITS = dict.fromkeys(("turn", "spread", "at_zero", "slope", "low", "high"), 2) | dict.fromkeys(("p", "tau", "tau_p", "alike"), 3)
EVENT_SPAN = 20.0  # approximate real seconds of a run on the event-driven clock
VERDICT = ("submit_lag_p99", "runtime_stretch_p50", "runtime_stretch_p99", "host_cpu")


@dataclass(frozen=True)
class Run:
    """One run of a workload."""

    config: str
    speed: Speed
    replica: int

    @property
    def folder(self) -> Path:
        return RUNS / f"bench-fidelity-{self.config}-{self.speed}-{self.replica}"

    def knobs(self, trace: Path) -> dict[str, str]:
        """Return the knobs of `make experiment`."""
        given = {"CLUSTER": CLUSTER, "NODES": MACHINE, "CPUS": 1, "CONFIG": self.config, "SEED": self.replica}
        return {name: str(value) for name, value in {**given, "TRACE": trace, "SPEED": self.speed, "RUN": self.folder.name}.items()}


@dataclass(frozen=True)
class Selection:
    """The configurations, speeds and replicas that the command line selects."""

    configs: tuple[str, ...] = tuple(CONFIGS)
    speeds: tuple[Speed, ...] = (EVENT, 20, 100, 500)
    replicas: int = 3
    plays: bool = True

    def runs(self) -> list[Run]:
        """Return the runs in the order of their execution: those of each replica in a random order."""
        found = []
        for replica in range(1, self.replicas + 1):
            block = [Run(config, speed, replica) for config in self.configs for speed in self.speeds]
            random.Random(replica).shuffle(block)
            found += block
        return found


def select(arguments: Sequence[str]) -> Selection:
    """Parse the command line. Raises ValueError with the allowed arguments."""
    words = [word for word in arguments if not word.startswith("--")]
    options = dict(word[2:].partition("=")[::2] for word in arguments if word.startswith("--"))
    if set(words) - {"report", *CONFIGS} or set(options) - {"speeds", "replicas"}:
        raise ValueError("the arguments may be fifo, easy, report, --speeds=event,20,100,500, --replicas=3")
    given = Selection(tuple(config for config in CONFIGS if config in words) or tuple(CONFIGS), plays="report" not in words)
    named = options["speeds"].split(",") if "speeds" in options else given.speeds
    speeds: tuple[Speed, ...] = tuple(EVENT if word == EVENT else int(word) for word in named)
    replicas = int(options.get("replicas", given.replicas))
    if min([replicas, *(speed for speed in speeds if isinstance(speed, int))]) < 1:
        raise ValueError("replicas, and speeds but event, must be whole numbers, 1 or more")
    return Selection(given.configs, speeds, replicas, given.plays)


def play(run: Run) -> None:
    """Start or resume the run. Raises RuntimeError if it does not finish."""
    name = run.folder.name
    if ending_of(run.folder) is None:
        length = SPAN / run.speed if isinstance(run.speed, int) else EVENT_SPAN
        say(f"  {name}: about {about(length)} and the start of the nodes")
        trace = RESULTS / f"fidelity-{run.config}.swf"
        trace.parent.mkdir(parents=True, exist_ok=True)
        write_swf(to_swf(workload(run.config)), {"MaxProcs": str(MACHINE)}, trace)
        began = time.monotonic()
        call("experiment", LOG, **run.knobs(trace))
        say(f"  {name}: {about(time.monotonic() - began)}")
    ending = ending_of(run.folder)
    if ending is None:
        raise RuntimeError(f"{name} did not finish (see {LOG}); run the same command again to resume it")
    say(f"  {name}: {ending.line}")


def measure(selection: Selection) -> Figures:
    """Run the selection; return {"runs": figures of each run, "jobs": quantiles by configuration and speed, "trends"}."""
    wanted = selection.runs()
    if selection.plays:
        for run in wanted:
            play(run)
        call("teardown", LOG, CLUSTER=CLUSTER)
    rows, by_job = [], []
    for run in wanted:
        metrics = read_json(run.folder / "metrics.json")
        if ending_of(run.folder) is None or metrics is None:
            continue
        frame = differences.of_run(run.folder, run.config)
        key = {"config": run.config, "speed": run.speed, "replica": run.replica}
        validity = metrics["validity"]
        verdict = validity["verdict"]
        busy = None if validity["host_cpu"] is None else validity["host_cpu"] * 100
        judged = {**{name: validity[name] for name in VERDICT}, "host_cpu": busy, "verdict": verdict}
        rows.append({**key, **differences.summary(frame), **judged})
        by_job.append((key, frame))
    return {
        "runs": sorted(rows, key=differences.position),
        "jobs": differences.quantiles(by_job),
        "largest": differences.largest(by_job),
        "trends": differences.trends(rows),
    }


def report(figures: Figures) -> str:
    """Return the tables for docs/accuracy.md."""
    if not figures["runs"]:
        return "there are no finished runs"
    tables = (
        ("start times, emulated minus simulated, in seconds of the trace; all jobs of all replicas", differences.QUANTILES, "jobs"),
        (
            "bias: mean difference over the jobs of a run, mean and spread of the replicas; what makes it up",
            differences.BIAS,
            "jobs",
        ),
        ("trends with SPEED, one observation for each run; seconds", differences.TREND, "trends"),
        ("the job with the largest difference, and what makes it up", differences.LARGEST, "largest"),
        ("runs", differences.RUNS, "runs"),
    )
    return "\n\n".join(f"{title}:\n\n{_table(columns, figures[rows])}" for title, columns, rows in tables)


def _table(columns: dict[str, str], rows: Sequence[Figures]) -> str:
    """Return a table; `columns` are headings by the figures' names."""
    return markdown(tuple(columns.values()), [[_number(name, row[name]) for name in columns] for row in rows])


def _number(name: str, value: object) -> object:
    """The value with the decimals of DIGITS, one by default."""
    if not isinstance(value, float):
        return value
    if name in ("p", "tau_p") and value < 0.001:
        return "< 0.001"
    return f"{value + 0.0:.{DIGITS.get(name, 1)}f}"


def main() -> int:
    """Entry point. Returns 0 if all selected runs finished."""
    return Benchmark("fidelity", "start times beside a simulation", measure, report).main_of_runs(lambda: select(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
