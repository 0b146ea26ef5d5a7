"""`make study STUDY=malleable` and STUDY=malleable-share: jobs that change their size, against fixed ones (studies/README.md).

Each workload is a comparison of its own (results/STUDY-WORKLOAD-JOBS), so that an interrupted study goes on as `make compare` does.
results/STUDY holds study.csv and study.html over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from mirage.campaign.arms import Arms
from mirage.campaign.campaign import Campaign
from mirage.experiment import clock_choice, runs
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.knobs.parse import Value
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from mirage_extras.malleable import experiment as malleable
from mirage_extras.malleable.studies.source import ASYNC, FIXED, PREFERRED, SYNC, WIDE
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json, write_atomically
from studies.own_knobs import chosen, name_of, refuse

STUDY, SHARE = "study-malleable", "study-malleable-share"
APPLICATIONS, SLEEP = "applications", "sleep"
COMMON = {"CPUS": "1", "CONFIG": "backfill", "REPLICAS": "3"}
MACHINES = {APPLICATIONS: {"MODEL": "dmr", "NODES": "64"}, SLEEP: {"MODEL": "feitelson96", "NODES": "20", "LOAD": "2"}}
"""Flexible sleep has up to 20 nodes: the machine whose sizes feitelson96 draws. Its run times are not published. With those of the
model and gaps of 10 s hardly any job waits; so jobs arrive at twice the rate that the machine can serve, as if they were longer.
"""
ARMS = {
    APPLICATIONS: {FIXED: "", PREFERRED: "dmr", WIDE: "dmr preferred=none"},
    SLEEP: {FIXED: "", SYNC: "sleep", ASYNC: "sleep async"},
}
"""MALLEABLE_JOBS of each arm; "" for none."""
FULL_ARMS = {APPLICATIONS: {f"{PREFERRED}-async": "dmr async", f"{WIDE}-async": "dmr preferred=none async"}, SLEEP: {}}
JOBS, FULL_JOBS = (50,), (50, 100, 200, 400)
BENCHMARK = "bench/resize.json"
"""Folder of make bench PART=resize, in results/."""

STRATEGIES = {
    "minimum": "recorded preferred=none start=min",
    "average": "recorded preferred=mean start=min",
    "preferred": "recorded",
}
"""MALLEABLE_JOBS by the strategy of Wagomu's scheduler that it approximates (studies/README.md)."""
SHARES, FULL_SHARES = (0, 50, 100), (0, 20, 40, 60, 80, 100)
SHARE_KNOBS = {"NODES": "128", "CPUS": "1", "CONFIG": "backfill", "OFFSET": "19151", "REPLICAS": "1", "SIZES": "fit"}
SHARE_JOBS, FULL_SHARE_JOBS = "100", "1000"


@dataclass(frozen=True)
class Comparison:
    """One of the comparisons of a study.

    name: its folder in results/
    """

    name: str
    workload: str
    jobs: int
    knobs: Knobs
    arms: Arms

    def run(self, screen: Screen) -> Ending:
        """Check the knobs, execute the runs that are not finished, and compare. A finished comparison is only shown again."""
        malleable.check(self.knobs.with_values({"MALLEABLE": Decimal(1)}))
        return Campaign.of(self.knobs, clock_choice.chosen(self.knobs, screen), self.arms).run(screen)


def study_malleable(knobs: Knobs, screen: Screen) -> Ending:
    """Run all comparisons of the study, and make its page."""
    is_full, name = knobs.campaign.is_full, name_of(knobs, STUDY)
    refuse(knobs, STUDY, ("TRACE", "SLURM_CONF", "CLASSES", "CONFIGS", "MODEL", "MALLEABLE_JOBS"))
    comparisons = planned(knobs, name, is_full)
    runs_of_each = f"{len(comparisons)} comparisons of {', '.join(str(one.jobs) for one in comparisons)} jobs"
    screen.say(f"malleable jobs against fixed ones: {runs_of_each}" + ("" if is_full else "; FULL=yes is the published size"))
    return _all(name, comparisons, screen)


def study_malleable_share(knobs: Knobs, screen: Screen) -> Ending:
    """Compare shares of malleable jobs under three strategies."""
    is_full, name = knobs.campaign.is_full, name_of(knobs, SHARE)
    refuse(knobs, SHARE, ("MODEL", "SLURM_CONF", "CLASSES", "CONFIGS", "MALLEABLE_JOBS"))
    if not knobs.workload.trace:
        raise WrongUse("nothing is given; it may be the path of a log, such as that of KTH-SP2", parameter="trace")
    own = {**SHARE_KNOBS, "JOBS": FULL_SHARE_JOBS if is_full else SHARE_JOBS, "RUN": name}
    comparison = Comparison(name, "log", 0, chosen(knobs, own), share_arms(FULL_SHARES if is_full else SHARES))
    return comparison.run(screen)


def planned(knobs: Knobs, name: str, is_full: bool) -> list[Comparison]:
    """The comparisons of the study, those with the fewest jobs first."""
    counts = (knobs.workload.jobs,) if knobs.workload.jobs is not None else FULL_JOBS if is_full else JOBS
    found = []
    for jobs in counts:
        for workload, machine in MACHINES.items():
            folder = f"{name}-{workload}-{jobs}"
            own = {**COMMON, **machine, "JOBS": str(jobs), "RUN": folder}
            texts = ARMS[workload] | (FULL_ARMS[workload] if is_full else {})
            arms = {label: arm(text) for label, text in texts.items()}
            found.append(Comparison(folder, workload, jobs, chosen(knobs, own), arms))
    return found


def arm(words: str, share: int = 100) -> Mapping[str, Value]:
    """The values of an arm with these MALLEABLE_JOBS, for a share in per cent; words "": fixed jobs."""
    if not words or not share:
        return {"MALLEABLE": Decimal(0)}
    return {"MALLEABLE": Decimal(share) / 100, "MALLEABLE_JOBS": words}


def share_arms(shares: Sequence[int]) -> Arms:
    """One arm without malleable jobs, and one of each strategy for each other share."""
    return {FIXED: arm("")} | {
        f"{name}-{share}": arm(words, share) for share in shares if share for name, words in STRATEGIES.items()
    }


def _all(name: str, comparisons: Sequence[Comparison], screen: Screen) -> Ending:
    """Run the comparisons one after another; the page is made after each of them, with what there is."""
    endings = []
    for number, comparison in enumerate(comparisons, 1):
        screen.say(f"comparison {number} of {len(comparisons)}: {comparison.workload}, {comparison.jobs} jobs")
        ending = comparison.run(screen)
        endings.append(ending)
        if not ending.is_final:
            return ending
        write(name, comparisons[:number])
    page = f"results/{name}/study.html"
    screen.say(f"study: {page}")
    for word in ("invalid", "inconclusive"):
        if named := [one.name for one, ending in zip(comparisons, endings, strict=True) if ending.word == word]:
            return Ending(word, f"{len(named)} of {len(comparisons)} comparisons ({', '.join(named)}); {page}")
    return Ending("ok", f"{len(comparisons)} comparisons, {page}")


def write(name: str, comparisons: Sequence[Comparison]) -> None:
    """Write study.csv and study.html of these finished comparisons."""
    from mirage_extras.malleable.studies.measured import StudyRun, as_csv, figures
    from mirage_extras.malleable.studies.page import page

    found = []
    for one in comparisons:
        folder = runs.RESULTS / one.name
        found += [
            StudyRun(one.workload, one.jobs, member["label"], member["replica"], RunFolder(folder / member["folder"]))
            for member in RunFolder(folder).experiment["comparison"]
        ]
    measured = figures(found)
    folder = runs.RESULTS / name
    folder.mkdir(exist_ok=True)
    write_atomically(folder / "study.csv", as_csv(measured))
    resizes = _resizes(runs.RESULTS / BENCHMARK)
    write_atomically(folder / "study.html", page(name, found, measured, [one.name for one in comparisons], resizes))


def _resizes(path: Path) -> list[dict[str, Any]]:
    """Rows of the benchmark of figure 3; none if it was not run."""
    content: list[dict[str, Any]] = (read_json(path) or {}).get("figures", {}).get("resizes", [])
    return content
