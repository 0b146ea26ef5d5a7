"""`make study-...`: published comparisons, each a set of knobs for make compare (studies/README.md).

By default a study takes an hour or two on 2 cores; FULL=yes is the published size. Knobs that are given override the study's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mirage.commands.compare import compare
from mirage.experiment import runs
from mirage.experiment.endings import Ending
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import with_texts
from mirage.knobs.table import BY_NAME
from mirage.records.file_names import COMPARISON_FILE
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import write_atomically


@dataclass(frozen=True)
class Study:
    """A published comparison.

    knobs: those of both sizes. smoke, full: those of the small and the published size, and which runs these are.
    """

    title: str
    knobs: Mapping[str, str]
    smoke: Mapping[str, str]
    full: Mapping[str, str]
    smoke_takes: str
    full_takes: str
    with_openpbs: Mapping[str, str] = field(default_factory=dict)
    """Knobs of both sizes if OPENPBS_SOURCE is given."""
    smoke_with_openpbs: Mapping[str, str] = field(default_factory=dict)
    """Knobs of the small size if OPENPBS_SOURCE is given, and which runs both sizes then are."""
    with_openpbs_takes: tuple[str, str] = ("", "")


STUDIES = {
    "study-scms": Study(
        "FIFO against backfill by waiting indices, on 166 nodes of 8 CPUs and a workload like South Ural State University's",
        {"MODEL": "susu", "NODES": "166", "CPUS": "8", "CONFIGS": "fifo backfill"},
        # A higher load than the model's, so that the empty machine fills up within 300 jobs.
        {"JOBS": "300", "LOAD": "3"},
        {"JOBS": "32567"},
        "one run of each, which claims nothing; REPLICAS=3 tells the noise",
        "ten months, twice",
        # OpenPBS takes the place of the source's Torque, and is the baseline as Torque is there.
        {"RM": "openpbs slurm", "CONFIGS": "pbs-fifo pbs-easy backfill fifo"},
        {"REPLICAS": "3", "JOBS": "200"},
        ("three runs of each", "ten months, four times"),
    ),
    "study-suspend": Study(
        "suspension of jobs by urgent ones against none, on a workload like Raijin's",
        {"MODEL": "raijin", "CPUS": "16", "CONFIGS": "backfill suspend"},
        {"JOBS": "400", "LOAD": "3", "NODES": "50"},
        {"JOBS": "100000", "NODES": "3600", "REPLICAS": "3"},
        "three runs of each",
        "five days of the machine and their drain, six times",
    ),
}


def study_scms(knobs: Knobs, screen: Screen) -> Ending:
    """Compare FIFO with backfill by waiting indices, under Slurm, and under OpenPBS if its archive is given."""
    if not _has_archive(knobs) and "openpbs" not in knobs.scheduler.managers:
        told = "Slurm's FIFO and backfill only, and nothing in the place of the source's Torque"
        screen.say(f"OPENPBS_SOURCE is not given: {told}")
    ending = study("study-scms", knobs, screen)
    folder = runs.RESULTS / (_knobs("study-scms", knobs).output.run or "study-scms")
    if ending.is_final and (folder / COMPARISON_FILE).is_file():
        _write_scms(folder)
        screen.say(f"study: results/{folder.name}/study.html")
    return ending


def _write_scms(folder: Path) -> None:
    """Write study.html of the finished comparison in the folder."""
    from mirage.reports.run_data import Run
    from studies.scms_page import page

    content = RunFolder(folder).comparison
    found = {name: Run.of(RunFolder(folder / name)) for one in content["configurations"] for name in one["runs"]}
    write_atomically(folder / "study.html", page(folder.name, content, found))


def study_suspend(knobs: Knobs, screen: Screen) -> Ending:
    """Compare suspension of jobs with no suspension."""
    return study("study-suspend", knobs, screen)


def study(name: str, knobs: Knobs, screen: Screen) -> Ending:
    """Run the comparison, or continue it where it stopped."""
    chosen = STUDIES[name]
    takes = _takes(chosen, knobs)
    for given in ("TRACE", "SLURM_CONF", "CLASSES"):
        if knobs.value(given):
            raise WrongUse(
                f"{name} has a workload and a machine of its own; make compare takes yours", parameter=BY_NAME[given].parameter
            )
    screen.say(f"{chosen.title}: {takes}" + ("" if knobs.campaign.is_full else "; FULL=yes is the published size"))
    return compare(_knobs(name, knobs), screen)


def _has_archive(knobs: Knobs) -> bool:
    """Whether OPENPBS_SOURCE is given; its extra may be missing."""
    return "OPENPBS_SOURCE" in BY_NAME and knobs.value("OPENPBS_SOURCE") is not None


def _has_openpbs(chosen: Study, knobs: Knobs) -> bool:
    """Whether the study compares resource managers: RM=slurm with OPENPBS_SOURCE is refused by `managers.check`."""
    is_wanted = not os.environ.get("RM") or len(knobs.scheduler.managers) > 1
    return bool(chosen.with_openpbs) and _has_archive(knobs) and is_wanted


def _takes(chosen: Study, knobs: Knobs) -> str:
    if _has_openpbs(chosen, knobs):
        return chosen.with_openpbs_takes[knobs.campaign.is_full]
    return chosen.full_takes if knobs.campaign.is_full else chosen.smoke_takes


def _knobs(name: str, knobs: Knobs) -> Knobs:
    """The knobs of the comparison: the study's own, but for those that are given."""
    chosen, is_full = STUDIES[name], knobs.campaign.is_full
    own = {**chosen.knobs, **(chosen.full if is_full else chosen.smoke), "RUN": f"{name}-full" if is_full else name}
    if _has_openpbs(chosen, knobs):
        own |= {**chosen.with_openpbs, **({} if is_full else chosen.smoke_with_openpbs)}
    return with_texts(knobs, {knob: text for knob, text in own.items() if not os.environ.get(knob)})
