"""The member `growth` of comparison.json: what more nodes bring, by classes of nodes, and why new ones were idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from mirage.records import class_use
from mirage.records.run_folder import RunFolder
from mirage.records.schedule import of_run
from mirage.site.growth import NOW, Step, arms
from mirage.statistics.comparison import rounded
from mirage.statistics.comparison_text import DIFFERENT, THESE_JOBS
from mirage.text.words import counted, duration, number, percent, three_digits
from mirage.verdict.event_clock import charges
from slurm_mirage.base.errors import WrongUse

LONGER = 1.1
"""Times as much processor time of slurmctld as on the machine as it is: that is named."""
_SHOWN = 3  # causes of idle nodes in a sentence


def is_growth(experiment: Mapping[str, Any]) -> bool:
    """Whether a comparison is one of machines (GROW). experiment: its experiment.json"""
    return f"{NOW} GROW" in experiment.get("inputs", {})


def member(folder: Path, experiment: Mapping[str, Any], waits: Mapping[str, Any]) -> dict[str, Any]:
    """The member of a finished comparison of machines in `folder`. waits: the metric wait_mean in its comparison.json"""
    runs: dict[str, list[RunFolder]] = {}
    for one in experiment["comparison"]:
        runs.setdefault(one["label"], []).append(RunFolder(folder / one["folder"]))
    before = class_use.nodes_of(runs[NOW][0])
    common = _common([run for of_label in runs.values() for run in of_label])
    machines: list[dict[str, Any]] = []
    for label, of_label in runs.items():
        text = experiment["inputs"][f"{label} GROW"]
        found = _mean([class_use.of(run, before, common) for run in of_label])
        steps = _steps(text)
        now = machines[0] if machines else found
        machines.append({"label": label, "grow": text, **found, **_price(steps, found, now, len(common))})
    is_charged = any(charges(run.metrics["validity"]) for of_label in runs.values() for run in of_label)
    verdicts = {pair["configuration"]: pair[THESE_JOBS]["verdict"] for pair in waits["pairs"] if pair["baseline"] == NOW}
    for one in machines:
        is_sure = verdicts.get(one["label"]) in DIFFERENT
        one["words"] = [*_words(one, machines[0], is_sure=is_sure, is_charged=is_charged)]
    made: dict[str, Any] = rounded({"baseline": NOW, "common_jobs": len(common), "machines": machines})
    return made


def _steps(text: str) -> tuple[Step, ...]:
    """The steps of a machine's GROW. Raises WrongUse for a text that is none."""
    try:
        return arms(text)[0] if text else ()
    except ValueError:
        raise WrongUse(f"experiment.json has GROW {text[:40]!r}, which is none", parameter="run") from None


def _common(runs: Sequence[RunFolder]) -> frozenset[int]:
    """The jobs that started in all runs, without presets."""
    started = [of_run(run).jobs.filter(pl.col("start").is_not_null(), pl.col("preset").is_null())["id"] for run in runs]
    ids = pl.concat(started).value_counts()
    return frozenset(ids.filter(pl.col("count") == len(runs))["id"])


def _mean(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of what runs of one machine have: numbers are averaged, null if one is null; causes of idle nodes that one run does
    not have count as 0 there."""

    def value(values: Sequence[Any]) -> Any:
        first = values[0]
        if None in values:
            return None
        if isinstance(first, bool) or not isinstance(first, (float, int, list)):
            return first
        if isinstance(first, list):
            return [_mean(of_class) for of_class in zip(*values, strict=True)] if _has_classes(first) else first
        mean = sum(values) / len(values)
        return mean if isinstance(first, float) else round(mean)

    mean = {name: value([run[name] for run in runs]) for name in runs[0] if name != "idle_causes"}
    if "idle_causes" in runs[0]:
        mean["idle_causes"] = _causes([run["idle_causes"] for run in runs])
    return mean


def _has_classes(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], Mapping)


def _causes(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    shares: dict[str, dict[str, Any]] = {}
    for of_run_ in runs:
        for one in of_run_:
            kept = shares.setdefault(one["cause"], {**one, "share": 0.0})
            kept["share"] += one["share"] / len(runs)
            kept["reason"] = kept["reason"] or one["reason"]
    return sorted(shares.values(), key=lambda one: (-one["share"], one["cause"]))


def _price(steps: Sequence[Step], found: Mapping[str, Any], now: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    """Hours of waiting of the common jobs that the machine avoids, what its new nodes cost, and the cost of one such hour; null
    where a price is not given, or no waiting is avoided."""
    waits = found["wait_mean"], now["wait_mean"]
    hours = None if None in waits else jobs * (waits[1] - waits[0]) / 3600
    cost = None
    if steps and all(step.price is not None for step in steps):
        cost = sum(
            step.count * (step.price or 0.0) * (found["submissions"] / step.lifetime if step.lifetime else 1.0) for step in steps
        )
    return {
        "hours_avoided": hours,
        "cost": cost,
        "cost_of_an_hour": cost / hours if cost is not None and hours and hours > 0 else None,
    }


def _words(machine: Mapping[str, Any], now: Mapping[str, Any], *, is_sure: bool, is_charged: bool) -> Iterator[str]:
    """Sentences about a machine with more nodes.

    is_sure: whether its mean wait differs significantly; is_charged: whether slurmctld's processor time counted
    """
    new = [one for one in machine["classes"] if one["new"]]
    if not new:
        return
    label = machine["label"]
    more = machine["nodes"] - now["nodes"]
    names = ", ".join(one["names"] for one in new)
    waits, backlogs = (duration(one["wait_mean"]) for one in (machine, now)), (number(one["backlog"]) for one in (machine, now))
    yield (
        f"{label}: {counted(more, 'node')} more ({names}): mean wait {' instead of '.join(waits)}, "
        f"backlog {' instead of '.join(backlogs)} processor hours"
    )
    for one in new:
        if one["idle"] is None:
            yield f"{label}: {one['names']}: not known how they were used"
            continue
        use = (
            f"GPUs used for {percent(one['gpu_utilisation'])} of the time"
            if one["gpu_utilisation"] is not None
            else f"processors used for {percent(one['utilisation'])} of the time"
        )
        causes = "; ".join(
            f"{percent(cause['share'])}: {cause['words']}{' (' + cause['reason'] + ')' if cause['reason'] else ''}"
            for cause in one["idle_causes"][:_SHOWN]
        )
        yield f"{label}: {one['names']}: {use}, nodes idle {percent(one['idle'])}{' (' + causes + ')' if causes else ''}"
    if machine["cost"] is not None:
        hours = machine["hours_avoided"]
        what = "no waiting is avoided"
        if machine["cost_of_an_hour"] is not None:
            what = f"{three_digits(machine['cost_of_an_hour'])} for each hour of waiting avoided ({number(hours)} in all"
            what += ")" if is_sure else "; that waits differ is not certain)"
        yield f"{label}: the new nodes cost {number(round(machine['cost']))} while jobs were submitted: {what}"
    took, before = machine["scheduler_seconds"], now["scheduler_seconds"]
    if not is_charged and took and before and took > LONGER * before:
        yield (
            f"{label}: slurmctld computed {took / before:.1f} times as long as on the machine as it is, and that took none of the "
            "cluster's time; CHARGE=yes counts it"
        )
