"""Which differences of a comparison may be claimed: hindrances, and the correction for the number of claims.

docs/comparison.md has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirage.metrics.censored_waits import censoring_reasons
from mirage.metrics.registry import METRICS
from mirage.statistics.comparison_text import (
    ERROR,
    QUESTIONS,
    THESE_JOBS,
    Finding,
    figures,
    sentence,
    words,
    words_of_others,
)
from mirage.statistics.inference import EQUIVALENCE_LEVEL, Chance, holm

ANSWER, ANSWER_CENSORED = "wait_mean", "wait_restricted_mean"
"""The metric of the last line, and the one that takes its place where too many jobs of a run never started."""

_SHARES = {"answer": 0.5, "main": 0.25, "rest": 0.25}  # of the 5 %
_TIMES = (2, 3, 4, 6, 10, 20)
_MOST_REPLICAS = 100
"""Numbers of replicas that are tried for an undecided metric: multiples of the present number, and the largest number."""

Metrics = Mapping[str, Any]
"""Content of metrics.json."""


def answer_of(runs: Iterable[Metrics]) -> str:
    """Name of the metric of the last line. runs: metrics.json of all runs"""
    return ANSWER_CENSORED if any(map(censoring_reasons, runs)) else ANSWER


def is_invalid(run: Metrics) -> bool:
    """Whether the verdict on a run is that it is invalid."""
    return bool(run["validity"]["verdict"] == "invalid")


def resolved_by(run: Metrics) -> float:
    """Seconds below which a run does not resolve a wait. run: its metrics.json"""
    resolution = run["validity"]["resolution"]
    return float(max(resolution["record"], resolution["floor"]))


def hardly_waits(runs: Collection[Metrics]) -> bool:
    """Whether the mean wait of all runs is below what the runs resolve. runs: their metrics.json"""
    resolved = max(map(resolved_by, runs))
    waits = [metrics["metrics"].get(ANSWER) for metrics in runs]
    return all(wait is not None and wait < resolved for wait in waits)


def error_of(kind: str, name: str, run: Metrics, of_class: tuple[str, str] | None = None) -> float | None:
    """An error of a metric of a run, or of a class of its jobs (size, runtime). None: not known.

    kind: emulation: by how much the emulation may have changed it; replicas: by how much two runs of the configuration may differ
    """
    errors = run["errors"]
    if of_class is not None:
        rows = [row for row in run["classes"] if (row["size"], row["runtime"]) == of_class]
        errors = rows[0]["errors"] if rows else {}
    error = (errors.get(name) or {}).get(kind)
    return None if error is None else float(error)


def hindrance(
    name: str, runs: Mapping[str, Metrics], means: tuple[float, float], of_class: tuple[str, str] | None = None
) -> str | None:
    """Why no difference of a metric between two configurations may be claimed, whatever its values. None if one may.

    runs: metrics.json of all of their runs, by folder
    means: those of the metric
    of_class: size and runtime of the class of jobs; None for all jobs
    """
    for folder, metrics in runs.items():
        if is_invalid(metrics):
            return f"{folder} is not valid"
    for folder, metrics in runs.items():
        reasons = censoring_reasons(metrics) | metrics["validity"]["inconclusive_metrics"]
        if name in reasons:
            return f"{reasons[name]} ({folder})"
    if METRICS[name].of_only_waits:
        resolved = max(map(resolved_by, runs.values()))
        short = max(means) < resolved if METRICS[name].unit == "s" else False
        if short or hardly_waits(runs.values()):
            return f"waits below {resolved:.3g} s are not resolved by these runs"
    for folder, metrics in runs.items():
        if error_of("emulation", name, metrics, of_class) is None:
            return f"what the emulation adds to it is not known ({folder})"
    return None


@dataclass(frozen=True)
class Claim:
    """A difference of a metric, over all jobs or a class of jobs, on which a verdict is needed for one of the questions.

    pair: the pair's members of comparison.json, to which those of the question are added
    jobs: the classes of its jobs; None for all jobs
    p: p value, uncorrected; None where nothing may be claimed
    chance: what p is computed from, also where nothing varies; None if it is unknown
    """

    pair: dict[str, Any]
    question: str
    name: str
    jobs: frozenset[int] | None
    finding: Finding
    p: float | None = None
    chance: Chance | None = None

    @property
    def hypothesis(self) -> tuple[object, ...]:
        """What the claim tests; equal for the same difference of metrics that have two names (`Metric.same_as`)."""
        return METRICS[self.name].same_as or self.name, self.jobs, self.pair["baseline"], self.pair["configuration"]

    def conclude(self, corrected: float | None) -> None:
        """Add the members of the question to the pair. corrected: p value"""
        finding = replace(self.finding, p=corrected)
        is_main = self.jobs is None and METRICS[self.name].is_main
        if is_main and finding.code == "undecided" and self.chance is not None and self.p and corrected is not None:
            finding = replace(finding, remedy=_remedy(self.name, self.chance, corrected / self.p, finding.margin))
        self.pair[self.question] = {
            "interval": finding.interval,
            "percent_interval": finding.percent_interval,
            "equivalence_interval": finding.equivalence_interval,
            "p": self.p,
            "p_corrected": corrected,
            "verdict": finding.code,
            "words": (words if self.question == THESE_JOBS else words_of_others)(self.name, finding),
        }


def judge(claims: Iterable[Claim], answer: str) -> dict[str, int]:
    """Add the answers to both questions, and the words for them, to the pairs of all claims. Returns the number of hypotheses that
    p values are corrected for, by question.

    answer: name of the metric of the last line
    """
    claims, sizes = list(claims), {}
    for question in QUESTIONS:
        of_question = [claim for claim in claims if claim.question == question]
        family = {claim.hypothesis: claim for claim in reversed(of_question) if claim.p is not None}
        p_values = holm([claim.p or 0.0 for claim in family.values()], _weights(list(family.values()), answer))
        corrected = dict(zip(family, p_values, strict=True))
        for claim in of_question:
            claim.conclude(None if claim.p is None else corrected[claim.hypothesis])
        sizes[question] = len(family)
    for claim in claims:
        claim.pair["words"] = sentence(claim.pair, is_answer=claim.name == answer and claim.jobs is None)
    return sizes


def is_equivalent(chance: Chance, margin: float) -> bool:
    """Whether the interval of equivalence is within the margin, in per cent."""
    ends = equivalence_interval(chance)
    return ends is not None and max(map(abs, ends)) < margin


def equivalence_interval(chance: Chance) -> tuple[float, float] | None:
    """Interval in per cent of the first mean; None where equivalence cannot be decided."""
    estimate = chance.relative() if chance.tells_equivalence else None
    return None if estimate is None else estimate.percent(EQUIVALENCE_LEVEL)


def _remedy(name: str, chance: Chance, correction: float, margin: float) -> str:
    """Advice on what would decide an undecided metric, if more replicas varied as these do.

    correction: the corrected p value over the uncorrected one
    margin: of equivalence, in per cent
    """

    def is_decided(of: Chance) -> bool:
        estimate = of.relative()
        return estimate is not None and (estimate.p * correction <= ERROR or is_equivalent(of, margin))

    number = max(map(len, chance.values))
    for times in _TIMES:
        if number * times <= _MOST_REPLICAS and is_decided(chance.repeated(times)):
            return f"about {number * times} replicas of each would decide it"
    many = chance.repeated(max(1, _MOST_REPLICAS // number))
    if chance.without is not None and is_decided(replace(many, without=None)):
        return "replicas cannot decide it, a longer log can"
    if sum(chance.errors) and is_decided(replace(many, without=None, errors=(0.0, 0.0))):
        added = f"{figures(sum(chance.errors))} {METRICS[name].unit}".rstrip()
        return f"replicas cannot decide it: the emulation may have added {added}, a slower clock or SPEED=event less"
    return f"{_MOST_REPLICAS} replicas of each would not decide it"


def _weights(family: Sequence[Claim], answer: str) -> list[float]:
    """Shares of the 5 %: half for the answer's metric, a quarter for the other main metrics, a quarter for all the rest."""
    tiers = []
    for claim in family:
        name, whole = METRICS[claim.name].same_as or claim.name, claim.jobs is None
        tiers.append("answer" if whole and name == answer else "main" if whole and METRICS[name].is_main else "rest")
    sizes = Counter(tiers)
    return [_SHARES[tier] / sizes[tier] for tier in tiers]
