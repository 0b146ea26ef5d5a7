"""A gate: a comparison of two configurations that gets replicas until it is decided whether limits hold, or BUDGET is used up.

It is the comparison results/RUN with more and more replicas (`LOOKS`). Which look is next follows from the replicas in its
experiment.json, so the same command goes on after an interruption, and also where BUDGET was used up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mirage.campaign import gate_summary
from mirage.campaign.campaign import Campaign
from mirage.campaign.conclusion import runs_of
from mirage.experiment import runs
from mirage.experiment.configuration_changes import Changes
from mirage.experiment.endings import Ending
from mirage.records.file_names import GATE_FILE, STATUS_FILE
from mirage.records.first_difference import Differences
from mirage.records.run_folder import RunFolder
from mirage.statistics.claims import Metrics, hardly_waits
from mirage.statistics.limits import (
    BROKEN,
    HOLDS,
    LOOKS,
    PASSES_FROM,
    UNDECIDED,
    Answer,
    Limit,
    all_of,
    answer,
    without_change,
)
from mirage.terminal.screen import Screen
from mirage.text import markdown
from mirage.text.words import about

ENDINGS = {HOLDS: ("ok", "gate passed"), BROKEN: ("failed", "gate failed"), UNDECIDED: ("inconclusive", "gate undecided")}
"""Word of the ending, and the words after it, by the verdict on all limits."""


@dataclass(frozen=True)
class Gate:
    """The gate, checked as far as possible without a cluster.

    campaign: the comparison of both, with as many replicas as the first look needs
    """

    campaign: Campaign
    limits: Sequence[Limit]
    changes: Changes

    @property
    def folder(self) -> Path:
        """RUN; without it a name that follows from the inputs, so that the same command finds it again."""
        inputs = {name: text for name, text in self.campaign.inputs.items() if name != "REPLICAS"}
        return runs.RESULTS / (self.campaign.knobs.output.run or runs.name_by_inputs("gate", inputs))

    def run(self, screen: Screen) -> Ending:
        """Run what is needed, write gate.md, and print it. The ending is that of a run if one fails."""
        for name in (GATE_FILE, STATUS_FILE):
            (self.folder / name).unlink(missing_ok=True)
        if self.changes.left_out:
            why = "what changes is left out of the emulation, so nothing can be said; give it the same value in both"
            return self._end(screen, UNDECIDED, [], f"{why}: {self.changes.left_out[0]}")
        if not self.changes.played:
            return self._end(screen, HOLDS, [], "nothing differs that has a part in scheduling; nothing was run")
        return self._look(screen)

    def _look(self, screen: Screen) -> Ending:
        """Look at the runs with more and more replicas."""
        began, budget, one = time.monotonic(), self.campaign.knobs.campaign.budget, None
        begun = RunFolder(self.folder).experiment.get("inputs", {}).get("REPLICAS", "")
        first = next((look for look, replicas in enumerate(LOOKS) if str(replicas) == begun), 0)
        answers: list[Answer] = []
        for look in range(first, len(LOOKS)):
            campaign = self.campaign.of_size(LOOKS[look], self.folder.name)
            takes, rounds = campaign.takes(one) or 0.0, campaign.takes(1.0) or 0.0
            left = budget - (time.monotonic() - began)
            if takes > left:
                return self._used_up(screen, answers, look, one)
            if look == first and (needed := self._takes(look, one)) > left:
                what = f"a gate passes with {PASSES_FROM} runs of each or more, which take about {about(needed)}"
                screen.say(f"note: {what}, and BUDGET is {about(budget)}")
            if look > first:
                campaign.extend()
            before = time.monotonic()
            ending = campaign.run(screen)
            if not ending.is_final:
                return ending
            one = (time.monotonic() - before) / rounds if rounds else one
            metrics = [RunFolder(part.folder).metrics for part in campaign.parts]
            are_alike = not hardly_waits(metrics) and self._are_alike(campaign)
            answers = self._answers(campaign, look, are_alike=are_alike)
            if (ended := self._judged(campaign, metrics, answers, screen, are_alike=are_alike)) is not None:
                return ended
        return self._end(screen, UNDECIDED, answers, f"{LOOKS[-1]} replicas of each do not decide it")

    def _answers(self, campaign: Campaign, look: int, *, are_alike: bool) -> list[Answer]:
        """The answer to each limit from the runs so far. are_alike: whether both runs of each pair have the same schedule"""
        from mirage.statistics.comparison import claims_on_these_jobs  # imports scipy

        members = [part.member for part in campaign.parts]
        names = [limit.metric for limit in self.limits]
        claims = claims_on_these_jobs(runs_of(self.folder, members), names)
        answers = [answer(limit, claims[limit.metric], look, len(self.limits)) for limit in self.limits]
        return [without_change(one) for one in answers] if are_alike else answers

    def _judged(
        self, campaign: Campaign, metrics: Sequence[Metrics], answers: Sequence[Answer], screen: Screen, *, are_alike: bool
    ) -> Ending | None:
        """The ending, if more replicas are not needed or do not help. Runs that are not valid decide nothing."""
        validity, verdict = RunFolder(self.folder).comparison["validity"], all_of(answers)
        if not validity["valid"]:
            run, reasons = next(iter({**validity["invalid"], **validity["inconclusive"]}.items()))
            why = f"{run} is not valid: {'; '.join(reasons)}"
            return self._end(screen, UNDECIDED, [replace(one, verdict=UNDECIDED) for one in answers], why)
        if verdict != UNDECIDED:
            what = f"each job starts and ends at the same instant under both, in all {campaign.replicas} pairs of runs"
            return self._end(screen, verdict, answers, what if are_alike else "")
        if all(one.by_replicas for one in answers if one.verdict == UNDECIDED):
            return None
        if hardly_waits(metrics):
            why = "hardly a job waits; take a busier part of the log (FROM and TO), or a model with a higher LOAD"
        else:
            why = "replicas do not decide it; leave the limit out, or take other jobs"
        return self._end(screen, UNDECIDED, answers, why)

    @staticmethod
    def _are_alike(campaign: Campaign) -> bool:
        """Whether each job starts and ends at the same instants under both configurations, in each pair of runs of a phase."""
        pairs: dict[int, list[RunFolder]] = {}
        for part in campaign.parts:
            pairs.setdefault(part.member.replica, []).append(RunFolder(part.folder))
        found = [Differences((one, two), (one.name, two.name)) for one, two in pairs.values()]
        return all(not one.alone and one.moved.is_empty() for one in found)

    def _takes(self, look: int, one: float | None) -> float:
        """Expected real seconds until a gate that is at a look may pass; 0 while the speed is not known. one: of a run"""
        return self.campaign.of_size(max(LOOKS[look], PASSES_FROM), self.folder.name).takes(one) or 0.0

    def _used_up(self, screen: Screen, answers: Sequence[Answer], look: int, one: float | None) -> Ending:
        """The ending where BUDGET is too short for a look. one: real seconds of a run, as measured"""
        budget, replicas, takes = about(self.campaign.knobs.campaign.budget), max(LOOKS[look], PASSES_FROM), self._takes(look, one)
        if not answers:
            advice = "give more, or fewer jobs (JOBS, FROM and TO)"
            why = f"{replicas} runs of each take about {about(takes)}, and BUDGET is {budget}: {advice}"
        else:
            why = f"BUDGET of {budget} is used up, {replicas} runs of each take about {about(takes)} more; the same command goes on"
        return self._end(screen, UNDECIDED, answers, why)

    def _end(self, screen: Screen, verdict: str, answers: Sequence[Answer], why: str) -> Ending:
        """Write and print the summary, and write status.json. why: in addition to what the answers say"""
        (word, title), message = ENDINGS[verdict], gate_summary.sentence(verdict, answers, why)
        knobs = self.campaign.knobs.campaign
        lines = gate_summary.summary((title, message), self.folder, (knobs.before, knobs.after), answers, self.changes)
        self.folder.mkdir(parents=True, exist_ok=True)
        markdown.write(self.folder / GATE_FILE, lines)
        screen.say(*lines, "")
        ending = Ending(word, f"{title}: {message} (results/{self.folder.name}/{GATE_FILE})")
        ending.store(self.folder)
        return ending
