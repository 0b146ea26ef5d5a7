"""Which differences of a comparison may be claimed: what stands against it, and the correction for their number.

docs/comparison.md has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirage.metrics.censored_waits import censoring_reasons
from mirage.metrics.registry import METRICS
from mirage.statistics.comparison_text import Finding, verdict
from mirage.statistics.inference import holm

ANSWER, ANSWER_CENSORED = "wait_mean", "wait_restricted_mean"
"""The metric of the last line, and the one that takes its place where too many jobs of a run never started."""

OF_ONLY_WAITS = frozenset(
    (
        "wait_mean",
        "wait_median",
        "wait_p90",
        "wait_p95",
        "wait_p99",
        "wait_max",
        "wait_restricted_mean",
        "W",
        "W1",
        "W2",
        "W3",
        "W4",
        "slowdown_mean",
        "bounded_slowdown_mean",
        "pp_bounded_slowdown_mean",
        "weighted_slowdown",
        "weighted_slowdown_processors",
        "loss_of_capacity",
    )
)
"""Metrics that only waits can change, apart from suspensions and run times, which are the workload's."""

_SHARES = {"answer": 0.5, "main": 0.25, "rest": 0.25}  # of the 5 %

Metrics = Mapping[str, Any]
"""Content of metrics.json."""


def answer_of(runs: Iterable[Metrics]) -> str:
    """Name of the metric of the last line. runs: metrics.json of all runs"""
    return ANSWER_CENSORED if any(map(censoring_reasons, runs)) else ANSWER


def is_invalid(run: Metrics) -> bool:
    """Whether the verdict on a run is that it is invalid; that of an earlier release knows only valid and invalid."""
    validity = run["validity"]
    return not validity["valid"] and validity.get("verdict") != "inconclusive"


def resolved_by(run: Metrics) -> float:
    """Seconds below which a run does not resolve a wait; of an earlier release the threshold of an immediate start, which grew with
    SPEED and SHRINK. run: its metrics.json"""
    resolution = run["validity"].get("resolution")
    return float(max(resolution["record"], resolution["floor"]) if resolution else run["settings"]["immediate_below"])


def emulation_error(name: str, run: Metrics, of_class: tuple[str, str] | None = None) -> float | None:
    """By how much the emulation may have changed a metric of a run, or of a class of its jobs (size, runtime). None: not known."""
    errors = run.get("errors", {})
    if of_class is not None:
        rows = [row for row in run.get("classes", []) if (row["size"], row["runtime"]) == of_class]
        errors = rows[0].get("errors", {}) if rows else {}
    found = (errors.get(name) or {}).get("emulation")
    return None if found is None else float(found)


def hindrance(
    name: str, runs: Mapping[str, Metrics], means: tuple[float, float], of_class: tuple[str, str] | None = None
) -> str | None:
    """Why nothing may be claimed of a metric of two configurations, whatever its values. None if something may.

    runs: metrics.json of all of their runs, by folder
    means: of the metric
    of_class: size and runtime of the class of jobs; None for all jobs
    """
    for folder, found in runs.items():
        if is_invalid(found):
            return f"{folder} is not valid"
    for folder, found in runs.items():
        reasons = censoring_reasons(found) | found["validity"].get("inconclusive_metrics", {})
        if name in reasons:
            return f"{reasons[name]} ({folder})"
    if name in OF_ONLY_WAITS:
        resolved = max(map(resolved_by, runs.values()))
        waits = [found["metrics"].get(ANSWER) for found in runs.values()]
        short = max(means) < resolved if METRICS[name].unit == "s" else False
        if short or all(wait is not None and wait < resolved for wait in waits):
            return f"waits below {resolved:.3g} s are not resolved by these runs"
    for folder, found in runs.items():
        if "errors" in found and emulation_error(name, found, of_class) is None:
            return f"what the emulation adds to it is not known ({folder})"
    return None


@dataclass(frozen=True)
class Claim:
    """A pair of a metric, or of a metric of a class of jobs, on which a verdict is due.

    entry: the pair's members of comparison.json; members for the verdict are added to it
    jobs: the classes of its jobs; None for all jobs
    p: uncorrected; None where nothing may be claimed
    """

    entry: dict[str, Any]
    name: str
    jobs: frozenset[int] | None
    finding: Finding
    p: float | None

    @property
    def hypothesis(self) -> tuple[object, ...]:
        """Equal for claims that are the same under another name."""
        return METRICS[self.name].same_as or self.name, self.jobs, self.entry["baseline"], self.entry["configuration"]


def judge(claims: Iterable[Claim], answer: str) -> int:
    """Add p, corrected p, verdict and words to all claims. Returns the number of hypotheses that p values are corrected for.

    answer: name of the metric of the last line
    """
    claims = list(claims)
    family = {claim.hypothesis: claim for claim in reversed(claims) if claim.p is not None}
    corrected = dict(
        zip(family, holm([claim.p or 0.0 for claim in family.values()], _weights(list(family.values()), answer)), strict=False)
    )
    for claim in claims:
        found = claim.finding
        if claim.p is not None:
            found = replace(found, p=corrected[claim.hypothesis])
        claim.entry.update({"p": claim.p, "p_corrected": found.p, **verdict(claim.name, found).as_json()})
    return len(family)


def _weights(family: Sequence[Claim], answer: str) -> list[float]:
    """Shares of the 5 %: half for the answer's metric, a quarter for the other main metrics, a quarter for all the rest."""
    tiers = []
    for claim in family:
        name, whole = METRICS[claim.name].same_as or claim.name, claim.jobs is None
        tiers.append("answer" if whole and name == answer else "main" if whole and METRICS[name].is_main else "rest")
    sizes = Counter(tiers)
    return [_SHARES[tier] / sizes[tier] for tier in tiers]
