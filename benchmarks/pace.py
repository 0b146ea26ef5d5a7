"""Measures how fast the event clock plays, as ratios to another checkout (`make bench PART=pace BASE=FOLDER`).

    BASE=../before python -m benchmarks.pace [CASE ...]

BASE is a folder with another commit of this project, as `git worktree add` makes it; without it only this checkout is measured.
The two take turns, so that both meet the same host, and each plays a case after a short run that has built its cluster. The host
must do nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Benchmark, Figures, Skipped, markdown
from slurm_mirage.base.files import file_digest, read_json
from slurm_mirage.base.printing import say

HERE = Path(__file__).parents[1]
CLUSTER = "bench-pace"
KTH = Path(os.environ.get("MIRAGE_LOGS", ""), "KTH-SP2-1996.unfiltered.swf.gz")


@dataclass(frozen=True)
class Case:
    """A run that is played. knobs: those of `make experiment`; what: in words"""

    name: str
    what: str
    knobs: Mapping[str, str]

    @property
    def is_possible(self) -> bool:
        """Whether the log that it plays exists; true for a workload of a model."""
        return "TRACE" not in self.knobs or Path(self.knobs["TRACE"]).is_file()


_MODEL = {"MODEL": "lublin", "SEED": "1"}
CASES = (
    Case(
        "kth",
        "KTH's log, 1,000 jobs on 100 nodes",
        {"TRACE": str(KTH), "OFFSET": "19151", "JOBS": "1000", "NODES": "100", "CPUS": "1"},
    ),
    Case("queue", "100 nodes, about 100 waiting jobs", {**_MODEL, "NODES": "100", "CPUS": "4", "LOAD": "1.2", "JOBS": "400"}),
    Case("wide", "3,600 nodes, wide jobs", {**_MODEL, "NODES": "3600", "LOAD": "0.9", "JOBS": "90"}),
)


def play(checkout: Path, case: Case, run: str) -> Figures:
    """Play a case in a checkout: seconds of the event clock, of the scheduler's processor time, and a digest of jobs.csv."""
    for name, changed in ((f"{run}-first", {"JOBS": "3"}), (run, {})):
        knobs = {**case.knobs, **changed, "CLUSTER": CLUSTER, "RUN": name}
        words = [f"{knob}={value}" for knob, value in knobs.items()]
        done = subprocess.run(["make", "experiment", *words], cwd=checkout, capture_output=True, text=True, check=False)
        folder = checkout / "results" / name
        if not (folder / "metrics.json").is_file():
            raise RuntimeError(f"{checkout}: {case.name}: {(done.stdout + done.stderr).splitlines()[-1]}")
    clock = read_json(folder / "metrics.json")["validity"]["event_clock"]
    return {
        "real": clock["real_seconds"],
        "scheduler": clock["scheduler_seconds"],
        "virtual": clock["virtual_seconds"],
        "jobs": file_digest(folder / "jobs.csv"),
    }


def measure(names: Sequence[str]) -> Figures:
    """Play the cases in both checkouts, the other one first."""
    base = os.environ.get("BASE")
    checkouts = {"base": Path(base).resolve(), "this": HERE} if base else {"this": HERE}
    figures: Figures = {}
    for case in CASES:
        if (names and case.name not in names) or not case.is_possible:
            say(f"{case.name}: skipped: {'not chosen' if case.is_possible else 'MIRAGE_LOGS names no folder with its log'}")
            continue
        figures[case.name] = {}
        for which, checkout in checkouts.items():
            say(f"{case.name}: {case.what}, {which}")
            figures[case.name][which] = play(checkout, case, f"bench-pace-{case.name}-{which}-{time.time():.0f}")
    if not figures:
        raise Skipped("no case can be played")
    return figures


def report(figures: Figures) -> str:
    """A row for each case."""
    rows = []
    for case in (case for case in CASES if case.name in figures):
        this, base = figures[case.name]["this"], figures[case.name].get("base")
        ratios = (this["real"] / base["real"], this["scheduler"] / base["scheduler"]) if base else (None, None)
        same = None if base is None else "yes" if this["jobs"] == base["jobs"] else "no"
        rows.append((case.what, this["real"], base and base["real"], *ratios, this["virtual"] / this["real"], same))
    head = ("case", "real s", "real s, BASE", "ratio", "ratio, scheduler", "virtual s in a real one", "jobs.csv equal")
    return markdown(head, rows)


BENCHMARK = Benchmark("pace", "real time of replays on the event clock", measure, report)


def _chosen() -> Sequence[str]:
    names = [case.name for case in CASES]
    if wrong := [word for word in sys.argv[1:] if word not in names]:
        raise ValueError(f"there is no {wrong[0]}; a case may be one of {', '.join(names)}")
    return sys.argv[1:]


if __name__ == "__main__":
    sys.exit(BENCHMARK.main_of_runs(_chosen))
