"""A search: trials of settings, each a run of the same jobs, until BUDGET, and the comparison that proves the best one on others.

results/RUN holds a run folder for each trial, experiment.json with the plan, and search.json. What is tried next follows from the
runs that are there (mirage/tuning), so the same command goes on after an interruption of any kind.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mirage.campaign.at_once import first_run_host, home_of, places_of
from mirage.campaign.campaign import Campaign, replicas_of
from mirage.campaign.lanes import RunsLeft
from mirage.campaign.search_plan import SearchPlan
from mirage.campaign.search_results import (
    BASE,
    BEST,
    against_base,
    content_of,
    ending_of,
    folder_of,
    label_of,
    needs_proof,
    proof_of,
    trial_of,
)
from mirage.experiment import configuration, log_findings, preflight, report, runs
from mirage.experiment.endings import Ending, Interrupted
from mirage.experiment.instance_use import InstanceUse
from mirage.experiment.remarks import remarks
from mirage.knobs.knobs import Knobs
from mirage.metrics.registry import METRICS
from mirage.records.file_names import EXPERIMENT_FILE, SEARCH_FILE, STATUS_FILE
from mirage.records.run_clock import EVENT
from mirage.records.run_folder import RunFolder
from mirage.terminal.screen import Screen
from mirage.terminal.table import rounded_text
from mirage.text.words import about, percent
from mirage.tuning.conclusions import Response, Trial
from mirage.tuning.explore import NO_BASE, TIME, Numbered, explore
from mirage.tuning.told import startup
from mirage.tuning.tunables import merged, parse_settings, settings_text
from slurm_mirage.base.files import write_json
from slurm_mirage.base.printing import one_line
from slurm_mirage.rm.slurm.conf import render_settings

MOST_TRIALS = 500
EARLY_SAVES = 0.6
"""The first part of the jobs is run on its own where it takes at most this share of the time of all jobs."""


def asked_of(knobs: Knobs) -> dict[str, str]:
    """The knobs that define a search, with their values: with other values it is another search."""
    asked = knobs.campaign
    return {"TUNE": asked.tune, "GOAL": asked.goal, "LIMITS": asked.limits or "", "MARGIN": f"{float(asked.margin):g}%"}


class _Unfinished(Exception):
    """A run did not finish."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


@dataclass
class Course:
    """How far a search is. spent: real seconds of the commands before. one: of a run, as measured; 0: not yet"""

    spent: float = 0.0
    one: float = 0.0
    began: float = field(default_factory=lambda: time.monotonic())

    @property
    def seconds(self) -> float:
        return self.spent + time.monotonic() - self.began


@dataclass(frozen=True)
class Search:
    """The search, checked as far as possible without a cluster.

    whole, part: campaigns of the base alone on the jobs of the search, and on the first part of them; part None: there is none
    proof: that of the base on the other jobs
    """

    plan: SearchPlan
    whole: Campaign
    part: Campaign | None
    proof: Campaign

    @property
    def folder(self) -> Path:
        return self.whole.folder

    @property
    def inputs(self) -> dict[str, str]:
        """What makes another search."""
        own = {name: text for name, text in self.whole.inputs.items() if name not in ("CONFIGS", "REPLICAS")}
        return {**own, **asked_of(self.whole.knobs)}

    def begun(self) -> Search:
        """The search with the rounds that it began with, which may have been on a host with another number of processors."""
        plan = RunFolder(self.folder).experiment.get("search")
        if plan is None:
            return self
        before = SearchPlan.read(plan, self.folder / EXPERIMENT_FILE)
        same = replace(self.plan, batch=before.batch, early_jobs=before.early_jobs)
        return replace(self, plan=same, part=self.part if before.early_jobs else None)

    def run(self, screen: Screen) -> Ending:
        """Run trials and the proof, write search.json and the page. The ending is that of a run if one fails."""
        earlier = runs.earlier(self.folder, self.inputs)
        if earlier is not None and not (self._has_more_time() or self._has_more_replicas()):
            screen.say(f"results/{self.folder.name} is finished: nothing is run again")
            self._show(RunFolder(self.folder).search, screen)
            report.show(self.folder, screen)
            return earlier
        preflight.privileges(self.whole.knobs.cluster)
        course = Course(self._course().get("seconds", 0.0))
        try:
            response, stopped = self._trials(course, screen)
        except _Unfinished as error:
            return error.ending
        best = response.best()
        if stopped != NO_BASE and needs_proof(response, self.plan) and best is not None:
            screen.say(f"proof: {self.plan.text(best.point) or 'the base'} against the base on other jobs")
            proof = self._of_best(best)
            if 0 < replicas_of(proof.folder) < proof.replicas:
                proof.extend()
            ending = proof.run(screen)
            if not ending.is_final:
                return ending
        self._keep(course, stopped)
        return self._end(response, stopped, screen)

    def _course(self) -> dict[str, Any]:
        course: dict[str, Any] = RunFolder(self.folder).experiment.get("course", {})
        return course

    def _has_more_time(self) -> bool:
        """Whether BUDGET ended the search, and is longer now."""
        course = self._course()
        return course.get("stopped") == TIME and self.whole.knobs.campaign.budget > course.get("budget", 0)

    def _has_more_replicas(self) -> bool:
        """Return True if the comparison of the best trial with the base was made with fewer REPLICAS than are given now."""
        proof = RunFolder(self.folder).search["proof"]
        return proof is not None and replicas_of(self.folder.parent / proof["run"]) < self.proof.replicas

    def _of_best(self, best: Trial) -> Campaign:
        """The comparison that proves the best trial."""
        texts = {BASE: self.plan.settings, BEST: self.plan.text(best.point)}
        return self.proof.with_settings(texts, proof_of(self.plan, best), self.proof.replicas)

    # ---- trials ----

    def _trials(self, course: Course, screen: Screen) -> tuple[Response, str]:
        """Run the trials that are left. Raises _Unfinished."""
        knobs, numbers = self.whole.knobs, range(1, MOST_TRIALS + 1)
        labels = [label_of(number, is_early=is_early) for number in numbers for is_early in (False, True)]
        own = [f"{self.folder.name}.{label}-1" for label in labels]
        cluster = knobs.cluster
        with InstanceUse(cluster, self.folder.name, own, [self.folder], screen, first_run_host(cluster)) as use:
            use.when_free(lambda: self._check(own))
            if (ending := self._announce(course, screen)) is not None:
                raise _Unfinished(ending)
            if not (self.folder / EXPERIMENT_FILE).exists():
                self.folder.mkdir(parents=True, exist_ok=True)
                what = runs.describe(knobs, self.inputs, self.whole.source.description)
                write_json(self.folder / EXPERIMENT_FILE, {"run": self.folder.name, **what, "search": vars(self.plan)})
                runs.keep_knobs(self.folder, knobs)
            with runs.only_one(self.folder):
                (self.folder / STATUS_FILE).unlink(missing_ok=True)
                try:
                    return self._explore(course, use, own, screen)
                except _Unfinished as error:
                    self._keep(course, "")
                    error.ending.store(self.folder)
                    raise

    def _explore(self, course: Course, use: InstanceUse, own: Sequence[str], screen: Screen) -> tuple[Response, str]:
        base: list[Trial] = []

        def run(numbered: Sequence[Numbered], is_early: bool) -> Mapping[int, Trial]:
            found = self._play(numbered, is_early, course, use, screen)
            base.extend(found[:1] if not base else [])
            for trial in found:
                screen.say(self._line(trial, base[0], is_early=is_early))
            return {trial.number: trial for trial in found}

        found = explore(
            self.plan.response,
            self.plan.batch,
            self.whole.knobs.workload.seed,
            run,
            lambda response, count: self._has_time(response, count, course),
            self.plan.margin,
            self.part is not None,
        )
        self._close(use, own, screen)
        return found

    def _play(self, numbered: Sequence[Numbered], is_early: bool, course: Course, use: InstanceUse, screen: Screen) -> list[Trial]:
        """Run trials of a round, and read what they tell. Raises _Unfinished."""
        template = self.part if is_early and self.part is not None else self.whole
        # A run that has begun keeps the settings that it has.
        begun = {number: self._begun(number, is_early) or self.plan.text(point) for number, point in numbered}
        texts = {label_of(number, is_early=is_early): text for number, text in begun.items()}
        campaign = template.with_settings(texts, self.folder.name)
        left = sum(part.ending() is None for part in campaign.parts)
        if left:
            before, rounds = time.monotonic(), campaign.takes(1.0) or 1.0
            try:
                ending = campaign.play_left(campaign.prepared, EVENT, use, screen, keeps=True)
            except Interrupted:
                ending = Ending("failed", f"interrupted; the same command (with RUN={self.folder.name}) goes on")
            if ending is not None:
                raise _Unfinished(ending)
            if not is_early:
                course.one = (time.monotonic() - before) / rounds
            self._keep(course, "")
        return [self._told(number) for number, _ in numbered]

    def _begun(self, number: int, is_early: bool) -> str | None:
        for early in (is_early, not is_early):
            text = RunFolder(folder_of(self.folder, number, is_early=early)).experiment.get("inputs", {}).get("SETTINGS")
            if text is not None and self.plan.point(text) is not None:
                return str(text)
        return None

    def _told(self, number: int) -> Trial:
        trial = trial_of(self.folder, self.plan, number)
        if trial is None:
            raise _Unfinished(Ending("failed", f"{folder_of(self.folder, number)} holds no trial of this search"))
        return against_base(trial, self.folder, self.plan)

    def _has_time(self, response: Response, count: int, course: Course) -> bool:
        """Whether a round, and the proof after it, would end within BUDGET. What has begun goes on in any case."""
        first = len(response.trials) + 1
        numbers = range(first, first + count)
        if any(folder_of(self.folder, number, is_early=early).exists() for number in numbers for early in (False, True)):
            return True
        if first + count > MOST_TRIALS:
            return False
        return course.seconds + self._takes(count, course) + self._proof_takes(course) <= self.whole.knobs.campaign.budget

    def _takes(self, count: int, course: Course) -> float:
        """Expected real seconds of trials of all jobs."""
        texts = {label_of(MOST_TRIALS + 1 + k): "" for k in range(count)}
        return self.whole.with_settings(texts, self.folder.name).takes(course.one or None) or 0.0

    def _proof_takes(self, course: Course) -> float:
        both = self.proof.with_settings({BASE: "", BEST: ""}, self.plan.proof, self.proof.replicas)
        jobs = (next(iter(one.prepared.values())).workload.jobs.height for one in (self.proof, self.whole))
        share = next(jobs) / max(next(jobs), 1)
        return both.takes(course.one * share or None) or 0.0

    def _check(self, own: Sequence[str]) -> None:
        """Checks before anything is written."""
        knobs = self.whole.knobs
        at_work = preflight.running(knobs.cluster)
        if at_work not in own:
            preflight.nothing_disturbed(knobs, self.folder.name)
        preflight.has_room(knobs)
        preflight.no_leftover(knobs.cluster, self.folder)

    def _close(self, use: InstanceUse, own: Sequence[str], screen: Screen) -> None:
        """Remove the instances beside CLUSTER."""
        knobs = self.whole.knobs
        rest: RunsLeft[Path] = RunsLeft(
            knobs,
            self.whole.inventory,
            EVENT,
            self.folder,
            use,
            on_head=own,
            left=(),
            play=lambda *_: True,
            which=str,
            name=str,
            folder_of=lambda folder: folder,
            home=lambda folder: home_of(knobs.cluster, folder, folder.name),
            foot=str,
        )
        rest.run(places_of(self.folder.glob("t*-1")), screen)

    def _keep(self, course: Course, stopped: str) -> None:
        """Write how far the search is into its experiment.json."""
        with suppress(OSError):
            experiment = RunFolder(self.folder).experiment
            member = {"seconds": round(course.seconds, 1), "stopped": stopped, "budget": self.whole.knobs.campaign.budget}
            write_json(self.folder / EXPERIMENT_FILE, experiment | {"course": member})

    # ---- what it says ----

    def _announce(self, course: Course, screen: Screen) -> Ending | None:
        """Print what will be done. The ending if BUDGET is too short for the first trials and the proof."""
        base = next(iter(self.whole.prepared.values()))
        for line in [*log_findings.severe(self.whole.knobs, self.whole.source.trace), *remarks(base)]:
            screen.say(line)
        plan, knobs = self.plan, self.whole.knobs
        for name, values, place in zip(plan.names, plan.values, plan.base, strict=True):
            screen.say(f"tuned: {name}={','.join(values)}, the base has {values[place]}")
        if knobs.clock.charge == "yes":
            screen.say("CHARGE=yes: slurmctld's own processor time counts; otherwise the setting that computes most would be best")
        first = startup(plan.axes)
        needed = self._takes(first, course) + self._proof_takes(course)
        screen.say(f"each trial: {base.announcement()}")
        what = f"{first} trials, with which a search begins, and the proof take about {about(needed)}"
        if not course.spent and not self.folder.exists() and needed > knobs.campaign.budget:
            why = f"BUDGET is {about(knobs.campaign.budget)}, and {what}; give more, or fewer jobs (JOBS, FROM and TO)"
            return Ending("inconclusive", why)
        size = math.prod(map(len, plan.values))
        at_once = f", {plan.batch} at once" if plan.batch > 1 else ""
        screen.say(f"search of {size} points for the best {plan.goal} within {about(knobs.campaign.budget)}{at_once}: {what}")
        return None

    def _line(self, trial: Trial, base: Trial, *, is_early: bool) -> str:
        """What a trial tells, in a line."""
        settings = settings_text(self.plan.changed(trial.point)) or "the base"
        figure = trial.early if is_early else trial.figure
        against = base.early if is_early else base.figure
        value = "not known" if figure is None else rounded_text(figure, METRICS[self.plan.goal].unit, is_short=True)
        change = (
            f" ({100 * (figure / against - 1):+.1f} %)" if figure is not None and against and trial.number != base.number else ""
        )
        part = "first part of the jobs, " if is_early else ""
        beyond = f", beyond {', '.join(trial.breaks)}" if trial.breaks else ""
        return f"{label_of(trial.number)}: {settings}: {part}{self.plan.goal} {value}{change}{beyond}"

    def _end(self, response: Response, stopped: str, screen: Screen) -> Ending:
        """Write search.json, status.json and the page, and print what was found."""
        content = content_of(self.folder, self.plan, response, stopped)
        write_json(self.folder / SEARCH_FILE, content)
        ending = ending_of(self.folder.name, content)
        ending.store(self.folder)
        self._show(content, screen)
        report.write(self.folder, screen)
        return ending

    def _show(self, content: Mapping[str, Any], screen: Screen) -> None:
        for one in sorted(content["settings"], key=lambda member: -(member["share"] or 0.0)):
            if one["share"] is not None:
                screen.say(f"importance of {one['name']}: {percent(one['share'])} of what the settings change")
        part = content["first_part"]
        if part["jobs"] and part["rank_correlation"] is not None:
            use = "decided which trials went on" if part["decided"] else "did not decide"
            ranks = (
                f"rank correlation {part['rank_correlation']:.2f}, {part['misranked']} of {part['pairs']} pairs the other way round"
            )
            screen.say(f"first part of the jobs ({part['jobs']}): {ranks}; it {use}")
        best = None if content["best"] is None else content["trials"][content["best"] - 1]
        if best and best["changed"] and not content["flat"]:
            screen.say("in slurm.conf:")
            for line in self.lines(best["changed"]):
                screen.say(f"  {line}")

    def lines(self, changed: Mapping[str, str]) -> list[str]:
        """The lines of slurm.conf with other values of settings."""
        scheduler = self.whole.knobs.scheduler
        settings = merged(configuration.in_force(scheduler), {**parse_settings(self.plan.settings), **changed})
        return [one_line(line) for line in render_settings(settings).splitlines()]
