"""Measures the error of the virtual clock: repeated replays of a recorded workload on the same machine at several speeds.

    python -m benchmarks.clock [short] [long] [report] [--speeds=500,100] [--replicas=1] [--trace=PATH]

Without arguments, it runs both parts, which takes about two hours; `report` runs nothing. Each run is a `make experiment` and is
kept as results/bench-clock-KIND-SPEED-REPLICA. Finished runs are reused, interrupted runs are resumed. The fastest runs come first,
and first replicas before second ones, so that other load on the host is distributed over all speeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars import col

from benchmarks.clock_error import Deviation, deviations, exceeding, paired_noise, trend
from benchmarks.figures import RESULTS, Benchmark, Check, Figures, Skipped, markdown
from mirage import RESULTS as RUNS
from mirage.experiment.endings import Ending
from mirage.knobs.table import BY_NAME
from mirage.text.words import about
from slurm_mirage.base.files import read_json
from slurm_mirage.base.printing import say

REPOSITORY = Path(__file__).parents[1]
TRACE = Path(os.environ.get("MIRAGE_LOGS", ""), "KTH-SP2-1996.unfiltered.swf.gz")
CLUSTER = "bench-clock"
LOG = RESULTS / "clock.log"
TAU = 10.0  # lower bound of the run time in the bounded slowdown, seconds
AGREEMENT = 2.0  # allowed deviation between the speeds of the long part in per cent, unless the noise is larger
METRICS = {"wait_mean": "mean wait", "bounded_slowdown_mean": "mean bounded slowdown", "utilisation": "utilisation"}
FIGURES = ("submit_lag_p99", "start_latency_p50", "runtime_stretch_p50", "runtime_stretch_p99", "host_cpu")


@dataclass(frozen=True)
class Part:
    """A section of KTH's log with queueing, replayed on 100 nodes of one processor."""

    kind: str
    offset: int
    jobs: int
    speeds: tuple[int, ...]
    replicas: int
    span: float
    """Approximate virtual seconds from the first submission to the last end."""


PARTS = (
    Part("short", 19151, 200, (1000, 500, 200, 100, 50), 2, 57_400),
    Part("long", 19150, 500, (500, 100), 1, 170_000),
)


@dataclass(frozen=True)
class Run:
    """One run of a part."""

    part: Part
    speed: int
    replica: int

    @property
    def folder(self) -> Path:
        return RUNS / f"bench-clock-{self.part.kind}-{self.speed}-{self.replica}"

    def knobs(self, trace: Path) -> dict[str, str]:
        """Return the knobs of `make experiment`."""
        given = {
            "CLUSTER": CLUSTER,
            "NODES": 100,
            "CPUS": 1,
            "CONFIG": "backfill",
            "TRACE": trace,
            "OFFSET": self.part.offset,
            "JOBS": self.part.jobs,
            "SPEED": self.speed,
            "RUN": self.folder.name,
        }
        return {name: str(value) for name, value in given.items()}


@dataclass(frozen=True)
class Selection:
    """The parts, speeds and replicas that the command line selects."""

    kinds: tuple[str, ...] = ("short", "long")
    speeds: tuple[int, ...] | None = None
    replicas: int | None = None
    trace: Path = TRACE
    plays: bool = True

    def parts(self) -> list[Part]:
        return [part for part in PARTS if part.kind in self.kinds]

    def speeds_of(self, part: Part) -> list[int]:
        return sorted(part.speeds if self.speeds is None else self.speeds, reverse=True)

    def runs(self) -> list[Run]:
        """Return the selected runs in the order of their execution."""
        counts = {part: part.replicas if self.replicas is None else self.replicas for part in self.parts()}
        return [
            Run(part, speed, replica)
            for replica in range(1, max(counts.values()) + 1)
            for part in counts
            if replica <= counts[part]
            for speed in self.speeds_of(part)
        ]


def play(run: Run, trace: Path) -> None:
    """Start or resume the run. Its output is appended to results/bench/clock.log. Raises RuntimeError if it does not finish."""
    name = run.folder.name
    if ending_of(run.folder) is None:
        say(f"  {name}: about {about(run.part.span / run.speed)} and the start of the nodes")
    began = time.monotonic()
    call("experiment", LOG, **run.knobs(trace))
    ending = ending_of(run.folder)
    if ending is None:
        raise RuntimeError(f"{name} did not finish (see {LOG}); run the same command again to resume it")
    say(f"  {name}: {ending.line} ({about(time.monotonic() - began)})")


def ending_of(folder: Path) -> Ending | None:
    """Return the ending of a finished run; None if the run has to be started or resumed."""
    ending = Ending.load(folder)
    return ending if ending is not None and ending.is_final else None


def call(target: str, output: Path, **knobs: str) -> None:
    """Run the program behind `make`, without the knobs of the caller's environment; its output is appended to a file."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MIRAGE_")) and key not in BY_NAME}
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("a") as log:
        command = [sys.executable, "-m", "mirage", target]
        process = subprocess.Popen(command, cwd=REPOSITORY, env=clean | knobs, stdout=log, stderr=subprocess.STDOUT)
        try:
            process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise


# ---- measurement ----


def taken(run: Run) -> Figures | None:
    """Return the figures of a finished run; None if there is none."""
    ending, metrics = ending_of(run.folder), read_json(run.folder / "metrics.json")
    if ending is None or metrics is None:
        return None
    validity, progress = metrics["validity"], read_json(run.folder / "progress.json") or {}
    return {
        "kind": run.part.kind,
        "speed": run.speed,
        "replica": run.replica,
        "real_seconds": progress.get("elapsed"),
        **{name: metrics["metrics"][name] for name in METRICS},
        **{name: validity[name] for name in FIGURES},
        "valid": validity["valid"],
        "reasons": validity["reasons"],
    }


def per_job(runs: Iterable[Run]) -> pl.DataFrame:
    """Return each job's mean wait and bounded slowdown over these runs, sorted by submission time.

    The columns are id, wait_mean and bounded_slowdown_mean.
    """
    executed = (col("end") - col("start") - col("suspended")).clip(TAU)
    columns = {
        "wait_mean": col("start") - col("submit"),
        "bounded_slowdown_mean": ((col("end") - col("submit")) / executed).clip(1.0),
    }
    frames = [pl.read_csv(run.folder / "jobs.csv").drop_nulls(["start", "end"]) for run in runs]
    lines = pl.concat([frame.select("id", "submit", **columns) for frame in frames])
    means = lines.group_by("id").agg(col("submit", *columns).mean())
    return means.sort("submit", "id").drop("submit")


def noise_by_jobs(runs: Sequence[Run], slow: int, fast: int) -> dict[str, float | None]:
    """Return the noise of each metric between two speeds, in per cent of the slow one's mean, from the per-job differences."""
    slow_jobs, fast_jobs = (per_job(run for run in runs if run.speed == speed) for speed in (slow, fast))
    both = slow_jobs.join(fast_jobs, on="id", suffix="_fast", maintain_order="left")
    found: dict[str, float | None] = {"utilisation": None}
    for name in ("wait_mean", "bounded_slowdown_mean"):
        mean = both.select(col(name).mean()).item()
        noise = paired_noise((both[f"{name}_fast"] - both[name]).to_list())
        found[name] = noise / mean * 100 if noise is not None and mean else None
    return found


def compare(runs: Sequence[Run], figures: Sequence[Figures]) -> list[Figures]:
    """Return a row per metric and speed with the deviation from the slowest speed and the noise; all runs belong to one part."""
    slowest = min(run.speed for run in runs)
    by_jobs = {speed: noise_by_jobs(runs, slowest, speed) for speed in {run.speed for run in runs} - {slowest}}
    rows = []
    for name in METRICS:
        values: dict[float, list[float]] = {}
        for run, figure in zip(runs, figures, strict=True):
            values.setdefault(float(run.speed), []).append(figure[name])
        rows += [_row(name, one, by_jobs[int(one.speed)][name]) for one in deviations(values)]
    return rows


def _row(name: str, one: Deviation, by_jobs: float | None) -> Figures:
    known = [noise for noise in (one.noise, by_jobs) if noise is not None]
    return {
        "metric": name,
        "speed": int(one.speed),
        "mean": one.mean,
        "deviation": one.percent,
        "noise_by_replicas": one.noise,
        "noise_by_jobs": by_jobs,
        "error": exceeding(one.percent, max(known)) if known else None,
    }


def measure(selection: Selection) -> Figures:
    """Run the selection; return {"trace", "runs": figures of each run, "short" and "long": rows of `compare` over the valid runs}.

    Percentages refer to the slowest speed's mean. Raises Skipped when the log is missing.
    """
    wanted = selection.runs()
    if selection.plays:
        if not selection.trace.is_file():
            raise Skipped(f"needs KTH's log: {selection.trace} is not there; TRACE=PATH or --trace=PATH names it")
        for run in wanted:
            play(run, selection.trace)
        call("teardown", LOG, CLUSTER=CLUSTER)
    found = {run: one for run in wanted if (one := taken(run)) is not None}
    figures: Figures = {"trace": selection.trace.name, "runs": list(found.values())}
    for part in selection.parts():
        of_part = {run: one for run, one in found.items() if run.part == part and one["valid"]}
        figures[part.kind] = compare(list(of_part), list(of_part.values())) if of_part else []
    return figures


# ---- report ----


def report(figures: Figures) -> str:
    """Return tables of the runs and their deviations, and the reasons of invalid runs."""
    texts = []
    for part in PARTS:
        runs = sorted((run for run in figures["runs"] if run["kind"] == part.kind), key=lambda run: (run["speed"], run["replica"]))
        if not runs:
            continue
        what = f"JOBS={part.jobs} OFFSET={part.offset} of {figures['trace']}, NODES=100 CPUS=1"
        texts.append(f"{part.kind}: {what}; times in seconds of the trace")
        texts.append(_runs_table(runs))
        texts.append(_deviations_table(figures[part.kind]))
        texts.append(_trends_table([run for run in runs if run["valid"]]))
        if left_out := [f"SPEED={run['speed']}, replica {run['replica']}" for run in runs if not run["valid"]]:
            texts.append(f"left out of the deviations and trends, because they are not valid: {'; '.join(left_out)}")
        texts += [f"SPEED={run['speed']}, replica {run['replica']}: {'; '.join(run['reasons'])}" for run in runs if run["reasons"]]
    return "\n\n".join(texts) or "there are no finished runs"


def _runs_table(runs: Sequence[Figures]) -> str:
    head = ["speed", "replica", "real min", "mean wait", "bounded slowdown", "utilisation", "start latency p50"]
    head += ["stretch p50", "stretch p99", "submit lag p99", "host CPU", "valid"]
    rows = [
        [
            run["speed"],
            run["replica"],
            None if run["real_seconds"] is None else run["real_seconds"] / 60,
            run["wait_mean"],
            run["bounded_slowdown_mean"],
            f"{run['utilisation']:.4f}",
            run["start_latency_p50"],
            run["runtime_stretch_p50"],
            run["runtime_stretch_p99"],
            run["submit_lag_p99"],
            run["host_cpu"],
            "yes" if run["valid"] else "NO",
        ]
        for run in runs
    ]
    return markdown(head, rows)


def _deviations_table(rows: Sequence[Figures]) -> str:
    head = ("metric", "speed", "mean", "deviation, %", "noise by replicas, %", "noise by jobs, %", "the clock's error, %")
    names = ("deviation", "noise_by_replicas", "noise_by_jobs", "error")
    return markdown(head, [[METRICS[row["metric"]], row["speed"], row["mean"], *(row[name] for name in names)] for row in rows])


def _trends_table(runs: Sequence[Figures]) -> str:
    """Return a table of the metrics' trends with SPEED over these runs of a part; its heading alone where there are too few."""
    head = ("metric", "runs", "at SPEED=0", "per 100 of SPEED", "from", "to", "p", "Kendall's tau", "its p")
    speeds = [float(run["speed"]) for run in runs]
    found = {name: trend(speeds, [run[name] for run in runs]) for name in METRICS}
    return markdown(
        head, [[METRICS[name], one["runs"], *map(_digits, list(one.values())[1:])] for name, one in found.items() if one]
    )


def _digits(value: float) -> str:
    return f"{value:.3g}"


def checks(figures: Figures) -> list[Check]:
    """Check that the speeds of the long part agree and that its runs are valid."""
    found = []
    for row in figures.get("long", []):
        if row["metric"] != "utilisation" and row["deviation"] is not None:
            noise = max((row[name] for name in ("noise_by_replicas", "noise_by_jobs") if row[name] is not None), default=0.0)
            figure = f"long, {METRICS[row['metric']]}: SPEED={row['speed']} from the slowest, %"
            found.append(Check(figure, abs(row["deviation"]), max(AGREEMENT, noise)))
    long_runs = [run for run in figures["runs"] if run["kind"] == "long"]
    if long_runs:
        found.append(Check("long, runs that are not valid", sum(not run["valid"] for run in long_runs), 0))
    return found


def select(arguments: Sequence[str], environment_trace: str = "") -> Selection:
    """Parse the command line. Raises ValueError with the allowed arguments."""
    words = [word for word in arguments if not word.startswith("--")]
    options = dict(word[2:].partition("=")[::2] for word in arguments if word.startswith("--"))
    kinds = tuple(part.kind for part in PARTS if part.kind in words) or tuple(part.kind for part in PARTS)
    if set(words) - {"report", *(part.kind for part in PARTS)} or set(options) - {"speeds", "replicas", "trace"}:
        raise ValueError("the arguments may be short, long, report, --speeds=500,100, --replicas=2, --trace=PATH")
    speeds = tuple(int(word) for word in options["speeds"].split(",")) if "speeds" in options else None
    replicas = int(options["replicas"]) if "replicas" in options else None
    if (speeds and min(speeds) < 1) or (replicas is not None and replicas < 1):
        raise ValueError("speeds and replicas must be whole numbers, 1 or more")
    trace = Path(options.get("trace") or environment_trace or TRACE)
    return Selection(kinds, speeds, replicas, trace.absolute(), "report" not in words)


def main() -> int:
    """Entry point. Returns 0 if all selected runs finished and the bounds hold."""
    return Benchmark("clock", "the error of the virtual clock", measure, report, checks).main_of_runs(
        lambda: select(sys.argv[1:], os.environ.get("TRACE", ""))
    )


if __name__ == "__main__":
    sys.exit(main())
