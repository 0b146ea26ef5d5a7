"""The registry of metrics: its table in docs/metrics.md, and the names that other modules use."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.metrics.registry import METRICS, as_markdown, job_value

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_table_of_the_documentation_is_that_of_the_registry() -> None:
    begin, _, rest = PAGE.read_text("utf-8").partition("<!-- metrics: ")
    table = rest.partition("-->")[2].partition("<!-- end of metrics -->")[0]
    assert begin and table.strip() == as_markdown().strip()


def test_every_metric_is_described() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name and metric.meaning and metric.definition, name
        assert "|" not in metric.definition + metric.source, name
        assert {metric.same_as, metric.main_if, metric.used_if, metric.error_like} <= {"", *METRICS}, name


def test_only_a_mean_has_values_of_jobs() -> None:
    with pytest.raises(TypeError, match="wait_max is not a mean over jobs"):
        job_value("wait_max", None)  # type: ignore[arg-type]
