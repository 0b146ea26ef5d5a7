"""The runs of a comparison: their names, phases and attempts, and how they ended."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

from mirage.campaign.at_once import home_of
from mirage.campaign.conclusion import Member
from mirage.experiment.endings import OF_VERDICT, Ending, Failed
from mirage.knobs.knobs import ClusterKnobs
from mirage.records.file_names import (
    ANSIBLE_LOG_FILE,
    EXPERIMENT_FILE,
    PLAN_FILE,
    RECORDED_FILE,
    STATUS_FILE,
    WORKLOAD_FILE,
    WORKLOAD_SWF_FILE,
)
from mirage.records.run_folder import RunFolder
from mirage.text.words import about
from mirage.verdict.verdict import VALID, verdict_of
from slurm_mirage.base.files import write_json

# Virtual seconds over which the first submissions of replicas are spread: the interval of Slurm's backfill scheduler (bf_interval)
# and of its check of time limits, so that replicas sample all phases of these intervals.
PHASE = 30.0
LONGEST_NAME = 98  # of a run on the head: 100 in roles/experiment, less the suffix of another attempt
ATTEMPTS = 3  # for a run that is invalid because it was interrupted on the head
_KEPT = (EXPERIMENT_FILE, ANSIBLE_LOG_FILE, WORKLOAD_FILE, WORKLOAD_SWF_FILE, RECORDED_FILE, PLAN_FILE)  # by the next attempt


@dataclass(frozen=True)
class Part:
    """One run of a campaign.

    on_head: name of its first attempt on the head. shift: virtual seconds that are added to all submissions.
    """

    member: Member
    config: str
    folder: Path
    on_head: str
    shift: float

    def attempt(self) -> int:
        """Number of the attempt that the folder holds, from 1 on."""
        return int(RunFolder(self.folder).experiment.get("attempt", 1))

    def name(self) -> str:
        """Name on the head. Each attempt has its own name, so that the instance is cleared for it."""
        return self.on_head if (attempt := self.attempt()) == 1 else f"{self.on_head}.{attempt}"

    def ending(self) -> Ending | None:
        """The ending of a finished run; None if it is unfinished or will be attempted again."""
        ending = Ending.load(self.folder)
        return ending if ending is not None and ending.is_final and not self.is_spoiled() else None

    def is_spoiled(self) -> bool:
        """Whether the run is not valid, was interrupted on the head (as by a killed instance), and attempts are left."""
        validity = RunFolder(self.folder).validity or {"verdict": VALID}
        was_interrupted = any((validity.get(name) or 0) > 0 for name in ("interrupted", "halted"))
        return verdict_of(validity) != VALID and was_interrupted and self.attempt() < ATTEMPTS

    def home(self, cluster: ClusterKnobs) -> str | None:
        """The instance on which the run has begun and can go on; None if it may begin on any.

        cluster: that of the campaign.
        """
        return None if self.is_spoiled() else home_of(cluster, self.folder, self.name())

    def begin_anew(self) -> None:
        """Prepare the folder for the next attempt. If interrupted, the folder belongs to the old or to the new attempt."""
        (self.folder / STATUS_FILE).unlink(missing_ok=True)
        for path in self.folder.iterdir():
            if path.name not in _KEPT:
                path.unlink()
        experiment, attempt = RunFolder(self.folder).experiment, self.attempt() + 1
        write_json(self.folder / EXPERIMENT_FILE, experiment | {"attempt": attempt, "run": f"{self.on_head}.{attempt}"})


def labels(names: Sequence[str]) -> list[str]:
    """A unique label for each configuration of a campaign: its name, and `backfill-b`, `backfill-c`, ... for repetitions."""
    unique: list[str] = []
    for name in names:
        other = (f"{name}-{letter}" for letter in ascii_lowercase[1:])
        unique.append(name if name not in unique else next(one for one in other if one not in {*unique, *names}))
    return unique


def shift_of(seed: int, replica: int) -> float:
    """Virtual seconds, up to PHASE, that are added to the submissions of a replica: equal for all configurations."""
    return round(random.Random(f"phase {seed} {replica}").uniform(0, PHASE), 3)


def ending_of(folder: Path) -> Ending:
    """Ending of the run in the folder, by its metrics.json. Raises Failed if there is none."""
    if not (metrics := RunFolder(folder).measured):
        raise Failed(f"the run left no metrics.json (all of its output: {folder / 'ansible.log'})")
    validity = metrics["validity"]
    if (verdict := verdict_of(validity)) != VALID:
        return Ending(OF_VERDICT[verdict], "; ".join(validity["reasons"]))
    wait = metrics["metrics"]["wait_mean"]
    mean_wait = "" if wait is None else f", mean wait {about(wait)}"
    return Ending("ok", f"{metrics['jobs']['submitted']} jobs{mean_wait}")
