"""A gate: a comparison of two configurations that gets replicas until it is decided whether limits hold, or BUDGET is used up.

It is the comparison results/RUN with more and more replicas (`LOOKS`). Which look is next follows from the replicas in its
experiment.json, so the same command goes on after an interruption, and also where BUDGET was used up.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.campaign import gate_summary
from mirage.campaign.campaign import Campaign
from mirage.campaign.conclusion import runs_of
from mirage.experiment import report, runs
from mirage.experiment.configuration_changes import Changes
from mirage.experiment.endings import NOT_DECIDED, PASSED, STOPPED, Ending
from mirage.records.file_names import GATE_FILE
from mirage.records.first_difference import Differences
from mirage.records.run_folder import RunFolder
from mirage.statistics.claims import hardly_waits
from mirage.statistics.limits import BROKEN, HOLDS, LOOKS, UNDECIDED, Answer, Limit, all_of, answer, without_change
from mirage.terminal.screen import Screen
from mirage.text import markdown
from mirage.text.words import about

ENDINGS = {HOLDS: PASSED, BROKEN: STOPPED, UNDECIDED: NOT_DECIDED}


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
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        return runs.RESULTS / (self.campaign.knobs.output.run or f"gate-{digest[:10]}")

    def run(self, screen: Screen) -> Ending:
        """Run what is needed, write gate.md, and print it. The ending is that of a run if one fails."""
        (self.folder / GATE_FILE).unlink(missing_ok=True)
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
                return self._used_up(screen, answers, LOOKS[look], takes)
            if look > first:
                campaign.extend()
            before = time.monotonic()
            ending = campaign.run(screen)
            if not ending.is_final:
                return ending
            one = (time.monotonic() - before) / rounds if rounds else one
            if (ended := self._judged(campaign, look, answers := self._answers(campaign, look), screen)) is not None:
                return ended
        return self._end(screen, UNDECIDED, answers, f"{LOOKS[-1]} replicas of each do not decide it")

    def _answers(self, campaign: Campaign, look: int) -> list[Answer]:
        from mirage.statistics.comparison import claims_on_these_jobs  # imports scipy

        members = [part.member for part in campaign.parts]
        names = [limit.metric for limit in self.limits]
        claims = claims_on_these_jobs(runs_of(self.folder, members), campaign.knobs.workload.seed, names)
        return [answer(limit, claims[limit.metric], look) for limit in self.limits]

    def _judged(self, campaign: Campaign, look: int, answers: Sequence[Answer], screen: Screen) -> Ending | None:
        """The ending, if more replicas are not needed or do not help."""
        validity = report.comparison_of(self.folder)["validity"]
        metrics = [RunFolder(part.folder).metrics for part in campaign.parts]
        why = ""
        if validity["valid"] and not hardly_waits(metrics) and self._decide_alike(campaign):
            answers = [without_change(one) for one in answers]
            why = f"each job starts and ends at the same instant under both, in all {campaign.replicas} pairs of runs"
        verdict = all_of(answers)
        if verdict == BROKEN:
            return self._end(screen, BROKEN, answers, why)
        if not validity["valid"]:
            run, reasons = next(iter({**validity["invalid"], **validity["inconclusive"]}.items()))
            return self._end(screen, UNDECIDED, answers, f"{run} is not valid: {'; '.join(reasons)}")
        if verdict == HOLDS:
            return self._end(screen, HOLDS, answers, why)
        if all(one.by_replicas for one in answers if one.verdict == UNDECIDED):
            return None
        if hardly_waits(metrics):
            why = "hardly a job waits; take a busier part of the log (FROM and TO), or a model with a higher LOAD"
        else:
            why = "replicas do not decide it; leave the limit out, or take other jobs"
        return self._end(screen, UNDECIDED, answers, why)

    @staticmethod
    def _decide_alike(campaign: Campaign) -> bool:
        """Whether each job starts and ends at the same instants under both configurations, in each pair of runs of a seed."""
        pairs: dict[int, list[RunFolder]] = {}
        for part in campaign.parts:
            pairs.setdefault(part.member.replica, []).append(RunFolder(part.folder))
        found = [Differences((one, two), (one.name, two.name)) for one, two in pairs.values()]
        return all(not one.alone and one.moved.is_empty() for one in found)

    def _used_up(self, screen: Screen, answers: Sequence[Answer], replicas: int, takes: float) -> Ending:
        budget = about(self.campaign.knobs.campaign.budget)
        if not answers:
            advice = "give more, or fewer jobs (JOBS, FROM and TO)"
            why = f"{replicas} runs of each take about {about(takes)}, and BUDGET is {budget}: {advice}"
        else:
            why = f"BUDGET of {budget} is used up, {replicas} runs of each take about {about(takes)} more; the same command goes on"
        return self._end(screen, UNDECIDED, answers, why)

    def _end(self, screen: Screen, verdict: str, answers: Sequence[Answer], why: str) -> Ending:
        """Write and print the summary. why: in addition to what the answers say"""
        ending = Ending(ENDINGS[verdict], gate_summary.sentence(verdict, answers, why))
        knobs = self.campaign.knobs.campaign
        lines = gate_summary.summary(ending, self.folder, (knobs.before, knobs.after), answers, self.changes)
        self.folder.mkdir(parents=True, exist_ok=True)
        markdown.write(self.folder / GATE_FILE, lines)
        screen.say(*lines, "")
        return Ending(ending.word, f"{ending.message} (results/{self.folder.name}/{GATE_FILE})")
