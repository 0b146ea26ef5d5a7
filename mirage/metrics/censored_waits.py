"""Metrics that are inconclusive because too many jobs never started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirage.metrics.registry import METRICS

MOST_CENSORED = 0.05
"""Share of censored waits above which means of waits are inconclusive. The estimate assumes that cancelled jobs are like the
others, which is wrong if users cancel jobs because the queue is long."""


def censoring_reasons(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Why metrics are inconclusive: name and reason of those that depend on waits, if more than `MOST_CENSORED` of the jobs never
    started. metrics: content of metrics.json"""
    censored = metrics["censored"]
    if censored["share"] <= MOST_CENSORED:
        return {}
    reason = (
        f"{censored['jobs']} jobs, {100 * censored['share']:.3g} %, never started (at most {100 * MOST_CENSORED:g} % may): "
        "how long they would have waited is not known"
    )
    return {name: reason for name, metric in METRICS.items() if metric.of_waits and metrics["metrics"].get(name) is not None}
