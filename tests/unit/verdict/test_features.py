"""Which features a run or a log used, and so which rows tables and pages leave out."""

from __future__ import annotations

from typing import Any

import pytest

from mirage.knobs.table import BY_NAME
from mirage.metrics.registry import METRICS
from mirage.terminal.table import EVENT_CLOCK, VALIDITY
from mirage.verdict.features import _FEATURES, unused_in_all, unused_rows

PLAIN = dict.fromkeys(METRICS, 0.0)


def test_each_row_is_a_metric_a_figure_or_a_knob() -> None:
    rows = [row for feature in _FEATURES for row in feature.rows]
    assert len(rows) == len(set(rows))
    assert set(rows) <= {*METRICS, *(name for name, *_ in (*VALIDITY, *EVENT_CLOCK)), *BY_NAME}


def test_a_plain_run_uses_none() -> None:
    experiment = {"knobs": {name: knob.default for name, knob in BY_NAME.items()}}
    assert unused_rows({"metrics": PLAIN, "validity": {"launch_cost": 0.0}}, experiment) == {
        row for feature in _FEATURES for row in feature.rows
    }


@pytest.mark.parametrize(
    ("content", "knobs", "row"),
    [
        ({}, {"MALLEABLE": "0.5"}, "resizes_mean"),
        ({"resizes": {}}, {}, "resizes_mean"),
        ({"metrics": PLAIN | {"resizes_mean": 0.1}}, {}, "useful_utilisation"),
        ({}, {"FILLER": "slots"}, "filler_load"),
        ({"fillers": {}}, {}, "filler_faults"),
        ({"metrics": PLAIN | {"suspended_fraction": 0.1}}, {}, "suspensions_mean"),
        ({"metrics": PLAIN | {"wasted_fraction": 0.1}}, {}, "goodput"),
        ({"metrics": PLAIN | {"absent_fraction": 0.1}}, {}, "maintenance_idle"),
        ({"validity": {"launch_cost": 0.02}}, {}, "launch_cost_error"),
        ({"validity": {"launch_cost": None}}, {}, "launch_cost"),
        ({"validity": {"clock_offset_max": 0.0}}, {}, "clock_offset_max"),
        ({"validity": {"event_clock": {"charged_seconds": 2.0}}}, {}, "charged_seconds"),
        ({}, {"SUBMISSION": "period=10"}, "SUBMISSION"),
        ({}, {"ACCOUNTING": "no"}, "ACCOUNTING"),
        ({}, {"PRESET": "all"}, "PRESET"),
    ],
)
def test_a_used_feature_is_shown(content: dict[str, Any], knobs: dict[str, str], row: str) -> None:
    plain = {"metrics": PLAIN, "validity": {"launch_cost": 0.0, "clock_offset_max": None}}
    assert row in unused_rows(plain, {"inputs": {}})
    assert row not in unused_rows(plain | content, {"inputs": knobs})
    assert row not in unused_in_all([plain, plain | content], {"inputs": knobs})


def test_nothing_is_known_without_runs() -> None:
    assert unused_in_all([], {}) == frozenset()
