"""Compares two or more configurations on the same jobs: differences with intervals, p values and verdicts; docs/comparison.md.

Everything is computed from the tables of the runs' jobs and their metrics.json; the same files give the same result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from mirage.metrics.formulas import Settings
from mirage.metrics.measured_jobs import Population
from mirage.metrics.registry import METRICS, job_value
from mirage.metrics.waits import common_horizon
from mirage.statistics.claims import (
    ANSWER_CENSORED,
    Claim,
    answer_of,
    equivalence_interval,
    error_of,
    hindrance,
    is_invalid,
    judge,
)
from mirage.statistics.comparison_text import OTHER_JOBS, QUESTIONS, THESE_JOBS, Finding
from mirage.statistics.inference import EQUIVALENCE_LEVEL, Chance
from mirage.statistics.intervals import LEVEL, Floats
from mirage.statistics.other_jobs import BLOCKS, CYCLES, too_few
from mirage.statistics.sampling_error import NOT_SHOWN
from mirage.statistics.sums_over_jobs import CLASS_METRICS, FOR_OTHER_JOBS, ForOthers, cells_of, class_sums, classes_of, values
from slurm_mirage.base.errors import WrongUse

MARGIN = 5.0
ALL_PAIRS = 4
"""Largest number of configurations that are all compared with each other; of more, each is compared with the first one only."""

_DIGITS = 10  # digits that are written: sums in another order differ in later ones


@dataclass(frozen=True)
class Run:
    """A finished run.

    label: name of its configuration
    folder: name of its folder
    jobs: its jobs.csv (`jobs_frame.JOBS_SCHEMA`)
    metrics: its metrics.json
    suspensions, allocations, executions: its suspensions.csv, allocations.csv and executions.csv, where they exist
    """

    label: str
    replica: int
    folder: str
    jobs: pl.DataFrame
    metrics: Mapping[str, Any]
    suspensions: pl.DataFrame | None = None
    allocations: pl.DataFrame | None = None
    executions: pl.DataFrame | None = None


def compare(runs: Sequence[Run], margin: float = MARGIN, *, machines: bool = False) -> dict[str, Any]:
    """Content of comparison.json. The first configuration is the baseline.

    margin: per cent of the baseline's mean within which two configurations are equivalent
    machines: whether the configurations are machines, of which each may have another number of nodes

    Raises WrongUse for runs that cannot be compared: without a common job, or on different machines.
    """
    return _Comparison(runs, margin, machines=machines).content()


def claims_on_these_jobs(runs: Sequence[Run], names: Iterable[str]) -> dict[str, Claim]:
    """What is known of the differences of these metrics between two configurations, for these jobs, by the metric's name.

    Raises WrongUse as `compare` does.
    """
    comparison = _Comparison(runs, MARGIN)
    for name in dict.fromkeys(names):
        comparison.add_claims(name)
    return {claim.name: claim for claim in comparison.claims if claim.question == THESE_JOBS}


@dataclass(frozen=True)
class _Group:
    """A set of jobs.

    points: metrics over these jobs, by name, of each run
    jobs: the classes of the jobs; None for all jobs
    of_class: size and runtime, where it is one of the classes of metrics.json
    """

    points: Mapping[str, Floats]
    jobs: frozenset[int] | None = None
    of_class: tuple[str, str] | None = None


class _Comparison:
    def __init__(self, runs: Sequence[Run], margin: float, *, machines: bool = False) -> None:
        self.labels = list(dict.fromkeys(run.label for run in runs))
        self.runs = sorted(runs, key=lambda run: (self.labels.index(run.label), run.replica))
        self.margin = margin
        self.claims: list[Claim] = []
        self.settings = dict(runs[0].metrics["settings"])
        for run in self.runs:
            same = ("tau", "w2_reading") if machines else ("processors", "nodes", "tau", "w2_reading")
            if any(run.metrics["settings"][name] != self.settings[name] for name in same):
                raise WrongUse(
                    f"{run.folder} was measured on another machine or with other settings than {runs[0].folder}", parameter="run"
                )
        self.places = {label: [i for i, run in enumerate(self.runs) if run.label == label] for label in self.labels}
        all_pairs = list(combinations(self.labels, 2))
        self.pairs = all_pairs if len(self.labels) <= ALL_PAIRS else [pair for pair in all_pairs if pair[0] == self.labels[0]]
        self._measure(self._common())

    # ---- jobs ----

    def _common(self) -> list[pl.DataFrame]:
        """The jobs that could be measured in all runs, in the same order for each: that of submission, in the mean of the runs."""
        settings = self.settings
        cuts = settings["warmup_cut"], settings["cooldown_cut"]
        populations = [
            Population.of(
                run.jobs,
                run.metrics["settings"]["processors"],
                run.metrics["settings"]["nodes"],
                *cuts,
                suspensions=run.suspensions,
                allocations=run.allocations,
                executions=run.executions,
            )
            for run in self.runs
        ]
        frames = [population.inside for population in populations]
        immediate = job_value("immediate_fraction", Settings.of(settings)).mean()
        waits = [population.waits for population in populations]
        # One horizon for all runs: means up to different horizons are different quantities.
        settings["wait_horizon"] = common_horizon(waits)
        self.recomputed = {
            "immediate_fraction": [frame.select(immediate).item() for frame in frames],
            ANSWER_CENSORED: [one.restricted_mean(settings["wait_horizon"]) if len(one.started) else None for one in waits],
        }
        of_each = pl.concat([frame.select("id", "a") for frame in frames]).group_by("id").agg(pl.len(), pl.col("a").mean().round(6))
        common = of_each.filter(pl.col("len") == len(frames)).sort("a", "id").select("id")
        self.left_out = of_each.height - common.height
        if common.is_empty():
            raise WrongUse("the runs have no job in common that could be measured in all of them", parameter="run")
        return [common.join(frame, on="id", how="left", maintain_order="left") for frame in frames]

    def _measure(self, frames: Sequence[pl.DataFrame]) -> None:
        """The metrics of all jobs and of each class, and what is known of other jobs."""
        settings, self.jobs = Settings.of(self.settings), frames[0].height
        found = [values(frame, settings) for frame in frames]
        self.whole = {name: np.array([one[name] for one in found]) for name in found[0]}
        self.for_others = [ForOthers.of(frame, settings) for frame in frames]
        cells = cells_of(frames, self.settings["processors"])
        sums, sizes = class_sums(frames, settings, cells), np.diff([*cells.begins, self.jobs])
        self.classes = []
        for description, of_these in classes_of(cells):
            means = sums[of_these].sum(axis=0) / sizes[of_these].sum()
            group = _Group(
                dict(zip(CLASS_METRICS, means.T, strict=True)),
                None if len(of_these) == len(cells.keys) else frozenset(of_these),
                (description["size"], description["runtime"]),
            )
            self.classes.append((description, int(sizes[of_these].sum()), group))

    # ---- results ----

    def content(self) -> dict[str, Any]:
        validity = {run.folder: run.metrics["validity"] for run in self.runs}
        unsure = {run: verdict["reasons"] for run, verdict in validity.items() if verdict["verdict"] == "inconclusive"}
        invalid = {run.folder: run.metrics["validity"]["reasons"] for run in self.runs if is_invalid(run.metrics)}
        metrics = {name: self.add_claims(name) for name in METRICS}
        classes = [{**description, "jobs": jobs, "metrics": self._class(group)} for description, jobs, group in self.classes]
        answer = answer_of(run.metrics for run in self.runs)
        compared = judge(self.claims, answer)
        content = {
            "baseline": self.labels[0],
            "configurations": [
                {"label": label, "runs": [self.runs[place].folder for place in self.places[label]]} for label in self.labels
            ],
            "jobs": {"compared": self.jobs, "left_out": self.left_out},
            "method": {
                "level": LEVEL,
                "blocks": BLOCKS,
                "cycles": CYCLES,
                "correction": "Holm",
                "compared": compared,
                "margin": self.margin,
                "equivalence_level": EQUIVALENCE_LEVEL,
            },
            "settings": self.settings,
            "answer": answer,
            "metrics": metrics,
            "classes": classes,
            "validity": {"valid": not (invalid or unsure), "invalid": invalid, "inconclusive": unsure},
        }
        made: dict[str, Any] = rounded(content)
        return made

    def add_claims(self, name: str) -> dict[str, Any]:
        """Compare a metric over all jobs; its claims are added to `claims`. Returns its member of comparison.json."""
        metric = METRICS[name]
        reported = self.recomputed.get(name) or [run.metrics["metrics"].get(name) for run in self.runs]
        reasons = {run.folder: run.metrics["null_reasons"].get(name, "not computed") for run in self.runs}
        missing = {run.folder: reasons[run.folder] for run, value in zip(self.runs, reported, strict=True) if value is None}
        known = np.array([math.nan if value is None else value for value in reported], np.float64)
        points = self.whole[name] if name in self.whole and not missing else known
        return {
            "unit": metric.unit,
            "meaning": metric.meaning,
            "noun": metric.in_sentences,
            "better": metric.better,
            "null_reasons": missing,
            **self._compared(name, _Group({name: points}), known, missing),
        }

    def _class(self, group: _Group) -> dict[str, Any]:
        return {name: self._compared(name, group, points, {}) for name, points in group.points.items()}

    def _compared(self, name: str, group: _Group, values: Floats, missing: Mapping[str, str]) -> dict[str, Any]:
        """Members `configurations` and `pairs` of a metric. values: the metric of each run, as reported."""
        return {
            "configurations": {label: self._values(values[places]) for label, places in self.places.items()},
            "pairs": [self._pair(name, pair, group, missing) for pair in self.pairs],
        }

    @staticmethod
    def _values(values: Floats) -> dict[str, Any]:
        gaps = _gaps(values)
        return {
            "mean": float(values.mean()),
            "replicas": values.tolist(),
            "noise": {"largest": float(gaps.max()), "rms": _rms(gaps)} if len(gaps) else None,
        }

    def _pair(self, name: str, pair: tuple[str, str], group: _Group, missing: Mapping[str, str]) -> dict[str, Any]:
        places = [self.places[label] for label in pair]
        gone = [
            f"{missing[folder]} ({folder})" for place in places for one in place if (folder := self.runs[one].folder) in missing
        ]
        values = [group.points[name][place] for place in places]
        entry: dict[str, Any] = {"baseline": pair[0], "configuration": pair[1], **_UNKNOWN}
        if gone or np.isnan(np.concatenate(values)).any():
            unknown = Finding(unknown=gone[0] if gone else "no job of these runs has a value")
            self.claims += [Claim(entry, question, name, group.jobs, unknown) for question in QUESTIONS]
            return entry
        base, mean = (float(place.mean()) for place in values)
        emulation, replicas = (
            [[error_of(kind, name, self.runs[one].metrics, group.of_class) for one in place] for place in places]
            for kind in ("emulation", "replicas")
        )
        errors = [float(np.mean([error or 0.0 for error in place])) for place in emulation]
        # 0 says that few simulated runs were equal, not that all are.
        reaches = [None if None in place else max(error or 0.0 for error in place) or None for place in replicas]
        chance = Chance(values, None, (errors[0], errors[1]), (reaches[0], reaches[1]))
        runs = {self.runs[one].folder: self.runs[one].metrics for place in places for one in place}
        against = hindrance(name, runs, (base, mean), group.of_class)
        if against is None and not chance.is_replicated:
            against = "one replica tells nothing of the noise"
        gaps = np.concatenate([_gaps(place) for place in values])
        floor = float(gaps.max()) if chance.is_replicated else None
        entry |= {
            "baseline_mean": base,
            "mean": mean,
            "difference": mean - base,
            "percent": 100 * (mean - base) / abs(base) if base else None,
            "emulation": None if None in [*emulation[0], *emulation[1]] else sum(errors),
            "noise_floor": None if floor is None else {"largest": floor, "rms": _rms(gaps)},
            "noise_floor_percent": None if floor is None or not base else 100 * floor / abs(base),
        }
        others: Chance | None = None
        not_known: str | None = NOT_SHOWN
        if name in FOR_OTHER_JOBS and group.of_class is None:
            others, entry["cycles"] = self._of_others(name, places, chance)
            not_known = too_few(entry["cycles"]) if entry["cycles"] < CYCLES else None
        for question, of_question in ((THESE_JOBS, chance if chance.is_replicated else None), (OTHER_JOBS, others)):
            finding = Finding(
                difference=mean - base,
                percent=entry["percent"],
                margin=self.margin,
                hindrance=against,
                unknown=not_known if question == OTHER_JOBS else None,
            )
            self.claims.append(_claim(entry, question, name, group.jobs, finding, of_question))
        return entry

    def _of_others(self, name: str, places: Sequence[Sequence[int]], chance: Chance) -> tuple[Chance, float]:
        """The chance of a difference for other jobs, and the fewest independent cycles of a run. chance: for these jobs"""
        column = FOR_OTHER_JOBS.index(name)
        known = [[self.for_others[one] for one in place] for place in places]
        number = min(float(one.cycles[column]) for place in known for one in place)
        rest = [np.array([one.rest[column] for one in place]) for place in known]
        without = [np.mean([one.without[:, column] for one in place], axis=0) for place in known]
        return replace(chance, values=rest, without=without), number


def _claim(
    entry: dict[str, Any], question: str, name: str, jobs: frozenset[int] | None, finding: Finding, chance: Chance | None
) -> Claim:
    """The claim with its intervals and its p value. chance: that of the question; None if it is unknown"""
    difference, relative = (None, None) if chance is None else (chance.difference(), chance.relative())
    if chance is None or difference is None or relative is None:
        return Claim(entry, question, name, jobs, finding, chance=chance)
    in_percent = finding.percent is not None
    judged_finding = replace(
        finding,
        interval=difference.interval(),
        percent_interval=relative.percent() if in_percent else None,
        equivalence_interval=equivalence_interval(chance) if in_percent else None,
    )
    return Claim(entry, question, name, jobs, judged_finding, None if finding.hindrance is not None else relative.p, chance)


_UNKNOWN = dict.fromkeys(
    (
        "baseline_mean",
        "mean",
        "difference",
        "percent",
        "emulation",
        "noise_floor",
        "noise_floor_percent",
        "cycles",
    )
)


def _gaps(values: Floats) -> Floats:
    """Differences between each two replicas of a configuration, without sign."""
    return np.array([abs(one - other) for one, other in combinations(values.tolist(), 2)])


def _rms(gaps: Floats) -> float:
    return float(np.sqrt(np.mean(gaps**2)))


def rounded(value: Any) -> Any:
    """Numbers to ten digits, NaN as null, tuples as lists."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
