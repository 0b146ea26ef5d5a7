"""Compares two or more configurations on the same jobs: differences with intervals, noise floor, verdicts; docs/comparison.md.

Everything is computed from the tables of the runs' jobs and their metrics.json; the same files and seed give the same result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from mirage.metrics.formulas import Settings
from mirage.metrics.measured_jobs import Population
from mirage.metrics.registry import METRICS, job_value
from mirage.statistics import bootstrap
from mirage.statistics.bootstrap import Blocks, Floats
from mirage.statistics.comparison_text import Finding, verdict
from mirage.statistics.resampled_metrics import CLASS_METRICS, Draws, cells_of, classes_of, quantiles, sums_of, together
from slurm_mirage.base.errors import WrongUse

RESAMPLES = 2000
ALL_PAIRS = 4
"""With so many configurations at most each is compared with each; with more each with the first one only."""

FEWEST_JOBS = 5
"""A class of fewer jobs has no interval."""
_DIGITS = 10  # of what is written: sums in another order differ beyond that


@dataclass(frozen=True)
class Run:
    """A finished run.

    label: name of its configuration
    folder: name of its folder
    jobs: its jobs.csv (`jobs_frame.JOBS_SCHEMA`)
    metrics: its metrics.json
    immediate_below: that of its `Schedule`; metrics.json of an earlier release may have another one
    suspensions, allocations: its suspensions.csv and allocations.csv, where they exist
    """

    label: str
    replica: int
    folder: str
    jobs: pl.DataFrame
    metrics: Mapping[str, Any]
    immediate_below: float = 0.0
    suspensions: pl.DataFrame | None = None
    allocations: pl.DataFrame | None = None


def compare(runs: Sequence[Run], seed: int, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Content of comparison.json. The first configuration is the baseline.

    Raises WrongUse for runs that cannot be compared: no job in common, other machines.
    """
    return _Comparison(runs, seed, resamples).content()


@dataclass(frozen=True)
class _Group:
    """Metrics of a set of jobs: point estimates (runs, metrics) and draws (resamples, runs, metrics)."""

    names: Sequence[str]
    points: Floats
    draws: Floats
    widening: float


class _Comparison:
    def __init__(self, runs: Sequence[Run], seed: int, resamples: int) -> None:
        self.labels = list(dict.fromkeys(run.label for run in runs))
        self.runs = sorted(runs, key=lambda run: (self.labels.index(run.label), run.replica))
        self.seed, self.resamples = seed, resamples
        self.settings = dict(runs[0].metrics["settings"])
        for run in self.runs:
            if any(run.metrics["settings"][name] != self.settings[name] for name in ("processors", "nodes", "tau", "w2_reading")):
                raise WrongUse(
                    f"{run.folder} was measured on another machine or with other settings than {runs[0].folder}", parameter="run"
                )
        # One threshold for all runs, also if some were measured with another one.
        below = [max(run.immediate_below, run.metrics["settings"]["immediate_below"]) for run in self.runs]
        self.settings["immediate_below"] = max(below)
        self.places = {label: [i for i, run in enumerate(self.runs) if run.label == label] for label in self.labels}
        all_pairs = list(combinations(self.labels, 2))
        self.pairs = all_pairs if len(self.labels) <= ALL_PAIRS else [pair for pair in all_pairs if pair[0] == self.labels[0]]
        self.weights = {label: bootstrap.replica_weights(len(self.places[label]), resamples, seed, label) for label in self.labels}
        self._resample()

    # ---- jobs ----

    def _common(self) -> list[pl.DataFrame]:
        """The jobs that could be measured in all runs, in the same order for each: that of submission, in the mean of the runs."""
        settings = self.settings
        machine = (settings["processors"], settings["nodes"], settings["warmup_cut"], settings["cooldown_cut"])
        frames = [
            Population.of(run.jobs, *machine, suspensions=run.suspensions, allocations=run.allocations).inside for run in self.runs
        ]
        immediate = job_value("immediate_fraction", Settings.of(settings)).mean()
        self.immediate = [frame.select(immediate).item() for frame in frames]
        of_each = pl.concat([frame.select("id", "a") for frame in frames]).group_by("id").agg(pl.len(), pl.col("a").mean().round(6))
        common = of_each.filter(pl.col("len") == len(frames)).sort("a", "id").select("id")
        self.left_out = of_each.height - common.height
        if common.is_empty():
            raise WrongUse("the runs have no job in common that could be measured in all of them", parameter="run")
        return [common.join(frame, on="id", how="left", maintain_order="left") for frame in frames]

    def _resample(self) -> None:
        frames = self._common()
        settings = Settings.of(self.settings)
        sums, groups = sums_of(settings), quantiles()
        self.cells = cells_of(frames, self.settings["processors"])
        draws = Draws.of(frames, sums, groups, settings, self.cells)
        length = bootstrap.block_length(self._differences(draws.narrow))
        self.blocks = Blocks(frames[0].height, length, self.resamples, self.seed)
        drawn = [draws.drawn(counts) for _, counts in self.blocks.counts()]
        points, points_by_cell, jobs_by_cell = draws.drawn(np.ones((1, frames[0].height), np.int32))
        whole, by_cell, sizes = (np.concatenate([part[k] for part in drawn]) for k in range(3))
        self.whole = _Group([*sums.above, *(name for group in groups for name in group)], points[0], whole, self.blocks.widening())
        self.classes = []
        for description, of_these in classes_of(self.cells):
            jobs = int(jobs_by_cell[0, of_these].sum())
            group = _Group(
                CLASS_METRICS,
                together(points_by_cell, jobs_by_cell, of_these)[0],
                together(by_cell, sizes, of_these),
                self.blocks.widening(jobs) if jobs >= FEWEST_JOBS else math.nan,
            )
            self.classes.append((description, jobs, group))

    def _differences(self, narrow: Floats) -> list[Floats]:
        """Differences job by job between the means of the replicas, for each pair: the series that decide the block length."""
        means = {label: narrow[:, places].mean(axis=1) for label, places in self.places.items()}
        pairs = self.pairs or [(self.labels[0], self.labels[0])]
        return [(means[one] - means[other])[:, k] for one, other in pairs for k in range(len(CLASS_METRICS))]

    # ---- results ----

    def content(self) -> dict[str, Any]:
        validity = {run.folder: run.metrics["validity"] for run in self.runs}
        unsure = {run: found["reasons"] for run, found in validity.items() if found.get("verdict") == "inconclusive"}
        invalid = {run: found["reasons"] for run, found in validity.items() if not found["valid"] and run not in unsure}
        content = {
            "baseline": self.labels[0],
            "configurations": [
                {"label": label, "runs": [self.runs[place].folder for place in self.places[label]]} for label in self.labels
            ],
            "jobs": {"compared": self.blocks.jobs, "left_out": self.left_out},
            "method": {
                "level": bootstrap.LEVEL,
                "resamples": self.resamples,
                "seed": self.seed,
                "block_length": self.blocks.length,
                "block_widening": self.blocks.widening(),
            },
            "settings": self.settings,
            "metrics": {name: self._metric(name) for name in METRICS},
            "classes": [{**description, "jobs": jobs, "metrics": self._class(group)} for description, jobs, group in self.classes],
            "validity": {"valid": not (invalid or unsure), "invalid": invalid, "inconclusive": unsure},
        }
        rounded: dict[str, Any] = _rounded(content)
        return rounded

    def _metric(self, name: str) -> dict[str, Any]:
        metric = METRICS[name]
        values = self.immediate if name == "immediate_fraction" else [run.metrics["metrics"].get(name) for run in self.runs]
        reasons = {run.folder: run.metrics["null_reasons"].get(name, "not computed") for run in self.runs}
        missing = {run.folder: reasons[run.folder] for run, value in zip(self.runs, values, strict=True) if value is None}
        known = np.array([math.nan if value is None else value for value in values], np.float64)
        by_jobs = name in self.whole.names and not missing
        group = self.whole if by_jobs else _Group([name], known[:, None], np.empty((0, 0, 0)), math.nan)
        return {
            "unit": metric.unit,
            "meaning": metric.meaning,
            "noun": metric.in_sentences,
            "better": metric.better,
            "null_reasons": missing,
            **self._compared(name, group, known, missing),
        }

    def _class(self, group: _Group) -> dict[str, Any]:
        return {name: self._compared(name, group, group.points[:, k], {}) for k, name in enumerate(CLASS_METRICS)}

    def _compared(self, name: str, group: _Group, values: Floats, missing: Mapping[str, str]) -> dict[str, Any]:
        """Members configurations, resampled and pairs of a metric. values: of each run, as reported."""
        column = list(group.names).index(name)
        points = group.points[:, column]
        draws = group.draws[:, :, column] if group.draws.size and not math.isnan(group.widening) else None
        several = any(len(places) > 1 for places in self.places.values())
        over = [word for word, is_so in (("jobs", draws is not None), ("replicas", several)) if is_so]
        return {
            "configurations": {label: self._values(values[places]) for label, places in self.places.items()},
            "resampled": over,
            "pairs": [self._pair(name, pair, points, draws, group.widening, missing) for pair in self.pairs],
        }

    @staticmethod
    def _values(values: Floats) -> dict[str, Any]:
        gaps = _gaps(values)
        return {
            "mean": float(values.mean()),
            "replicas": values.tolist(),
            "noise": {"largest": float(gaps.max()), "rms": _rms(gaps)} if len(gaps) else None,
        }

    def _pair(
        self,
        name: str,
        pair: tuple[str, str],
        points: Floats,
        draws: Floats | None,
        widening: float,
        missing: Mapping[str, str],
    ) -> dict[str, Any]:
        places = [self.places[label] for label in pair]
        gone = [f"{missing[folder]} ({folder})" for some in places for one in some if (folder := self.runs[one].folder) in missing]
        values = [points[some] for some in places]
        head = {"baseline": pair[0], "configuration": pair[1]}
        if gone or np.isnan(np.concatenate(values)).any():
            reason = gone[0] if gone else "no job of these runs has a value"
            return {**head, **_UNKNOWN, **verdict(name, Finding(unknown=reason)).as_json()}
        base, mean = (float(some.mean()) for some in values)
        drawn = None if draws is None else [draws[:, some].mean(axis=1) for some in places]
        chance = _Chance(values, [self.weights[label] for label in pair], drawn, widening, self.resamples)
        gaps = np.concatenate([_gaps(some) for some in values])
        floor = float(gaps.max()) if chance.is_replicated else None
        scale = 100 / abs(base) if base else None
        between = chance.difference()
        finding = Finding(
            mean - base,
            between,
            floor,
            None if scale is None else (mean - base) * scale,
            None if scale is None else chance.percent(),
            None if scale is None or floor is None else floor * scale,
        )
        noise = None if floor is None else {"largest": floor, "rms": _rms(gaps), "rms_interval": _rms_interval(places, draws)}
        return {
            **head,
            "baseline_mean": base,
            "mean": mean,
            "difference": finding.difference,
            "percent": finding.percent,
            "interval": between,
            "percent_interval": finding.percent_interval,
            "noise_floor": noise,
            "noise_floor_percent": finding.percent_floor,
            **verdict(name, finding).as_json(),
        }


@dataclass(frozen=True)
class _Chance:
    """Draws of the difference between two configurations (the second minus the first), for its interval.

    values: of the replicas of each; weights: what drawing replicas adds to their equal weights; drawn: means of the replicas in
    each resample of jobs, or None; widening: what draws of jobs are expanded by
    """

    values: Sequence[Floats]
    weights: Sequence[Floats]
    drawn: Sequence[Floats] | None
    widening: float
    resamples: int

    @property
    def is_replicated(self) -> bool:
        return all(len(some) > 1 for some in self.values)

    def difference(self) -> bootstrap.Interval:
        """Interval of the difference between the means."""
        by_jobs = None if self.drawn is None else self.drawn[1] - self.drawn[0]
        return self._interval(float(self.values[1].mean() - self.values[0].mean()), by_jobs, self.values)

    def percent(self) -> bootstrap.Interval:
        """Interval of the difference in per cent of the first mean: from that of the logarithm of the ratio of the means, which is
        symmetric in the two configurations. Where a mean may be 0, the interval of the difference divided by the first mean.
        """
        base, mean = (float(some.mean()) for some in self.values)
        if min(base, mean) <= 0 or any((some <= 0).any() for some in self.drawn or []):
            between = self.difference()
            return None if between is None or not base else (100 * between[0] / abs(base), 100 * between[1] / abs(base))
        by_jobs = None if self.drawn is None else np.log(self.drawn[1]) - np.log(self.drawn[0])
        between = self._interval(math.log(mean / base), by_jobs, [self.values[0] / base, self.values[1] / mean])
        return None if between is None else (100 * math.expm1(between[0]), 100 * math.expm1(between[1]))

    def _interval(self, middle: float, by_jobs: Floats | None, values: Sequence[Floats]) -> bootstrap.Interval:
        if by_jobs is None and not self.is_replicated:
            return None
        draws = np.full(self.resamples, middle) if by_jobs is None else bootstrap.expanded(by_jobs, self.widening)
        by_replicas = self.weights[1] @ values[1] - self.weights[0] @ values[0]
        return bootstrap.interval(draws + bootstrap.widen_replicas(values) * by_replicas)


_UNKNOWN = dict.fromkeys(
    (
        "baseline_mean",
        "mean",
        "difference",
        "percent",
        "interval",
        "percent_interval",
        "noise_floor",
        "noise_floor_percent",
    )
)


def _gaps(values: Floats) -> Floats:
    """Differences between each two replicas of a configuration, without sign."""
    return np.array([abs(one - other) for one, other in combinations(values.tolist(), 2)])


def _rms(gaps: Floats) -> float:
    return float(np.sqrt(np.mean(gaps**2)))


def _rms_interval(places: Sequence[Sequence[int]], draws: Floats | None) -> bootstrap.Interval:
    """The middle 95 % of the root mean square difference of two replicas, over resamples of the jobs."""
    if draws is None:
        return None
    gaps = [draws[:, one] - draws[:, other] for some in places for one, other in combinations(some, 2)]
    return bootstrap.interval(np.sqrt(np.mean(np.square(gaps), axis=0)))


def _rounded(value: Any) -> Any:
    """Numbers to ten digits, NaN as null, tuples as lists."""
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
