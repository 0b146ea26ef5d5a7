"""Optional features, such as suspensions: whether a run or a recorded schedule used them. Pages leave out unused ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mirage.metrics.registry import METRICS
from mirage.verdict import aspects
from mirage.verdict.event_clock import charges

_Given = Callable[[str, str], bool]
"""Takes the name of a knob and a value. True if the knob has another value."""


@dataclass(frozen=True)
class Feature:
    """An optional feature.

    is_used: from metrics.json and the knobs
    rows: names of its metrics, of its figures of the verdict, and of its knobs
    """

    is_used: Callable[[Mapping[str, Any], _Given], bool]
    rows: tuple[str, ...]


def _positive(metric: str) -> Callable[[Mapping[str, Any], _Given], bool]:
    return lambda content, _: (content["metrics"].get(metric) or 0) > 0


def _knob(name: str, unused: str, *others: str) -> Feature:
    """A feature of knobs only. unused: the value of the first one without it"""
    return Feature(lambda _, given: given(name, unused), (name, *others))


def _metrics(feature: str) -> Feature:
    return Feature(_positive(feature), tuple(name for name, metric in METRICS.items() if metric.feature == feature))


def _of_aspect(rows: aspects.Rows) -> Feature:
    """An aspect is used where its first knob is given, where metrics.json has its member, or where its metrics say so."""
    used = _positive(rows.main_if)
    return Feature(
        lambda content, given: given(rows.knobs[0], rows.unused) or rows.member in content or used(content, given), rows.names
    )


_OF_ASPECTS = {name for rows in aspects.rows() for name in rows.metrics}
_FEATURES = (
    *map(_metrics, dict.fromkeys(one.feature for name, one in METRICS.items() if one.feature and name not in _OF_ASPECTS)),
    *map(_of_aspect, aspects.rows()),
    # Only with a constant speed above 1 is a launch taken off a job.
    Feature(
        lambda content, _: content.get("validity", {}).get("launch_cost") != 0,
        ("launch_cost", "launch_cost_share", "launch_cost_error", "clipped"),
    ),
    # Only the clocks of several hosts can differ. Where they could not be compared, the verdict says so.
    Feature(lambda content, _: content.get("validity", {}).get("clock_offset_max") is not None, ("clock_offset_max",)),
    Feature(lambda content, given: given("CHARGE", "no") or charges(content.get("validity", {})), ("CHARGE", "charged_seconds")),
    _knob("SUBMISSION", ""),
    _knob("PRESET", "none"),
    _knob("SETTINGS", ""),
    _knob("ACCOUNTING", "auto"),
    _knob("FRONT_END", "0"),
    _knob("CONTROLLERS", "1"),
    _knob("SAVES", "disk"),
    _knob("OFFSET", "0"),
    _knob("MIN_RUNTIME", "0"),
    _knob("WARMUP_CUT", "0"),
    _knob("COOLDOWN_CUT", "0"),
    _knob("CONFIGS", "", "REPLICAS", "MARGIN", "AT_ONCE"),
)


def unused_rows(content: Mapping[str, Any], experiment: Mapping[str, Any] | None = None) -> frozenset[str]:
    """Names of the metrics, figures of the verdict and knobs of all features that were not used.

    content: metrics.json, or what has its member "metrics"
    experiment: experiment.json; without it only the content counts, as of a recorded schedule
    """
    knobs = {**((experiment or {}).get("knobs") or {}), **((experiment or {}).get("inputs") or {})}

    def given(name: str, unused: str) -> bool:
        return knobs.get(name) not in (None, "", unused)

    return frozenset(row for feature in _FEATURES if not feature.is_used(content, given) for row in feature.rows)


def unused_in_all(contents: Iterable[Mapping[str, Any]], experiment: Mapping[str, Any]) -> frozenset[str]:
    """The same of features that none of several runs used; none without runs."""
    of_each = [unused_rows(content, experiment) for content in contents]
    return frozenset.intersection(*of_each) if of_each else frozenset()
