"""Sentences about the part of a schedule that was measured, its steady part, jobs that never started, and the aspects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirage.metrics.registry import METRICS
from mirage.verdict import aspects

_DIGITS = 4


def parts_of(metrics: Mapping[str, Any]) -> list[str]:
    """Sentences without a full stop about what metrics.json was measured on. Times are seconds of the trace."""
    return [*_measured(metrics), *_steady(metrics), *_censored(metrics), *aspects.sentences(metrics)]


def limits_of(metrics: Mapping[str, Any]) -> list[str]:
    """Of these sentences those that limit what the metrics say: a cut of the schedule, and jobs that never started."""
    is_cut = metrics["settings"]["warmup_cut"] or metrics["settings"]["cooldown_cut"]
    return [*(_measured(metrics) if is_cut else []), *_censored(metrics)]


def _measured(metrics: Mapping[str, Any]) -> list[str]:
    settings = metrics["settings"]
    window, warmup, cooldown = settings.get("window"), settings["warmup_cut"], settings["cooldown_cut"]
    if window is None:
        return []
    if not (warmup or cooldown):
        return ["measured: the whole schedule (WARMUP_CUT and COOLDOWN_CUT are 0)"]
    return [
        f"measured: the schedule from {_number(window[0])} to {_number(window[1])} s, without its first {_number(warmup)} s "
        f"(WARMUP_CUT) and its last {_number(cooldown)} s (COOLDOWN_CUT)"
    ]


def _steady(metrics: Mapping[str, Any]) -> list[str]:
    steady = metrics["steady"]
    if steady["window"] is None:
        return []
    what = "without the first and the last tenth of the submissions' time"
    if steady["metrics"] is None:
        return [f"{what}: not measured, {steady['reason']} ({steady['jobs']})"]
    known = {name: value for name, value in steady["metrics"].items() if value is not None}
    figures = ", ".join(f"{METRICS[name].in_sentences} {_figure(name, value)}" for name, value in known.items() if name in METRICS)
    return [f"{what} ({steady['jobs']} jobs): {figures}"]


def _censored(metrics: Mapping[str, Any]) -> list[str]:
    censored = metrics["censored"]
    if not censored["jobs"]:
        return []
    mean = metrics["metrics"].get("wait_restricted_mean")
    with_them = "" if mean is None else f": the mean wait with them is {_number(mean)} s (wait_restricted_mean)"
    jobs = f"{censored['jobs']} job{'s' * (censored['jobs'] > 1)}"
    return [f"{jobs} ({100 * censored['share']:.3g} %) waited and never started{with_them}"]


def _figure(name: str, value: float) -> str:
    metric = METRICS[name]
    return f"{100 * value:.1f} %" if metric.is_share else f"{_number(value)} {metric.unit}".rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10**_DIGITS else f"{value:.{_DIGITS}g}"
